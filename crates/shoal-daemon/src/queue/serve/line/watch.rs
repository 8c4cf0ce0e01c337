//! Which lines are silent? A host that says nothing is asked; one that does not answer is cut off and dialled again.
//!
//! Long, because a host is not dead for being slow: its runs go on, and only the line is made anew.

use crate::queue::serve::shared::Shared;
use shoal_core::queue::line::ToHost;
use std::sync::{Arc, Weak};
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(5);
const ASK_AFTER: Duration = Duration::from_secs(5);
const CUT_AFTER: Duration = Duration::from_secs(60);

/// As long as anybody else holds `shared`.
pub fn watch(shared: &Arc<Shared>) -> std::io::Result<()> {
    let weak: Weak<Shared> = Arc::downgrade(shared);
    std::thread::Builder::new().name("line-watch".into()).stack_size(256 << 10).spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            let Some(shared) = weak.upgrade() else { return };
            for outbox in shared.lines.all() {
                match outbox.silence() {
                    silence if silence > CUT_AFTER => {
                        outbox.close(&format!("nothing was heard of it for {} s", silence.as_secs()));
                    }
                    silence if silence > ASK_AFTER => {
                        outbox.tell(&ToHost::Ping);
                    }
                    _ => {}
                }
            }
        }
    })?;
    Ok(())
}
