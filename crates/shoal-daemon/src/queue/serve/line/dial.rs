//! How does a host that we reach get its line, and another when that ends?

use super::talk::{Over, talk};
use crate::queue::again::{LATEST, SOONEST, after};
use crate::queue::serve::message::Message;
use crate::queue::serve::reach::Reacher;
use crate::queue::serve::shared::Shared;
use shoal_core::queue::host::HostPolicy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// One thread for a host that we reach; ends when it is told to, with its line.
pub struct Dialer {
    pub policy: HostPolicy,
    over: Arc<AtomicBool>,
}

impl Dialer {
    /// Its line is for the loop to close.
    pub fn end(&self, shared: &Shared) {
        self.over.store(true, Ordering::Release);
        shared.lines.poke();
    }
}

pub fn dial(shared: &Arc<Shared>, policy: &HostPolicy, reacher: Arc<dyn Reacher>) -> std::io::Result<Dialer> {
    let over = Arc::new(AtomicBool::new(false));
    let dialer = Dialer { policy: policy.clone(), over: over.clone() };
    let (shared, policy) = (shared.clone(), policy.clone());
    let name = format!("line {}", policy.name);
    let run = move || {
        let mut wait = SOONEST;
        while !over.load(Ordering::Acquire) {
            if shared.lines.is_held() {
                shared.lines.rest(LATEST);
                wait = SOONEST;
                continue;
            }
            let began = Instant::now();
            let line = match reacher.open(&policy, &shared.store_id) {
                Ok(stream) if !over.load(Ordering::Acquire) => talk(&shared, &policy.name, stream, true),
                Ok(stream) => return (stream.cut)(),
                Err(why) => Over { why, was_up: false },
            };
            let tell = Message::Unreachable { host: policy.name.clone(), why: line.why };
            if over.load(Ordering::Acquire) || !shared.post(tell) {
                return;
            }
            wait = after(wait, line.was_up, began.elapsed());
            shared.lines.rest(wait);
        }
    };
    std::thread::Builder::new().name(name).stack_size(512 << 10).spawn(run)?;
    Ok(dialer)
}
