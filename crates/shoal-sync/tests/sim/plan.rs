//! What a gang does: who takes part, which tensors, how often, who dies when. Plain data, made by chance or by hand.

use super::dice::{Dice, mix};
use shoal_sync::dtype::DType;
use shoal_sync::error::{Role, Who};
use shoal_sync::layout::{Layout, key_of};
use shoal_sync::node::Config;
use shoal_sync::node::world::World;
use shoal_sync::settings::OnDeath;
use shoal_sync::wire::Combine;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    Reduce(Combine),
    Broadcast {
        root: u32,
    },
    /// `elements` is one worker's part.
    Gather,
    /// The same, going on without those who are gone.
    PartialGather,
}

#[derive(Debug, Clone)]
pub struct Key {
    pub name: String,
    pub dtype: DType,
    pub what: What,
    pub elements: usize,
    pub priority: u16,
    /// How often each worker uses it.
    pub steps: Vec<u64>,
    /// Who takes part, in order, if not all; the others' `steps` are 0.
    pub members: Option<Vec<u32>>,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub workers: u32,
    pub servers: u32,
    pub block_size: usize,
    pub push: u32,
    pub pull: u32,
    pub deterministic: bool,
    pub on_death: OnDeath,
    pub keys: Vec<Key>,
    /// Node, and the number of moves before it vanishes.
    pub deaths: Vec<(u32, u64)>,
    /// Bytes that fit on one link.
    pub capacity: usize,
    /// Headers and payloads arrive apart, frames leave in two pieces.
    pub pieces: bool,
    /// A step's keys all end before the next step's begin; otherwise each key goes on by itself.
    pub barrier: bool,
    /// Workers finish and nodes leave in the end.
    pub leave: bool,
    /// A worker that comes so late with everything that nothing else can move meanwhile.
    pub straggler: Option<u32>,
    /// Changes the contents.
    pub contents: u64,
}

impl Plan {
    /// A small gang without deaths, to be adorned by the test.
    pub fn plain(workers: u32, servers: u32, keys: Vec<Key>) -> Plan {
        Plan {
            workers,
            servers,
            block_size: 4 << 20,
            push: 4,
            pull: 8,
            deterministic: false,
            on_death: OnDeath::Fail,
            keys,
            deaths: Vec::new(),
            capacity: 1 << 20,
            pieces: true,
            barrier: true,
            leave: true,
            straggler: None,
            contents: 0,
        }
    }

    pub fn random(seed: u64) -> Plan {
        let mut d = Dice::new(seed);
        let workers = d.between(1, 5) as u32;
        let servers = d.of(&[0, 0, 0, 1, 1, 2, 3]);
        let most = d.between(1, 4) as u64;
        let steps: Vec<u64> = (0..workers).map(|_| if d.one_in(3) { d.between(0, 4) as u64 } else { most }).collect();
        let large = d.one_in(3);
        let keys =
            (0..d.between(1, if large { 5 } else { 14 })).map(|i| Key::random(&mut d, i, &steps, large)).collect();
        let mut plan = Plan::plain(workers, servers, keys);
        plan.block_size = d.of(&[1024, 1024, 16 << 10, 100_000, 256 << 10, 4 << 20]);
        plan.push = d.of(&[1, 1, 4, 64]);
        plan.pull = d.of(&[1, 1, 8, 64]);
        plan.deterministic = d.one_in(2);
        plan.on_death = d.of(&[OnDeath::Fail, OnDeath::Continue]);
        plan.capacity = d.of(&[1, 10_000, 300_000, 1 << 20]);
        plan.pieces = !d.one_in(4);
        plan.barrier = d.one_in(2);
        plan.straggler = d.one_in(4).then(|| d.below(workers as usize) as u32);
        plan.contents = seed;
        // 1 KiB blocks of large tensors are thousands of frames each: a test of patience only.
        if plan.block_size < 16 << 10 {
            let most = (700 << 10) * plan.shards() / plan.keys.len().min(plan.shards() + 1);
            plan.keys.iter_mut().for_each(|k| k.elements = k.elements.min(most / k.dtype.size()));
        }
        if workers > 1 && d.one_in(2) {
            for _ in 0..d.between(1, 2) {
                let among = if d.one_in(4) { plan.world().nodes() } else { workers };
                let node = d.below(among as usize) as u32;
                let late = d.of(&[50, 500, 2000]);
                plan.deaths.push((node, d.below(late) as u64));
            }
        }
        plan
    }

    pub fn world(&self) -> World {
        let who = (0..self.workers + self.servers).map(|n| {
            let (role, id) = if n < self.workers { (Role::Worker, n) } else { (Role::Server, n - self.workers) };
            Who { role, id, host: format!("host-{n}"), pid: 1000 + n }
        });
        World {
            run: 7,
            generation: 1,
            workers: self.workers,
            servers: self.servers,
            who: who.collect(),
            teams: Vec::new(),
        }
    }

