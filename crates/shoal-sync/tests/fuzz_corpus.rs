//! The fuzz targets' bodies over inputs that any compiler can run: pseudo-random ones, mutated valid ones, and peers that never stop.

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;
#[path = "sim/dice.rs"]
#[allow(dead_code)]
mod dice;

use dice::Dice;
use shoal_sync::dtype::DType;
use shoal_sync::node::{Config, Node, Sink};
use shoal_sync::settings::OnDeath;
use shoal_sync::wire::{Codec, Combine, Header, Kind};

fn header(kind: Kind, combine: Combine) -> Header {
    Header {
        kind,
        codec: Codec::Dense,
        dtype: DType::F32,
        combine,
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
    for seed in 0..4000 {
        let mut dice = Dice::new(seed);
        let len = dice.of(&[200, 800, 3000]);
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

/// Sums of announced bytes must not overflow.
#[test]
fn absurd_totals_are_refused() {
    let mut node = Node::new(bodies::node_frames::world(1, 1), 1, Config::new(4 << 20, 4, 8, false, OnDeath::Fail));
    let ready = Header { total: u64::MAX, offset: 9, ..header(Kind::Ready, Combine::Sum) };
    assert!(node.begin(0, &ready).is_err());
}
