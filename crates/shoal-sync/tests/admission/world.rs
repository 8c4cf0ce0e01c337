//! The processes, the connections between them, the master, and what must hold.

use super::process::{Phase, Process, State, config, register};
use crate::dice::Dice;
use shoal_sync::control::{FromMaster, ToMaster};
use shoal_sync::error::{Role, SyncError};
use shoal_sync::master::table::{self, Effect, Table};
use shoal_sync::node::world::World as Members;
use shoal_sync::node::{Node, Sink};
use shoal_sync::wire::{HEADER, Header, Kind};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Clone)]
pub struct Plan {
    pub workers: u32,
    pub servers: u32,
    pub steps: u64,
    /// How many processes are started in place of dead ones.
    pub newcomers: usize,
    /// Process (workers, servers, newcomers, in the order of their start), and the event before which it vanishes.
    pub deaths: Vec<(usize, u64)>,
    pub elements: usize,
    pub seed: u64,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub events: u64,
    pub joined: usize,
    pub errors: usize,
}

#[derive(Default)]
struct Queue {
    wire: VecDeque<([u8; HEADER], Vec<u8>)>,
    arriving: Option<(Header, Sink, Vec<u8>)>,
    closed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Move {
    Act(usize),
    Send(usize, u32),
    Head(usize, usize),
    Body(usize, usize),
    End(usize, usize),
    TellMaster(usize),
    HearMaster(usize),
    Knock(usize),
    Spawn,
    Leave(usize),
}

struct World {
    plan: Plan,
    dice: Dice,
    table: Table,
    processes: Vec<Process>,
    queues: BTreeMap<(usize, usize), Queue>,
    /// By generation, key and step: the bytes that all got.
    results: BTreeMap<(u32, String, u64), Vec<f64>>,
    counts: BTreeMap<(usize, u32, String), u64>,
    unseen: Vec<usize>,
    spawned: usize,
    outcome: Outcome,
}

pub fn run(plan: &Plan) -> Outcome {
    let mut world = World::new(plan.clone());
    loop {
        for (process, at) in plan.deaths.clone() {
            if at == world.outcome.events && process < world.processes.len() {
                world.die(process);
            }
        }
        let moves = world.moves();
        if moves.is_empty() {
            break;
        }
        let next = moves[world.dice.below(moves.len())];
        world.perform(next);
        world.outcome.events += 1;
        assert!(world.outcome.events < 500_000, "no end in sight");
    }
    world.check_end();
    world.outcome
}

fn link(process: usize) -> table::Link {
    process as u64 + 1
}

impl World {
    fn new(plan: Plan) -> World {
        let mut world = World {
            dice: Dice::new(plan.seed ^ 0xad317),
            table: Table::new(7, Some(plan.workers), plan.servers),
            processes: Vec::new(),
            queues: BTreeMap::new(),
            results: BTreeMap::new(),
            counts: BTreeMap::new(),
            unseen: Vec::new(),
            spawned: 0,
            outcome: Outcome::default(),
            plan,
        };
        let (workers, servers) = (world.plan.workers, world.plan.servers);
        for n in 0..workers + servers {
            let (role, id) = if n < workers { (Role::Worker, n) } else { (Role::Server, n - workers) };
            let mut process = Process::new(role, n, Phase::Train);
            (process.steps, process.elements) = (world.plan.steps, world.plan.elements);
            world.processes.push(process);
            let effects = world.table.register(link(n as usize), register(role, Some(id), n), "h");
            world.carry_out(effects);
        }
        for p in 0..world.processes.len() {
            let heard = std::mem::take(&mut world.processes[p].from_master);
            let roster = heard.into_iter().find_map(|m| if let FromMaster::Complete(r) = m { Some(r) } else { None });
            let members = members(&roster.expect("complete"));
            let me = world.processes[p].id;
            let peers: Vec<u32> = (0..members.nodes()).filter(|n| members.linked(me, *n)).collect();
            for peer in peers {
                world.processes[p].conns.insert(peer, peer as usize);
                world.queues.insert((p, peer as usize), Queue::default());
            }
            world.processes[p].node = Some(Node::new(members, me, config()));
        }
        world
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Send(link, message) = effect {
                self.processes[link as usize - 1].from_master.push_back(message);
            }
        }
    }

