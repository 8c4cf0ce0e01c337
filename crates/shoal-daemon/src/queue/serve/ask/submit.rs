//! What is taken in? A sweep is one event, whatever its size; the answer waits for the commit (QUEUE-1).

use crate::queue::door::Caller;
use crate::queue::serve::daemon::Daemon;
use crate::queue::serve::turn::{Turn, refused};
use shoal_core::queue::cells::config;
use shoal_core::queue::event::Event;
use shoal_core::queue::render::text::param2val;
use shoal_core::queue::request::{Answer, RunState};
use shoal_core::queue::state::{Refusal, again, changes, top_up};
use shoal_core::queue::sweep::Sweep;
use std::path::{Path, PathBuf};

/// Configurations whose places are looked at.
const LOOKED_AT: u32 = 200;

impl Daemon {
    pub(super) fn submit(&mut self, by: &Caller, mut sweep: Sweep, turn: &mut Turn) -> Answer {
        // Whoever proved to be somebody is that, whatever the request says.
        sweep.owner = by.user.clone();
        if let Some(tree) = sweep.command.trees.iter().find(|tree| !self.shared.trees.has(&tree.digest)) {
            return refused(format!("the files of tree {} were not sent", tree.digest), "submit it again");
        }
        let name = sweep.name.clone();
        if self.queue.sweep(&name).is_none()
            && let Some(other) = taken(&sweep, &self.shared.store.results())
        {
            let hint =
                format!("give this one another --name, or move {} away", other.parent().unwrap_or(&other).display());
            return refused(
                format!("{} is of another configuration: results of another sweep `{name}` are there", other.display()),
                &hint,
            );
        }
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

/// What is in the way of the results of a new sweep, as far as this machine can see it: a folder of the same number and another
/// configuration, of a sweep that was forgotten or of another queue. Found before anything runs for nothing.
fn taken(sweep: &Sweep, own: &Path) -> Option<PathBuf> {
    let root = sweep.rules.results.as_deref().map_or(own, Path::new);
    let runs = root.join(&sweep.name).join("runs");
    let other = |cell: u32| {
        let file = runs.join(format!("param_{cell:03}")).join("param2val.yaml");
        let there = std::fs::read_to_string(&file).ok()?;
        (there != param2val(&config(sweep, cell)?)).then_some(file)
    };
    // Numbers begin at 0: where the first of them are free, so are the others.
    runs.is_dir().then(|| (0..LOOKED_AT).find_map(other)).flatten()
}
