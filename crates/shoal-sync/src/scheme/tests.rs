//! What the model promises, whatever the figures.

use super::*;
use proptest::prelude::*;

/// 1 Gbit/s of which 95 % carry tensors, on machines with one slow core.
fn lab(workers: u32) -> Conditions {
    let bandwidth = 0.95 * 125e6;
    Conditions {
        workers,
        servers: 0,
        per_host: 1,
        bandwidth,
        gather_bandwidth: bandwidth,
        round_trip: 2e-4,
        flops: 5e10,
        summing: 4e9,
    }
}

fn auto() -> Policy {
    Policy::default()
}

prop_compose! {
    fn any_lab()(
        workers in 1u32..40, servers in 0u32..9, per_host in 1u32..9, bandwidth in 1e5..1e11f64, gather in 0.3..3.0f64,
        round_trip in 0.0..0.1f64, flops in 1e8..1e14f64, summing in 1e8..1e11f64,
    ) -> Conditions {
        Conditions { workers, servers, per_host, bandwidth, gather_bandwidth: bandwidth * gather, round_trip, flops, summing }
    }
}

prop_compose! {
    fn any_tensor()(rows in 0u64..5000, outputs in 1u64..9000, inputs in 1u64..9000, extra in 0u64..9000) -> Tensor {
        let weight = Tensor::linear(rows, outputs, inputs);
        weight.with_bias(extra)
    }
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::Dense),
        Just(Scheme::Factors),
        Just(Scheme::Bf16),
        Just(Scheme::Int8),
        (1u32..9).prop_map(Scheme::PowerSgd)
    ]
}

proptest! {
    /// By its own model nothing cheaper was there to be had; a scheme in use may be dearer by the margin that keeps it.
    #[test]
    fn nothing_dearer_is_chosen(tensor in any_tensor(), lab in any_lab(), lossy in prop::collection::vec(any_scheme(), 0..4),
                                current in prop::option::of(any_scheme())) {
        let policy = Policy { factors: UseFactors::Auto, lossy };
        let fresh = choose(&tensor, &lab, &policy, None);
        let cheapest = fresh.costs.iter().map(|cost| cost.seconds).fold(f64::INFINITY, f64::min);
        prop_assert_eq!(fresh.seconds, cheapest);
        let later = choose(&tensor, &lab, &policy, current);
        prop_assert!(later.seconds <= cheapest * 1.15 + 1e-12);
        prop_assert!(later.scheme == fresh.scheme || Some(later.scheme) == current);
        // What was chosen stays chosen: no flipping.
        prop_assert_eq!(choose(&tensor, &lab, &policy, Some(fresh.scheme)).scheme, fresh.scheme);
        prop_assert_eq!(later.cost().seconds, later.seconds);
        prop_assert!(!fresh.why.is_empty() && !fresh.why.contains('\n'));
    }

    /// What loses something is never chosen unasked, and factors only where the setting lets them.
    #[test]
    fn settings_are_obeyed(tensor in any_tensor(), lab in any_lab(), current in prop::option::of(any_scheme())) {
        let chosen = |factors| choose(&tensor, &lab, &Policy { factors, lossy: vec![] }, current).scheme;
        prop_assert!(chosen(UseFactors::Auto).is_exact());
        prop_assert!(chosen(UseFactors::Never) != Scheme::Factors);
        let possible = lab.workers > 1 && tensor.rows > 0 && tensor.outputs.min(tensor.inputs) >= THINNEST;
        prop_assert_eq!(chosen(UseFactors::Always) == Scheme::Factors, possible);
    }

    /// A link that costs nothing leaves only the rebuilding to be counted.
    #[test]
    fn with_infinite_bandwidth_dense_is_chosen(tensor in any_tensor(), mut lab in any_lab()) {
        prop_assume!(lab.workers > 1);
        (lab.bandwidth, lab.gather_bandwidth, lab.summing) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        lab.round_trip = 0.0;
        prop_assert_eq!(choose(&tensor, &lab, &auto(), None).scheme, Scheme::Dense);
    }

    /// Few rows over a slow link: factors, however slow the processor within reason.
    #[test]
    fn few_rows_over_a_slow_link_travel_as_factors(rows in 1u64..9, workers in 2u32..17, flops in 1e10..1e13f64) {
        let slow = Conditions { flops, bandwidth: 1e7, gather_bandwidth: 1e7, ..lab(workers) };
        prop_assert_eq!(choose(&Tensor::linear(rows, 4096, 4096), &slow, &auto(), None).scheme, Scheme::Factors);
    }

    #[test]
    fn a_single_worker_sends_nothing(tensor in any_tensor(), mut lab in any_lab(), factors in prop_oneof![Just(UseFactors::Auto), Just(UseFactors::Always)]) {
        lab.workers = 1;
        let choice = choose(&tensor, &lab, &Policy { factors, lossy: vec![Scheme::Bf16] }, None);
        prop_assert_eq!((choice.scheme, choice.bytes, choice.seconds), (Scheme::Nothing, 0.0, 0.0));
    }

    /// A step is its parts, never shorter than its compute or than its link is busy, and no overlap makes it longer than all in a row.
    #[test]
    fn a_step_is_the_sum_of_its_parts(tensors in prop::collection::vec((any_tensor(), 0.0..0.1f64, 0.0..0.1f64, 0.0..0.01f64), 0..20), lab in any_lab()) {
        let layers: Vec<Layer> = tensors.into_iter().enumerate().map(|(i, (tensor, forward, backward, update))| Layer {
            name: i.to_string(), tensor: (i % 5 != 4).then_some(tensor), forward, backward, update,
        }).collect();
        let p = predict(&layers, &lab, &auto());
        prop_assert!((p.seconds - (p.compute + p.rebuild + p.waiting)).abs() < 1e-9 * (1.0 + p.seconds));
        prop_assert!(p.seconds + 1e-9 >= p.wire);
        let latencies: f64 = p.layers.iter().filter_map(|l| l.choice.as_ref()).map(|c| c.cost().latency).sum();
        prop_assert!(p.seconds <= (p.compute + p.rebuild + p.wire + latencies) * (1.0 + 1e-9) + 1e-9);
        prop_assert!(p.layers.iter().all(|layer| layer.arrived >= layer.ready));
    }
}

