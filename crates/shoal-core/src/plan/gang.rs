//! What is each rank of a run told? All of it: program, environment, folder, log. Only ports and this machine's own address
//! stay names, until `GangPlan::bind` fills them in (PLAN-1).

use super::place::{self, Placed};
use super::secret::Secret;
use super::spec::RunSpec;
use super::template::{Address, Piece, Port, Template};
use crate::fleet::detect::is_safe_name;
use crate::fleet::{Fleet, Host, Reach};
use crate::job::{Prepare, Program};
use crate::quote::is_variable_name;
use crate::rank::Rank;
use crate::variables as var;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangPlan {
    pub run: String,
    pub detached: bool,
    pub grace_ms: u64,
    /// In the order in which they are started: the master, the servers, the workers.
    pub ranks: Vec<RankPlan>,
    /// Names of the hosts that take part, in the fleet's order.
    pub hosts: Vec<String>,
    /// Every port to reserve, host by host.
    pub ports: Vec<Port>,
    /// Where the wardens of a detached run over several hosts meet.
    pub line: Option<LinePlan>,
}

/// What becomes a `GangLine` once its port is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinePlan {
    pub address: Address,
    pub port: Port,
    pub token: Secret,
    pub silence_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPlan {
    pub rank: Rank,
    pub host: String,
    pub program: Program,
    /// Arguments that follow the program's own.
    pub arguments: Vec<Template>,
    pub env: BTreeMap<String, Template>,
    pub cwd: Option<String>,
    pub log: String,
    pub prepare: Prepare,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    #[error("`{0}` cannot be the id of a run; expected letters, digits, `.`, `_` and `-`")]
    RunName(String),
    #[error("there is no command to run")]
    NoCommand,
    #[error("{commands} commands for {workers} workers; give one for all, or one for each")]
    CommandCount { commands: usize, workers: usize },
    #[error("a run needs at least one worker")]
    NoWorkers,
    #[error("{wanted} {what} are too many; the most is {most}")]
    TooMany { what: &'static str, wanted: u64, most: u64 },
    #[error(
        "{wanted} workers, but the hosts have slots for {slots}\n  hint: raise `slots` in the fleet's file, ask for fewer \
         (-n {slots}), or allow it with --oversubscribe"
    )]
    NotEnoughSlots { wanted: usize, slots: usize },
    #[error("no host can take a worker{}", if on.is_empty() { String::new() } else { format!(" among {on}") })]
    NoHosts { on: String },
    #[error(
        "`{name}` is neither a host nor a group of the fleet{}",
        suggestion.as_ref().map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
    )]
    UnknownGroup { name: String, suggestion: Option<String> },
    #[error("the fleet places ranks on `{0}`, which is none of its hosts")]
    UnknownHost(String),
    #[error("servers and Poseidon's flags need a master")]
    NoMaster,
    #[error("`{0}` is no name of an environment variable")]
    VariableName(String),
    #[error("`{0}` is set by every run itself and cannot be chosen")]
    ReservedVariable(String),
}

