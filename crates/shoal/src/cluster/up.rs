//! `up`: all nodes are asked, a plan is made, files go to all, set-up runs on all at once, then the head starts, then the workers.

use super::account;
use super::crew::{self, common, each, not_begun};
use super::lock;
use super::mesh;
use super::node::{Fate, Member, Work};
use super::provider;
use super::push;
use super::session::{NoLine, Session};
use super::table::{EVENTS_VERSION, Event, Style, Table};
use crate::commands::run::NotBegun;
use crate::signals;
use serde_json::json;
use shoal_core::cluster::cloud::preview::{self, Preview};
use shoal_core::cluster::steps::{Kind, Known, Options, UpPlan, Wanted, plan, render};
use shoal_core::cluster::{Cluster, Node, Provider, Role};
use shoal_core::outcome::STOPPED;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long a node that goes away during set-up is waited for: a machine takes minutes to start anew.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often we look whether somebody wants us gone at once.
const LOOK: Duration = Duration::from_millis(50);

/// What is asked for, beside the cluster itself.
pub struct Order<'a> {
    /// As on the command line, for what is said in the end.
    pub file: &'a str,
    pub options: Options,
    /// Say what would be done, and do nothing.
    pub plan_only: bool,
    pub json: bool,
    /// Show what commands print, where there is no table.
    pub output: bool,
    pub limit_s: Option<u64>,
}

pub fn up(cluster: &Cluster, order: &Order) -> Result<ExitCode, NotBegun> {
    let began = Instant::now();
    let provider = provider::of(cluster).map_err(not_begun)?;
    let tell = |text: &str| {
        if !order.json {
            eprintln!("{text}");
        }
    };
    let trees = push::trees(&cluster.files, &tell).map_err(NotBegun::Wrong)?;
    let asked = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let asked = std::sync::Arc::new(asked);
    let screen = std::sync::Arc::new(OnceLock::new());
    watch_for_the_impatient(asked.clone(), screen.clone());
    let lock = match order.plan_only {
        true => None,
        false => Some(lock::take(&cluster.name, "up").map_err(|no| no.not_begun(&cluster.name))?),
    };
    let nodes = match order.plan_only {
        true => provider.nodes().map_err(not_begun)?,
        false => provider.ensure(&tell).map_err(|trouble| match asked() {
            0 => not_begun(trouble),
            _ => stopped(&*provider, order),
        })?,
    };
    let preview = if order.plan_only { provider.preview().map_err(not_begun)? } else { None };
    // Those that would be launched are part of the plan, and cannot be asked.
    let planned = nodes.iter().cloned().chain(preview.iter().flat_map(preview::nodes)).collect::<Vec<Node>>();
    let key = match &lock {
        Some(lock) if cluster.mesh_keys => Some(mesh::key(&lock.folder, &cluster.name).map_err(not_begun)?),
        _ => None,
    };
    // A plan alone makes no key; that there will be one is known.
    let public = key.as_ref().map(|key| key.public.clone()).or_else(|| known_key(cluster));
    let efs = provider.efs().or_else(|| order.plan_only.then(|| mount_to_be(cluster)).flatten());
    let wanted = Wanted {
        cluster,
        nodes: &planned,
        trees: &trees,
        mesh: public.as_deref(),
        efs: efs.as_deref(),
        options: order.options,
    };
    let common = common(cluster, &nodes, lock.as_ref().map(|lock| lock.holder.clone()))?;
    let names: Vec<&str> = nodes.iter().map(|node| node.host.name.as_str()).collect();
    let style = if order.json { Style::Json } else { Style::People { output: order.output } };
    let table = Table::new(style, &names);
    let _ = screen.set(table.clone());
    let work = Work {
        common: &common,
        wanted: &wanted,
        table: &table,
        asked: &*asked,
        patience: crew::patience("SHOAL_UP_PATIENCE_S", PATIENCE),
        first_patience: if order.plan_only { Duration::ZERO } else { provider.patience() },
        young: nodes.iter().filter(|node| provider.is_young(node)).map(|node| node.host.name.clone()).collect(),
        mesh: key.as_ref(),
        limit_s: order.limit_s,
        head_starts: AtomicBool::new(false),
        epoch: OnceLock::new(),
    };
    let sessions = greet(&work, &nodes);
    if order.plan_only {
        table.close();
        return Ok(show(&plan_of(&work, &sessions), preview.as_ref(), order.json, sessions));
    }
    let head = nodes.iter().zip(&sessions).find(|(node, _)| node.role == Role::Head);
    let record = head.and_then(|(_, session)| Some(&session.as_ref().ok()?.known.record));
    let _ = work.epoch.set(record.and_then(|record| record.epoch()).map(str::to_owned));
    let mut members = assemble(&work, &nodes, sessions);
    carry_out(&work, &mut members);
    table.close();
    Ok(conclude(members, &work, order, began))
}

