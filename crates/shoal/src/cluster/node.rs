//! One node: its steps carried out in order, and waited for when it goes away in between.

use super::mesh::Key;
use super::provider::Trouble;
use super::session::{Common, Heard, NoLine, Session};
use super::synced;
use super::table::{Event, Table};
use shoal_core::cluster::steps::decide::{Because, Decision, Why};
use shoal_core::cluster::steps::record::Ended;
use shoal_core::cluster::steps::stop::only_stops_ray;
use shoal_core::cluster::steps::wire::{Ask, Containing, Doing, Say, Task};
use shoal_core::cluster::steps::{Action, Kind, NodePlan, Step, Wanted, plan_node};
use shoal_core::cluster::{Node, Role};
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often we look whether somebody wants us to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long a node may take to end a command that has to stop: it asks first, then kills.
const STOPPING: Duration = Duration::from_secs(10);
/// How much later than the rest we may hear that the line to a node is cut.
const NOTICING: Duration = Duration::from_secs(1);
/// A node that is at work says so every five seconds. One that does not has a disk that hangs, or is not there.
const SILENT: Duration = Duration::from_secs(90);
/// Between two attempts to reach a node.
const RETRY: Duration = Duration::from_millis(500);
/// A node that goes away more often than this is not set up.
const MOST_RETURNS: u32 = 3;

/// What all nodes of an `up` share.
pub struct Work<'a> {
    pub common: &'a Common,
    pub wanted: &'a Wanted<'a>,
    pub table: &'a Table,
    /// How often somebody asked for an end.
    pub asked: &'a (dyn Fn() -> u32 + Sync),
    /// How long a node that went away is waited for.
    pub patience: Duration,
    /// How long one may take to be reached for the first time.
    pub first_patience: Duration,
    /// Nodes that have only just started: they may answer before they know the key.
    pub young: BTreeSet<String>,
    pub mesh: Option<&'a Key>,
    /// Seconds that one step may take.
    pub limit_s: Option<u64>,
    /// Whether the head has been told to start.
    pub head_starts: AtomicBool,
    /// The start of the head that runs, once it has been asked.
    pub epoch: OnceLock<Option<String>>,
}

pub struct Member<'a> {
    pub i: usize,
    pub node: &'a Node,
    pub session: Option<Session>,
    pub plan: NodePlan,
    /// How it ended, once it has.
    pub fate: Option<Fate>,
    returns: u32,
    cut_at: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Fate {
    Up,
    Failed(Box<Fault>),
    Unreachable(Trouble),
    Stopped,
    /// It is set up, and its start commands were left out.
    NotStarted,
}

/// A step that failed (GANG-2: node, step, command, how, last words).
#[derive(Debug, Clone)]
pub struct Fault {
    pub at: Instant,
    pub step: String,
    pub command: String,
    pub how: String,
    pub last: Vec<String>,
    /// A file of the node.
    pub log: Option<String>,
    pub hint: Option<String>,
}

/// How far a node got.
enum Went {
    Through,
    To(Fate),
    /// The line was cut while this step ran.
    Cut(Option<String>),
}

impl Work<'_> {
    /// Which start of the head the nodes' start commands belong to: this one, or an earlier one that still runs.
    fn epoch(&self) -> Option<String> {
        match self.head_starts.load(Ordering::Relaxed) {
            true => self.common.holder.as_ref().map(|holder| holder.id.clone()),
            false => self.epoch.get().cloned().flatten(),
        }
    }

    pub fn is_stopping(&self) -> bool {
        (self.asked)() > 0
    }

    /// The line to a node; one that is only just starting is waited for.
    pub fn greet(&self, node: &Node) -> Result<Session, NoLine> {
        let deadline = Instant::now() + self.first_patience;
        loop {
            match Session::open(self.common, &node.host) {
                Err(NoLine::Unreachable(_)) if Instant::now() < deadline && !self.is_stopping() => {
                    std::thread::sleep(RETRY);
                }
                // Not as often: a host may turn away whom it has refused too often.
                Err(NoLine::KeyRefused(_))
                    if self.young.contains(&node.host.name) && Instant::now() < deadline && !self.is_stopping() =>
                {
                    std::thread::sleep(RETRY * 4);
                }
                other => return other,
            }
        }
    }
}

