//! What if the journal cannot be written? Nothing is taken in, nothing is lost: lines are closed, runs go on under their keepers, ends wait on
//! their hosts, people are told why; and it is tried again.

use super::daemon::Daemon;
use super::turn::{Turn, refused};
use crate::queue::journal::JournalError;
use shoal_core::queue::event::Event;
use shoal_core::queue::request::Answer;
use shoal_core::queue::state::Queue;
use std::time::{Duration, Instant};

const SOONEST: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_secs(30);
const HINT: &str = "free space there. Runs go on, and what they give waits on their hosts";

pub struct Full {
    pub why: String,
    wait: Duration,
    next: Instant,
}

impl Full {
    fn new(why: String) -> Full {
        Full { why, wait: SOONEST, next: Instant::now() + SOONEST }
    }

    pub fn rest(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    pub fn refusal(&self) -> Answer {
        refused(format!("the queue cannot take anything in at the moment: {}", self.why), HINT)
    }
}

impl Daemon {
    /// The turn did not happen.
    pub(super) fn fall_back(&mut self, turn: Turn, error: JournalError) -> Result<(), JournalError> {
        if !matches!(error, JournalError::Unwritable { .. }) {
            return Err(error);
        }
        let full = Full::new(error.to_string());
        for (reply, _) in turn.answers {
            let _ = reply.try_send(full.refusal());
        }
        self.begin_waiting(full);
        self.rebuild()
    }

    /// What hosts send has no place.
    pub(super) fn no_room(&mut self, why: &str, turn: &mut Turn) {
        if self.full.is_none() {
            // Memory and journal agree but for this turn, which is committed as usual.
            turn.look = false;
            self.begin_waiting(Full::new(why.into()));
        }
    }

    fn begin_waiting(&mut self, full: Full) {
        self.shared.log.say(format!("{}; {HINT}", full.why));
        self.shared.lines.hold(&full.why);
        self.lines.clear();
        self.full = Some(full);
    }

    /// The queue that the journal says.
    fn rebuild(&mut self) -> Result<(), JournalError> {
        let mut queue = Queue::new();
        self.journal.replay(|event| queue.apply(&event))?;
        let now = self.clock.now();
        let names: Vec<String> = queue.hosts().map(|policy| policy.name.clone()).collect();
        for name in names {
            queue.apply(&Event::HostSilent { at: now, name });
        }
        self.queue = queue;
        Ok(())
    }

    /// Whether there is room again.
    pub(super) fn try_again(&mut self) -> Result<bool, JournalError> {
        let Some(full) = self.full.as_mut().filter(|full| full.rest().is_zero()) else { return Ok(false) };
        match self.journal.probe() {
            Ok(()) => {
                self.shared.log.say("there is room again");
                self.full = None;
                self.again = true;
                self.silent.clear();
                self.open_since = Instant::now();
                self.shared.lines.release();
                Ok(true)
            }
            Err(JournalError::Unwritable { .. }) => {
                full.wait = (full.wait * 2).min(LATEST);
                full.next = Instant::now() + full.wait;
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }
}
