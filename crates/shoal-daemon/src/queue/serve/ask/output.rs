//! Where is the output of a run? On the host that had it, for as long as that keeps it.

use crate::queue::serve::daemon::Daemon;
use crate::queue::serve::message::LogPlace;
use crate::queue::serve::turn::refused;
use shoal_core::queue::request::Answer;
use shoal_core::queue::{Attempt, RunId, Target};

impl Daemon {
    /// Of the last attempt, or the one that is asked for; of a gang, of one of its processes.
    pub(in crate::queue::serve) fn find_log(
        &self,
        run: RunId,
        number: Option<u32>,
        rank: u32,
    ) -> Result<LogPlace, Answer> {
        if let Some(answer) = self.no_such(&Target::Run(run.clone())) {
            return Err(answer);
        }
        let (_, made) = self.queue.state_of(&run).ok_or_else(|| refused(format!("{run} is not known"), ""))?;
        let number = number.unwrap_or(made);
        if made == 0 {
            return Err(refused(format!("{run} has not started yet"), &format!("`shoal why {run}` says why")));
        }
        if number == 0 || number > made {
            return Err(refused(format!("{run} has no attempt {number}; there are {made}"), ""));
        }
        let ranks = self.queue.sweep(&run.sweep).map_or(1, |sweep| sweep.wants.ranks.max(1));
        if rank >= ranks {
            let there = if ranks == 1 { "it is one process".into() } else { format!("they are 0 to {}", ranks - 1) };
            return Err(refused(format!("{run} has no process {rank}: {there}"), ""));
        }
        let attempt = Attempt { run, number };
        if let Some(live) = self.queue.live(&attempt) {
            let host = live.places.get(rank as usize).map(|seat| seat.host.clone()).unwrap_or_default();
            return Ok(self.place(attempt, host, String::new(), true));
        }
        match self.journal.end_of(&attempt, rank) {
            Ok(Some(end)) => Ok(self.place(attempt, end.host, end.ended.tail, false)),
            Ok(None) => Err(refused(format!("how {attempt} ended is not known: its host was lost"), "")),
            Err(e) => Err(refused(e.to_string(), &e.hint())),
        }
    }

    fn place(&self, attempt: Attempt, host: String, tail: String, live: bool) -> LogPlace {
        let line = self.lines.get(&host).cloned();
        LogPlace { attempt, host, line, tail, live }
    }
}