impl<'a> Member<'a> {
    pub fn new(i: usize, node: &'a Node, session: Option<Session>, plan: NodePlan) -> Member<'a> {
        Member { i, node, session, plan, fate: None, returns: 0, cut_at: None }
    }

    /// Carries out all that has to be done up to steps of this kind.
    pub fn carry_out(&mut self, work: &Work, up_to: Kind) {
        while self.fate.is_none() {
            if work.is_stopping() {
                self.end(work, Fate::Stopped);
                return;
            }
            match self.once(work, up_to) {
                Went::Through => return,
                Went::To(fate) => self.end(work, fate),
                Went::Cut(step) => {
                    if let Err(fate) = self.come_back(work, step) {
                        self.end(work, fate);
                    }
                }
            }
        }
    }

    pub fn end(&mut self, work: &Work, fate: Fate) {
        let (state, good) = match &fate {
            Fate::Up => ("up", true),
            Fate::Failed(_) => ("failed", false),
            Fate::Unreachable(_) => ("unreachable", false),
            Fate::Stopped => ("stopped", false),
            Fate::NotStarted => ("not started", false),
        };
        work.table.tell(self.i, Event::Over { state, good });
        self.fate = Some(fate);
    }

    /// A step is done: it does not run again, whatever happens to the node.
    pub fn done(&mut self, id: &str) {
        if let Some(step) = self.plan.steps.iter_mut().find(|step| step.id == id) {
            step.decision = Decision::Skip(Why::Unchanged);
        }
    }

    fn step(&self, id: &str) -> Option<&Step> {
        self.plan.steps.iter().find(|step| step.id == id)
    }

    pub fn fault(&self, id: &str, how: impl Into<String>) -> Fault {
        let command = self.step(id).map(|step| step.what.clone()).unwrap_or_default();
        let (how, at) = (how.into(), Instant::now());
        Fault { at, step: id.into(), command, how, last: Vec::new(), log: None, hint: None }
    }

    fn once(&mut self, work: &Work, up_to: Kind) -> Went {
        // Files that are still to be sent here: it was away when the others got theirs.
        let files = self.plan.to_run(|kind| kind == Kind::Files).count();
        if files > 0
            && let Err(fault) = super::push::alone(work, self)
        {
            return self.cut_or(work, *fault);
        }
        let synced: Vec<(String, String)> = self.plan.to_run(|kind| kind == Kind::Synced).map(synced_path).collect();
        for (id, path) in synced {
            work.table.tell(self.i, Event::Begun { step: &id, what: &path });
            if let Err(trouble) = synced::bring(work, self.node, &path) {
                let fault = Fault { hint: Some(trouble.hint), ..self.fault(&id, trouble.what) };
                return self.cut_or(work, fault);
            }
            self.done(&id);
        }
        let Some(session) = &self.session else { return Went::Cut(None) };
        let mut waiting = false;
        if let (Some(key), Some(step)) = (work.mesh, self.plan.to_run(|kind| kind == Kind::Mesh).next()) {
            let addresses = work.wanted.nodes.iter().map(|node| node.internal.clone()).collect();
            let (private, public) = (key.private.clone(), key.public.clone());
            work.table.tell(self.i, Event::Begun { step: &step.id, what: &step.what });
            session.ask(&Ask::Mesh { id: step.id.clone(), stamp: step.stamp.clone(), private, public, addresses });
            waiting = true;
        }
        // Before its tasks are written down: they are the first of the new start.
        if self.is_head() && self.plan.to_run(|kind| kind <= up_to).any(|step| step.kind >= Kind::Stop) {
            work.head_starts.store(true, Ordering::Relaxed);
        }
        let tasks: Vec<Task> = self.plan.to_run(|kind| kind <= up_to).filter_map(|step| task(step, work)).collect();
        if !tasks.is_empty() {
            session.ask(&Ask::Run { steps: tasks });
        } else if !waiting {
            // Nothing to do is no reason to call a node up that has gone meanwhile.
            return if session.has_ended() { Went::Cut(None) } else { Went::Through };
        } else {
            session.ask(&Ask::Run { steps: Vec::new() });
        }
        self.listen(work)
    }

    /// Until the node has nothing left to do.
    fn listen(&mut self, work: &Work) -> Went {
        let mut current: Option<String> = None;
        let mut stopping: Option<Instant> = None;
        let mut heard = Instant::now();
        loop {
            let Some(session) = &self.session else { return Went::Cut(current) };
            let said = session.hear(LOOK);
            if matches!(said, Heard::Said(_)) {
                heard = Instant::now();
            } else if heard.elapsed() > SILENT {
                work.table.tell(self.i, Event::Said("says nothing any more"));
                return Went::Cut(current);
            }
            match said {
                Heard::Said(Say::Begun { id }) => {
                    let what = self.step(&id).map(|step| step.what.as_str()).unwrap_or_default();
                    work.table.tell(self.i, Event::Begun { step: &id, what });
                    current = Some(id);
                }
                Heard::Said(Say::Line { id, text }) => work.table.tell(self.i, Event::Line { step: &id, text: &text }),
                Heard::Said(Say::Ended { id, how, ms, last, log }) => {
                    let good = how.is_success();
                    work.table.tell(self.i, Event::Ended { step: &id, how: &how.to_string(), ms, good });
                    match how {
                        how if how.is_success() => self.done(&id),
                        Ended::Stopped if work.is_stopping() => return Went::To(Fate::Stopped),
                        how => {
                            // What it was given beside this is not to be gone on with.
                            session.ask(&Ask::Stop);
                            let hint = hint(&how, &last);
                            let fault = Fault { last, log: Some(log), hint, ..self.fault(&id, how.to_string()) };
                            return Went::To(Fate::Failed(Box::new(fault)));
                        }
                    }
                }
                Heard::Said(Say::Idle) => return Went::Through,
                Heard::Said(Say::Trouble { what, hint }) => {
                    let step = current.unwrap_or_else(|| "set-up".into());
                    let fault = Fault { hint: Some(hint), ..self.fault(&step, what) };
                    return Went::To(Fate::Failed(Box::new(fault)));
                }
                Heard::Said(_) => {}
                Heard::Cut if work.is_stopping() => return Went::To(Fate::Stopped),
                Heard::Cut => return Went::Cut(current),
                Heard::Nothing => {}
            }
            match stopping {
                None if work.is_stopping() => {
                    session_stop(self.session.as_ref());
                    stopping = Some(Instant::now() + STOPPING);
                }
                Some(deadline) if Instant::now() > deadline => return Went::To(Fate::Stopped),
                _ => {}
            }
        }
    }

    /// Whether the line to the node is at its end; it takes a moment to be seen.
    pub fn is_cut(&self) -> bool {
        self.session.as_ref().is_none_or(|session| matches!(session.hear(NOTICING), Heard::Cut))
    }

    /// What failed may have failed because the node is gone.
    fn cut_or(&self, work: &Work, fault: Fault) -> Went {
        if work.is_stopping() {
            return Went::To(Fate::Stopped);
        }
        if self.is_cut() { Went::Cut(Some(fault.step)) } else { Went::To(Fate::Failed(Box::new(fault))) }
    }

    /// Waits until the node can be reached again, and plans anew what is left to do there.
    fn come_back(&mut self, work: &Work, step: Option<String>) -> Result<(), Fate> {
        self.returns += 1;
        let during = step.clone().map(|step| format!(" during {step}")).unwrap_or_default();
        let again = step.is_some() && self.cut_at == step;
        if again || self.returns > MOST_RETURNS {
            let step = step.unwrap_or_else(|| "connect".into());
            let fault = Fault {
                hint: Some("does this command restart the machine, or end ssh?".into()),
                ..self.fault(&step, "the node went away again")
            };
            return Err(Fate::Failed(Box::new(fault)));
        }
        self.cut_at = step;
        let boot = self.session.take().map(|session| session.boot).unwrap_or_default();
        let patience = work.patience.as_secs();
        work.table
            .tell(self.i, Event::Said(&format!("went away{during}; waiting up to {patience} s for it to come back")));
        work.table.tell(self.i, Event::Doing("waiting for it"));
        let deadline = Instant::now() + work.patience;
        let ours = work.common.holder.as_ref().map(|holder| holder.id.as_str());
        loop {
            if work.is_stopping() {
                return Err(Fate::Stopped);
            }
            let trouble = match Session::open(work.common, &self.node.host) {
                Ok(session) => {
                    let how = if session.boot == boot { "is back" } else { "is back, started anew" };
                    work.table.tell(self.i, Event::Said(how));
                    self.plan = plan_node(work.wanted, self.node, Some(&session.known));
                    self.follow_the_head(work);
                    let steps = self.plan.to_run(|kind| kind != Kind::Connect).count();
                    work.table.tell(self.i, Event::Planned { steps });
                    self.session = Some(session);
                    return Ok(());
                }
                // What we left there has not noticed yet that we are gone.
                Err(NoLine::Locked(Some(holder))) if Some(holder.id.as_str()) == ours => Trouble {
                    what: "it has not yet noticed that the connection broke".into(),
                    hint: "try again in a minute".into(),
                },
                Err(locked @ NoLine::Locked(_)) => return Err(Fate::Unreachable(locked.trouble(&work.common.cluster))),
                Err(NoLine::Unreachable(trouble) | NoLine::Refused(trouble) | NoLine::KeyRefused(trouble)) => trouble,
            };
            if Instant::now() >= deadline {
                let what = format!("it went away{during} and did not come back within {patience} s: {}", trouble.what);
                return Err(Fate::Unreachable(Trouble { what, hint: trouble.hint }));
            }
            std::thread::sleep(RETRY);
        }
    }

    /// A worker's part in what happens to its head.
    pub fn follow_the_head(&mut self, work: &Work) {
        if !self.is_head() && work.head_starts.load(Ordering::Relaxed) {
            self.plan.follow_the_head();
        }
    }

    pub fn is_head(&self) -> bool {
        self.node.role == Role::Head
    }
}

fn session_stop(session: Option<&Session>) {
    if let Some(session) = session {
        session.ask(&Ask::Stop);
    }
}

fn synced_path(step: &Step) -> (String, String) {
    (step.id.clone(), step.what.clone())
}

fn task(step: &Step, work: &Work) -> Option<Task> {
    let doing = match &step.action {
        // What runs in a container cannot be seen as surely from outside.
        Action::Run(argv)
            if step.kind >= Kind::Stop && work.wanted.cluster.docker.is_none() && only_stops_ray(&step.what) =>
        {
            Doing::StopRay(argv.clone())
        }
        Action::Run(argv) => Doing::Program(argv.clone()),
        Action::Container(containing) => {
            let anew = step.decision == Decision::Run(Because::Changed);
            Doing::Container(Box::new(Containing { anew, ..*containing.clone() }))
        }
        Action::Connect | Action::Files(_) | Action::Synced(_) | Action::Mesh => return None,
    };
    let (id, stamp, mark) = (step.id.clone(), step.stamp.clone(), step.kind >= Kind::Stop);
    let epoch = if mark { work.epoch() } else { None };
    Some(Task { id, stamp, work: doing, limit_s: work.limit_s, mark, epoch })
}

/// What the last lines of a failure tell those who know them (pure).
fn hint(how: &Ended, last: &[String]) -> Option<String> {
    let says = |words: &[&str]| last.iter().rev().take(5).any(|line| words.iter().any(|word| line.contains(word)));
    if says(&["password is required", "a terminal is required", "no tty present", "sudo: no askpass"]) {
        return Some("commands get no input: allow it without a password (NOPASSWD), or do it beforehand".into());
    }
    if says(&["EOFError", "Aborted by user", "Do you want to continue"]) {
        return Some("commands get no input: give the option that answers for you, such as `-y`".into());
    }
    match how {
        Ended::Code(127) => Some("no such command in a login shell there; is it installed, is it on the PATH?".into()),
        Ended::Signal(9) => Some("was the machine out of memory?".into()),
        Ended::TimedOut(_) => Some("give more time with --step-timeout".into()),
        _ => None,
    }
}
