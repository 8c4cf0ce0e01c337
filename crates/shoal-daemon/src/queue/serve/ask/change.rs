//! Stop, retry, pause, resume.

use crate::queue::door::Caller;
use crate::queue::serve::daemon::Daemon;
use crate::queue::serve::turn::{Turn, refused};
use shoal_core::queue::Target;
use shoal_core::queue::event::{Event, Pausable};
use shoal_core::queue::request::{Answer, Role, RunState};

impl Daemon {
    pub(super) fn stop(&mut self, by: &Caller, target: Target, grace: Option<u32>, turn: &mut Turn) -> Answer {
        if let Some(answer) = self.no_such(&target).or_else(|| self.not_theirs(by, target.sweep())) {
            return answer;
        }
        let runs = self.queue.count(&target, &[RunState::Waiting, RunState::Running]);
        if let Some(grace) = grace {
            turn.graces.push((target.clone(), grace));
        }
        if runs > 0 {
            self.stop_taken_back(&target, turn);
            self.note(turn, Event::StopAsked { at: turn.now, by: by.user.clone(), target });
        }
        Answer::Counted { runs }
    }

    pub(super) fn retry(&mut self, by: &Caller, target: Target, turn: &mut Turn) -> Answer {
        if let Some(answer) = self.no_such(&target).or_else(|| self.not_theirs(by, target.sweep())) {
            return answer;
        }
        let runs = self.queue.count(&target, &[RunState::Failed, RunState::Stopped]);
        // Also if there are none: a sweep that has stopped starting runs may have only waiting ones left.
        self.note(turn, Event::Retried { at: turn.now, by: by.user.clone(), target });
        Answer::Counted { runs }
    }

    pub(super) fn pause(&mut self, by: &Caller, what: Pausable, pause: bool, turn: &mut Turn) -> Answer {
        let not = match &what {
            Pausable::Sweep(name) => self.not_theirs(by, name),
            Pausable::Host(_) if by.role != Role::Admin => Some(refused("hosts are for administrators", "")),
            Pausable::Host(name) => self.no_host(name),
        };
        if let Some(answer) = not {
            return answer;
        }
        let (at, by) = (turn.now, by.user.clone());
        let event = if pause { Event::Paused { at, by, what } } else { Event::Resumed { at, by, what } };
        self.note(turn, event);
        Answer::Done
    }
}
