//! A shell in a pod that has a pool's image and volumes, and goes when the shell ends.

use super::shell::{self, hold};
use super::visit::{Visit, done};
use crate::args::attach::Args;
use crate::commands::run::NotBegun;
use crate::k8s::reach::not_begun;
use crate::signals;
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::helper::SHELL;
use shoal_core::outcome::LOST;
use shoal_hosts::kubernetes::Failure;
use shoal_hosts::kubernetes::helper::Helper;
use shoal_hosts::process::Exit;
use std::process::ExitCode;
use std::time::Duration;

const PROGRAM: &str = "shoal attach";
const TURN: Duration = Duration::from_millis(20);

pub fn run(args: &Args, pool: &Pool) -> Result<ExitCode, NotBegun> {
    if args.rank.is_some() || !args.command.is_empty() {
        let hint = "shoal attach RUN [--rank RANK] [-- CMD]; the shell of a pool is for its volume";
        return Err(NotBegun::Wrong(format!("--rank and commands are for runs\n  hint: {hint}")));
    }
    if is_of_clusters(args) {
        return Err(NotBegun::Wrong(
            "--node, --start, --tmux, --screen, -N and -p are for clusters, not for pools".into(),
        ));
    }
    if !shell::is_here() {
        return Err(NotBegun::Wrong("a shell needs a terminal, and stdin or stdout is none".into()));
    }
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let visit = Visit::to(pool)?;
    let helper = start(&visit, pool, &|| stop() > 0)?;
    let at = pool.kubernetes.volumes.first().map_or("/", |volume| volume.at.as_str());
    let kind = std::env::var("TERM").unwrap_or_else(|_| "xterm".into());
    let words = ["/bin/sh", "-c", SHELL, at, &kind].map(String::from).to_vec();
    let outcome = match helper.exec(words, true) {
        Ok(session) => hold(session, &|| stop() > 0).map_err(|e| NotBegun::Here(format!("the terminal: {e}"))),
        Err(failure) => Err(not_begun(failure)),
    };
    done(PROGRAM, helper);
    Ok(match outcome? {
        Exit::Code(code) => ExitCode::from(u8::try_from(code).unwrap_or(LOST)),
        Exit::Cut => {
            eprintln!("{PROGRAM}: the connection to the pod was lost");
            ExitCode::from(LOST)
        }
    })
}

/// Whether it is asked for what only clusters have.
pub(super) fn is_of_clusters(args: &Args) -> bool {
    let reaching = &args.reaching;
    let way = reaching.start || !reaching.forwards.is_empty() || reaching.multiplexer().is_some();
    args.node.is_some() || args.new || way
}

fn start(visit: &Visit, pool: &Pool, stop: &dyn Fn() -> bool) -> Result<Helper, NotBegun> {
    let begin = || -> Result<Helper, Failure> {
        let mut tell = |why: &str| eprintln!("{PROGRAM}: {}: {why}", pool.name);
        Helper::start(visit.connection.clone(), &visit.plan, &mut tell)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(begin);
        let mut stopped = false;
        while !thread.is_finished() {
            if stop() && !stopped {
                // Its Job is gone then, and the thread has nothing to wait for.
                stopped = true;
                visit.clear(PROGRAM);
            }
            std::thread::sleep(TURN);
        }
        let begun = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (begun, stopped) {
            (Ok(helper), true) => {
                done(PROGRAM, helper);
                Err(NotBegun::Stopped("stopped".into()))
            }
            (Err(_), true) => Err(NotBegun::Stopped("stopped".into())),
            (begun, false) => begun.map_err(not_begun),
        }
    })
}
