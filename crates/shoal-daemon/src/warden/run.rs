//! What does a warden do at each event?
//!
//! Every wait here ends: with the ranks' own end, with the launcher's word, with its silence, or with a signal; and after
//! any of them, with the grace and a margin.

use super::front::Front;
use super::gang::Gang;
use super::keepers::Keeper;
use super::outbox::Outbox;
use super::spare::Spare;
use super::{Event, KEEP_RUNS, Settings, usage};
use crate::ending::Ending;
use crate::gang_line::words::Order;
use crate::inner::{FromKeeper, KeeperJob};
use crate::keeper::command;
use crate::protocol::{FromWarden, ToWarden};
use crate::sweep::{STEP, Sweep};
use crate::{proc, records};
use rustix::process::Signal;
use shoal_core::job::{HostJob, JOB_VERSION};
use shoal_core::rank::Rank;
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
/// For the word that we go on alone to reach a slow launcher: without it, it would end the run.
const FAREWELL: Duration = Duration::from_secs(10);

pub(super) struct OneRank {
    pub(super) rank: Rank,
    pub(super) keeper: Option<Keeper>,
    pub(super) begun: Instant,
    pub(super) ended: bool,
    /// Its keeper died; reported once nothing of it is left.
    pub(super) lost: Option<String>,
}

pub struct Warden {
    pub(super) settings: Settings,
    pub(super) outbox: Arc<Outbox>,
    pub(super) events: SyncSender<Event>,
    pub(super) inbox: Receiver<Event>,
    pub(super) front: Front,
    /// A keeper without a job.
    pub(super) spare: Option<Spare>,
    pub(super) job: Option<HostJob>,
    pub(super) folder: PathBuf,
    pub(super) ranks: Vec<OneRank>,
    pub(super) statuses: HashMap<u32, i32>,
    pub(super) heard: Instant,
    /// Somebody listens on stdout.
    pub(super) launcher: bool,
    /// What was decided for a detached run, and by whom; what of it was done here.
    pub(super) gang: Gang,
    pub(super) obeyed: Order,
    /// How the ranks here ended, in order; how many of them the gang has heard of.
    pub(super) endings: Vec<(Rank, Ending, u64)>,
    pub(super) endings_seen: usize,
    /// Somebody asked for the whole run to end, with this grace.
    pub(super) stop_asked: Option<u64>,
    /// The launcher wants us to go on alone; not before all hosts know each other.
    pub(super) detach_asked: bool,
    pub(super) begun: Instant,
    /// When keepers that have not ended are killed.
    pub(super) stop_by: Option<Instant>,
    /// After this long, no more ranks are asked to end: ends what dead keepers left behind.
    pub(super) orphans: Option<Sweep>,
    pub(super) usage_at: Instant,
    pub(super) code: u8,
}