    fn moves(&self) -> Vec<Move> {
        let mut out = Vec::new();
        for (i, p) in self.processes.iter().enumerate() {
            if p.state == State::Up {
                if p.may_act() {
                    out.push(Move::Act(i));
                }
                if !p.from_master.is_empty() {
                    out.push(Move::HearMaster(i));
                }
                if !p.doors.is_empty() {
                    out.push(Move::Knock(i));
                }
                if self.may_leave(p) {
                    out.push(Move::Leave(i));
                }
                let node = p.node.as_ref();
                out.extend(
                    p.conns.keys().filter(|c| node.is_some_and(|n| n.wants_to_send(**c))).map(|c| Move::Send(i, *c)),
                );
            }
            if !p.to_master.is_empty() || self.unseen.contains(&i) {
                out.push(Move::TellMaster(i));
            }
        }
        for (&(from, to), queue) in &self.queues {
            if self.processes[to].state != State::Up {
                continue;
            }
            if queue.arriving.is_some() {
                out.push(Move::Body(from, to));
            } else if !queue.wire.is_empty() {
                out.push(Move::Head(from, to));
            } else if queue.closed {
                out.push(Move::End(from, to));
            }
        }
        let free = |id: &u32| {
            let dead = |e: &table::Entry| matches!(e.state, table::State::Dead { .. });
            self.table.workers.get(id).is_some_and(dead) && !self.table.joining.contains_key(id)
        };
        if self.spawned < self.plan.newcomers && (0..self.plan.workers).any(|id| free(&id)) {
            out.push(Move::Spawn);
        }
        out
    }

    fn may_leave(&self, p: &Process) -> bool {
        let Some(node) = &p.node else { return p.error.is_some() };
        let quiet = p.conns.keys().all(|c| !node.wants_to_send(*c));
        let over = match p.role {
            Role::Worker => p.phase == Phase::Over || p.error.is_some(),
            _ => node.all_gone(),
        };
        quiet && (over || node.fatal().is_some())
    }

    fn perform(&mut self, action: Move) {
        let now = self.outcome.events + 1;
        match action {
            Move::Act(p) => {
                self.processes[p].act(now);
                self.after(p);
            }
            Move::Send(p, peer) => {
                let Some(frame) = self.processes[p].node().next_frame(peer, now) else { return };
                let to = self.processes[p].conns[&peer];
                let entry = self.queues.entry((p, to)).or_default();
                entry.wire.push_back((frame.header, frame.payload.bytes().to_vec()));
                self.processes[p].node().sent(frame);
                self.after(p);
            }
            Move::Head(from, to) => self.head(from, to),
            Move::Body(from, to) => self.body(from, to),
            Move::End(from, to) => {
                self.queues.remove(&(from, to));
                let peer = self.processes[from].id;
                self.processes[to].conns.remove(&peer);
                if let Some(node) = &mut self.processes[to].node {
                    node.lost(peer, "the connection was closed");
                    self.after(to);
                }
            }
            Move::TellMaster(p) => {
                let effects = match self.processes[p].to_master.pop_front() {
                    Some(ToMaster::Finish) => self.table.finish(link(p)),
                    Some(ToMaster::Abort { error }) => self.table.abort(link(p), error),
                    Some(ToMaster::AtTheDoor) => self.table.at_the_door(link(p)),
                    Some(ToMaster::Admitted { node, incarnation }) => self.table.admitted(node, incarnation),
                    Some(other) => panic!("nobody says {other:?}"),
                    None => {
                        self.unseen.retain(|u| *u != p);
                        self.table.lost(link(p), "its connection closed")
                    }
                };
                self.carry_out(effects);
            }
            Move::HearMaster(p) => self.hear_master(p),
            Move::Knock(p) => self.knock(p),
            Move::Spawn => self.spawn(),
            Move::Leave(p) => {
                if self.processes[p].role == Role::Server && self.processes[p].error.is_none() {
                    self.processes[p].to_master.push_back(ToMaster::Finish);
                }
                self.leave(p, State::Left);
            }
        }
    }

    fn spawn(&mut self) {
        let p = self.processes.len();
        self.spawned += 1;
        // Its number is the master's to choose.
        self.processes.push(Process::new(Role::Worker, u32::MAX, Phase::Outside));
        let effects = self.table.register(link(p), register(Role::Worker, None, p as u32), "h");
        self.carry_out(effects);
    }

    fn hear_master(&mut self, p: usize) {
        let Some(message) = self.processes[p].from_master.pop_front() else { return };
        let process = &mut self.processes[p];
        match message {
            FromMaster::Welcome { id } => process.id = id,
            FromMaster::Complete(roster) => {
                let late = roster.late.clone().expect("a newcomer");
                let members = members(&roster);
                process.incarnation = late.incarnation;
                process.doors = (0..self.plan.servers).map(|s| (self.plan.workers + s) as usize).collect();
                let mut node = Node::newcomer(members, process.id, config(), late.incarnation);
                for d in &late.dead {
                    node.lost_incarnation(*d, 0, "before");
                }
                process.node = Some(node);
            }
            FromMaster::Dead { node, how, incarnation } => {
                if let Some(n) = &mut process.node {
                    n.lost_incarnation(node, incarnation, &how);
                }
            }
            FromMaster::Joining(newcomer) => process.node().joining(newcomer),
            FromMaster::Abort { error } | FromMaster::Refused { error } => match &mut process.node {
                Some(node) => node.fail(error),
                None => process.error = Some(error),
            },
            FromMaster::Gathering { .. } | FromMaster::Status(_) => {}
        }
        self.after(p);
    }

