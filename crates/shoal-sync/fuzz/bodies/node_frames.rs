//! A node between a user who does ordinary things and proven peers who send anything at all.
//!
//! No panic, no write beyond a tensor, no memory beyond the windows, and everything is given back in the end.

use super::input::Input;
use shoal_sync::dtype::DType;
use shoal_sync::error::{Role, Who};
use shoal_sync::layout::{CHUNK, Layout};
use shoal_sync::node::op::Request;
use shoal_sync::node::world::World;
use shoal_sync::node::{Config, Node, SMALL_WINDOW, Sink, WINDOW_LIMIT};
use shoal_sync::settings::OnDeath;
use shoal_sync::wire::{Combine, HEADER, Header, Kind};

const GUARD: u64 = 0x6775_6172_6467_7561;
const KEYS: [usize; 4] = [0, 600, 70_000, 1_400_000];
const KINDS: [Kind; 13] = [
    Kind::Push,
    Kind::Result,
    Kind::Ready,
    Kind::Go,
    Kind::Spec,
    Kind::Finish,
    Kind::Abort,
    Kind::Waiting,
    Kind::Ask,
    Kind::Welcome,
    Kind::Admit,
    Kind::Admitted,
    Kind::Absent,
];
const COMBINES: [Combine; 4] = [Combine::Sum, Combine::Mean, Combine::WeightedMean, Combine::Copy];

/// The most chunk memory that peers can make a node hold, whatever they send: their windows, each byte of which
/// may be held twice as wide in a buffer twice as large, and a frame being read.
pub fn most_memory(workers: u32) -> usize {
    workers as usize * 4 * (WINDOW_LIMIT + SMALL_WINDOW + 4 * CHUNK)
}

pub fn world(workers: u32, servers: u32) -> World {
    let who = |n| {
        let role = if n < workers { Role::Worker } else { Role::Server };
        Who { role, id: if n < workers { n } else { n - workers }, host: "h".into(), pid: n }
    };
    World { run: 1, generation: 1, workers, servers, who: (0..workers + servers).map(who).collect(), teams: Vec::new() }
}

/// A user's tensor between guards.
struct Tensor(Vec<u64>);

impl Tensor {
    fn new(bytes: usize) -> Tensor {
        Tensor(vec![GUARD; bytes.div_ceil(8) + 16])
    }

    fn at(&mut self) -> *mut u8 {
        self.0[8..].as_mut_ptr().cast()
    }

