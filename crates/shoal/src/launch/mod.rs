//! One gang, from a plan to its end: lines to all hosts at once, ports asked for, jobs handed out, everything followed until the last
//! rank is over and its last byte is here (GANG-1, GANG-2).

mod detach;
pub mod gather;
mod line_up;
pub mod link;
pub mod pool;
pub mod program;
pub mod record;
pub mod screen;

use gather::Gather;
use link::{Common, Line, News};
use screen::{Screen, Style};
use serde_json::json;
use shoal_core::fleet::{Fleet, Reach};
use shoal_core::follow::{Do, Follow, Phase, Seen};
use shoal_core::outcome::{self, RankEnd};
use shoal_core::plan::GangPlan;
use shoal_core::plan::render::command_line;
use shoal_core::rank::Rank;
use shoal_daemon::protocol::{FromWarden, ToWarden};
use shoal_hosts::ssh::Settings;
use shoal_hosts::ssh::deliver::Parcel;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// News that may wait for the launcher; lines wait when it is full, so that nothing is lost.
const NEWS: usize = 1024;
const TURN: Duration = Duration::from_millis(100);
/// A host that says nothing for this long, not even an answer to a ping, is gone.
const SILENCE_MS: u64 = 4_000;
/// Between two looks at the news; wardens give a silent launcher up a little later.
const STOOD_STILL_MS: u64 = 3_500;
/// How long output may take to arrive once all ranks are over, counted from the last byte that came.
const LAST_BYTES_MS: u64 = 10_000;

pub struct Launch {
    pub fleet: Fleet,
    pub plan: GangPlan,
    pub ssh: Settings,
    pub parcel: Parcel,
    pub style: Style,
    /// Whether the run goes on by itself once it is started.
    pub detach: bool,
}

/// How it went.
pub struct Report {
    pub ends: Vec<RankEnd>,
    /// The last lines of ranks that failed.
    pub tails: BTreeMap<Rank, String>,
    /// What to do about ranks that failed.
    pub hints: BTreeMap<Rank, String>,
    /// When somebody asked for the end, in milliseconds since the start.
    pub interrupted_ms: Option<u64>,
    pub detached: bool,
    /// Hosts that went on alone although not all did; somebody must end the run there.
    pub astray: Vec<String>,
    /// How long this process itself stood still, when that was long enough for hosts to take it for dead.
    pub stood_still_ms: Option<u64>,
}

impl Report {
    /// Whether it ended because somebody asked: what failed after that says nothing about the run.
    pub fn was_stopped(&self) -> bool {
        let first = outcome::first_failure(&self.ends);
        self.interrupted_ms.is_some_and(|at| first.is_none_or(|end| end.ended_ms >= at))
    }

    pub fn exit_code(&self) -> u8 {
        if self.was_stopped() { outcome::STOPPED } else { outcome::exit_code(&self.ends) }
    }
}

struct Run {
    common: Arc<Common>,
    plan: GangPlan,
    lines: BTreeMap<String, Line>,
    follow: Follow,
    screen: Screen,
    began: Instant,
    detach: bool,
    /// Hosts whose line is over, in order or not.
    closed: BTreeSet<String>,
    /// Hosts that have said all there is to say.
    complete: BTreeSet<String>,
    left_alone: BTreeSet<String>,
    /// When all hosts were told to go on alone.
    told_to_detach: Option<u64>,
    tails: BTreeMap<Rank, String>,
    hints: BTreeMap<Rank, String>,
    lengths: BTreeMap<Rank, u64>,
    /// What ranks really run, once ports and addresses are known.
    commands: BTreeMap<Rank, String>,
    record: record::Record,
    /// When this process last went on after it had stood still, and for how long it had.
    stood_still: Option<(u64, u64)>,
}