    /// A newcomer's connection reaches a server, and takes the place of the one before.
    fn knock(&mut self, p: usize) {
        let at = self.dice.below(self.processes[p].doors.len());
        let server = self.processes[p].doors.swap_remove(at);
        let (id, incarnation) = (self.processes[p].id, self.processes[p].incarnation);
        if self.processes[server].state != State::Up {
            let error = SyncError::ShutDown;
            self.processes[p].error = Some(error);
            return;
        }
        let taken = self.processes[server].node().arrive(id, incarnation);
        self.after(server);
        if !taken {
            let fatal = self.processes[server].node().fatal().is_some();
            assert!(fatal, "server {server} turned away worker {id}");
            self.processes[p].error = Some(SyncError::ShutDown);
            return;
        }
        let server_id = self.processes[server].id;
        if let Some(old) = self.processes[server].conns.insert(id, p) {
            if let Some((_, sink, _)) = self.queues.remove(&(old, server)).and_then(|q| q.arriving) {
                self.processes[server].node().abandon(sink);
            }
            self.queues.entry((server, old)).or_default().closed = true;
        }
        self.processes[p].conns.insert(server_id, server);
        self.queues.insert((p, server), Queue::default());
        self.queues.insert((server, p), Queue::default());
    }

    fn head(&mut self, from: usize, to: usize) {
        let Some(queue) = self.queues.get_mut(&(from, to)) else { return };
        let Some((header, payload)) = queue.wire.pop_front() else { return };
        let header = Header::decode(&header).unwrap_or_else(|e| panic!("a node sent nonsense: {e}"));
        if header.kind == Kind::Welcome {
            self.processes[to].welcomes += 1;
            if self.processes[to].welcomes == self.plan.servers as usize {
                self.processes[to].to_master.push_back(ToMaster::AtTheDoor);
            }
            return;
        }
        let peer = self.processes[from].id;
        let sink = self.processes[to].node().begin(peer, &header);
        let sink = sink.unwrap_or_else(|e| panic!("an honest frame {from} -> {to} was refused: {e}\n{header:?}"));
        self.after(to);
        if let Some(queue) = self.queues.get_mut(&(from, to)) {
            queue.arriving = Some((header, sink, payload));
        }
    }