    pub fn shards(&self) -> usize {
        self.world().shards()
    }

    pub fn config(&self) -> Config {
        Config::new(self.block_size, self.push, self.pull, self.deterministic, self.on_death)
    }

    pub fn layout(&self, key: usize) -> Arc<Layout> {
        let k = &self.keys[key];
        let (number, bytes, shards) = (key_of(&k.name), k.elements * k.dtype.size(), self.shards());
        Arc::new(match k.what {
            What::Reduce(_) => match &k.members {
                Some(members) if self.servers == 0 => {
                    Layout::shared_by(number, bytes, self.block_size, shards, members)
                }
                _ => Layout::shared(number, bytes, self.block_size, shards),
            },
            What::Broadcast { root } => {
                Layout::from_root(number, bytes, self.block_size, shards, root, self.servers == 0)
            }
            What::Gather | What::PartialGather => {
                Layout::gathered(number, bytes, self.block_size, shards, &self.givers(key), self.servers == 0)
            }
        })
    }

    pub fn total_elements(&self, key: usize) -> usize {
        let k = &self.keys[key];
        if matches!(k.what, What::Gather | What::PartialGather) {
            k.elements * self.givers(key).len()
        } else {
            k.elements
        }
    }

    /// Those who take part in a key.
    pub fn givers(&self, key: usize) -> Vec<u32> {
        self.keys[key].members.clone().unwrap_or_else(|| (0..self.workers).collect())
    }

    /// Where a worker's part of a gather begins, in elements.
    pub fn row(&self, key: usize, worker: u32) -> usize {
        let place = self.givers(key).iter().position(|w| *w == worker).expect("a member");
        place * self.keys[key].elements
    }

    /// Names the contents of one worker's tensor.
    pub fn source(&self, key: usize, step: u64, worker: u32) -> u64 {
        mix(mix(self.contents ^ (key as u64) << 32) ^ step << 16 ^ u64::from(worker)) << 24
    }

    pub fn weight(&self, key: usize, step: u64, worker: u32) -> f64 {
        match self.keys[key].what {
            What::Reduce(Combine::WeightedMean) => ((self.source(key, step, worker) >> 40) % 33) as f64,
            _ => 1.0,
        }
    }
}

impl Key {
    pub fn new(name: &str, what: What, dtype: DType, elements: usize, steps: Vec<u64>) -> Key {
        Key { name: name.into(), dtype, what, elements, priority: 0, steps, members: None }
    }

    /// Only these take part.
    pub fn among(mut self, members: &[u32]) -> Key {
        let outside = |w: usize| !members.contains(&(w as u32));
        self.steps.iter_mut().enumerate().filter(|(w, _)| outside(*w)).for_each(|(_, s)| *s = 0);
        self.members = Some(members.to_vec());
        self
    }

    /// A few of the workers, with whom a copy starts.
    fn among_some(self, d: &mut Dice) -> Key {
        let workers = self.steps.len() as u32;
        let root = if let What::Broadcast { root } = self.what { root } else { d.below(workers as usize) as u32 };
        let members: Vec<u32> = (0..workers).filter(|w| *w == root || d.one_in(2)).collect();
        self.among(&members)
    }

    fn random(d: &mut Dice, index: usize, steps: &[u64], large: bool) -> Key {
        let what = match d.below(9) {
            0 => What::Broadcast { root: d.below(steps.len()) as u32 },
            1 => What::Gather,
            8 => What::PartialGather,
            2 | 3 => What::Reduce(Combine::Sum),
            4 | 5 => What::Reduce(Combine::WeightedMean),
            _ => What::Reduce(Combine::Mean),
        };
        // A copy needs its givers: it is used only while they take part.
        let cap = match what {
            What::Broadcast { root } => steps[root as usize],
            What::Gather => *steps.iter().min().expect("a worker"),
            What::Reduce(_) | What::PartialGather => u64::MAX,
        };
        let elements = match d.below(if large { 8 } else { 6 }) {
            0 => d.below(4),
            1 | 2 => d.below(2000),
            3 | 4 => d.below(20_000),
            5 => d.below(70_000),
            _ => d.between(130_000, 400_000),
        };
        let dtype = d.of(&DType::ALL);
        let steps = steps.iter().map(|s| (*s).min(cap)).collect();
        let priority = d.below(3) as u16;
        let key = Key { priority, ..Key::new(&format!("key-{index}"), what, dtype, elements, steps) };
        if d.one_in(3) { key.among_some(d) } else { key }
    }
}
