//! What must come out, computed the plain way.

use super::plan::{Plan, What};
use super::tensor::{Tensor, value};
use shoal_sync::dtype::DType;
use shoal_sync::layout::Layout;
use shoal_sync::wire::Combine;

/// Checks one worker's result of (`key`, `step`). `maybe` are the workers whose part may or may not be in it, chunk by chunk;
/// `absent` those it says it did without.
pub fn check(plan: &Plan, key: usize, step: u64, result: &Tensor, maybe: &[u32], absent: &[u32]) {
    let spec = &plan.keys[key];
    assert!(result.guards_hold(), "bytes beyond the tensor of `{}` were written", spec.name);
    let givers: Vec<u32> = (0..plan.workers).filter(|w| spec.steps[*w as usize] > step).collect();
    let layout = plan.layout(key);
    assert!(absent.is_empty() || spec.what == What::PartialGather, "`{}` has no holes to tell of", spec.name);
    match spec.what {
        What::Reduce(combine) => {
            for (from, to) in ranges(&layout, spec.dtype.size()) {
                let fits = subsets(&givers, maybe).any(|set| {
                    let parts = Parts::new(plan, key, step, &set, combine);
                    (from..to).all(|i| parts.agree(spec.dtype, i, result.get(spec.dtype, i)))
                });
                assert!(
                    fits,
                    "`{}` step {step}, elements {from}..{to}: not the {} of {givers:?}, with or without {maybe:?} (GRAD-2)",
                    spec.name,
                    combine.name()
                );
            }
        }
        What::Broadcast { root } => copied(plan, key, step, result, root, 0, spec.elements),
        What::Gather => {
            for worker in plan.givers(key) {
                let from = plan.row(key, worker);
                copied(plan, key, step, result, worker, from, from + spec.elements);
            }
        }
        What::PartialGather => {
            for worker in plan.givers(key) {
                let from = plan.row(key, worker);
                if !absent.contains(&worker) {
                    assert!(givers.contains(&worker), "`{}` step {step}: {worker} had finished", spec.name);
                    copied(plan, key, step, result, worker, from, from + spec.elements);
                    continue;
                }
                let left = maybe.contains(&worker);
                assert!(left || !givers.contains(&worker), "`{}` step {step}: {worker} is not absent", spec.name);
                // Chunk by chunk: as it was, or what the worker gave before it died.
                let part = from * spec.dtype.size()..(from + spec.elements) * spec.dtype.size();
                for (a, b) in
                    ranges(&layout, spec.dtype.size()).into_iter().filter(|r| part.contains(&(r.0 * spec.dtype.size())))
                {
                    let untouched = result.is_untouched(spec.dtype, a, b);
                    let source = plan.source(key, step, worker);
                    let given = || (a..b).all(|i| result.get(spec.dtype, i) == value(spec.dtype, source, i));
                    assert!(untouched || left && given(), "`{}` step {step}: the place of {worker}", spec.name);
                }
            }
        }
    }
}

fn copied(plan: &Plan, key: usize, step: u64, result: &Tensor, giver: u32, from: usize, to: usize) {
    let dtype = plan.keys[key].dtype;
    let source = plan.source(key, step, giver);
    let wrong = (from..to).find(|i| result.get(dtype, *i) != value(dtype, source, *i));
    assert_eq!(wrong, None, "`{}` step {step}: not what worker {giver} gave", plan.keys[key].name);
}

/// The elements of each chunk.
fn ranges(layout: &Layout, size: usize) -> Vec<(usize, usize)> {
    let chunks = (0..layout.blocks.len()).flat_map(|b| layout.chunks(b));
    chunks.map(|c| (layout.position(c) / size, (layout.position(c) + c.len) / size)).collect()
}

/// `all` without each subset of `maybe`.
fn subsets<'a>(all: &'a [u32], maybe: &'a [u32]) -> impl Iterator<Item = Vec<u32>> + 'a {
    let maybe: Vec<u32> = maybe.iter().copied().filter(|w| all.contains(w)).collect();
    (0..1usize << maybe.len()).map(move |bits| {
        let without = |w: &u32| maybe.iter().position(|m| m == w).is_some_and(|i| bits & (1 << i) != 0);
        all.iter().copied().filter(|w| !without(w)).collect()
    })
}

struct Parts {
    givers: Vec<(u64, f64)>,
    divisor: f64,
}

impl Parts {
    fn new(plan: &Plan, key: usize, step: u64, set: &[u32], combine: Combine) -> Parts {
        let givers: Vec<_> = set.iter().map(|w| (plan.source(key, step, *w), plan.weight(key, step, *w))).collect();
        let weight: f64 = givers.iter().map(|g| g.1).sum();
        let divisor = match combine {
            Combine::Sum | Combine::Copy => 1.0,
            Combine::Mean => set.len() as f64,
            Combine::WeightedMean => weight,
        };
        Parts { givers, divisor }
    }

    /// Within what rounding allows: once for every addition in the type of the sum, once at the end.
    fn agree(&self, dtype: DType, index: usize, got: f64) -> bool {
        let (mut sum, mut size) = (0.0, 0.0);
        for (source, weight) in &self.givers {
            let x = value(dtype, *source, index) * weight;
            sum += x;
            size += x.abs();
        }
        let expected = if self.divisor > 0.0 { sum / self.divisor } else { 0.0 };
        // The type of the sum, the type of the result, and its smallest step near zero.
        let (inner, last, least) = match dtype {
            DType::F64 => (2f64.powi(-52), 0.0, 0.0),
            DType::F32 => (2f64.powi(-23), 0.0, 0.0),
            DType::Bf16 => (2f64.powi(-23), 2f64.powi(-8), 0.0),
            DType::F16 => (2f64.powi(-23), 2f64.powi(-10), 2f64.powi(-24)),
        };
        let rounding = inner * (self.givers.len() + 3) as f64 * size / self.divisor.max(1.0);
        (got - expected).abs() <= rounding + last * expected.abs() + least
    }
}
