//! What does a warden do at each event?
//!
//! Every wait here ends: with the ranks' own end, with the launcher's word, with its silence, or with a signal; and after
//! any of them, with the grace and a margin.

use super::front::Front;
use super::keepers::Keeper;
use super::outbox::Outbox;
use super::{Event, KEEP_RUNS, Settings, usage};
use crate::ending::{Ending, How};
use crate::inner::{FromKeeper, KeeperJob};
use crate::protocol::{FromWarden, ToWarden};
use crate::sweep::{self, STEP, Sweep, Swept};
use crate::{proc, records};
use rustix::process::Signal;
use shoal_core::job::{HostJob, JOB_VERSION};
use shoal_core::rank::Rank;
use shoal_core::variables;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

/// What a keeper may take beyond the grace before it is killed itself.
const MARGIN: Duration = Duration::from_secs(15);
const USAGE: Duration = Duration::from_secs(1);
/// For what was handed in to be written when the launcher made no sense: it may not be reading.
const LAST_WORDS: Duration = Duration::from_secs(1);

struct OneRank {
    rank: Rank,
    keeper: Option<Keeper>,
    begun: Instant,
    ended: bool,
    /// Its keeper died; reported once nothing of it is left.
    lost: Option<String>,
}

pub struct Warden {
    settings: Settings,
    outbox: Arc<Outbox>,
    events: SyncSender<Event>,
    inbox: Receiver<Event>,
    front: Front,
    job: Option<HostJob>,
    folder: PathBuf,
    ranks: Vec<OneRank>,
    statuses: HashMap<u32, i32>,
    heard: Instant,
    /// Somebody listens on stdout.
    launcher: bool,
    /// When keepers that have not ended are killed.
    stop_by: Option<Instant>,
    /// After this long, no more ranks are asked to end: ends what dead keepers left behind.
    orphans: Option<Sweep>,
    usage_at: Instant,
    code: u8,
}

impl Warden {
    pub fn new(
        settings: Settings,
        outbox: Arc<Outbox>,
        events: SyncSender<Event>,
        inbox: Receiver<Event>,
        front: Front,
    ) -> Warden {
        let now = Instant::now();
        Warden {
            settings,
            outbox,
            events,
            inbox,
            front,
            job: None,
            folder: PathBuf::new(),
            ranks: Vec::new(),
            statuses: HashMap::new(),
            heard: now,
            launcher: true,
            stop_by: None,
            orphans: None,
            usage_at: now + USAGE,
            code: 0,
        }
    }

    pub fn run(mut self) -> ExitCode {
        while !self.is_over() {
            match self.inbox.recv_timeout(self.patience()) {
                Ok(event) => self.on(event),
                Err(_) => self.reap(),
            }
            self.tick(Instant::now());
        }
        self.leave_nothing();
        if self.launcher && self.job.is_some() {
            self.outbox.send(&FromWarden::Bye);
        }
        // Longer only if the launcher reads slowly; when it is silent too, that is its end.
        let patience = if self.launcher { self.settings.silence } else { LAST_WORDS };
        let end = Instant::now() + patience;
        while !self.outbox.is_empty() && Instant::now() < end {
            let _ = self.inbox.recv_timeout(STEP);
        }
        records::prune(&self.settings.state, KEEP_RUNS);
        self.front.leave();
        ExitCode::from(self.code)
    }

    fn is_detached(&self) -> bool {
        self.job.as_ref().is_some_and(|j| j.detached)
    }

    fn grace(&self) -> u64 {
        self.job.as_ref().map_or(0, |j| j.grace_ms)
    }

    fn is_over(&self) -> bool {
        let started = self.job.is_some() || self.stop_by.is_some();
        started && self.ranks.iter().all(|r| r.ended) && (!self.launcher || self.outbox.is_empty())
    }