    fn body(&mut self, from: usize, to: usize) {
        let arriving = self.queues.get_mut(&(from, to)).and_then(|q| q.arriving.take());
        let Some((header, mut sink, payload)) = arriving else { return };
        let peer = self.processes[from].id;
        let process = &mut self.processes[to];
        match &mut sink {
            Sink::Buffer(buffer) => buffer.bytes_mut(payload.len()).copy_from_slice(&payload),
            Sink::Memory { at, len } if process.node().fatal().is_none() => {
                assert_eq!(*len, payload.len());
                // SAFETY: the operation is open, its tensor is kept by the process.
                unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), *at, *len) }
            }
            Sink::Words(words) => words.copy_from_slice(&payload),
            Sink::Memory { .. } | Sink::None | Sink::Discard => {}
        }
        let done = process.node().finish_frame(peer, &header, sink, self.outcome.events + 1);
        done.unwrap_or_else(|e| panic!("an honest frame {from} -> {to} was refused: {e}\n{header:?}"));
        self.after(to);
    }

    /// Whenever a node was called: it is sound, and what has ended is right.
    fn after(&mut self, p: usize) {
        let process = &mut self.processes[p];
        let Some(node) = &mut process.node else { return };
        node.sanity_check();
        let (ended, fatal) = (node.take_ended(), node.fatal().cloned());
        if let Some(error) = fatal.filter(|_| process.error.is_none()) {
            if !node.is_outside() {
                process.to_master.push_back(ToMaster::Abort { error: error.clone() });
            }
            process.error = Some(error);
        }
        if process.phase == Phase::Outside && process.error.is_none() && node.not_let_in_by().is_empty() {
            (process.phase, process.since) = (Phase::Sync, node.world.generation);
            let (node, incarnation) = (process.id, process.incarnation);
            process.to_master.push_back(ToMaster::Admitted { node, incarnation });
            (process.steps, process.elements) = (self.plan.steps, self.plan.elements);
            self.outcome.joined += 1;
        }
        for (id, end) in ended {
            let process = &mut self.processes[p];
            let (open, data) = process.open.take().expect("an operation that was open");
            assert_eq!(open, id);
            if end.is_ok() {
                self.check_result(p, &data);
                self.processes[p].go_on(&data);
            }
        }
    }

    fn check_result(&mut self, p: usize, data: &[f64]) {
        let process = &self.processes[p];
        let node = process.node.as_ref().expect("a node");
        let (generation, phase) = (node.world.generation, process.phase);
        let members = node.members();
        let name = format!("{phase:?}");
        let count = self.counts.entry((p, generation, name.clone())).or_insert(0);
        let key = (generation, name, *count);
        *count += 1;
        let first = self.results.entry(key.clone()).or_insert_with(|| data.to_vec());
        assert_eq!(first, data, "process {p} got other bytes for {key:?} (GRAD-3)");
        if phase != Phase::Train {
            return;
        }
        // Whoever is alive now has never died, and took part if it was there when the generation began.
        let there = |w: u32| {
            self.processes.iter().any(|o| {
                o.id == w
                    && o.role == Role::Worker
                    && o.state == State::Up
                    && o.since <= generation
                    && o.error.is_none()
                    && !matches!(o.phase, Phase::Outside | Phase::Over)
            })
        };
        for sum in data {
            for w in 0..self.plan.workers {
                let digit = (sum / 16f64.powi(w as i32)) as u64 % 16;
                assert!(digit <= 1, "worker {w} counts {digit} times in {sum} (GRAD-2)");
                assert!(digit == 0 || members.contains(&w), "worker {w} is in {sum}, but no member of {members:?}");
                assert!(digit == 1 || !there(w), "worker {w} is missing in {sum} of {key:?}");
            }
        }
    }

    fn die(&mut self, p: usize) {
        if self.processes[p].state != State::Up {
            return;
        }
        // Of what is on the way only a part arrives, also of what was said to the master.
        let peers: Vec<usize> = self.processes[p].conns.values().copied().collect();
        for peer in peers {
            if let Some(queue) = self.queues.get_mut(&(p, peer)) {
                let keep = self.dice.below(queue.wire.len() + 1);
                queue.wire.truncate(keep);
            }
        }
        let keep = self.dice.below(self.processes[p].to_master.len() + 1);
        self.processes[p].to_master.truncate(keep);
        self.leave(p, State::Dead);
    }

    fn leave(&mut self, p: usize, state: State) {
        self.processes[p].state = state;
        self.unseen.push(p);
        let conns = std::mem::take(&mut self.processes[p].conns);
        for peer in conns.into_values() {
            self.queues.entry((p, peer)).or_default().closed = true;
            let back = self.queues.remove(&(peer, p));
            if let (Some((_, sink, _)), Some(node)) = (back.and_then(|q| q.arriving), &mut self.processes[p].node) {
                node.abandon(sink);
            }
        }
    }

    /// Nothing can move: everyone must be done, or know why not (GRAD-5).
    fn check_end(&mut self) {
        let survivors = |p: &Process| p.role == Role::Worker && p.state != State::Dead;
        let states: Vec<_> = self.processes.iter().map(|p| (p.role, p.id, p.state, p.phase, p.error.clone())).collect();
        let server_died = self.processes.iter().any(|p| p.role == Role::Server && p.state == State::Dead);
        let alive = self.processes.iter().any(survivors);
        for (n, p) in self.processes.iter().enumerate().filter(|(_, p)| p.state != State::Dead) {
            assert_eq!(p.state, State::Left, "process {n} waits for ever (GRAD-5)\n{states:#?}");
            let held = p.node.as_ref().map_or(0, |node| node.memory().0);
            assert_eq!(held, 0, "process {n} still holds chunk memory\n{states:#?}");
            let Some(error) = &p.error else { continue };
            self.outcome.errors += usize::from(p.phase != Phase::Outside);
            if p.phase == Phase::Outside {
                continue;
            }
            // GANG-2: a run that goes on without its dead ends only when a shard is lost, or the one who had the weights.
            let SyncError::Dead { who, how } = error else { panic!("process {n} ended with {error}\n{states:#?}") };
            let named = self.processes.iter().any(|d| d.state == State::Dead && d.role == who.role);
            let giver = how.contains("before it gave its part");
            assert!(named && (server_died || giver || !alive), "process {n} blames {who}: {how}\n{states:#?}");
        }
        assert!(self.table.joining.is_empty(), "the master waits for {:?}", self.table.joining);
    }
}

fn members(roster: &shoal_sync::control::Roster) -> Members {
    Members {
        run: roster.run,
        generation: roster.generation,
        workers: roster.workers.len() as u32,
        servers: roster.servers.len() as u32,
        who: roster.workers.iter().chain(&roster.servers).map(|r| r.who.clone()).collect(),
        teams: Vec::new(),
    }
}