/// Somebody asked for an end while machines were made: what is there by then, and who removes it.
fn stopped(provider: &dyn provider::Provider, order: &Order) -> NotBegun {
    let made = provider.made();
    if order.json {
        let over =
            json!({ "event": "over", "version": EVENTS_VERSION, "exit_code": STOPPED, "nodes": [], "made": made });
        crate::say::line(over);
    }
    let mut text = "stopped while machines were being made; ".to_string();
    text += match made.len() {
        0 => "nothing had been made",
        _ => "the ledger holds what was made so far:",
    };
    made.iter().for_each(|what| text += &format!("\n  {what}"));
    let Order { file, .. } = order;
    if !made.is_empty() {
        text += &format!("\n  hint: `shoal down {file}` removes all of it; `shoal up {file}` goes on");
    }
    NotBegun::Stopped(text)
}

/// The public half of the key that an earlier `up` made.
fn known_key(cluster: &Cluster) -> Option<String> {
    let text = || std::fs::read_to_string(lock::folder(&cluster.name)?.join("mesh.pub")).ok();
    cluster.mesh_keys.then(|| text().unwrap_or_else(|| "to be made".into()))
}

/// A file system that is not made yet has no address, but that it will be mounted is part of the plan.
fn mount_to_be(cluster: &Cluster) -> Option<String> {
    let Provider::Aws(aws) = &cluster.provider else { return None };
    let efs = aws.efs.as_ref()?;
    Some(format!("mount {} at {}", efs.id.as_deref().unwrap_or("the file system that will be made"), efs.mount))
}

/// Whoever asks once is told what happens; whoever asks a second time does not want to wait for anything. Before there is a table, machines are
/// made; whoever makes them says that it stops.
fn watch_for_the_impatient(
    asked: std::sync::Arc<impl Fn() -> u32 + Send + Sync + 'static>,
    screen: std::sync::Arc<OnceLock<Table>>,
) {
    std::thread::spawn(move || {
        let mut told = false;
        loop {
            std::thread::sleep(LOOK);
            if let (Some(table), true, false) = (screen.get(), asked() > 0, told) {
                told = true;
                table.say("shoal up: ending what runs on the nodes; once more to leave at once");
            }
            if asked() > 1 {
                match screen.get() {
                    Some(_) => eprintln!("shoal up: left at once; nodes end what they run when they notice"),
                    None => eprintln!(
                        "shoal up: left at once; what machines were asked for last is in the ledger, and `shoal down` removes it"
                    ),
                }
                std::process::exit(STOPPED.into());
            }
        }
    });
}

type Greeted = Vec<Result<Session, NoLine>>;

fn greet(work: &Work, nodes: &[Node]) -> Greeted {
    each(nodes.iter().enumerate().collect(), |(i, node)| {
        work.table.tell(i, Event::Doing("connecting"));
        let session = work.greet(node);
        if let Ok(Session { trouble: Some(trouble), .. }) = &session {
            work.table.tell(i, Event::Said(trouble));
        }
        // Nothing runs until all of them have answered: whom the others wait for is to be seen.
        work.table.tell(i, Event::Doing(if session.is_ok() { "connected" } else { "unreachable" }));
        session
    })
}

fn plan_of(work: &Work, sessions: &Greeted) -> UpPlan {
    let nodes = work.wanted.nodes.iter().zip(sessions);
    let known =
        nodes.filter_map(|(node, session)| Some((node.host.name.clone(), session.as_ref().ok()?.known.clone())));
    let known: BTreeMap<String, Known> = known.collect();
    let mut plan = plan(work.wanted, &known);
    for (node, session) in plan.nodes.iter_mut().zip(sessions) {
        node.trouble = session.as_ref().err().map(|no| no.trouble(&work.common.cluster).what);
    }
    plan
}