/// The table of break-even batches in the research notes: the largest K at which factors win, when only bytes count. One row of a
/// gather is not the batch's, so it is one less here; the notes round to the nearest.
#[test]
fn break_even_is_that_of_the_formula_when_arithmetic_is_free() {
    let table: [(u64, u64, [u64; 5]); 5] = [
        (25088, 4096, [3521, 1761, 880, 440, 220]),
        (4096, 4096, [2048, 1024, 512, 256, 128]),
        (1024, 1024, [512, 256, 128, 64, 32]),
        (768, 3072, [614, 307, 154, 77, 38]),
        (4096, 1000, [804, 402, 201, 100, 50]),
    ];
    for (outputs, inputs, row) in table {
        for (workers, expected) in [2, 4, 8, 16, 32].into_iter().zip(row) {
            let free = Conditions { flops: f64::INFINITY, summing: f64::INFINITY, round_trip: 0.0, ..lab(workers) };
            let wins =
                |rows| choose(&Tensor::linear(rows, outputs, inputs), &free, &auto(), None).scheme == Scheme::Factors;
            let largest = (1..5000).take_while(|rows| wins(*rows)).last().unwrap_or(0) + 1;
            assert!(
                largest.abs_diff(expected) <= 1,
                "{outputs} x {inputs}, {workers} workers: {largest}, not {expected}"
            );
        }
    }
}

/// The worked case of the notes: at 1 Gbit/s factors save 0.8 s a step, at 10 Gbit/s rebuilding eats what they save.
#[test]
fn rebuilding_counts() {
    let tensor = Tensor::linear(32, 4096, 4096);
    let at = |gbit: f64| {
        let bandwidth = gbit * 125e6;
        choose(&tensor, &Conditions { flops: 1e11, bandwidth, gather_bandwidth: bandwidth, ..lab(8) }, &auto(), None)
    };
    assert_eq!(at(1.0).scheme, Scheme::Factors);
    assert!((at(1.0).costs[0].seconds - at(1.0).seconds - 0.8).abs() < 0.06, "{:?}", at(1.0));
    let fast = at(12.0);
    assert_eq!(fast.scheme, Scheme::Dense);
    assert!(fast.why.starts_with("rebuilding from 32 rows takes 85.9 ms"), "{}", fast.why);
}

