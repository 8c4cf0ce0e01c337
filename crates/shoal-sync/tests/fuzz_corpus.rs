//! The fuzz targets' bodies over inputs that any compiler can run: pseudo-random ones, mutated valid ones, and peers that never stop.

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;
#[path = "sim/dice.rs"]
#[allow(dead_code)]
mod dice;

use dice::Dice;
use shoal_sync::dtype::DType;
use shoal_sync::error::SyncError;
use shoal_sync::layout::Layout;
use shoal_sync::node::op::Request;
use shoal_sync::node::{Config, Node, Sink};
use shoal_sync::settings::OnDeath;
use shoal_sync::wire::{Codec, Combine, Header, Kind};

fn header(kind: Kind, combine: Combine) -> Header {
    Header {
        kind,
        codec: Codec::Dense,
        dtype: DType::F32,
        combine,
        partial: false,
        run: 1,
        generation: 1,
        step: 0,
        key: 0,
        block: 0,
        offset: 0,
        len: 0,
        worker: 0,
        priority: 0,
        weight: 1.0,
        total: 0,
    }
}

fn told(seed: u64, data: &[u8], run: fn(&[u8])) {
    let outcome = std::panic::catch_unwind(|| run(data));
    if let Err(cause) = outcome {
        eprintln!("input of seed {seed}, {} bytes", data.len());
        std::panic::resume_unwind(cause);
    }
}

#[test]
fn hellos_of_any_bytes() {
    for seed in 0..5_000 {
        let mut dice = Dice::new(seed);
        let mut bytes = *b"SHOAL\0\x02\0................................";
        for _ in 0..dice.below(4) {
            bytes[dice.below(40)] = dice.next() as u8;
        }
        told(seed, &bytes, bodies::handshake::run);
    }
}

#[test]
fn words_to_the_master_of_any_bytes() {
    let node = r#""role":"worker","id":null,"host":"h","pid":7,"address":null,"port":9,"memory_domain":null,"meeting":null,"num_workers":2,"common":null,"version":"0.1.0""#;
    let words = [
        format!(r#"{{"say":"register",{node}}}"#),
        r#"{"say":"finish"}"#.to_string(),
        r#"{"say":"blocked","key":"a","missing":[0,1,99]}"#.to_string(),
        r#"{"say":"moving"}"#.to_string(),
        r#"{"say":"abort","error":{"error":"shut_down"}}"#.to_string(),
    ];
    for seed in 0..5_000 {
        let mut dice = Dice::new(seed);
        let mut bytes = Vec::new();
        for _ in 0..1 + dice.below(6) {
            let mut body = words[dice.below(words.len())].clone().into_bytes();
            if dice.below(4) == 0 {
                let at = dice.below(body.len());
                body[at] = dice.next() as u8;
            }
            bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&body);
        }
        if dice.below(8) == 0 {
            let at = dice.below(bytes.len());
            bytes[at] = dice.next() as u8;
        }
        told(seed, &bytes, bodies::control::run);
    }
}

#[test]
fn headers_of_any_bytes() {
    let kinds = [Kind::Push, Kind::Result, Kind::Ready, Kind::Spec, Kind::Abort];
    for seed in 0..20_000 {
        let mut dice = Dice::new(seed);
        let mut bytes = header(dice.of(&kinds), Combine::Mean).encode();
        for _ in 0..dice.below(4) {
            bytes[dice.below(64)] = dice.next() as u8;
        }
        told(seed, &bytes, bodies::header::run);
        let random: Vec<u8> = (0..dice.below(80)).map(|_| dice.next() as u8).collect();
        told(seed, &random, bodies::header::run);
    }
}

/// GRAD-4, and every refusal leaves the node whole.
#[test]
fn frames_of_any_kind_in_any_order() {
    for seed in 0..1000 {
        let mut dice = Dice::new(seed);
        let len = dice.of(&[200, 800, 2000]);
        let data: Vec<u8> = (0..len).map(|_| dice.next() as u8).collect();
        told(seed, &data, bodies::node_frames::run);
    }
}

/// A server with one more worker, who never says anything, so that no sum is ever complete.
fn server() -> Node {
    let config = Config::new(4 << 20, 4, 8, false, OnDeath::Fail);
    Node::new(bodies::node_frames::world(2, 1), 2, config)
}

