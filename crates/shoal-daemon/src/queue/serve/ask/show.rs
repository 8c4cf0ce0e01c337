//! What do people see? Counts and states come from memory, how runs ended from the journal.

use crate::queue::journal::EndRow;
use crate::queue::serve::daemon::Daemon;
use crate::queue::serve::turn::refused;
use shoal_core::queue::estimate::by_progress;
use shoal_core::queue::host::HostPolicy;
use shoal_core::queue::request::{Answer, Filter, ResultRow, RunRow, RunState};
use shoal_core::queue::work::Ending;
use shoal_core::queue::{Attempt, Moment, Target, cells};

/// Rows of one answer; its bytes are limited where it is written.
const MOST_ROWS: u32 = 10_000;
/// In longer pages runs come without what the journal knows of them.
const MOST_WITH_DETAILS: usize = 2_000;

impl Daemon {
    /// All of them, or those that are not over.
    pub(super) fn sweeps(&self, all: bool, now: Moment) -> Answer {
        let mut sweeps = self.queue.sweep_rows(now);
        sweeps.retain(|row| all || row.waiting + row.running > 0);
        Answer::Sweeps { sweeps }
    }

    pub(super) fn runs(&self, filter: &Filter, from: u32, limit: u32, now: Moment) -> Answer {
        let (mut runs, total) = self.queue.run_rows(filter, from, limit.min(MOST_ROWS));
        if runs.len() <= MOST_WITH_DETAILS {
            runs.iter_mut().for_each(|row| self.add_details(row, now));
        }
        Answer::Runs { runs, total }
    }

    fn add_details(&self, row: &mut RunRow, now: Moment) {
        if row.attempt == 0 {
            return;
        }
        let attempt = Attempt { run: row.run.clone(), number: row.attempt };
        match row.state {
            RunState::Running => {
                row.metrics = self.live.numbers(&attempt).cloned().unwrap_or_default();
                let assigned = self.queue.live(&attempt).map_or(now, |live| live.assigned);
                // By the clock of its host, which may be wrong.
                let began = row.began.filter(|began| (assigned..now).contains(began)).unwrap_or(assigned);
                let says = by_progress(&row.metrics, began, now);
                row.done_at = says.or(row.done_at);
                row.trouble = self.trouble_of(&attempt);
            }
            // It ended before and waits for its next attempt, or was never there: then there is nothing to add.
            RunState::Finished | RunState::Failed | RunState::Stopped => {
                let Ok(Some(EndRow { host, ended })) = self.journal.end_of(&attempt, 0) else { return };
                row.began = Some(ended.began);
                row.ended = Some(ended.ended);
                if let (RunState::Stopped, Ending::NotPublished { why }) = (row.state, &ended.ending) {
                    row.trouble = Some(why.clone());
                }
                row.ending.get_or_insert(ended.ending);
                row.metrics = ended.metrics;
                if row.hosts.is_empty() {
                    row.hosts.push(host);
                }
            }
            RunState::Waiting => {}
        }
    }

    fn trouble_of(&self, attempt: &Attempt) -> Option<String> {
        let seats = self.queue.live(attempt)?.places;
        seats.iter().find_map(|seat| self.troubles.of_run(&seat.host, attempt)).cloned()
    }

    /// What the queue knows, and what hosts say of runs that are not over for a reason of theirs.
    pub(super) fn why(&self, target: &Target, now: Moment) -> Answer {
        let mut reasons = shoal_core::queue::why::why(&self.queue, target, now);
        for row in reasons.iter_mut().filter(|row| row.state == RunState::Running) {
            let Some((_, number)) = self.queue.state_of(&row.run) else { continue };
            if let Some(trouble) = self.trouble_of(&Attempt { run: row.run.clone(), number }) {
                row.reason = format!("{}; {trouble}", row.reason);
                row.code = "in_trouble".into();
            }
        }
        // Why results wait is known to their hosts alone.
        for row in reasons.iter_mut().filter(|row| row.state == RunState::Waiting && row.code == "results_wait") {
            let mut hosts = self.queue.hosts().map(|policy| policy.name.as_str());
            if let Some(trouble) = hosts.find_map(|host| self.troubles.of_sweep(host, &row.run.sweep)) {
                row.reason = format!("{}; {trouble}", row.reason);
            }
        }
        // And why a host is silent, to whoever cannot get there.
        for row in reasons.iter_mut().filter(|row| row.state == RunState::Waiting && row.code == "host_silent") {
            if let Some(problem) = self.problem_of(&row.run.sweep) {
                row.reason = format!("{}; {problem}", row.reason);
            }
        }
        Answer::Why { reasons }
    }

    /// Of the first host that the sweep may go to and that cannot be reached.
    fn problem_of(&self, sweep: &str) -> Option<String> {
        let on = &self.queue.sweep(sweep)?.wants.on;
        let is_among = |host: &&HostPolicy| {
            on.is_empty() || on.iter().any(|name| host.name == *name || host.groups.contains(name))
        };
        let problem = |host: &HostPolicy| Some(format!("{}: {}", host.name, self.problems.get(&host.name)?));
        self.queue.hosts().filter(is_among).find_map(problem)
    }

    pub(super) fn results(&self, sweep: &str, from: u32, limit: u32) -> Answer {
        let Some(asked) = self.queue.sweep(sweep) else { return self.no_sweep(sweep) };
        let found = match self.journal.finished(sweep, asked.wants.ranks, from, limit.min(MOST_ROWS)) {
            Ok(found) => found,
            Err(e) => return refused(e.to_string(), &e.hint()),
        };
        let results = self.shared.store.results();
        let row = |EndRow { host, ended }: EndRow| ResultRow {
            config: cells::config(asked, ended.attempt.run.cell).unwrap_or_default().into_iter().collect(),
            run: ended.attempt.run,
            seconds: ended.ended.saturating_sub(ended.began) as f64 / 1000.0,
            host,
            metrics: ended.metrics,
            // What hosts have sent is named within the store; a whole path stays as it is.
            folder: ended.results.map(|folder| results.join(folder).to_string_lossy().into_owned()),
        };
        let rows = found.rows.into_iter().map(row).collect();
        Answer::Results { names: cells::differing(asked), rows, total: found.total }
    }
}