/// Plans a run. The same fleet and the same wish give the same plan.
pub fn gang(fleet: &Fleet, spec: &RunSpec) -> Result<GangPlan, PlanError> {
    if !is_safe_name(&spec.run) {
        return Err(PlanError::RunName(spec.run.clone()));
    }
    check_variables(spec)?;
    let placed = place::place(fleet, spec)?;
    let Some(first) = placed.workers.first().copied() else { return Err(PlanError::NoWorkers) };
    if spec.command.is_empty() || spec.command.iter().any(is_empty) {
        return Err(PlanError::NoCommand);
    }
    if spec.command.len() != 1 && spec.command.len() != placed.workers.len() {
        return Err(PlanError::CommandCount { commands: spec.command.len(), workers: placed.workers.len() });
    }
    if placed.master.is_none() && (spec.flags || !placed.servers.is_empty()) {
        return Err(PlanError::NoMaster);
    }
    let everyone = placed.master.iter().chain(&placed.servers).chain(&placed.workers);
    let used: BTreeSet<&str> = everyone.map(|host| host.name.as_str()).collect();
    let hosts: Vec<&Host> = fleet.hosts.iter().filter(|host| used.contains(host.name.as_str())).collect();
    let together = used.len() == 1;
    let meeting = Meeting::new(&placed, first, together);
    let builder = Builder { fleet, spec, placed: &placed, meeting: &meeting };
    let mut ranks: Vec<RankPlan> = Vec::new();
    ranks.extend(placed.master.zip(meeting.master.as_ref()).map(|(host, at)| builder.master(host, at)));
    ranks.extend(placed.servers.iter().zip(0..).map(|(host, k)| builder.server(host, k)));
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    let numbered: Vec<u32> = placed.workers.iter().map(|host| next(&mut sizes, &host.name)).collect();
    for ((host, k), local_rank) in placed.workers.iter().zip(0..).zip(numbered) {
        ranks.push(builder.worker(host, k, local_rank, sizes.get(host.name.as_str()).copied().unwrap_or(1)));
    }
    let line = spec.detached.then_some(meeting.wardens.as_ref()).flatten();
    let meet = meeting.master.iter().chain([&meeting.workers]).chain(line);
    let mut ports: Vec<Port> = meet.map(|at| at.port.clone()).collect();
    ports.sort_by_key(|port| (hosts.iter().position(|host| host.name == port.host), port.index));
    Ok(GangPlan {
        run: spec.run.clone(),
        detached: spec.detached,
        grace_ms: spec.grace_ms,
        ranks,
        hosts: hosts.iter().map(|host| host.name.clone()).collect(),
        ports,
        line: line.map(|at| LinePlan {
            address: at.address.clone(),
            port: at.port.clone(),
            token: spec.token.clone(),
            silence_ms: spec.silence_ms,
        }),
    })
}

/// Counts up from 0 for each host.
fn next<'h>(counts: &mut BTreeMap<&'h str, u32>, host: &'h str) -> u32 {
    let count = counts.entry(host).or_default();
    *count += 1;
    *count - 1
}

fn is_empty(program: &Program) -> bool {
    match program {
        Program::Argv(words) => words.first().is_none_or(String::is_empty),
        Program::Shell { line, .. } => line.trim().is_empty(),
        Program::Own { name, .. } => name.is_empty(),
    }
}

fn check_variables(spec: &RunSpec) -> Result<(), PlanError> {
    for name in spec.env.keys() {
        if !is_variable_name(name) {
            return Err(PlanError::VariableName(name.clone()));
        }
        if var::is_set_by_the_plan(name) {
            return Err(PlanError::ReservedVariable(name.clone()));
        }
    }
    Ok(())
}

/// Where ranks find each other.
struct MeetingPoint {
    address: Address,
    port: Port,
}

struct Meeting {
    /// Whether all ranks are on one host, so that nothing has to listen to the outside.
    together: bool,
    master: Option<MeetingPoint>,
    /// What torch's workers make of it themselves, on worker 0's host.
    workers: MeetingPoint,
    /// Where the wardens of several hosts meet: on a host that all ranks must reach anyway.
    wardens: Option<MeetingPoint>,
}

impl Meeting {
    fn new(placed: &Placed, first: &Host, together: bool) -> Meeting {
        let address = |host: &Host| match host.reach {
            // An ssh alias may mean nothing on the host itself; loopback always does.
            _ if together => Address::Known("127.0.0.1".into()),
            Reach::Local => Address::OfThisMachine,
            Reach::Ssh { .. } => Address::Known(host.among_hosts().into()),
        };
        let at =
            |host: &Host, index| MeetingPoint { address: address(host), port: Port { host: host.name.clone(), index } };
        let master = placed.master.map(|host| at(host, 0));
        let shared = placed.master.is_some_and(|host| host.name == first.name);
        let head = placed.master.unwrap_or(first);
        let wardens = (!together).then(|| at(head, 1 + u32::from(shared)));
        Meeting { together, master, workers: at(first, u32::from(shared)), wardens }
    }
}

