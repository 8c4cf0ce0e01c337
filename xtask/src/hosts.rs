//! `cargo xtask hosts`: test hosts to try things on by hand.

use anyhow::{Context, Result, anyhow};
use shoal_testkit::{Hosts, HostsSpec, hosts::Error};
use std::path::PathBuf;
use std::process::Command;

/// The set by hand, unless another name is given.
const NAME: &str = "lab";

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Bring N hosts up; they stay until `down`.
    Up {
        count: usize,
        /// The speed of each host's link, e.g. 1gbit; without it, as fast as it goes.
        #[arg(long)]
        rate: Option<String>,
        #[arg(long, default_value = NAME)]
        name: String,
    },
    /// Log in to host K, or run a command on it.
    Ssh {
        host: usize,
        #[arg(long, default_value = NAME)]
        name: String,
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Show what is up.
    List,
    /// Take the hosts down, and what crashed tests left.
    Down {
        /// Every kept set, whatever its name.
        #[arg(long)]
        all: bool,
        #[arg(long, default_value = NAME)]
        name: String,
    },
}

pub fn run(args: Args) -> Result<()> {
    match args.verb {
        Verb::Up { count, rate, name } => up(HostsSpec { name, count, rate, share: share()?, drive: None, keep: true }),
        Verb::Ssh { host, name, command } => ssh(&name, host, &command),
        Verb::List => list(),
        Verb::Down { all, name } => down(&name, all),
    }
}

/// What programs from the checkout need, wherever it lies: the checkout, what is built from it, and the Python it is built for.
pub fn share() -> Result<Vec<PathBuf>> {
    let mut share = vec![crate::root(), crate::cargo::target_dir()?, crate::venv::cache_dir()];
    let prefix = Command::new("python3").args(["-c", "import sys; print(sys.base_prefix)"]).output();
    share.extend(prefix.ok().map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())));
    share.retain(|path| path.is_absolute());
    Ok(share)
}

fn up(spec: HostsSpec) -> Result<()> {
    let hosts = Hosts::up(spec).map_err(explain)?;
    show(&hosts);
    println!("\nssh -F {} {}", hosts.ssh_config().display(), hosts.host(0).name);
    Ok(())
}

fn ssh(name: &str, host: usize, command: &[String]) -> Result<()> {
    let hosts = Hosts::open(name).map_err(explain)?;
    if host >= hosts.len() {
        return Err(anyhow!("`{name}` has hosts 0 to {}, not {host}", hosts.len() - 1));
    }
    let mut ssh = hosts.ssh(host);
    let status = ssh.args(command).status().context("ssh did not start")?;
    // As ssh does: the code of the remote command.
    std::process::exit(status.code().unwrap_or(255));
}

fn list() -> Result<()> {
    let sets = Hosts::list().map_err(explain)?;
    if sets.is_empty() {
        println!("no test hosts are up");
    }
    for (name, count, kept) in sets {
        if kept {
            show(&Hosts::open(&name).map_err(explain)?);
        } else {
            println!("{name}: {count} hosts of a running test");
        }
    }
    Ok(())
}

fn down(name: &str, all: bool) -> Result<()> {
    match Hosts::down_kept((!all).then_some(name)).map_err(explain)?.as_slice() {
        [] => println!("no test hosts were up"),
        names => println!("taken down: {}", names.join(", ")),
    }
    Ok(())
}

fn show(hosts: &Hosts) {
    for host in hosts.iter() {
        println!("{}  {}", host.name, host.address);
    }
}

/// With the hint below the message and the cause, as everywhere.
fn explain(error: Error) -> anyhow::Error {
    let hint = error.hint();
    let error = anyhow::Error::new(error);
    match hint {
        Some(hint) => anyhow!("{error:#}\nhint: {hint}"),
        None => error,
    }
}