/// Bytes by the table of bounds in the notes.
#[test]
fn bytes_are_those_of_the_bounds() {
    let size = 4.0 * 1e6;
    let tensor = Tensor::plain(1_000_000);
    let dense = |lab: Conditions| cost(Scheme::Dense, &tensor, &lab).expect("always");
    assert_eq!(dense(lab(4)).sent, 2.0 * size * 3.0 / 4.0);
    assert!((dense(lab(4)).wire - 1.5 * size / lab(4).bandwidth).abs() < 1e-12);
    // One server takes four times what a worker sends; four of them, no more than it.
    let served = |servers| dense(Conditions { servers, ..lab(4) });
    assert_eq!((served(1).sent, served(4).sent), (size, size));
    assert!((served(1).wire - 4.0 * served(4).wire).abs() < 1e-12);
    // Two hosts of two workers: one sum leaves each host, and one worker of it sends; a third of that stays on the host.
    let pairs = dense(Conditions { per_host: 2, ..lab(4) });
    assert_eq!((pairs.sent, pairs.wire), (0.75 * size, size / lab(4).bandwidth));
    // A bias is a tensor of its own, and too small for its team.
    let with_bias = cost(Scheme::Dense, &tensor.with_bias(1000), &Conditions { per_host: 2, ..lab(4) });
    assert_eq!(with_bias.expect("always").sent, 0.75 * size + 1.5 * 4000.0);
    // Gathers are not joined: each worker's part crosses twice, to either worker over there.
    let gather = |per_host| cost(Scheme::Factors, &Tensor::linear(31, 1024, 1024), &Conditions { per_host, ..lab(4) });
    let part = 4.0 * 32.0 * 2048.0;
    assert_eq!(gather(1).expect("possible").sent, 3.0 * part);
    assert_eq!(gather(2).expect("possible").wire, 4.0 * part / lab(4).bandwidth);
    // All on one host: each worker counts for itself.
    assert_eq!(dense(Conditions { per_host: 4, ..lab(4) }).sent, 1.5 * size);
}

#[test]
fn lossy_schemes_are_weighed_when_asked_for() {
    let tensor = Tensor::linear(100_000, 4096, 4096);
    let ask = |lossy: &[Scheme]| {
        choose(&tensor, &lab(4), &Policy { factors: UseFactors::Auto, lossy: lossy.to_vec() }, None).scheme
    };
    assert_eq!(ask(&[]), Scheme::Dense);
    assert_eq!(ask(&[Scheme::Bf16]), Scheme::Bf16);
    assert_eq!(ask(&[Scheme::Bf16, Scheme::Int8]), Scheme::Int8);
    assert_eq!(ask(&[Scheme::Bf16, Scheme::Int8, Scheme::PowerSgd(4)]), Scheme::PowerSgd(4));
    assert!("powersgd:0".parse::<Scheme>().is_err());
    for scheme in [Scheme::Dense, Scheme::Factors, Scheme::Bf16, Scheme::Int8, Scheme::PowerSgd(4), Scheme::Nothing] {
        assert_eq!(scheme.to_string().parse(), Ok(scheme));
    }
}

#[test]
fn overlap_hides_the_wire_behind_compute() {
    let layer = |name: &str, backward| Layer {
        name: name.into(),
        tensor: Some(Tensor::plain(1_000_000)),
        forward: 0.0,
        backward,
        update: 0.0,
    };
    let wire = cost(Scheme::Dense, &Tensor::plain(1_000_000), &lab(4)).expect("always").wire;
    let p = predict(&[layer("first", 1.0), layer("last", 1.0)], &lab(4), &auto());
    // The last layer's gradient travels behind the first layer's backward pass; only the first one's is waited for.
    assert!((p.waiting - wire - 4e-4).abs() < 1e-9 && p.bound == Bound::Compute, "{p:?}");
    let p = predict(&[layer("first", 0.0), layer("last", 0.0)], &lab(4), &auto());
    assert!((p.seconds - 2.0 * wire - 4e-4).abs() < 1e-9 && p.bound == Bound::Wire, "{p:?}");
}

#[test]
fn conditions_that_cannot_be_are_refused() {
    assert_eq!(lab(4).check(), Ok(()));
    for wrong in [
        Conditions { workers: 0, ..lab(4) },
        Conditions { bandwidth: 0.0, ..lab(4) },
        Conditions { flops: f64::NAN, ..lab(4) },
        Conditions { round_trip: -1.0, ..lab(4) },
    ] {
        assert!(wrong.check().is_err(), "{wrong:?}");
    }
}
