//! The gang: its members, the links between them, and what must hold before, during and after.

use super::bound::most_memory;
use super::chooser::Chooser;
use super::link::Link;
use super::moves::Move;
use super::plan::{Plan, What};
use super::reference;
use super::script::Script;
use shoal_sync::error::SyncError;
use shoal_sync::node::Node;
use shoal_sync::node::world::World;
use shoal_sync::settings::OnDeath;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    Up,
    Dead,
    Left,
}

pub struct Member {
    pub node: Node,
    pub state: State,
    pub script: Option<Script>,
    /// How many deaths the master has told it of.
    pub heard: usize,
    limit: usize,
}

pub struct Gang {
    pub plan: Plan,
    world: World,
    chooser: Chooser,
    pub members: Vec<Member>,
    links: Vec<Link>,
    pub dead: Vec<u32>,
    pub events: u64,
    results: BTreeMap<(usize, u64), u64>,
    /// By key and step: whose parts all did without.
    absent: BTreeMap<(usize, u64), Vec<u32>>,
}

/// What can be compared between runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub events: u64,
    /// By key and step: the bytes that all got.
    pub results: BTreeMap<(usize, u64), u64>,
    /// By node: the error it ended with.
    pub errors: Vec<Option<SyncError>>,
    pub peak: usize,
}

impl Gang {
    pub fn new(plan: Plan, mut chooser: Chooser) -> Gang {
        let world = plan.world();
        let members = (0..world.nodes()).map(|n| Member {
            node: Node::new(world.clone(), n, plan.config()),
            state: State::Up,
            script: world.is_worker(n).then(|| Script::new(&plan, n)),
            heard: 0,
            limit: most_memory(&plan, n),
        });
        let members: Vec<Member> = members.collect();
        let slow = |_| Link { slow: [1, 1, 1, 4, 30][chooser.luck(5)], ..Link::default() };
        let links = (0..members.len() * members.len()).map(slow).collect();
        Gang {
            plan,
            world,
            chooser,
            members,
            links,
            dead: Vec::new(),
            events: 0,
            results: BTreeMap::new(),
            absent: BTreeMap::new(),
        }
    }

    pub fn link(&self, from: u32, to: u32) -> &Link {
        &self.links[from as usize * self.members.len() + to as usize]
    }

    pub fn link_mut(&mut self, from: u32, to: u32) -> &mut Link {
        let nodes = self.members.len();
        &mut self.links[from as usize * nodes + to as usize]
    }

