//! Opens a shell on a node, in a pod of a pool, or in that of a run.

use super::run::NotBegun;
use crate::args::attach::Args;
use crate::cluster::nodes::Nodes;
use crate::cluster::{around, terminal};
use crate::launch::program::Broken;
use crate::pools;
use shoal_core::cluster::{session, shell};
use shoal_core::outcome::LOST;
use shoal_hosts::ssh::Settings;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if let Some(code) = pools::within::run(args)? {
        return Ok(code);
    }
    if let Some(pool) = pools::choose::of(&args.cluster, args.pool.as_deref())? {
        return pools::attach::run(args, &pool);
    }
    if args.rank.is_some() || !args.command.is_empty() {
        let hint = "on a node: shoal exec CLUSTER CMD; in a run's pod: shoal attach RUN -- CMD";
        return Err(NotBegun::Wrong(format!("--rank and commands are for runs\n  hint: {hint}")));
    }
    let by = args.reaching.multiplexer();
    if args.new && by.is_none() {
        return Err(NotBegun::Wrong("--new is for sessions: it needs --tmux or --screen".into()));
    }
    if !terminal::is_here() {
        let hint = "to run a command without one: shoal exec CLUSTER CMD";
        return Err(NotBegun::Wrong(format!("a shell needs a terminal, and stdin or stdout is none\n  hint: {hint}")));
    }
    around::start(args.reaching.start, &args.cluster)?;
    let nodes = Nodes::of(&args.cluster)?;
    let node = nodes.pick(args.node.as_deref(), &args.cluster.file)?;
    let docker = nodes.cluster.docker.as_ref();
    let line = match (by, docker) {
        (Some(by), docker) => Some(session::terminal_line(&shell::attaching(by, args.new), &[], docker)),
        (None, Some(docker)) => Some(session::shell_line(docker)),
        (None, None) => None,
    };
    let forwards = &args.reaching.forwards;
    let command = terminal::command(&nodes.fleet, &node.host, &Settings::from_env(), line.as_deref(), forwards);
    let Broken { what, hint } = match command {
        Ok(command) => terminal::become_it(command),
        Err(why) => why,
    };
    eprintln!("shoal attach: {}: {what}\n  hint: {hint}", node.host.name);
    Ok(ExitCode::from(LOST))
}