    fn guards_hold(&self) -> bool {
        self.0[..8].iter().chain(&self.0[self.0.len() - 8..]).all(|w| *w == GUARD)
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (workers, servers) = (1 + input.below(3) as u32, input.below(3).saturating_sub(1) as u32);
    let world = world(workers, servers);
    let me = input.below(world.nodes() as usize) as u32;
    let flags = input.byte();
    let policy = if flags & 1 == 0 { OnDeath::Fail } else { OnDeath::Continue };
    let block_size = if flags & 2 == 0 { 16 << 10 } else { 4 << 20 };
    let mut node = Node::new(world, me, Config::new(block_size, 4, 8, flags & 4 == 0, policy));
    let mut tensors = Vec::new();
    while !input.is_empty() {
        let peers: Vec<u32> = (0..node.world.nodes()).filter(|p| node.world.linked(me, *p)).collect();
        let peer = *peers.get(input.below(peers.len())).unwrap_or(&me);
        match input.below(16) {
            0 | 1 if node.world.is_worker(me) => tensors.extend(submit(&mut node, &mut input)),
            2 | 3 if peer != me => {
                if let Some(frame) = node.next_frame(peer, 1) {
                    assert!(Header::decode(&frame.header).is_ok(), "this node itself sends nonsense");
                    node.sent(frame);
                }
            }
            4 if input.below(16) == 0 => node.lost(peer, "fuzzed"),
            // Refused or not: what counts is the state afterwards.
            5 if input.below(16) == 0 => drop(node.finish()),
            6 if input.below(8) == 0 => {
                node.arrive(peer, input.below(3) as u32);
            }
            7 if input.below(16) == 0 => {
                node.lost_incarnation(peer, input.below(3) as u32, "fuzzed");
            }
            _ if peer != me => frame(&mut node, peer, &mut input),
            _ => {}
        }
        node.sanity_check();
        let (used, _) = node.memory();
        assert!(used <= most_memory(workers), "{used} bytes held (GRAD-4)");
        assert!(tensors.iter().all(Tensor::guards_hold), "bytes beyond a tensor were written");
    }
    node.fail(shoal_sync::error::SyncError::ShutDown);
    node.sanity_check();
    assert_eq!(node.memory().0, 0, "chunk memory outlives the run");
}

fn submit(node: &mut Node, input: &mut Input) -> Option<Tensor> {
    let key = input.below(KEYS.len());
    let combine = COMBINES[input.below(4)];
    let (bytes, shards, colocated) = (KEYS[key], node.world.shards(), node.world.colocated());
    let root = input.below(node.world.workers as usize) as u32;
    let layout = match combine {
        Combine::Copy => Layout::from_root(key as u64, bytes, node.config.block_size, shards, root, colocated),
        _ => Layout::shared(key as u64, bytes, node.config.block_size, shards),
    };
    let mut tensor = Tensor::new(bytes);
    let request = Request {
        key: key as u64,
        name: format!("k{key}").into(),
        dtype: DType::ALL[input.below(4)],
        shape: vec![bytes].into(),
        combine,
        weight: f64::from(input.byte()),
        priority: u16::from(input.byte() & 1),
        layout: layout.into(),
        at: tensor.at(),
        team_step: None,
        members: None,
        partial: combine == Combine::Copy && input.below(4) == 0,
    };
    // Kept even when refused: cheaper than asking why.
    let _refused_is_fine = node.submit(request, 1);
    Some(tensor)
}

/// One frame, either raw or close to what could be meant, so that deeper code is reached too.
fn frame(node: &mut Node, peer: u32, input: &mut Input) {
    let raw = input.below(8) == 0;
    let mut header = if raw {
        let mut bytes = [0u8; HEADER];
        let taken = input.take(HEADER);
        bytes[..taken.len()].copy_from_slice(taken);
        let Ok(header) = Header::decode(&bytes) else { return };
        header
    } else {
        plausible(peer, node.world.generation, input)
    };
    let words = match header.kind {
        Kind::Spec | Kind::Abort | Kind::Waiting | Kind::Admit | Kind::Admitted if !raw => {
            let words = words(header.kind, input);
            header.len = words.len() as u32;
            words
        }
        _ => Vec::new(),
    };
    let Ok(mut sink) = node.begin(peer, &header) else { return };
    let len = header.len as usize;
    let seed = input.byte();
    if input.below(32) == 31 {
        return node.abandon(sink);
    }
    match &mut sink {
        Sink::Buffer(buffer) => buffer.bytes_mut(len).fill(seed),
        // SAFETY: what `begin` promises; the guards tell if it does not hold.
        Sink::Memory { at, len } => unsafe { std::slice::from_raw_parts_mut(*at, *len) }.fill(seed),
        Sink::Words(target) if words.len() == target.len() => target.copy_from_slice(&words),
        Sink::Words(target) => target.fill(seed),
        Sink::None | Sink::Discard => {}
    }
    // An error is the node's answer to nonsense.
    let _answer = node.finish_frame(peer, &header, sink, 1);
}

fn plausible(peer: u32, generation: u32, input: &mut Input) -> Header {
    let kind = KINDS[input.below(KINDS.len())];
    let key = input.below(KEYS.len());
    let lens = [0, 1, 600, 16 << 10, KEYS[key].min(CHUNK), KEYS[key] % (16 << 10), CHUNK];
    let totals = [0, KEYS[key] as u64, KEYS[key] as u64 / 2, u64::MAX, 1 << 40];
    let weights = [1.0, 0.0, 2.5, f64::MAX];
    let carries = matches!(kind, Kind::Push | Kind::Result);
    Header {
        kind,
        codec: shoal_sync::wire::Codec::Dense,
        dtype: DType::ALL[input.below(4)],
        combine: COMBINES[input.below(4)],
        partial: input.below(4) == 0,
        run: 1,
        generation: if kind == Kind::Admit { generation + 1 } else { generation },
        step: [0, 0, 0, 1, u64::MAX][input.below(5)],
        key: key as u64,
        block: [0, 0, 0, 1, 2, 40, u32::MAX][input.below(7)],
        offset: [0, 0, 0, CHUNK as u32, 1, 4, u32::MAX][input.below(7)],
        len: if carries { lens[input.below(lens.len())] as u32 } else { 0 },
        worker: if input.below(64) == 63 { 9 } else { peer as u16 },
        priority: u16::from(input.byte() & 1),
        weight: weights[input.below(4)],
        total: totals[input.below(5)],
    }
}

fn words(kind: Kind, input: &mut Input) -> Vec<u8> {
    if input.below(4) == 0 {
        let n = input.below(64);
        return input.take(n).to_vec();
    }
    let text = match kind {
        Kind::Spec => format!(
            r#"{{"name":"k{}","dtype":"{}","shape":[{}],"combine":"sum"{}}}"#,
            input.below(4),
            ["f32", "f64", "bf16", "f16", "f8"][input.below(5)],
            KEYS[input.below(4)],
            ["", "", r#","members":[0,1]"#, r#","members":[1]"#, r#","members":[1,0,9]"#, r#","partial":true"#]
                [input.below(6)]
        ),
        Kind::Admit | Kind::Admitted => format!(
            r#"{{"took_part":[{}],"joined":[{{"node":{},"incarnation":{},"who":{{"role":"worker","id":1,"host":"h","pid":1}}}}]}}"#,
            input.byte(),
            input.below(4),
            input.below(3)
        ),
        Kind::Waiting => format!("[{},{}]", input.below(4), u32::MAX),
        _ => {
            ["{\"error\":\"shut_down\"}", "{\"error\":\"deadlock\",\"waits\":\"x\"}", "{}"][input.below(3)].to_string()
        }
    };
    text.into_bytes()
}