    fn patience(&self) -> Duration {
        if self.orphans.is_some() { STEP } else { Duration::from_millis(250).min(self.settings.silence) }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Launcher(message) => {
                self.heard = Instant::now();
                self.obey(message);
            }
            Event::LauncherGone(None) | Event::Deaf => self.launcher_gone(),
            Event::LauncherGone(Some(e)) => {
                if self.launcher {
                    self.trouble(
                        None,
                        format!("the launcher's words make no sense here: {e}"),
                        Some("is it another version of shoal?"),
                    );
                    self.code = 2;
                }
                self.launcher_gone();
            }
            Event::Keeper(index, message) => self.heed(index, message),
            Event::KeeperGone(index) => self.keeper_gone(index),
            Event::Signal(libc::SIGCHLD) => self.reap(),
            Event::Signal(libc::SIGHUP) if self.is_detached() => {}
            Event::Signal(_) => self.stop(self.grace()),
            Event::Idle => {}
        }
    }

    fn obey(&mut self, message: ToWarden) {
        match message {
            ToWarden::Start(job) => self.start(job),
            ToWarden::Stop { grace_ms } => self.stop(grace_ms),
            ToWarden::Kill => self.stop(0),
            ToWarden::Ping => self.outbox.send(&FromWarden::Pong),
            ToWarden::Detach if self.is_detached() => {
                self.outbox.send_last(&FromWarden::Detached);
                let end = Instant::now() + LAST_WORDS;
                while !self.outbox.is_empty() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.let_go();
            }
            ToWarden::Detach => self.trouble(None, "this run is not a detached one".into(), None),
        }
    }

    fn trouble(&self, rank: Option<Rank>, what: String, hint: Option<&str>) {
        self.outbox.send(&FromWarden::Trouble { rank, what, hint: hint.map(Into::into) });
    }

    fn start(&mut self, job: HostJob) {
        let distinct: HashSet<Rank> = job.ranks.iter().map(|r| r.rank).collect();
        let refusal = if self.job.is_some() || self.stop_by.is_some() {
            Some("a second job for one warden".to_string())
        } else if job.version != JOB_VERSION {
            Some(format!("a job of version {}; this host's shoal knows version {JOB_VERSION}", job.version))
        } else if distinct.len() != job.ranks.len() {
            Some("a job that names a rank twice".to_string())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.trouble(None, format!("refused: {refusal}"), None);
            self.code = 2;
            return self.stop(self.grace());
        }
        match records::save_run(&self.settings.state, &job) {
            Ok(folder) => self.folder = folder,
            Err(e) => self.trouble(
                None,
                format!("the run's record below {} cannot be written: {e}", self.settings.state.display()),
                Some("`shoal ps` and `shoal stop` on this host will not know it"),
            ),
        }
        self.job = Some(job.clone());
        for one in job.ranks {
            let index = self.outbox.add_lane(one.rank);
            let rank = one.rank;
            let job = KeeperJob {
                run: job.run.clone(),
                host: job.host.clone(),
                detached: job.detached,
                grace_ms: job.grace_ms,
                folder: self.folder.clone(),
                job: one,
            };
            let keeper = Keeper::start(&self.settings.keeper, job, index, &self.outbox, &self.events);
            let why = keeper.as_ref().err().map(|e| format!("its keeper could not be started: {e}"));
            self.ranks.push(OneRank { rank, keeper: keeper.ok(), begun: Instant::now(), ended: false, lost: None });
            if let Some(why) = why {
                self.ended(index, Ending::NotStarted { why, hint: None }, 0, 0, String::new());
            }
        }
    }

    fn heed(&mut self, index: usize, message: FromKeeper) {
        let rank = self.ranks[index].rank;
        match message {
            FromKeeper::Started { pid } => self.outbox.send(&FromWarden::Started { rank, pid }),
            FromKeeper::Trouble { what, hint } => {
                self.outbox.send(&FromWarden::Trouble { rank: Some(rank), what, hint })
            }
            FromKeeper::Ended { ending, after_ms, log_bytes, tail } => {
                self.ended(index, ending, after_ms, log_bytes, tail)
            }
            FromKeeper::Log { .. } | FromKeeper::Filed { .. } | FromKeeper::Bytes { .. } => {}
        }
    }

    fn ended(&mut self, index: usize, ending: Ending, after_ms: u64, log_bytes: u64, tail: String) {
        let one = &mut self.ranks[index];
        if std::mem::replace(&mut one.ended, true) {
            return;
        }
        // Without a launcher nobody else does: the first failure ends the gang, and so does the last worker, as far as it is
        // here. (Other hosts of a detached gang are not told yet.)
        let last_for_all = self.is_detached() && (!ending.success() || self.is_done());
        let rank = self.ranks[index].rank;
        self.outbox.send(&FromWarden::Ended { rank, ending, after_ms, log_bytes, tail });
        if last_for_all {
            self.stop(self.grace());
        }
    }

    /// Whether all workers of the gang are over, where all of them are here; the master and the servers only served them.
    fn is_done(&self) -> bool {
        let is_worker = |rank: &Rank| matches!(rank, Rank::Worker(_));
        let all =
            self.job.iter().flat_map(|job| &job.ranks).find_map(|r| r.env.get(variables::WORLD_SIZE)?.parse().ok());
        let over = self.ranks.iter().filter(|r| is_worker(&r.rank) && r.ended).count();
        all.is_some_and(|all: usize| over >= all)
    }

    fn stop(&mut self, grace_ms: u64) {
        let by = Instant::now() + Duration::from_millis(grace_ms) + MARGIN;
        self.stop_by = Some(self.stop_by.map_or(by, |old| old.min(by)));
        for one in self.ranks.iter_mut().filter(|r| !r.ended) {
            if let Some(keeper) = &mut one.keeper {
                keeper.stop(grace_ms);
            }
        }
        if let Some(orphans) = &mut self.orphans {
            orphans.hurry(Instant::now(), Duration::from_millis(grace_ms));
        }
    }

    fn launcher_gone(&mut self) {
        if !self.launcher {
            return;
        }
        if self.is_detached() {
            return self.let_go();
        }
        self.launcher = false;
        self.stop(self.grace());
        if self.code == 0 {
            self.outbox.close();
        }
    }

    /// Goes on without a launcher, and without holding its connection.
    fn let_go(&mut self) {
        self.launcher = false;
        self.outbox.close();
        if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
            for fd in 0..3 {
                // SAFETY: both are open descriptors; whoever uses 0 to 2 from now on gets /dev/null.
                unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), fd) };
            }
        }
        self.front.leave();
    }

    fn reap(&mut self) {
        self.statuses.extend(sweep::reap_except(&HashSet::new()));
    }

    /// Its pipe is closed. If it had not said how its rank ended, it was killed.
    fn keeper_gone(&mut self, index: usize) {
        let one = &mut self.ranks[index];
        let Some(keeper) = one.keeper.take() else { return };
        let pid = keeper.process.pid;
        if one.ended {
            return;
        }
        // It may have closed the pipe without being over.
        proc::signal(keeper.process, Signal::KILL);
        let end = Instant::now() + MARGIN;
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

    fn tick(&mut self, now: Instant) {
        if self.launcher && now.duration_since(self.heard) > self.settings.silence {
            let silence = self.settings.silence;
            eprintln!("shoal warden on {}: nothing heard from the launcher for {silence:?}", proc::node_name());
            self.launcher_gone();
        }
        if self.stop_by.is_some_and(|by| now >= by) {
            self.stop_by = Some(now + MARGIN);
            for keeper in self.ranks.iter().filter(|r| !r.ended).filter_map(|r| r.keeper.as_ref()) {
                proc::signal(keeper.process, Signal::KILL);
            }
        }
        if self.orphans.is_some() {
            self.sweep_orphans(now);
        }
        if now >= self.usage_at {
            self.usage_at = now + USAGE;
            if self.launcher && self.ranks.iter().any(|r| !r.ended) {
                self.report_usage();
            }
        }
    }

    /// What dead keepers left behind are our children now, and no keepers.
    fn sweep_orphans(&mut self, now: Instant) {
        self.reap();
        let keepers: HashSet<u32> = self.ranks.iter().filter_map(|r| Some(r.keeper.as_ref()?.process.pid)).collect();
        let left = proc::descendants(&proc::scan(), std::process::id(), &keepers);
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

    fn report_usage(&self) {
        let all = proc::scan();
        let (page, ticks) = (rustix::param::page_size() as u64, rustix::param::clock_ticks_per_second());
        for one in self.ranks.iter().filter(|r| !r.ended) {
            let Some(keeper) = &one.keeper else { continue };
            let usage::Usage { rss_bytes, cpu_ms, processes } = usage::of(&all, keeper.process.pid, page, ticks);
            self.outbox.send(&FromWarden::Usage { rank: one.rank, rss_bytes, cpu_ms, processes });
        }
    }

    /// The last look before we go (GANG-1). Keepers that have said all they had are ending by themselves.
    fn leave_nothing(&mut self) {
        let mut sweep = Sweep::new(Instant::now(), Duration::from_secs(1), Duration::from_secs(1));
        loop {
            self.reap();
            let left = proc::descendants(&proc::scan(), std::process::id(), &HashSet::new());
            if sweep.step(Instant::now(), &left) != Swept::Going {
                return;
            }
            let _ = self.inbox.recv_timeout(Duration::from_millis(2));
        }
    }
}
