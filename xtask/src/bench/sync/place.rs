//! Where the workers run: all on this machine, or each on a test host of its own behind a link of 1 Gbit/s.

use super::group::WORKERS;
use anyhow::{Context, Result, anyhow};
use shoal_testkit::hosts::{Hosts, HostsSpec};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

pub enum Place {
    Here,
    Hosts(Box<Hosts>),
}

impl Place {
    /// Four test hosts. They see the checkout, the environment and the interpreter, wherever these are.
    pub fn hosts(rate: Option<&str>, python: &Path) -> Result<Self> {
        let ask = "import sys; print(sys.base_prefix)";
        let prefix = super::super::peers::said(Command::new(python).args(["-c", ask]))?;
        let share =
            vec![crate::root(), crate::venv::cache_dir(), crate::cargo::target_dir()?, PathBuf::from(prefix.trim())];
        let spec = HostsSpec {
            name: "bench".into(),
            count: WORKERS,
            rate: rate.map(Into::into),
            share,
            drive: None,
            keep: false,
        };
        let hosts = Hosts::up(spec).map_err(|error| {
            let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            anyhow!("cannot bring test hosts up: {error}{hint}")
        })?;
        Ok(Self::Hosts(Box::new(hosts)))
    }

    /// Of the host of rank 0.
    pub fn first_address(&self) -> Ipv4Addr {
        match self {
            Self::Here => Ipv4Addr::LOCALHOST,
            Self::Hosts(hosts) => hosts.host(0).address,
        }
    }

    /// Of the hosts of all ranks.
    pub fn addresses(&self) -> Vec<String> {
        match self {
            Self::Here => vec![Ipv4Addr::LOCALHOST.to_string(); WORKERS],
            Self::Hosts(hosts) => hosts.iter().map(|host| host.address.to_string()).collect(),
        }
    }

    pub fn interface(&self) -> &'static str {
        match self {
            Self::Here => "lo",
            Self::Hosts(_) => "eth0",
        }
    }

    /// A port that nobody has at this moment: what the kernel gives and we give back. Test hosts have a network of their own, where it
    /// is free all the more.
    pub fn free_port(&self) -> Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port")?;
        Ok(listener.local_addr()?.port())
    }

    /// A program beside rank `rank`. It ends with the bench, even with a bench that is killed.
    pub fn command(&self, rank: usize, program: &Path) -> Command {
        let mut command = match self {
            Self::Here => {
                let mut command = Command::new("setpriv");
                command.args(["--pdeathsig", "KILL", "--"]).arg(program);
                command
            }
            Self::Hosts(hosts) => hosts.host(rank).command(&program.to_string_lossy()),
        };
        // The same for all: one thread for arithmetic, and no litter in the checkout.
        command.env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    pub fn worker(&self, rank: usize, python: &Path, script: &str) -> Command {
        let mut command = self.command(rank, python);
        command.arg(script_path(script));
        command
    }

    /// For a launcher that starts the ranks itself.
    pub fn add_worker(&self, launcher: &mut Command, python: &Path, script: &str) {
        launcher.arg(python).arg(script_path(script));
    }
}

fn script_path(script: &str) -> PathBuf {
    crate::root().join("bench").join(script)
}