/// Runs the gang to its end. `signal` counts how often somebody asked for it to stop.
pub fn launch(launch: Launch, record: record::Record, signal: &dyn Fn() -> u32) -> Report {
    let Launch { fleet, plan, ssh, parcel, style, detach } = launch;
    let ranks: Vec<(Rank, String)> = plan.ranks.iter().map(|r| (r.rank, r.host.clone())).collect();
    let began = Instant::now();
    let here = |host: &str| fleet.host(host).is_some_and(|h| h.reach == Reach::Local);
    // Of a detached run only the beginning would be here, under the name of the whole.
    let files = plan.ranks.iter().map(|r| (r.rank, (!detach && !here(&r.host)).then(|| expand(&r.log))));
    let gather = Gather::new(files, style == Style::Stream);
    let common = Arc::new(Common { fleet, ssh, parcel, gather, began });
    let (news, inbox) = sync_channel(NEWS);
    let ports = plan.ports_by_host();
    let open = |name: &String| {
        let host = common.fleet.host(name)?.clone();
        let ports = ports.get(name.as_str()).copied().unwrap_or(0);
        let words = format!("host warden --ports {ports}{}", if detach { " --detachable" } else { "" });
        Some((name.clone(), Line::open(&common, host, words, news.clone())))
    };
    let lines = plan.hosts.iter().filter_map(open).collect();
    let mut run = Run {
        lines,
        follow: Follow::new(ranks.clone(), plan.grace_ms),
        screen: Screen::new(style, &ranks),
        began,
        detach,
        closed: BTreeSet::new(),
        complete: BTreeSet::new(),
        left_alone: BTreeSet::new(),
        told_to_detach: None,
        tails: BTreeMap::new(),
        hints: BTreeMap::new(),
        lengths: BTreeMap::new(),
        commands: BTreeMap::new(),
        common: common.clone(),
        record,
        plan,
        stood_still: None,
    };
    drop(news);
    run.line_up(&inbox, signal);
    run.follow_to_the_end(&inbox, signal);
    run.report()
}

impl Run {
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn see(&mut self, seen: Seen) {
        let now = self.now();
        for action in self.follow.see(seen, now) {
            let message = match action {
                Do::Stop { grace_ms } => ToWarden::Stop { grace_ms },
                Do::Kill => ToWarden::Kill,
            };
            self.tell_all(&message);
        }
    }

    fn tell_all(&self, message: &ToWarden) {
        self.lines.values().for_each(|line| line.send(message.clone()));
    }

