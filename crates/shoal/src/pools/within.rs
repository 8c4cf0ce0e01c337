//! `shoal attach RUN`: a shell, or a command, in the pod where a run is. Which run is meant is found as `shoal logs` finds it.

use super::shell::{self, hold, pass_on};
use super::visit::wanted;
use crate::args::attach::Args;
use crate::commands::run::NotBegun;
use crate::k8s::reach::not_begun;
use crate::later::launched::{self, Launched};
use crate::queue::connect::Queue;
use crate::queue::whose::{Whose, looks_like_an_id, whose};
use crate::queue::{lists, target};
use crate::signals;
use serde_json::Value;
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::attach::{self, Pod};
use shoal_core::kubernetes::gang::objects::{self, job_name, selector};
use shoal_core::kubernetes::pool::job::{POOL, owner};
use shoal_core::outcome::LOST;
use shoal_core::queue::request::{Filter, RunRow, RunState};
use shoal_core::queue::{Attempt, RunId, Target};
use shoal_core::rank::Rank;
use shoal_daemon::queue::agent::note;
use shoal_hosts::kubernetes::exec::Command;
use shoal_hosts::kubernetes::request::Selection;
use shoal_hosts::kubernetes::watch::{Followed, Look, View};
use shoal_hosts::kubernetes::{Connection, resource};
use shoal_hosts::process::Exit;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PROGRAM: &str = "shoal attach";
/// Of a pod of ours there is one, and it is called so.
const CONTAINER: &str = "run";
/// How long a pod that is on its way is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at whether somebody has enough of that.
const TURN: Duration = Duration::from_secs(2);

/// Opens it, if the first word is a run. A file of that name comes first.
pub fn run(args: &Args) -> Result<Option<ExitCode>, NotBegun> {
    let Some(word) = args.cluster.file.to_str().filter(|_| std::fs::symlink_metadata(&args.cluster.file).is_err())
    else {
        return Ok(None);
    };
    let is_file = [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end));
    let is_id = looks_like_an_id(word) || launched::read(word).is_some();
    if is_file || !(is_id || word.parse::<Target>().is_ok()) {
        return Ok(None);
    }
    let seat = match whose(word) {
        Ok(Whose::Queued(mut queue)) => {
            refuse_options(args)?;
            of_sweep(&mut queue, word, args.rank)?
        }
        Ok(Whose::Detached) if is_id => {
            refuse_options(args)?;
            of_gang(word, args.rank)?
        }
        // A misspelt file is more likely than a misspelt sweep, unless it looks like a run.
        Err(why) if word.contains(':') => return Err(why),
        _ => return Ok(None),
    };
    begin(&seat, args).map(Some)
}

fn refuse_options(args: &Args) -> Result<(), NotBegun> {
    let common = &args.cluster;
    let of_files = common.cluster_name.is_some() || !common.set.is_empty() || common.values.is_some();
    if of_files || args.pool.is_some() || super::attach::is_of_clusters(args) {
        return Err(NotBegun::Wrong(
            "a run says itself where it is: beside it only --rank and a command behind `--` are of use".into(),
        ));
    }
    Ok(())
}

/// The pod of one run, and what to say of that.
struct Seat {
    pool: Pool,
    /// `mlp:17.2`, `261116-020304-a1b2c3 worker1`.
    what: String,
    /// Which Jobs may have it.
    labels: String,
    index: Index,
}

enum Index {
    /// By what the run is called at the pool.
    Named(String),
    /// Of a gang.
    Of { job: String, index: usize },
}

fn of_sweep(queue: &mut Queue, word: &str, rank: Option<Rank>) -> Result<Seat, NotBegun> {
    let rank = match rank {
        None => 0,
        Some(Rank::Worker(rank)) => rank,
        Some(_) => return Err(NotBegun::Wrong("a gang of the queue has workers only: --rank worker1".into())),
    };
    let run = target::find_run(queue, word)?;
    let filter = Filter { target: Some(Target::Run(run.clone())), ..Filter::default() };
    let row = queue.runs(&filter, 0, 1)?.0.into_iter().next();
    let Some(row) = row.filter(|row| row.run == run) else {
        return Err(NotBegun::Wrong(format!("nothing is known of {run}; `shoal ps {}` lists its runs", run.sweep)));
    };
    let host = host_of(&row, rank)?;
    let there = queue.hosts()?.into_iter().find(|one| one.name == host);
    let Some(text) = there.and_then(|host| host.pool) else {
        let hint = format!(
            "log in to that machine by hand (ssh {host}); `shoal logs -f {run}` shows what it writes, `shoal why {run}` how it is"
        );
        return Err(NotBegun::Wrong(format!(
            "{run} runs on {host}, which is a host and no pool: there is no pod to attach to\n  hint: {hint}"
        )));
    };
    let unread =
        |e| NotBegun::Here(format!("what the pool {host} is cannot be read: {e}; use the same shoal on both sides"));
    let pool: Pool = serde_json::from_str(&text).map_err(unread)?;
    let labels = format!("{POOL}={}", owner(queue.store(), &pool.name));
    let name = note::name(&Attempt { run: run.clone(), number: row.attempt }, rank);
    Ok(Seat { pool, what: run.to_string(), labels, index: Index::Named(name) })
}

