//! What does nobody need any more?

use crate::queue::door::Caller;
use crate::queue::serve::daemon::Daemon;
use crate::queue::serve::turn::{Turn, refused};
use shoal_core::queue::Target;
use shoal_core::queue::event::Event;
use shoal_core::queue::request::{Answer, RunState};

impl Daemon {
    /// A run that lives would end as one of the next sweep of this name (QUEUE-2).
    pub(super) fn forget(&mut self, by: &Caller, sweep: String, turn: &mut Turn) -> Answer {
        if let Some(answer) = self.not_theirs(by, &sweep) {
            return answer;
        }
        let alive = self.queue.count(&Target::Sweep(sweep.clone()), &[RunState::Running]);
        if alive > 0 {
            let why = format!("{alive} of the runs of `{sweep}` live");
            return refused(why, &format!("`shoal stop {sweep}` ends them; then it can be forgotten"));
        }
        self.note(turn, Event::Forgotten { at: turn.now, name: sweep });
        Answer::Done
    }
}
