//! The cheapest scheme that is allowed, and why (CORE-1: pure).

use super::cost::{Cost, cost, has_factors, rebuilding};
use super::words::{bytes, seconds};
use super::{Conditions, Scheme, THINNEST, Tensor};
use serde::Serialize;

/// A scheme in use gives way only to one that is cheaper by this factor: measurements differ by less from time to time, and a change
/// costs buffers and a step.
const KEEP: f64 = 1.15;

/// Poseidon's `use_sfb`, and what is better than knowing in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UseFactors {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub factors: UseFactors,
    /// Schemes that lose something, which the user has asked for.
    pub lossy: Vec<Scheme>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    pub scheme: Scheme,
    /// Sent by a worker, as in [`Cost::sent`].
    pub bytes: f64,
    pub seconds: f64,
    /// One line of plain words.
    pub why: String,
    /// All that was compared, the chosen one included.
    pub costs: Vec<Cost>,
}

impl Choice {
    pub fn cost(&self) -> &Cost {
        // `costs` is never empty and holds the chosen one; the first is dense.
        self.costs.iter().find(|cost| cost.scheme == self.scheme).unwrap_or(&self.costs[0])
    }
}

/// `current`: what the tensor travels by now, if it does.
pub fn choose(tensor: &Tensor, lab: &Conditions, policy: &Policy, current: Option<Scheme>) -> Choice {
    if lab.workers <= 1 {
        let nothing = Cost {
            scheme: Scheme::Nothing,
            sent: 0.0,
            received: 0.0,
            wire: 0.0,
            latency: 0.0,
            compute: 0.0,
            seconds: 0.0,
        };
        return choice(nothing, vec![nothing], "a single worker has nobody to tell".into());
    }
    let candidates = [Scheme::Dense, Scheme::Factors].iter().chain(policy.lossy.iter().filter(|s| !s.is_exact()));
    let costs: Vec<Cost> = candidates.filter_map(|scheme| cost(*scheme, tensor, lab)).collect();
    let dense = costs[0];
    let factors = costs.iter().find(|cost| cost.scheme == Scheme::Factors).copied();
    if let (UseFactors::Always, Some(factors)) = (policy.factors, factors) {
        let why = format!("use_sfb is on; sends {} instead of {}", bytes(factors.sent), bytes(dense.sent));
        return choice(factors, costs, why);
    }
    let allowed = costs.iter().filter(|cost| cost.scheme != Scheme::Factors || policy.factors == UseFactors::Auto);
    // The first of equals, which is the plainest.
    let cheapest = allowed.clone().copied().reduce(|best, cost| if cost.seconds < best.seconds { cost } else { best });
    let cheapest = cheapest.unwrap_or(dense);
    let kept = allowed.clone().find(|cost| Some(cost.scheme) == current && cost.seconds <= cheapest.seconds * KEEP);
    match kept {
        Some(kept) if kept.scheme != cheapest.scheme => {
            let why = format!("kept: {} would save only {}", cheapest.scheme, seconds(kept.seconds - cheapest.seconds));
            choice(*kept, costs, why)
        }
        _ => {
            let why = if cheapest.scheme == Scheme::Dense {
                why_dense(tensor, lab, policy, &dense, factors.as_ref())
            } else {
                instead(&cheapest, &dense)
            };
            choice(cheapest, costs, why)
        }
    }
}

fn choice(chosen: Cost, costs: Vec<Cost>, why: String) -> Choice {
    Choice { scheme: chosen.scheme, bytes: chosen.sent, seconds: chosen.seconds, why, costs }
}

fn instead(chosen: &Cost, dense: &Cost) -> String {
    let (a, b) = (bytes(chosen.sent), bytes(dense.sent));
    format!("sends {a} instead of {b}: {}, not {}", seconds(chosen.seconds), seconds(dense.seconds))
}

fn why_dense(tensor: &Tensor, lab: &Conditions, policy: &Policy, dense: &Cost, factors: Option<&Cost>) -> String {
    let Some(factors) = factors else {
        return match tensor.rows {
            0 => "no linear layer".into(),
            _ => format!("thinner than {THINNEST}: no room for factors"),
        };
    };
    debug_assert!(has_factors(tensor));
    if policy.factors == UseFactors::Never {
        return "use_sfb is off".into();
    }
    let (rows, slower) = (tensor.rows, format!("{}, not {}", seconds(factors.seconds), seconds(dense.seconds)));
    if factors.wire >= dense.wire {
        return format!("factors of {rows} rows are no smaller ({}): {slower}", bytes(factors.sent));
    }
    let product = seconds(rebuilding(tensor, lab).after);
    format!("rebuilding from {rows} rows takes {product}: {slower}")
}
