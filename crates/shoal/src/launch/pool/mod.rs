//! One gang on a pool, from a wish to an empty namespace (GANG-1, GANG-2).
//!
//! Its pods come up and wait; when all are up, the launcher writes down what each runs, with the addresses they have told, and all begin. From
//! then on it reads what they print and how they end from the volume, and from the server what becomes of their pods. Whatever happens, at the end
//! nothing of it is left.
//!
//! | file | question |
//! |---|---|
//! | `volume` | what lies on the pool's volume for a gang, and what do its ranks leave there |
//! | `server` | what does a gang ask of the API server |
//! | `gathering` | are all pods up, and what keeps those that are not |
//! | `turn` | what has become of each rank |
//! | `stop` | how do its ranks end |

mod gathering;
mod server;
mod stop;
mod turn;
mod volume;

use super::gather::Gather;
use super::screen::{Screen, Style};
use super::{Report, expand};
use crate::commands::run::{NotBegun, conclude, make_folder, parcel_for};
use crate::k8s::reach::not_begun;
use crate::later::launched::Launched;
use crate::queue::pool::cluster::{Cluster, Seen as Shown};
use crate::queue::snapshot::walk::Listing;
use crate::{exit::Exit, queue, signals};
use server::Server;
use shoal_core::fleet::Fleet;
use shoal_core::fleet::pool::Pool;
use shoal_core::follow::{Do, Follow, Phase, Seen};
use shoal_core::job::HostJob;
use shoal_core::kubernetes::emit;
use shoal_core::kubernetes::gang::objects::{self, Gang, Stage};
use shoal_core::kubernetes::gang::{script, stand_in};
use shoal_core::outcome::{Ending, RankEnd};
use shoal_core::plan::render::{command_line, render};
use shoal_core::plan::{self, GangPlan, Reserved, RunSpec};
use shoal_core::rank::Rank;
use shoal_daemon::records::Elsewhere;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use turn::Member;
use volume::{Heart, Volume};

/// How often everything is looked at.
const TURN: Duration = Duration::from_millis(100);
/// A word to a pod goes through the server and its kubelet, and so does the answer.
const WAY_MS: u64 = 15_000;
/// After the launcher's own bound, the server ends by itself what has not begun.
const DEADLINE_SLACK_S: u64 = 60;
/// How long objects may take to go; a node that does not answer keeps its pods longer.
const CLEARING: Duration = Duration::from_secs(90);

/// What somebody wants to run, and on what.
pub struct Wish<'a> {
    pub fleet: Fleet,
    pub pool: Pool,
    /// Without a folder, a copy of this one is what workers run in.
    pub spec: RunSpec,
    /// GPUs and memory of each worker.
    pub limits: (u32, Option<u64>),
    /// Seconds until all pods have to be up.
    pub wait_s: u64,
    pub dry_run: bool,
    pub style: Style,
    /// Where the fleet came from.
    pub file: Option<&'a Path>,
}

const PROGRAM: &str = "shoal run";