impl Warden {
    pub fn new(
        settings: Settings,
        outbox: Arc<Outbox>,
        events: SyncSender<Event>,
        inbox: Receiver<Event>,
        front: Front,
        spare: Option<Spare>,
    ) -> Warden {
        let now = Instant::now();
        Warden {
            settings,
            outbox,
            events,
            inbox,
            front,
            spare,
            job: None,
            folder: PathBuf::new(),
            ranks: Vec::new(),
            statuses: HashMap::new(),
            heard: now,
            launcher: true,
            gang: Gang::Nobody,
            obeyed: Order::GoOn,
            endings: Vec::new(),
            endings_seen: 0,
            stop_asked: None,
            detach_asked: false,
            begun: now,
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
            self.tend_gang();
            if self.detach_asked && self.gang.is_up() {
                self.detach();
            }
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

    pub(super) fn grace(&self) -> u64 {
        self.job.as_ref().map_or(0, |j| j.grace_ms)
    }

    fn is_over(&self) -> bool {
        let started = self.job.is_some() || self.stop_by.is_some();
        started
            && self.ranks.iter().all(|r| r.ended)
            && self.gang.may_leave(self.endings.len())
            && (!self.launcher || self.outbox.is_empty())
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
            Event::Signal(_) => self.stop_all(self.asked_grace()),
            Event::Gang(news) => self.on_gang(news),
            Event::Idle => {}
        }
    }

    fn obey(&mut self, message: ToWarden) {
        match message {
            ToWarden::Start(job) => self.start(job),
            ToWarden::Stop { grace_ms } => self.stop_all(grace_ms),
            ToWarden::Kill => self.stop_all(0),
            ToWarden::Ping => self.outbox.send(&FromWarden::Pong),
            ToWarden::Detach if self.is_detached() => self.detach_asked = true,
            ToWarden::Detach => self.trouble(None, "this run is not a detached one".into(), None),
        }
    }

    fn detach(&mut self) {
        self.detach_asked = false;
        // Nothing is said after it: it must not wait behind output, however slow the launcher reads.
        self.outbox.send_last(&FromWarden::Detached);
        let end = Instant::now() + FAREWELL;
        while !self.outbox.is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.let_go();
    }

    pub(super) fn trouble(&self, rank: Option<Rank>, what: String, hint: Option<&str>) {
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
            Ok(folder) => {
                // Without it, `shoal stop` still finds the keepers.
                let _ = records::save_warden(&folder);
                self.folder = folder;
            }
            Err(e) => self.trouble(
                None,
                format!("the run's record below {} cannot be written: {e}", self.settings.state.display()),
                Some("`shoal ps` and `shoal stop` on this host will not know it"),
            ),
        }
        self.job = Some(job.clone());
        self.begun = Instant::now();
        let is_all = job.is_all();
        let home = command::home(&std::env::vars_os().collect());
        // Before the first of them makes folders for its log: a working folder that is made by that is as good as none.
        let lacking: Vec<bool> = job.ranks.iter().map(|one| !command::cwd(one, &home).is_dir()).collect();
        for (one, lacks_cwd) in job.ranks.iter().cloned().zip(lacking) {
            let index = self.outbox.add_lane(one.rank);
            let rank = one.rank;
            let job = KeeperJob {
                run: job.run.clone(),
                host: job.host.clone(),
                detached: job.detached,
                is_all,
                grace_ms: job.grace_ms,
                folder: self.folder.clone(),
                lacks_cwd,
                job: one,
            };
            let keeper =
                Keeper::start(&self.settings.keeper, self.spare.take(), job, index, &self.outbox, &self.events);
            let why = keeper.as_ref().err().map(|e| format!("its keeper could not be started: {e}"));
            self.ranks.push(OneRank { rank, keeper: keeper.ok(), begun: Instant::now(), ended: false, lost: None });
            if let Some(why) = why {
                self.ended(index, Ending::NotStarted { why, hint: None }, 0, 0, String::new());
            }
        }
        self.join_gang(&job);
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

    pub(super) fn ended(&mut self, index: usize, ending: Ending, after_ms: u64, log_bytes: u64, tail: String) {
        let one = &mut self.ranks[index];
        if std::mem::replace(&mut one.ended, true) {
            return;
        }
        let rank = self.ranks[index].rank;
        // What a detached gang makes of it is decided in `tend_gang`.
        self.endings.push((rank, ending.clone(), after_ms));
        self.outbox.send(&FromWarden::Ended { rank, ending, after_ms, log_bytes, tail });
    }

    /// What `shoal stop` left word of, else the job's own.
    fn asked_grace(&self) -> u64 {
        let asked = self.ranks.iter().filter_map(|r| records::asked_grace(&self.folder, r.rank)).max();
        asked.unwrap_or_else(|| self.grace())
    }

    /// Somebody wants the whole run to end: here at once, elsewhere by the gang's line.
    fn stop_all(&mut self, grace_ms: u64) {
        self.stop_asked.get_or_insert(grace_ms);
        self.stop(grace_ms);
    }

    fn stop(&mut self, grace_ms: u64) {
        self.stop_because(grace_ms, None);
    }

    pub(super) fn stop_because(&mut self, grace_ms: u64, why: Option<String>) {
        let by = Instant::now() + Duration::from_millis(grace_ms) + MARGIN;
        self.stop_by = Some(self.stop_by.map_or(by, |old| old.min(by)));
        for one in self.ranks.iter_mut().filter(|r| !r.ended) {
            if let Some(keeper) = &mut one.keeper {
                keeper.stop(grace_ms, why.clone());
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

    fn report_usage(&self) {
        let all = proc::below(std::process::id(), &HashSet::new());
        let (page, ticks) = (rustix::param::page_size() as u64, rustix::param::clock_ticks_per_second());
        for one in self.ranks.iter().filter(|r| !r.ended) {
            let Some(keeper) = &one.keeper else { continue };
            let usage::Usage { rss_bytes, cpu_ms, processes } = usage::of(&all, keeper.process.pid, page, ticks);
            self.outbox.send(&FromWarden::Usage { rank: one.rank, rss_bytes, cpu_ms, processes });
        }
    }
}