    fn follow_to_the_end(&mut self, inbox: &Receiver<(String, News)>, signal: &dyn Fn() -> u32) {
        let mut interrupts = 0;
        let mut progress = (0, self.now());
        let mut turn = self.now();
        while !self.is_finished(&mut progress) {
            match inbox.recv_timeout(TURN) {
                Ok((host, news)) => self.hear(&host, news),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TURN),
            }
            while interrupts < signal() {
                interrupts += 1;
                let word = match interrupts {
                    1 => "stopping (once more: kill)",
                    2 => "killing",
                    _ => "giving up",
                };
                self.screen.say(word);
                self.see(Seen::Interrupted);
            }
            let now = self.now();
            self.notice_a_gap(turn, now);
            turn = now;
            self.look_for_the_silent(now);
            self.see(Seen::Tick);
            self.see_to_detaching();
            self.screen.draw(&self.follow, &self.common.gather, now);
        }
        // Dropping the lines closes the wardens' stdin; whatever is left there ends.
        self.lines.clear();
    }

    /// Suspended (Ctrl-Z), or on a laptop that slept: hosts that were not heard meanwhile are not to blame.
    fn notice_a_gap(&mut self, before: u64, now: u64) {
        let gap = now.saturating_sub(before);
        if gap > STOOD_STILL_MS {
            self.record.note(&format!("this launcher stood still for {gap} ms"));
            self.stood_still = Some((now, gap));
        }
    }

    fn look_for_the_silent(&mut self, now: u64) {
        let awake = self.stood_still.map_or(now, |(since, _)| now.saturating_sub(since));
        let silent = |(name, line): (&String, &Line)| {
            (!self.closed.contains(name) && line.silence(now).min(awake) > SILENCE_MS).then(|| name.clone())
        };
        for host in self.lines.iter().filter_map(silent).collect::<Vec<_>>() {
            let what = format!("it has not been heard for {} s", SILENCE_MS / 1000);
            self.lose(&host, what, "is it up, and is its network?".into());
        }
    }

    /// A host is gone: its ranks with it.
    fn lose(&mut self, host: &str, what: String, hint: String) {
        if !self.closed.insert(host.to_string()) {
            return;
        }
        self.lines.remove(host);
        if self.left_alone.contains(host) || self.complete.contains(host) {
            return;
        }
        self.record.note(&format!("{host}: {what}"));
        self.screen.event("host_lost", json!({ "host": host, "why": what, "hint": hint }));
        if !hint.is_empty() {
            let ranks = self.plan.ranks.iter().filter(|r| r.host == host).map(|r| r.rank);
            self.hints.extend(ranks.map(|rank| (rank, hint.clone())));
        }
        self.see(Seen::HostLost { host: host.to_string(), why: what });
    }

    /// All ranks are over, and their output is here or will not come.
    fn is_finished(&self, progress: &mut (u64, u64)) -> bool {
        if self.is_detached() {
            return true;
        }
        if self.follow.phase() != Phase::Over {
            return false;
        }
        let over = |h: &String| self.complete.contains(h) || self.closed.contains(h) || self.left_alone.contains(h);
        if self.plan.hosts.iter().all(over) {
            return true;
        }
        let taken: u64 = self.plan.ranks.iter().map(|r| self.common.gather.taken(r.rank)).sum();
        if taken != progress.0 {
            *progress = (taken, self.now());
        }
        self.now().saturating_sub(progress.1) > LAST_BYTES_MS
    }

    fn hear(&mut self, host: &str, news: News) {
        match news {
            // The greeting is over by now; see `line_up`.
            News::Hello { .. } => {}
            News::Closed { what, hint } => self.lose(host, what, hint),
            News::Said(message) => self.hear_warden(host, message),
        }
    }

    fn hear_warden(&mut self, host: &str, message: FromWarden) {
        match message {
            FromWarden::Started { rank, pid } => {
                self.record.note(&format!("{rank} started on {host}, pid {pid}"));
                self.screen.event("started", json!({ "rank": rank, "host": host, "pid": pid }));
                self.common.gather.begin(rank);
                self.see(Seen::Started { rank });
            }
            FromWarden::Usage { rank, rss_bytes, .. } => self.screen.remember_memory(rank, rss_bytes),
            FromWarden::Ended { rank, ending, after_ms, log_bytes, tail } => {
                if let shoal_daemon::Ending::NotStarted { hint: Some(hint), .. } = &ending {
                    self.hints.insert(rank, hint.clone());
                }
                let ending = outcome::Ending::from(ending);
                self.screen.event(
                    "ended",
                    json!({ "rank": rank, "host": host, "ending": ending, "ran_ms": after_ms, "log_bytes": log_bytes }),
                );
                self.lengths.insert(rank, log_bytes);
                if ending.is_failure() {
                    self.tails.insert(rank, tail);
                }
                self.record.note(&format!("{rank} on {host}: {}", screen::ending_word(&ending)));
                self.see(Seen::Ended { rank, ending, ran_ms: after_ms });
            }
            FromWarden::Trouble { rank, what, hint } => {
                let whose = rank.map_or_else(|| host.to_string(), |rank| format!("{rank} on {host}"));
                self.screen.event("trouble", json!({ "rank": rank, "host": host, "what": what, "hint": hint }));
                let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
                self.record.note(&format!("{whose}: {what}{hint}"));
                self.screen.say(&screen::fold(&format!("{whose}: {what}{hint}"), "    ", screen::width()));
            }
            FromWarden::Bye => drop(self.complete.insert(host.to_string())),
            FromWarden::Detached => drop(self.left_alone.insert(host.to_string())),
            FromWarden::Hello(_) | FromWarden::Output { .. } | FromWarden::Pong => {}
        }
    }

    fn report(mut self) -> Report {
        self.screen.draw(&self.follow, &self.common.gather, self.now());
        self.screen.close();
        for problem in self.common.gather.finish() {
            self.screen.say(&problem);
        }
        for (rank, length) in &self.lengths {
            let taken = self.common.gather.taken(*rank);
            if taken < *length {
                self.screen.say(&format!(
                    "{rank}: {taken} of {length} bytes of its output arrived; its host has the whole log"
                ));
            }
        }
        let detached = self.is_detached();
        let astray = if detached { Vec::new() } else { self.left_alone.iter().cloned().collect() };
        let plans: BTreeMap<Rank, _> = self.plan.ranks.iter().map(|r| (r.rank, r)).collect();
        let ends = self.follow.members().filter_map(|member| {
            let (ending, ended_ms, ran_ms) = member.ended.clone()?;
            let plan = plans.get(&member.rank)?;
            Some(RankEnd {
                rank: member.rank,
                host: member.host.clone(),
                command: self.commands.get(&member.rank).cloned().unwrap_or_else(|| command_line(plan)),
                log: plan.log.clone(),
                ending,
                ended_ms,
                ran_ms,
            })
        });
        Report {
            ends: ends.collect(),
            tails: self.tails,
            hints: self.hints,
            interrupted_ms: self.follow.interrupted_ms(),
            detached,
            astray,
            stood_still_ms: self.stood_still.map(|(_, gap)| gap),
        }
    }
}

/// `~` is the home folder here as it is there.
pub fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}