pub fn begin(wish: &Wish) -> Result<ExitCode, NotBegun> {
    if wish.spec.detached {
        let hint = "leave it running in a terminal that stays (tmux, screen), or run it on hosts";
        return Err(NotBegun::Wrong(format!(
            "--detach is for hosts: a gang on a pool ends with its launcher\n  hint: {hint}"
        )));
    }
    let wrong = |why: String| NotBegun::Wrong(why);
    let root = queue::pool::folder(&wish.pool).map_err(wrong)?;
    let parcel = parcel_for(true)?;
    let volume = Volume::at(&root, &wish.spec.run, &parcel.digest);
    let text =
        |path: &Path| path.to_str().map(String::from).ok_or_else(|| wrong(format!("{}: not UTF-8", path.display())));
    let folder = text(&volume.folder)?;
    let mut spec = wish.spec.clone();
    let copies = spec.cwd.is_none();
    if copies {
        spec.cwd = Some(text(&volume.source())?);
    }
    let gpus = stand_in::gpus(&wish.pool, wish.limits.0).map_err(wrong)?;
    let planned = stand_in::fleet(&wish.fleet, &wish.pool, &spec).and_then(|(pods, spec)| plan::gang(&pods, &spec));
    let plan = planned.map_err(|e| wrong(e.to_string()))?;
    let count = |is: fn(&Rank) -> bool| plan.ranks.iter().filter(|rank| is(&rank.rank)).count() as u32;
    let gang = Gang {
        pool: &wish.pool,
        run: &plan.run,
        folder: &folder,
        user: rustix::process::getuid().as_raw(),
        group: rustix::process::getgid().as_raw(),
        master: count(|rank| *rank == Rank::Master) > 0,
        servers: count(|rank| matches!(rank, Rank::Server(_))),
        workers: count(|rank| matches!(rank, Rank::Worker(_))),
        gpus,
        memory_bytes: wish.limits.1,
        grace_seconds: plan.grace_ms.div_ceil(1000).max(1),
        deadline_seconds: wish.wait_s + DEADLINE_SLACK_S,
    };
    // The same without addresses: what can never run is known before anything is made.
    let draft = bind(&plan, BTreeMap::new(), &wish.pool.name)?;
    if let Some(why) = draft.ranks.iter().find_map(script::fault) {
        return Err(wrong(why));
    }
    if wish.dry_run {
        crate::say::out(dry_run(&plan, &gang, &wish.spec));
        return Ok(Exit::Success.into());
    }
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let here = root.parent().and_then(Path::parent).unwrap_or(&root);
    if !here.is_dir() {
        let why = format!(
            "{} is not there; is the volume of the pool {} mounted on this machine?",
            here.display(),
            wish.pool.name
        );
        return Err(NotBegun::CannotStart(why));
    }
    let server = Server::open(&gang).map_err(not_begun)?;
    let logs = plan.ranks.first().and_then(|rank| Path::new(&rank.log).parent().map(Path::to_path_buf));
    make_folder(logs.as_deref())?;
    let placed = Placed { wish, plan: &plan, gang: &gang, volume: &volume };
    let made = placed.make(&parcel, copies.then(|| PathBuf::from(&wish.spec.logs.root)));
    let begun =
        made.and_then(|(source, heart)| placed.run(&server, &draft, &stop).map(|report| (report, source, heart)));
    let (report, source) = match begun {
        Ok((report, source, heart)) => {
            drop(heart);
            (Ok(report), source)
        }
        Err(e) => (Err(e), None),
    };
    let files = volume.leave(source.as_ref());
    if let Some(logs) = &logs {
        // Nothing came of it: only an empty folder can be removed.
        let _ = std::fs::remove_dir(logs);
    }
    let code = conclude(&report?, wish.style, &plan.run, logs, PROGRAM);
    if let Some(files) = files.filter(|_| wish.style != Style::Json) {
        eprintln!("files: {}", files.display());
    }
    Ok(code)
}

/// What each rank runs, as if all were on one host: the pool.
fn bind(plan: &GangPlan, addresses: BTreeMap<String, String>, pool: &str) -> Result<HostJob, NotBegun> {
    let reserved = Reserved { ports: stand_in::ports(plan), this_machine: None, addresses };
    let jobs = plan.bind(&reserved).map_err(|e| NotBegun::Here(e.to_string()))?;
    let mut jobs = jobs.into_iter();
    let first = jobs.next().ok_or_else(|| NotBegun::Here("there is nothing to run".into()))?;
    let mut ranks = first.ranks;
    ranks.extend(jobs.flat_map(|job| job.ranks));
    ranks.sort_by_key(|rank| rank.rank);
    Ok(HostJob { host: pool.into(), ranks, ..first })
}

/// The whole plan: ranks, then objects. The secret is not shown (SEC-2), and the id that the server gives is not known.
fn dry_run(plan: &GangPlan, gang: &Gang, spec: &RunSpec) -> String {
    let token = gang.master.then(|| spec.token.to_string());
    let owner = format!("(that of {})", objects::job_name(gang.run, objects::Role::Worker));
    let mut all = vec![objects::workers(gang, Stage::Gathers)];
    all.extend(objects::beside(gang, token.as_deref(), &owner));
    all.extend(objects::helpers(gang, Stage::Gathers, &owner));
    format!("{}\n{}", render(plan), emit::documents(&all))
}