/// Where a run that lives is (pure).
fn host_of(row: &RunRow, rank: u32) -> Result<String, NotBegun> {
    let run: &RunId = &row.run;
    match row.state {
        RunState::Running => {}
        RunState::Waiting => {
            let hint = format!("`shoal why {run}` says what it waits for");
            return Err(NotBegun::CannotStart(format!("{run} does not run yet: it is waiting\n  hint: {hint}")));
        }
        over => {
            let hint = format!("`shoal logs {run}` shows what it wrote, `shoal results {}` what it left", run.sweep);
            return Err(NotBegun::CannotStart(format!(
                "{run} does not run any more: it is {}\n  hint: {hint}",
                lists::word(over)
            )));
        }
    }
    let host = row.hosts.get(rank as usize).cloned();
    host.ok_or_else(|| NotBegun::Wrong(format!("{run} has {} processes, and no worker{rank}", row.hosts.len())))
}

fn of_gang(run: &str, rank: Option<Rank>) -> Result<Seat, NotBegun> {
    let Some(launched) = launched::read(run) else {
        let hint = "only the machine that launched a run knows where it is; `shoal ps --all` shows those of this one";
        return Err(NotBegun::Wrong(format!("no run {run} was launched from this machine\n  hint: {hint}")));
    };
    let Launched { over, hosts, pool, .. } = launched;
    let Some(text) = pool else {
        let hosts = hosts.join(", ");
        let hint = format!("log in to the machine by hand (ssh); `shoal logs -f {run}` shows what its ranks write");
        return Err(NotBegun::Wrong(format!(
            "{run} runs on hosts ({hosts}) and not on a pool: there is no pod to attach to\n  hint: {hint}"
        )));
    };
    if over {
        let hint = format!("`shoal logs {run}` shows what it wrote");
        return Err(NotBegun::CannotStart(format!("{run} does not run any more\n  hint: {hint}")));
    }
    let rank = rank.unwrap_or(Rank::Worker(0));
    let pool: Pool = serde_json::from_str(&text)
        .map_err(|e| NotBegun::Here(format!("what is written down of the pool of {run} cannot be read: {e}")))?;
    let (role, index) = objects::seat(rank);
    let index = Index::Of { job: job_name(run, role), index: index as usize };
    Ok(Seat { pool, what: format!("{rank} of {run}"), labels: selector(run), index })
}

/// Where it is by what the server says; none: nowhere yet.
enum There {
    Runs(Box<Command>),
    Waits(String),
    Never(NotBegun),
}

fn look(seat: &Seat, view: &View, args: &Args, terminal: Option<&str>) -> There {
    let (pool, what) = (&seat.pool.name, &seat.what);
    let found = match &seat.index {
        Index::Named(name) => attach::seat(view.of(0), name),
        Index::Of { job, index } => {
            view.of(0).find(|one| one["metadata"]["name"] == job.as_str()).map(|job| (job, *index))
        }
    };
    let Some((job, index)) = found else { return There::Waits(format!("the pool {pool} has no Job of it")) };
    if job["spec"]["completions"].as_u64().is_some_and(|count| count <= index as u64) {
        return There::Never(NotBegun::Wrong(format!("there is no {what}: `shoal ps` shows its ranks")));
    }
    let pods: Vec<&Value> = view.of(1).collect();
    match attach::pod(job, index, &pods) {
        Pod::Runs(pod) => {
            let of_gang = matches!(seat.index, Index::Of { .. });
            let words = attach::words(&attach::script(job, index, of_gang), &args.command, terminal);
            let terminal = terminal.is_some();
            There::Runs(Box::new(Command { pod, container: CONTAINER.into(), words, terminal }))
        }
        Pod::Waits(why) => There::Waits(why),
        Pod::Never(why) => {
            let hint = "`shoal ps` says how it is; it may begin again";
            There::Never(NotBegun::CannotStart(format!("{what} is not there any more: {why}\n  hint: {hint}")))
        }
    }
}

