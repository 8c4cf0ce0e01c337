//! What is each host told, now that ports are reserved and addresses known?

use super::gang::{GangPlan, LinePlan, RankPlan};
use super::template::{Address, Port, Template};
use crate::job::{GangLine, HostJob, JOB_VERSION, Program, RankJob};
use crate::rank::Rank;
use std::collections::BTreeMap;
use thiserror::Error;

/// What could only be found out on the hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserved {
    /// One for each of `GangPlan::ports`.
    pub ports: BTreeMap<Port, u16>,
    /// This machine's address, as the other hosts see it; needed if `GangPlan::needs_this_machine`.
    pub this_machine: Option<String>,
    /// Addresses of the file that other hosts may not know (names for ssh), and what those hosts are really called.
    pub addresses: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BindError {
    #[error("no port has been reserved for {rank} on {host}")]
    NoPort { rank: Rank, host: String },
    #[error("{rank} needs an address of this machine that the other hosts can reach, and none is known")]
    NoAddress { rank: Rank },
    #[error("no port has been reserved on {host} for the hosts of this detached run to meet")]
    NoLinePort { host: String },
    #[error("the other hosts of this detached run need an address of this machine ({host}), and none is known")]
    NoLineAddress { host: String },
}

impl GangPlan {
    /// The jobs, one for each host, in the fleet's order.
    pub fn bind(&self, reserved: &Reserved) -> Result<Vec<HostJob>, BindError> {
        let line = self.line.as_ref().map(|line| self.bind_line(line, reserved)).transpose()?;
        let job = |host: &String| {
            let ranks = self.ranks.iter().filter(|rank| rank.host == *host).map(|rank| rank.bind(reserved));
            Ok(HostJob {
                version: JOB_VERSION,
                run: self.run.clone(),
                host: host.clone(),
                detached: self.detached,
                grace_ms: self.grace_ms,
                ranks: ranks.collect::<Result<_, _>>()?,
                gang: line.clone(),
            })
        };
        self.hosts.iter().map(job).collect()
    }

    fn bind_line(&self, line: &LinePlan, reserved: &Reserved) -> Result<GangLine, BindError> {
        let head = line.port.host.clone();
        let address = match &line.address {
            Address::Known(text) => Some(reserved.addresses.get(text).unwrap_or(text).clone()),
            Address::OfThisMachine => reserved.this_machine.clone(),
        };
        let port = reserved.ports.get(&line.port).copied();
        Ok(GangLine {
            port: port.ok_or_else(|| BindError::NoLinePort { host: head.clone() })?,
            address: address.ok_or_else(|| BindError::NoLineAddress { host: head.clone() })?,
            head,
            // Not the ranks' own token: a rank that dials the wrong port must not be taken for a warden.
            token: format!("gang line {}", line.token.expose()),
            silence_ms: line.silence_ms,
            ranks: self.ranks.iter().map(|rank| (rank.rank, rank.host.clone())).collect(),
        })
    }

    /// How many ports to reserve on each host that needs any.
    pub fn ports_by_host(&self) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for port in &self.ports {
            *counts.entry(port.host.as_str()).or_insert(0) += 1;
        }
        counts
    }

    /// Whether any rank has to know an address of this machine.
    pub fn needs_this_machine(&self) -> bool {
        let ports = self.ports.iter().map(|port| (port.clone(), 1)).collect();
        let without = Reserved { ports, ..Reserved::default() };
        matches!(self.bind(&without), Err(BindError::NoAddress { .. } | BindError::NoLineAddress { .. }))
    }
}

impl RankPlan {
    fn bind(&self, reserved: &Reserved) -> Result<RankJob, BindError> {
        let port = |port: &Port| {
            let missing = || BindError::NoPort { rank: self.rank, host: port.host.clone() };
            reserved.ports.get(port).copied().ok_or_else(missing)
        };
        let known = |address: &Address| match address {
            Address::Known(text) => Ok(reserved.addresses.get(text).unwrap_or(text).clone()),
            Address::OfThisMachine => reserved.this_machine.clone().ok_or(BindError::NoAddress { rank: self.rank }),
        };
        let fill = |template: &Template| template.fill(port, known);
        let arguments = self.arguments.iter().map(fill).collect::<Result<Vec<_>, _>>()?;
        let env = self.env.iter().map(|(name, value)| Ok((name.clone(), fill(value)?)));
        Ok(RankJob {
            rank: self.rank,
            program: with_arguments(&self.program, arguments),
            env: env.collect::<Result<_, _>>()?,
            cwd: self.cwd.clone(),
            log: self.log.clone(),
            prepare: self.prepare.clone(),
        })
    }
}

/// The program, with more arguments after its own.
fn with_arguments(program: &Program, more: Vec<String>) -> Program {
    let mut program = program.clone();
    match &mut program {
        Program::Argv(words) => words.extend(more),
        Program::Shell { append, .. } => append.extend(more),
        Program::Own { args, .. } => args.extend(more),
    }
    program
}