    pub fn peers(&self, n: u32) -> impl Iterator<Item = u32> + use<'_> {
        (0..self.members.len() as u32).filter(move |p| self.world.linked(n, *p))
    }

    /// Moves until nothing can move; then everything must have ended (GRAD-5).
    pub fn run(mut self) -> (Outcome, Chooser) {
        loop {
            for (node, at) in self.plan.deaths.clone() {
                if at == self.events {
                    self.die(node);
                }
            }
            let possible = self.possible();
            if possible.is_empty() {
                break;
            }
            let action = self.choose(&possible);
            self.perform(action);
            self.events += 1;
            assert!(self.events < 5_000_000, "no end in sight");
        }
        self.check_end();
        let errors = self.members.iter().map(|m| m.node.fatal().cloned()).collect();
        let peak = self.members.iter().map(|m| m.node.memory().1).max().unwrap_or(0);
        (Outcome { events: self.events, results: self.results, errors, peak }, self.chooser)
    }

    fn choose(&mut self, possible: &[Move]) -> Move {
        for _ in 0..3 {
            let action = possible[self.chooser.pick(possible.len())];
            let slow = match action {
                Move::Rest(a, b) | Move::Head(a, b) | Move::Body(a, b) => self.link(a, b).slow,
                _ => 1,
            };
            if slow <= 1 || self.chooser.luck(slow) == 0 {
                return action;
            }
        }
        possible[self.chooser.pick(possible.len())]
    }

    pub fn submit(&mut self, n: u32) {
        let ready = self.members[n as usize].script.as_ref().expect("a worker").ready(&self.plan);
        let key = ready[self.chooser.pick(ready.len())];
        let (plan, now, member) = (&self.plan, self.events + 1, &mut self.members[n as usize]);
        let script = member.script.as_mut().expect("a worker");
        let (request, open) = script.request(plan, key);
        match member.node.submit(request, now) {
            Ok(id) => drop(script.open.insert(id, open)),
            Err(e) => script.error = Some(e),
        }
        self.after(n);
    }

    /// Whenever a node was called: what it says has ended is checked, and so is the node.
    pub fn after(&mut self, n: u32) {
        for peer in 0..self.members.len() as u32 {
            self.link_mut(n, peer).stalled = false;
        }
        let member = &mut self.members[n as usize];
        member.node.sanity_check();
        let (used, peak) = member.node.memory();
        assert!(peak <= member.limit, "node {n} held {peak} bytes (now {used}), over {} (GRAD-4)", member.limit);
        for (id, end) in member.node.take_ended() {
            let script = member.script.as_mut().expect("a worker");
            let open = script.open.remove(&id).expect("an operation that was open, ended once");
            if let Err(error) = end {
                script.error = Some(error);
                let held = open.tensor.fingerprint();
                script.given_back.push((open.tensor, held));
                continue;
            }
            let absent = member.node.take_absent(id);
            let known = self.absent.entry((open.key, open.step)).or_insert_with(|| absent.clone());
            assert_eq!(*known, absent, "worker {n} misses others of key {} step {} (GRAD-3)", open.key, open.step);
            let held = open.tensor.fingerprint();
            let first = *self.results.entry((open.key, open.step)).or_insert_with(|| {
                let maybe: &[u32] = if self.plan.on_death == OnDeath::Continue { &self.dead } else { &[] };
                reference::check(&self.plan, open.key, open.step, &open.tensor, maybe, &absent);
                held
            });
            assert_eq!(first, held, "worker {n} got other bytes for key {} step {} (GRAD-3)", open.key, open.step);
        }
    }

    /// A node vanishes: a prefix of what it sent still arrives, and nobody reads what it is sent.
    fn die(&mut self, n: u32) {
        if self.members[n as usize].state != State::Up {
            return;
        }
        self.members[n as usize].state = State::Dead;
        self.dead.push(n);
        for peer in 0..self.members.len() as u32 {
            let frames = self.link(n, peer).wire.len() + 1;
            let (keep, within) = (self.chooser.luck(frames), self.chooser.luck(2) == 0);
            let half = self.chooser.luck(2) == 0;
            let link = self.link_mut(n, peer);
            link.cut_at(keep, within);
            if let Some(arriving) = link.arriving.as_mut().filter(|_| half && keep == 0) {
                arriving.cut = true;
                link.wire.clear();
            }
        }
    }

    /// A worker may go when it is over for it; whoever carries a shard only when nobody needs it any more.
    pub fn may_leave(&self, n: u32) -> bool {
        let member = &self.members[n as usize];
        let over = member.script.as_ref().is_none_or(Script::is_over);
        let shard = self.world.shard_of(n).is_some();
        let free = member.node.fatal().is_some() || over && (!shard || member.node.all_gone());
        let quiet =
            |p: u32| self.link(p, n).ended || !member.node.wants_to_send(p) && self.link(n, p).leaving.is_none();
        free && self.peers(n).all(quiet)
    }

    pub fn leave(&mut self, n: u32) {
        self.members[n as usize].state = State::Left;
        for peer in 0..self.members.len() as u32 {
            self.link_mut(n, peer).closed = true;
            if let Some(arriving) = self.link_mut(peer, n).arriving.take() {
                self.members[n as usize].node.abandon(arriving.sink);
            }
        }
    }

    fn check_end(&self) {
        for (n, member) in self.members.iter().enumerate().filter(|(_, m)| m.state != State::Dead) {
            let node = &member.node;
            if let Some(script) = &member.script {
                let open: Vec<_> = script.open.values().map(|o| (&self.plan.keys[o.key].name, o.step)).collect();
                assert!(open.is_empty(), "worker {n} waits for ever for {open:?} (GRAD-5); dead: {:?}", self.dead);
                let kept = script.given_back.iter().all(|(tensor, held)| tensor.fingerprint() == *held);
                assert!(kept, "a tensor of worker {n} was written after it was given back");
            }
            if self.plan.leave {
                let why = format!("unfinished {:?}, dead {:?}", node.unfinished(), self.dead);
                assert_eq!(member.state, State::Left, "node {n} cannot leave (GRAD-5): {why}, {:?}", node.fatal());
            }
            assert_eq!(node.memory().0, 0, "node {n} still holds chunk memory; ended with {:?}", node.fatal());
            self.check_error(n, node.fatal());
        }
    }

    /// GANG-2: an error names a dead node, and there is one only where the policy wants it.
    fn check_error(&self, n: usize, error: Option<&SyncError>) {
        let Some(error) = error else { return };
        let SyncError::Dead { who, .. } = error else { panic!("node {n} ended with {error}") };
        let named = self.dead.iter().any(|d| self.world.name(*d) == *who);
        assert!(named, "node {n} blames {who}, but the dead are {:?}", self.dead);
        // A copy ends the run only if one of those it is among has died.
        let hit = |k: usize| self.plan.givers(k).iter().any(|w| self.dead.contains(w));
        let copy = |k: usize| matches!(self.plan.keys[k].what, What::Broadcast { .. } | What::Gather);
        let copies = (0..self.plan.keys.len()).any(|k| copy(k) && hit(k));
        let shards = self.dead.iter().any(|d| self.world.shard_of(*d).is_some());
        let goes_on = self.plan.on_death == OnDeath::Continue && !copies && !shards;
        assert!(!goes_on, "node {n} ended although the survivors should go on: {error}");
    }
}
