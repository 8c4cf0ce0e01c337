//! Runs a command on one node of a cluster, or on all.

use super::run::NotBegun;
use crate::args::exec::Args;
use crate::cluster::everywhere::{self, Show};
use crate::cluster::nodes::Nodes;
use crate::cluster::remote::{self, Input, Order, Stream};
use crate::cluster::{around, terminal};
use crate::launch::program::Broken;
use crate::signals;
use serde_json::json;
use shoal_core::cluster::{Docker, Node, session, shell};
use shoal_core::outcome::LOST;
use shoal_hosts::ssh::Settings;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Of the JSON that `--json` prints; changes whenever the meaning of a field does (WIRE-1).
const JSON_VERSION: u32 = 1;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let by = args.reaching.detaching().map_err(NotBegun::Wrong)?;
    let around = (args.reaching.start, args.stop);
    around::around(around, &args.cluster, || execute(args, by)).map(ExitCode::from)
}

fn execute(args: &Args, by: Option<shell::Multiplexer>) -> Result<u8, NotBegun> {
    let nodes = Nodes::of(&args.cluster)?;
    let docker = nodes.cluster.docker.as_ref();
    let container =
        shell::container(args.run_env.into(), docker, &args.command).map_err(|e| NotBegun::Wrong(e.to_string()))?;
    if args.all {
        return all(args, &nodes, container);
    }
    let node = nodes.pick(args.node.as_deref(), &args.cluster.file)?;
    let one = One { nodes: &nodes, node, container, command: &args.command };
    match by {
        Some(by) => one.detached(by, args),
        None if args.json => one.as_json(args),
        None => one.run("shoal exec", &args.reaching.forwards, args.stop),
    }
}

fn all(args: &Args, nodes: &Nodes, container: Option<&Docker>) -> Result<u8, NotBegun> {
    let asked = listen()?;
    let show = match (args.json, args.gather) {
        (true, _) => Show::Nothing,
        (false, true) => Show::Whole,
        (false, false) => Show::Lines,
    };
    let results = everywhere::run(nodes, &args.command, container, show, &asked);
    if args.json {
        crate::say::line(json!({ "version": JSON_VERSION, "nodes": results }));
    } else {
        if args.gather {
            for ended in &results {
                crate::say::out(format!("== {}\n{}", ended.node, ended.stdout));
                let _ = std::io::stdout().flush();
                eprint!("{}", ended.stderr);
            }
        }
        eprint!("{}", everywhere::table(&results));
    }
    Ok(everywhere::exit_code(&results))
}

pub fn listen() -> Result<impl Fn() -> u32 + Sync, NotBegun> {
    signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))
}

/// A command for one node.
pub struct One<'a> {
    pub nodes: &'a Nodes,
    pub node: &'a Node,
    pub container: Option<&'a Docker>,
    pub command: &'a str,
}

impl One<'_> {
    fn order<'o>(&'o self, ssh: &'o Settings, command: &'o str) -> Order<'o> {
        let (fleet, host) = (&self.nodes.fleet, &self.node.host);
        Order { fleet, host, ssh, command, env: &[], container: self.container, forwards: &[] }
    }

    /// In this terminal if there is one, else with our stdin and stdout.
    pub fn run(
        &self,
        program: &str,
        forwards: &[shoal_hosts::ssh::options::Forward],
        something_follows: bool,
    ) -> Result<u8, NotBegun> {
        let ssh = Settings::from_env();
        if terminal::is_here() {
            let line = session::terminal_line(self.command, &[], self.container);
            let (fleet, host) = (&self.nodes.fleet, &self.node.host);
            let ended =
                terminal::command(fleet, host, &ssh, Some(&line), forwards).and_then(
                    |command| match something_follows {
                        true => terminal::wait_for_it(command),
                        false => Err(terminal::become_it(command)),
                    },
                );
            return Ok(self.code(program, ended));
        }
        let asked = listen()?;
        let order = Order { forwards, ..self.order(&ssh, self.command) };
        let ended = remote::run(&order, our_stdin(), &mut pass_on, &asked);
        Ok(self.code(program, ended))
    }

    fn as_json(&self, args: &Args) -> Result<u8, NotBegun> {
        let (ssh, asked) = (Settings::from_env(), listen()?);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut sink = |stream: Stream, bytes: &[u8]| {
            match stream {
                Stream::Out => out.extend_from_slice(bytes),
                Stream::Err => err.extend_from_slice(bytes),
            }
            true
        };
        let order = Order { forwards: &args.reaching.forwards, ..self.order(&ssh, self.command) };
        let ended = remote::run(&order, our_stdin(), &mut sink, &asked);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (code, trouble, hint) = match ended {
            Ok(code) => (code, None, None),
            Err(Broken { what, hint }) => (LOST, Some(what), Some(hint)),
        };
        crate::say::line(json!({
            "version": JSON_VERSION, "node": self.node.host.name, "role": self.node.role, "exit_code": code,
            "trouble": trouble, "hint": hint, "stdout": text(&out), "stderr": text(&err),
        }));
        Ok(code)
    }

    /// In a session of its own that stays; says how to get there.
    pub fn detached(&self, by: shell::Multiplexer, args: &Args) -> Result<u8, NotBegun> {
        let node = args.node.as_ref().map_or_else(String::new, |node| format!(" --node {node}"));
        self.start_detached("shoal exec", by, &format!("{}{node}", args.cluster.file.display()))
    }

    pub fn start_detached(&self, program: &str, by: shell::Multiplexer, where_: &str) -> Result<u8, NotBegun> {
        let (ssh, asked) = (Settings::from_env(), listen()?);
        let command = shell::detached(by, self.command, &[]);
        let ended = remote::run(&self.order(&ssh, &command), Input::Nothing, &mut pass_on, &asked);
        let code = self.code(program, ended);
        if code == 0 {
            let name = by.name();
            eprintln!(
                "started in a {name} session on {}; to see it: shoal attach {where_} --{name}",
                self.node.host.name
            );
        }
        Ok(code)
    }

    /// GANG-2.
    pub fn code(&self, program: &str, ended: Result<u8, Broken>) -> u8 {
        ended.unwrap_or_else(|Broken { what, hint }| {
            eprintln!("{program}: {}: {what}\n  hint: {hint}", self.node.host.name);
            LOST
        })
    }
}

/// Ours, unless there is nothing in it.
fn our_stdin() -> Input {
    let stdin = std::io::stdin();
    let nothing = || {
        let ours = rustix::fs::fstat(&stdin).ok()?;
        let null = rustix::fs::stat("/dev/null").ok()?;
        Some(ours.st_rdev == null.st_rdev && ours.st_mode == null.st_mode)
    };
    // A terminal whose output goes elsewhere is read like any other file: `shoal exec c.yaml cat > notes`.
    match stdin.is_terminal() || nothing() == Some(false) {
        true => Input::Bytes(Box::new(stdin)),
        false => Input::Nothing,
    }
}

/// To our own stdout and stderr, as it is.
fn pass_on(stream: Stream, bytes: &[u8]) -> bool {
    match stream {
        Stream::Out => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush()).is_ok()
        }
        Stream::Err => std::io::stderr().lock().write_all(bytes).is_ok(),
    }
}
