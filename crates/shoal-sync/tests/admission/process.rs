//! One process: its node, its line to the master, and what its script does next.

use shoal_sync::control::{Common, FromMaster, Register, ToMaster};
use shoal_sync::dtype::DType;
use shoal_sync::error::{Role, SyncError};
use shoal_sync::layout::{Layout, key_of};
use shoal_sync::node::admit::KEY;
use shoal_sync::node::op::{OpId, Request};
use shoal_sync::node::{Config, Node};
use shoal_sync::settings::OnDeath;
use shoal_sync::wire::Combine;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub const BLOCK: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Up,
    Dead,
    Left,
}

/// Where a worker's script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A newcomer before it is in.
    Outside,
    Train,
    Vote,
    Sync,
    Over,
}

pub struct Process {
    pub id: u32,
    pub role: Role,
    pub state: State,
    pub node: Option<Node>,
    pub to_master: VecDeque<ToMaster>,
    pub from_master: VecDeque<FromMaster>,
    /// By node: the process at the other end.
    pub conns: BTreeMap<u32, usize>,
    pub phase: Phase,
    pub step: u64,
    pub steps: u64,
    pub elements: usize,
    pub incarnation: u32,
    /// Servers that a newcomer has still to knock at, and those that have answered.
    pub doors: Vec<usize>,
    pub welcomes: usize,
    /// The generation in which it came.
    pub since: u32,
    pub open: Option<(OpId, Vec<f64>)>,
    pub error: Option<SyncError>,
}

pub fn config() -> Config {
    Config::new(BLOCK, 2, 2, false, OnDeath::Continue)
}

pub fn register(role: Role, id: Option<u32>, pid: u32) -> Register {
    let common = Common { block_size: BLOCK, deterministic: false, on_death: OnDeath::Continue };
    Register {
        role,
        id,
        host: format!("host-{pid}"),
        pid,
        address: None,
        port: 9,
        memory_domain: None,
        meeting: None,
        num_workers: 0,
        common: (role == Role::Worker).then_some(common),
        version: "0".into(),
    }
}

impl Process {
    pub fn new(role: Role, id: u32, phase: Phase) -> Process {
        Process {
            id,
            role,
            state: State::Up,
            node: None,
            to_master: VecDeque::new(),
            from_master: VecDeque::new(),
            conns: BTreeMap::new(),
            phase,
            step: 0,
            steps: 0,
            elements: 0,
            incarnation: 0,
            doors: Vec::new(),
            welcomes: 0,
            since: 1,
            open: None,
            error: None,
        }
    }

    pub fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("a node")
    }

    /// What this worker brings to a sum: digits to the base of 16 tell who is in it, and how often (GRAD-2).
    fn part(&self) -> f64 {
        16f64.powi(self.id as i32)
    }

    /// Whether the script can go on.
    pub fn may_act(&self) -> bool {
        let over = self.phase == Phase::Over || self.phase == Phase::Outside;
        self.state == State::Up && self.role == Role::Worker && self.open.is_none() && !over && self.error.is_none()
    }

    /// The next thing that the script does.
    pub fn act(&mut self, now: u64) {
        let (phase, step, elements, part) = (self.phase, self.step, self.elements, self.part());
        if phase == Phase::Train && step == self.steps {
            self.phase = Phase::Over;
            match self.node().finish() {
                Ok(()) => self.to_master.push_back(ToMaster::Finish),
                Err(e) => self.error = Some(e),
            }
            return;
        }
        let me = self.id;
        let node = self.node();
        let shards = node.world.shards();
        let (name, combine, mut data) = match phase {
            Phase::Train => ("gradient", Combine::Sum, vec![part; elements]),
            Phase::Sync if node.root() == me => ("weights", Combine::Copy, vec![step as f64; elements]),
            Phase::Sync => ("weights", Combine::Copy, vec![-1.0; elements]),
            _ => (KEY, Combine::Sum, node.votes()),
        };
        let bytes = 8 * data.len();
        let layout = match combine {
            Combine::Copy => Layout::from_root(key_of(name), bytes, BLOCK, shards, node.root(), false),
            _ => Layout::shared(key_of(name), bytes, BLOCK, shards),
        };
        let request = Request {
            key: key_of(name),
            name: name.into(),
            dtype: DType::F64,
            shape: vec![data.len()].into(),
            combine,
            weight: 1.0,
            priority: 0,
            layout: Arc::new(layout),
            at: data.as_mut_ptr().cast(),
            team_step: None,
            members: None,
            partial: false,
        };
        let started = if phase == Phase::Vote { node.start_boundary(request, now) } else { node.submit(request, now) };
        match started {
            Ok(id) => self.open = Some((id, data)),
            Err(e) => self.error = Some(e),
        }
    }

    /// An operation has ended well: whether anybody came in, if it was a vote.
    pub fn go_on(&mut self, data: &[f64]) -> usize {
        match self.phase {
            Phase::Train => self.phase = Phase::Vote,
            Phase::Sync => {
                self.step = data[0] as u64;
                self.phase = Phase::Train;
            }
            Phase::Vote => {
                let joined = match self.node().conclude_boundary(data) {
                    Ok(joined) => joined,
                    Err(e) => {
                        self.error = Some(e);
                        return 0;
                    }
                };
                self.step += 1;
                self.phase = if joined.is_empty() { Phase::Train } else { Phase::Sync };
                for n in &joined {
                    self.to_master.push_back(ToMaster::Admitted { node: n.node, incarnation: n.incarnation });
                }
                return joined.len();
            }
            Phase::Outside | Phase::Over => panic!("nothing was open"),
        }
        0
    }
}
