//! What does a warden do when a keeper dies, and before it goes itself? Whatever they left behind is its child (subreaper), and
//! is ended (GANG-1).

use super::run::Warden;
use crate::ending::{Ending, How};
use crate::sweep::{self, Sweep, Swept};
use crate::{proc, records};
use rustix::process::Signal;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// For the end of a keeper that closed its pipe to be seen.
const SEEN_WITHIN: Duration = Duration::from_secs(15);
/// How long keepers that have said all they had may take to be gone before we look who is there.
const BY_THEMSELVES: Duration = Duration::from_millis(100);

impl Warden {
    pub(super) fn reap(&mut self) {
        self.statuses.extend(sweep::reap_all());
    }

    /// Its pipe is closed. If it had not said how its rank ended, it was killed.
    pub(super) fn keeper_gone(&mut self, index: usize) {
        let one = &mut self.ranks[index];
        let Some(keeper) = one.keeper.take() else { return };
        let pid = keeper.process.pid;
        if one.ended {
            return;
        }
        // It may have closed the pipe without being over.
        proc::signal(keeper.process, Signal::KILL);
        let end = Instant::now() + SEEN_WITHIN;
        let how = loop {
            if let Some(status) = self.statuses.remove(&pid).or_else(|| sweep::reap(pid)) {
                break How::of_wait_status(status).to_string();
            }
            if Instant::now() > end {
                break "gone".into();
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let one = &mut self.ranks[index];
        one.lost = Some(format!("the keeper of {} (pid {pid}) on {} was {how}", one.rank, proc::node_name()));
        let grace = Duration::from_millis(self.grace());
        self.orphans = Some(Sweep::new(Instant::now(), Duration::ZERO, grace));
    }

    /// What dead keepers left behind are our children now, and no keepers.
    pub(super) fn sweep_orphans(&mut self, now: Instant) {
        self.reap();
        let keepers: HashSet<u32> = self.ranks.iter().filter_map(|r| Some(r.keeper.as_ref()?.process.pid)).collect();
        let left = proc::family(std::process::id(), &keepers);
        match self.orphans.as_mut().map_or(Swept::Clean, |sweep| sweep.step(now, &left)) {
            Swept::Going => return,
            Swept::Clean => {}
            Swept::Stuck(pids) => {
                self.trouble(None, format!("processes {pids:?} do not end, not even by SIGKILL"), None)
            }
        }
        self.orphans = None;
        for index in 0..self.ranks.len() {
            let Some(why) = self.ranks[index].lost.take() else { continue };
            let bytes = self.outbox.rest_of_log(index);
            let ending = Ending::Lost { why };
            self.record_loss(index, &ending, bytes);
            let after_ms = self.ranks[index].begun.elapsed().as_millis() as u64;
            self.ended(index, ending, after_ms, bytes, String::new());
        }
    }

    fn record_loss(&self, index: usize, ending: &Ending, bytes: u64) {
        let rank = self.ranks[index].rank;
        let record =
            records::list(&self.settings.state).into_iter().filter(|r| r.folder == self.folder).flat_map(|r| r.ranks);
        if let Some(mut record) = record.into_iter().find(|r| r.rank == rank) {
            record.end(ending.clone(), bytes, 0);
            let _ = records::save_rank(&self.folder, &record);
        }
    }

    /// The last look before we go (GANG-1). Keepers that have said all they had are ending by themselves.
    pub(super) fn leave_nothing(&mut self) {
        // One that never got a job ends when nobody can give it one.
        self.spare = None;
        let began = Instant::now();
        let mut sweep = Sweep::new(began, Duration::from_secs(1), Duration::from_secs(1));
        loop {
            self.reap();
            if sweep::is_childless() {
                return;
            }
            let now = Instant::now();
            // Those who end by themselves do so within this; nobody has to be looked for.
            if now >= began + BY_THEMSELVES {
                let left = proc::family(std::process::id(), &HashSet::new());
                if sweep.step(now, &left) != Swept::Going {
                    return;
                }
            }
            // Woken by the end of a child.
            let _ = self.inbox.recv_timeout(Duration::from_millis(5));
        }
    }
}
