//! When is a host tried again? Soon after a line that worked, later and later after those that did not.

use super::talk::{Over, talk};
use crate::queue::serve::message::Message;
use crate::queue::serve::reach::Reacher;
use crate::queue::serve::shared::Shared;
use shoal_core::queue::host::HostPolicy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SOONEST: Duration = Duration::from_millis(200);
const LATEST: Duration = Duration::from_secs(30);
/// A line that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(2);

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

/// One that says hello and is gone again is not tried as often as it could be, nor as rarely as one that does not answer.
fn after(wait: Duration, was_up: bool, lived: Duration) -> Duration {
    match was_up {
        true if lived >= GOOD => SOONEST,
        true => (wait * 2).min(GOOD),
        false => (wait * 2).min(LATEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soon_after_a_good_line_and_later_after_others() {
        let long = Duration::from_secs(60);
        assert_eq!(after(LATEST, true, long), SOONEST);
        let mut wait = SOONEST;
        for _ in 0..20 {
            wait = after(wait, true, Duration::ZERO);
        }
        assert_eq!(wait, GOOD);
        for _ in 0..20 {
            wait = after(wait, false, long);
        }
        assert_eq!(wait, LATEST);
    }
}