struct Builder<'a> {
    fleet: &'a Fleet,
    spec: &'a RunSpec,
    placed: &'a Placed<'a>,
    meeting: &'a Meeting,
}

impl Builder<'_> {
    fn master(&self, host: &Host, at: &MeetingPoint) -> RankPlan {
        let everywhere = match &at.address {
            _ if self.meeting.together => "127.0.0.1",
            Address::Known(address) if address.contains(':') => "::",
            _ => "0.0.0.0",
        };
        let arguments = vec![
            Template::url("--address=", &Address::Known(everywhere.into()), &at.port),
            Template::text(format!("--workers={}", self.placed.workers.len())),
            Template::text(format!("--servers={}", self.placed.servers.len())),
        ];
        self.own(Rank::Master, host, "ps_master", arguments)
    }

    fn server(&self, host: &Host, k: u32) -> RankPlan {
        let address = self.meeting.master.iter().map(|at| Template::url("--master_address=", &at.address, &at.port));
        let arguments = address.chain([Template::text(format!("--id={k}"))]).collect();
        self.own(Rank::Server(k), host, "ps_server", arguments)
    }

    /// One of our own programs needs nothing of the user's environment but what tunes it.
    fn own(&self, rank: Rank, host: &Host, name: &str, arguments: Vec<Template>) -> RankPlan {
        RankPlan {
            rank,
            host: host.name.clone(),
            program: Program::Own { name: name.into(), args: Vec::new() },
            arguments,
            env: self.common(|name| name.starts_with("SHOAL_")),
            cwd: None,
            log: self.spec.logs.file(rank),
            prepare: Prepare::default(),
        }
    }

    fn worker(&self, host: &Host, k: u32, local_rank: u32, local_size: u32) -> RankPlan {
        let workers = self.placed.workers.len();
        let mut env = self.common(|_| true);
        let mut set = |name: &str, value: Template| env.insert(name.to_string(), value);
        for (name, number) in [
            (var::RANK, k as usize),
            (var::WORLD_SIZE, workers),
            (var::LOCAL_RANK, local_rank as usize),
            (var::LOCAL_WORLD_SIZE, local_size as usize),
        ] {
            set(name, Template::text(number.to_string()));
        }
        let meet = &self.meeting.workers;
        set(var::MASTER_ADDR, Template(vec![Piece::Address(meet.address.clone())]));
        set(var::MASTER_PORT, Template(vec![Piece::Port(meet.port.clone())]));
        let mut arguments = Vec::new();
        if let Some(at) = &self.meeting.master {
            set(var::MASTER_ADDRESS, Template::url("", &at.address, &at.port));
            set(var::CLIENT_ID, Template::text(k.to_string()));
            set(var::NUM_WORKERS, Template::text(workers.to_string()));
            set(var::DISTRIBUTED, Template::text("true"));
            if self.spec.flags {
                arguments.push(Template::text("--distributed=True"));
                arguments.push(Template::url("--master_address=", &at.address, &at.port));
                arguments.push(Template::text(format!("--client_id={k}")));
            }
        }
        let rank = Rank::Worker(k);
        let command = &self.spec.command;
        RankPlan {
            rank,
            host: host.name.clone(),
            program: command[k as usize % command.len()].clone(),
            arguments,
            env,
            cwd: self.spec.cwd.clone().or_else(|| self.fleet.shared.clone()),
            log: self.spec.logs.file(rank),
            prepare: self.fleet.environment.prepare.clone(),
        }
    }

    /// The fleet's variables, the run's over them, and what every rank needs.
    fn common(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Template> {
        let given = self.fleet.environment.env.iter().chain(&self.spec.env).filter(|(name, _)| wanted(name));
        let mut env: BTreeMap<String, Template> =
            given.map(|(name, value)| (name.clone(), Template::text(value))).collect();
        env.insert(var::RUN.into(), Template::text(&self.spec.run));
        if self.meeting.master.is_some() {
            env.insert(var::TOKEN.into(), Template(vec![Piece::Secret(self.spec.token.clone())]));
        }
        env
    }
}