/// Delivers frames of worker 0 until they are refused.
fn flood(node: &mut Node, mut next: impl FnMut(u32) -> Header) -> u32 {
    for i in 0..200_000 {
        let frame = next(i);
        let Ok(sink) = node.begin(0, &frame) else { return i };
        assert!(matches!(sink, Sink::Buffer(_) | Sink::None));
        let accepted = node.finish_frame(0, &frame, sink, 0).is_ok();
        let (used, _) = node.memory();
        assert!(used <= bodies::node_frames::most_memory(2), "{used} bytes held after {i} frames (GRAD-4)");
        if !accepted {
            return i;
        }
    }
    panic!("never refused, {} bytes held", node.memory().0);
}

/// GRAD-4: parts that never become sums.
#[test]
fn a_peer_that_pushes_without_end_is_refused() {
    for len in [128 << 10, 4096, 4, 0] {
        let push = Header { len, ..header(Kind::Push, Combine::Sum) };
        let frames = flood(&mut server(), |i| Header { key: u64::from(i), ..push });
        println!("{len} bytes: refused after {frames}");
    }
}

/// GRAD-4: copies that nobody announced.
#[test]
fn a_peer_that_copies_without_end_is_refused() {
    let push = Header { len: 128 << 10, ..header(Kind::Push, Combine::Copy) };
    flood(&mut server(), |i| Header { key: u64::from(i), ..push });
    // Announced by all, but sent without waiting for receipts.
    let mut node = server();
    for worker in [0, 1] {
        let ready = Header { worker, total: 1 << 33, offset: 1 << 16, ..header(Kind::Ready, Combine::Copy) };
        let sink = node.begin(u32::from(worker), &ready).expect("a valid announcement");
        node.finish_frame(u32::from(worker), &ready, sink, 0).expect("a valid announcement");
    }
    let frames = flood(&mut node, |i| Header { block: i, ..push });
    assert!(frames > 8, "a window's worth is fine");
}

fn push(node: &mut Node, frame: &Header) -> Result<(), SyncError> {
    let sink = node.begin(u32::from(frame.worker), frame)?;
    node.finish_frame(u32::from(frame.worker), frame, sink, 0)
}

/// A peer whose blocks are cut differently must not make the shard write beyond the tensor beside it.
#[test]
fn a_part_larger_than_the_own_tensor_is_refused() {
    let mut node = Node::new(bodies::node_frames::world(2, 0), 1, Config::new(4 << 20, 4, 8, false, OnDeath::Fail));
    let key = 1; // whose first block lies on shard 1
    push(&mut node, &Header { key, len: 4096, ..header(Kind::Push, Combine::Sum) })
        .expect("nothing to compare with yet");
    let mut tensor = [0u64; 512];
    let request = Request {
        key,
        name: "k".into(),
        dtype: DType::F32,
        shape: vec![8].into(),
        combine: Combine::Sum,
        weight: 1.0,
        priority: 0,
        layout: Layout::shared(key, 32, 4 << 20, 2).into(),
        at: tensor.as_mut_ptr().cast(),
        team_step: None,
        members: None,
        partial: false,
    };
    let id = node.submit(request, 0).expect("an operation that then ends");
    let ended = node.take_ended();
    assert!(matches!(&ended[..], [(ended, Err(SyncError::Mismatch { .. }))] if *ended == id), "{ended:?}");
    assert_eq!(node.memory().0, 0);
}

/// GRAD-4: the master may say that a worker is dead while its last frames are still to be read.
#[test]
fn frames_of_the_dead_are_not_kept() {
    let mut node = Node::new(bodies::node_frames::world(3, 1), 3, Config::new(4 << 20, 4, 8, false, OnDeath::Continue));
    let frame = Header { len: 4096, ..header(Kind::Push, Combine::Sum) };
    let begun = node.begin(0, &frame).expect("a valid part");
    node.lost(0, "the master said so");
    node.finish_frame(0, &frame, begun, 0).expect("what a dead worker says is ignored");
    push(&mut node, &Header { key: 1, ..frame }).expect("what a dead worker says is ignored");
    push(&mut node, &Header { total: 9, ..header(Kind::Ready, Combine::Copy) }).expect("ignored");
    node.sanity_check();
    assert_eq!(node.memory().0, 0);
    // The others go on as if they had never heard of it.
    push(&mut node, &Header { worker: 1, ..frame }).expect("a valid part");
    push(&mut node, &Header { worker: 2, ..frame }).expect("a valid part");
    assert_eq!(node.counters.chunks_summed, 1);
}

/// Sums of announced bytes must not overflow.
#[test]
fn absurd_totals_are_refused() {
    let mut node = Node::new(bodies::node_frames::world(1, 1), 1, Config::new(4 << 20, 4, 8, false, OnDeath::Fail));
    let ready = Header { total: u64::MAX, offset: 9, ..header(Kind::Ready, Combine::Sum) };
    assert!(node.begin(0, &ready).is_err());
}