/// A gang that is planned down to its last object.
struct Placed<'a> {
    wish: &'a Wish<'a>,
    plan: &'a GangPlan,
    gang: &'a Gang<'a>,
    volume: &'a Volume,
}

impl Placed<'_> {
    fn make(
        &self,
        parcel: &shoal_hosts::ssh::deliver::Parcel,
        out: Option<PathBuf>,
    ) -> Result<(Option<Listing>, Heart), NotBegun> {
        let failed = |e: std::io::Error| NotBegun::CannotStart(format!("{}: {e}", self.volume.folder.display()));
        self.volume
            .make(self.plan, self.wish.spec.silence_ms.div_ceil(1000), self.gang.grace_seconds)
            .map_err(failed)?;
        self.volume.deliver(parcel).map_err(failed)?;
        let here = || std::env::current_dir().and_then(|here| here.canonicalize());
        let source = match out {
            Some(out) => {
                let here = here().map_err(|e| NotBegun::Here(format!("this folder cannot be named: {e}")))?;
                Some(self.volume.copy_source(&here, out)?)
            }
            None => None,
        };
        Ok((source, Heart::start(&self.volume.folder).map_err(failed)?))
    }

    /// Until the last rank is over and its objects are gone.
    fn run(&self, server: &Server, draft: &HostJob, stop: &dyn Fn() -> u32) -> Result<Report, NotBegun> {
        let mut records = Elsewhere::begin(draft).ok();
        let mut launched = Launched::new(
            self.gang.run,
            self.wish.file,
            &Fleet::local(),
            &Fleet::local().hosts.iter().map(|h| h.name.clone()).collect::<Vec<_>>(),
        );
        // For whoever attaches to one of them.
        launched.pool = serde_json::to_string(self.gang.pool).ok();
        let _ = launched.save();
        let token = self.gang.master.then(|| self.wish.spec.token.expose());
        let applied = server.apply(self.gang, token);
        let outcome = applied.map_err(not_begun).and_then(|uid| {
            let cluster = server.follow(self.gang.run).map_err(|e| NotBegun::Here(e.to_string()))?;
            Ok(Run::new(self, server, cluster, uid, records.take()).run_to_the_end(stop))
        });
        // Of what never ran.
        for rank in self.plan.ranks.iter().map(|rank| rank.rank).filter(|_| outcome.is_err()) {
            let ending = shoal_daemon::Ending::NotStarted { why: "the cluster refused it".into(), hint: None };
            let _ = records.as_mut().map(|records| records.end(rank, ending, 0));
        }
        self.clear(server, stop);
        launched.over = true;
        let _ = launched.save();
        outcome
    }

    /// Nothing of it stays at the server; what does is said, with why and what to do.
    fn clear(&self, server: &Server, stop: &dyn Fn() -> u32) {
        let before = stop();
        let left = server.clear(self.gang.run, CLEARING, &|| stop() == before);
        let job = objects::job_name(self.gang.run, objects::Role::Worker);
        match left {
            Ok(left) if left.is_empty() => {}
            Ok(left) => eprintln!(
                "{PROGRAM}: still there, although asked to go: {}; a node that does not answer keeps its pods",
                left.join(", ")
            ),
            Err(failure) => eprintln!(
                "{PROGRAM}: its objects could not be removed: {failure}\n  hint: `kubectl delete job {job}` removes all of it; the server does so itself some minutes after its end"
            ),
        }
    }
}

/// One that the server has taken.
struct Run<'a> {
    placed: &'a Placed<'a>,
    server: &'a Server,
    cluster: Cluster,
    shown: Shown,
    uid: String,
    records: Option<Elsewhere>,
    follow: Follow,
    screen: Screen,
    gather: Gather,
    began: Instant,
    members: BTreeMap<Rank, Member>,
    /// Jobs that the server has shown us: one that it does not show any more is gone.
    known: BTreeSet<String>,
    /// When all were up and began, in milliseconds; and whether the server knows.
    gone: Option<u64>,
    lifted: bool,
    again_at: Instant,
    stop: Option<stop::Stopping>,
    told: Option<String>,
    /// The last moment that was said of anything: what ended one after the other keeps its order.
    last_ms: u64,
    tails: BTreeMap<Rank, String>,
    hints: BTreeMap<Rank, String>,
}

