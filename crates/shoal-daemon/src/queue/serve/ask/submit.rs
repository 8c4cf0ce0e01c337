//! What is taken in? A sweep is one event, whatever its size; the answer waits for the commit (QUEUE-1).

use crate::queue::door::Caller;
use crate::queue::serve::daemon::Daemon;
use crate::queue::serve::turn::{Turn, refused};
use shoal_core::queue::event::Event;
use shoal_core::queue::request::{Answer, RunState};
use shoal_core::queue::state::{Refusal, again, changes, top_up};
use shoal_core::queue::sweep::Sweep;

impl Daemon {
    pub(super) fn submit(&mut self, by: &Caller, mut sweep: Sweep, turn: &mut Turn) -> Answer {
        // Whoever proved to be somebody is that, whatever the request says.
        sweep.owner = by.user.clone();
        if let Some(tree) = sweep.command.trees.iter().find(|tree| !self.shared.trees.has(&tree.digest)) {
            return refused(format!("the files of tree {} were not sent", tree.digest), "submit it again");
        }
        let name = sweep.name.clone();
        let changed = self.queue.sweep(&name).map(|old| changes(old, &sweep)).unwrap_or_default();
        let before = self.queue.sweep_row(&name, turn.now).map_or(0, |row| row.cells);
        let taken = top_up(&self.queue, &sweep, turn.now).and_then(|event| Ok((event, again(&self.queue, &sweep)?)));
        let (event, again) = match taken {
            Ok(taken) => taken,
            Err(Refusal { why, hint }) => return Answer::Refused { why, hint },
        };
        self.note(turn, event);
        let count = |state| again.iter().map(|target| self.queue.count(target, &[state])).sum();
        let (failed, stopped) = (count(RunState::Failed), count(RunState::Stopped));
        for target in again {
            self.note(turn, Event::Retried { at: turn.now, by: by.user.clone(), target });
        }
        let Some(row) = self.queue.sweep_row(&name, turn.now) else {
            return refused(format!("the queue does not take `{name}`"), "");
        };
        self.shared
            .log
            .say(format!("{} submits {name}: configurations {}, waiting {}", by.user, row.cells, row.waiting));
        Answer::Submitted {
            sweep: name,
            cells: row.cells,
            new_cells: row.cells.saturating_sub(before),
            waiting: row.waiting,
            already_done: row.finished,
            failed,
            stopped,
            changed: changed.into_iter().map(String::from).collect(),
            reps: row.reps,
        }
    }
}