/// The server has the last word on where it is. It hears of a pod's start a moment later than others.
fn command(
    seat: &Seat,
    connection: &Connection,
    args: &Args,
    terminal: Option<&str>,
    stop: &dyn Fn() -> bool,
) -> Result<Command, NotBegun> {
    let follow = |resource| Followed { resource, which: Selection::labels(&seat.labels), optional: false };
    let followed = [follow(resource::jobs(&connection.namespace)), follow(resource::pods(&connection.namespace))];
    let end = Instant::now() + PATIENCE;
    let mut there = There::Waits(format!("{} has not said anything of it", connection.server));
    loop {
        let turn = (Instant::now() + TURN).min(end);
        let looking = |view: &View| {
            if !view.complete {
                return Look::GoOn;
            }
            there = look(seat, view, args, terminal);
            if matches!(there, There::Waits(_)) { Look::GoOn } else { Look::Done }
        };
        connection.follow(&followed, turn, looking).map_err(not_begun)?;
        there = match there {
            There::Runs(command) => return Ok(*command),
            There::Never(why) => return Err(why),
            There::Waits(_) if stop() => return Err(NotBegun::Stopped("stopped".into())),
            There::Waits(why) if Instant::now() >= end => {
                let hint = "try again when it runs; `shoal why` and `shoal logs -f` follow it";
                let what = format!("{} has no pod that runs on the pool {}", seat.what, seat.pool.name);
                return Err(NotBegun::CannotStart(format!("{what}: {why}\n  hint: {hint}")));
            }
            waits => waits,
        };
    }
}

fn begin(seat: &Seat, args: &Args) -> Result<ExitCode, NotBegun> {
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let connection = Connection::open(&wanted(&seat.pool)).map_err(not_begun)?;
    let kind = shell::is_here().then(|| std::env::var("TERM").unwrap_or_else(|_| "xterm".into()));
    let stopped = || stop() > 0;
    let command = command(seat, &connection, args, kind.as_deref(), &stopped)?;
    let pod = command.pod.clone();
    let session = connection.exec(command).map_err(not_begun)?;
    let exit = match kind {
        Some(_) => hold(session, &stopped).map_err(|e| NotBegun::Here(format!("the terminal: {e}")))?,
        None => pass_on(session, &stopped),
    };
    Ok(match exit {
        Exit::Code(code) => ExitCode::from(u8::try_from(code).unwrap_or(LOST)),
        Exit::Cut if stopped() => return Err(NotBegun::Stopped("stopped".into())),
        Exit::Cut => {
            eprintln!("{PROGRAM}: the connection to the pod {pod} was lost; has {} ended?", seat.what);
            ExitCode::from(LOST)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: RunState, hosts: &[&str]) -> RunRow {
        RunRow {
            run: RunId { sweep: "mlp".into(), cell: 1, rep: 0 },
            state,
            attempt: 1,
            hosts: hosts.iter().map(|host| host.to_string()).collect(),
            began: None,
            ended: None,
            ending: None,
            differs: Vec::new(),
            metrics: Vec::new(),
            trouble: None,
            stopping: false,
            done_at: None,
        }
    }

    #[test]
    fn only_what_runs_is_somewhere() {
        for (state, hosts, rank, wanted) in [
            (RunState::Running, &["cloud"][..], 0, Ok("cloud")),
            (RunState::Running, &["cloud"][..], 1, Err("no worker1")),
            (RunState::Waiting, &[][..], 0, Err("`shoal why mlp:1.0`")),
            (RunState::Finished, &["cloud"][..], 0, Err("it is finished")),
            (RunState::Failed, &["cloud"][..], 0, Err("`shoal logs mlp:1.0`")),
        ] {
            match (host_of(&row(state, hosts), rank).map_err(NotBegun::why), wanted) {
                (Ok(host), Ok(wanted)) => assert_eq!(host, wanted),
                (Err(why), Err(says)) => assert!(why.contains(says), "{why}"),
                (got, _) => panic!("{got:?}, not {wanted:?}"),
            }
        }
    }
}