/// What `--plan` prints, and nothing else.
fn show(plan: &UpPlan, machines: Option<&Preview>, json: bool, sessions: Greeted) -> ExitCode {
    match (json, machines) {
        (true, None) => crate::say::line(json!({ "version": 1, "plan": plan })),
        (true, Some(machines)) => crate::say::line(json!({ "version": 1, "machines": machines, "plan": plan })),
        (false, machines) => {
            machines.iter().for_each(|machines| crate::say::line(preview::render(machines)));
            crate::say::out(render::render(plan));
        }
    }
    let unknown = sessions.iter().filter(|session| session.is_err()).count();
    let all = sessions.len();
    each(sessions.into_iter().flatten().collect(), Session::close);
    match unknown {
        0 => ExitCode::SUCCESS,
        n if n < all => account::PARTIAL.into(),
        _ => ExitCode::FAILURE,
    }
}

/// Nodes with their plans; those that could not be reached have their fate already.
fn assemble<'n>(work: &Work, nodes: &'n [Node], sessions: Greeted) -> Vec<Member<'n>> {
    let plan = plan_of(work, &sessions);
    render::summary(&plan).iter().for_each(|line| work.table.say(line));
    work.table.event("plan", json!({ "plan": plan }));
    let mut members = Vec::new();
    for (i, ((node, session), plan)) in nodes.iter().zip(sessions).zip(plan.nodes).enumerate() {
        let steps = plan.to_run(|kind| kind != Kind::Connect).count();
        work.table.tell(i, Event::Planned { steps });
        let (session, no_line) = match session {
            Ok(session) => (Some(session), None),
            Err(no_line) => (None, Some(no_line)),
        };
        let mut member = Member::new(i, node, session, plan);
        if let Some(no_line) = no_line {
            let trouble = no_line.trouble(&work.common.cluster);
            work.table.tell(i, Event::Said(&trouble.what));
            member.end(work, Fate::Unreachable(trouble));
        }
        members.push(member);
    }
    members
}

fn carry_out(work: &Work, members: &mut [Member]) {
    push::all(work, members);
    each(members.iter_mut().collect(), |member| {
        member.carry_out(work, Kind::Setup);
        if member.fate.is_none() && member.plan.starts() {
            work.table.tell(member.i, Event::Doing("set up"));
        }
    });
    // The head first: workers join it. What they end before needs no head, but is not ended for one that will not start.
    let is_ready = members.iter().all(|member| !member.is_head() || member.fate.is_none());
    let up = each(members.iter_mut().collect(), |member| {
        if member.is_head() {
            finish(work, member);
            return matches!(member.fate, Some(Fate::Up));
        }
        if is_ready {
            member.carry_out(work, Kind::Stop);
        }
        true
    });
    let head_is_up = up.into_iter().all(|up| up);
    each(members.iter_mut().filter(|member| !member.is_head()).collect(), |worker| {
        // The head may have gone away meanwhile, and come back without what ran there.
        worker.follow_the_head(work);
        let starts = worker.plan.starts();
        if worker.fate.is_none() && starts && !head_is_up && !work.is_stopping() {
            worker.end(work, Fate::NotStarted);
        }
        finish(work, worker);
    });
}

/// The last of a node's steps; if it got there, it is up.
fn finish(work: &Work, member: &mut Member) {
    member.carry_out(work, Kind::Start);
    if member.fate.is_none() {
        member.end(work, Fate::Up);
    }
}

fn conclude(mut members: Vec<Member>, work: &Work, order: &Order, began: Instant) -> ExitCode {
    each(members.iter_mut().filter_map(|member| member.session.take()).collect(), Session::close);
    let code = account::exit_code(members.iter().filter_map(|member| member.fate.as_ref()));
    if order.json {
        let nodes: Vec<_> = members.iter().map(account::json).collect();
        work.table.event("over", json!({ "exit_code": code, "nodes": nodes }));
    } else {
        let cluster = work.wanted.cluster;
        eprintln!("{}", account::people(&members, &cluster.name, order.file, began.elapsed()));
        if code == 0 {
            work_on(order.file);
        }
    }
    ExitCode::from(code)
}

fn work_on(file: &str) {
    eprintln!("  shoal attach {file}          a shell on the head");
    eprintln!("  shoal exec {file} --all CMD  a command on every node");
    eprintln!("  shoal run -f {file} -- CMD   a run over all of them");
    eprintln!("  shoal serve -f {file}        a queue of experiments over them, for `shoal sweep`");
}