impl<'a> Run<'a> {
    fn new(
        placed: &'a Placed<'a>,
        server: &'a Server,
        cluster: Cluster,
        uid: String,
        records: Option<Elsewhere>,
    ) -> Run<'a> {
        let pool = &placed.gang.pool.name;
        let ranks: Vec<(Rank, String)> = placed.plan.ranks.iter().map(|rank| (rank.rank, pool.clone())).collect();
        let files = placed.plan.ranks.iter().map(|rank| (rank.rank, Some(expand(&rank.log))));
        Run {
            server,
            cluster,
            shown: Shown::default(),
            uid,
            records,
            follow: Follow::new(ranks.clone(), placed.plan.grace_ms).over_a_long_way(WAY_MS),
            screen: Screen::new(placed.wish.style, &ranks),
            gather: Gather::new(files, placed.wish.style == Style::Stream),
            began: Instant::now(),
            members: placed.plan.ranks.iter().map(|rank| (rank.rank, Member::new())).collect(),
            known: BTreeSet::new(),
            gone: None,
            lifted: false,
            again_at: Instant::now(),
            stop: None,
            told: None,
            last_ms: 0,
            tails: BTreeMap::new(),
            hints: BTreeMap::new(),
            placed,
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn see(&mut self, seen: Seen) {
        let tick = seen == Seen::Tick;
        let now = self.now().max(self.last_ms + u64::from(!tick));
        self.last_ms = now;
        for action in self.follow.see(seen, now) {
            match action {
                Do::Stop { grace_ms } => self.end_all(grace_ms.div_ceil(1000)),
                Do::Kill => self.end_all(0),
            }
        }
    }

    fn run_to_the_end(mut self, signal: &dyn Fn() -> u32) -> Report {
        let mut interrupts = 0;
        while self.follow.phase() != Phase::Over {
            self.shown = self.cluster.next(&self.shown, TURN);
            self.known.extend(self.shown.jobs.keys().cloned());
            self.look();
            if self.gone.is_none() && self.stop.is_none() {
                self.gather_up();
            }
            while interrupts < signal() {
                interrupts += 1;
                let word = ["stopping (once more: kill)", "killing", "giving up"][(interrupts as usize - 1).min(2)];
                self.screen.say(word);
                self.see(Seen::Interrupted);
            }
            self.lift();
            self.see(Seen::Tick);
            self.stop_again();
            let now = self.now();
            self.screen.draw(&self.follow, &self.gather, now);
        }
        self.report()
    }

    fn report(mut self) -> Report {
        self.screen.draw(&self.follow, &self.gather, self.now());
        self.screen.close();
        for problem in self.gather.finish() {
            self.screen.say(&problem);
        }
        let ends = self.follow.members().filter_map(|member| {
            let (ending, ended_ms, ran_ms) = member.ended.clone()?;
            let plan = self.placed.plan.ranks.iter().find(|rank| rank.rank == member.rank)?;
            let (host, command, log) = (member.host.clone(), command_line(plan), plan.log.clone());
            Some(RankEnd { rank: member.rank, host, command, log, ending, ended_ms, ran_ms })
        });
        let ends: Vec<RankEnd> = ends.collect();
        // Given up: nobody has written down how they ended.
        for end in ends.iter().filter(|end| matches!(end.ending, Ending::Lost { .. })) {
            self.note_end(end.rank, &end.ending);
        }
        Report {
            ends,
            tails: std::mem::take(&mut self.tails),
            hints: std::mem::take(&mut self.hints),
            interrupted_ms: self.follow.interrupted_ms(),
            detached: false,
            astray: Vec::new(),
            stood_still_ms: None,
        }
    }
}
