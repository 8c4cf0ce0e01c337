//! How long would a step take? (CORE-1: pure)
//!
//! Forward, then backward from the last layer to the first. A gradient starts on its way when its layer's backward pass ends and
//! travels while the rest is computed; among those that are ready the one needed first has the link. When backward is over,
//! layers are taken in the order in which the next forward pass needs them: wait for the gradient, rebuild it, update.

use super::cost::rebuilding;
use super::{Choice, Conditions, Policy, Scheme, Tensor, choose};
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// In the order of the forward pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub name: String,
    /// A layer without gradients only takes time.
    pub tensor: Option<Tensor>,
    /// Seconds.
    pub forward: f64,
    pub backward: f64,
    pub update: f64,
}

/// What most of a step goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    Compute,
    Wire,
    Rebuild,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerForecast {
    pub name: String,
    pub choice: Option<Choice>,
    /// Seconds of its passes, the backward one without a product that rebuilding replaces.
    pub forward: f64,
    pub backward: f64,
    /// Seconds from the step's start to the gradient's start, and to its arrival.
    pub ready: f64,
    pub arrived: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The whole step; the sum of `compute`, `rebuild` and `waiting`.
    pub seconds: f64,
    /// Forward, backward and update, without the products that rebuilding replaces.
    pub compute: f64,
    pub rebuild: f64,
    /// Seconds in which a worker only waits for gradients.
    pub waiting: f64,
    /// Seconds in which the link is busy, mostly behind compute if the step is a good one.
    pub wire: f64,
    /// Bytes that a worker sends and receives.
    pub sent: f64,
    pub received: f64,
    pub bound: Bound,
    pub layers: Vec<LayerForecast>,
}

pub fn predict(layers: &[Layer], lab: &Conditions, policy: &Policy) -> Prediction {
    let choices: Vec<Option<Choice>> =
        layers.iter().map(|layer| layer.tensor.as_ref().map(|tensor| choose(tensor, lab, policy, None))).collect();
    let products: Vec<(f64, f64)> = layers.iter().zip(&choices).map(|(l, c)| products(l, c.as_ref(), lab)).collect();
    let forward: f64 = layers.iter().map(|layer| layer.forward).sum();

    let mut now = forward;
    let mut ready = vec![0.0; layers.len()];
    for (i, layer) in layers.iter().enumerate().rev() {
        now += layer.backward - products[i].0;
        ready[i] = now;
    }
    let computed = now;
    let jobs: Vec<Job> =
        (0..layers.len()).map(|i| Job { ready: ready[i], work: wire_of(choices[i].as_ref()) }).collect();
    let mut arrived = on_one_link(&jobs);
    for (time, choice) in arrived.iter_mut().zip(&choices) {
        *time += choice.as_ref().map_or(0.0, |choice| choice.cost().latency);
    }

    let mut waiting = 0.0;
    for (i, layer) in layers.iter().enumerate() {
        if choices[i].is_some() {
            waiting += (arrived[i] - now).max(0.0);
            now = now.max(arrived[i]);
        }
        now += products[i].1 + layer.update;
    }
    let rebuild: f64 = products.iter().map(|(_, after)| after).sum();
    let compute = computed + layers.iter().map(|layer| layer.update).sum::<f64>();
    let costs = || choices.iter().flatten().map(Choice::cost);
    Prediction {
        seconds: now,
        compute,
        rebuild,
        waiting,
        wire: jobs.iter().map(|job| job.work).sum(),
        sent: costs().map(|cost| cost.sent).sum(),
        received: costs().map(|cost| cost.received).sum(),
        bound: bound(compute, waiting, rebuild),
        layers: forecasts(layers, choices, &products, &ready, &arrived),
    }
}

fn forecasts(
    layers: &[Layer],
    choices: Vec<Option<Choice>>,
    products: &[(f64, f64)],
    ready: &[f64],
    arrived: &[f64],
) -> Vec<LayerForecast> {
    let row = |(i, (layer, choice)): (usize, (&Layer, Option<Choice>))| LayerForecast {
        name: layer.name.clone(),
        choice,
        forward: layer.forward,
        backward: layer.backward - products[i].0,
        ready: ready[i],
        arrived: arrived[i],
    };
    layers.iter().zip(choices).enumerate().map(row).collect()
}

fn bound(compute: f64, waiting: f64, rebuild: f64) -> Bound {
    if compute >= waiting && compute >= rebuild {
        Bound::Compute
    } else if waiting >= rebuild {
        Bound::Wire
    } else {
        Bound::Rebuild
    }
}

/// Seconds of arithmetic that the scheme spares the backward pass, and that it needs at the end.
fn products(layer: &Layer, choice: Option<&Choice>, lab: &Conditions) -> (f64, f64) {
    match (choice, &layer.tensor) {
        (Some(choice), Some(tensor)) if choice.scheme == Scheme::Factors => {
            let products = rebuilding(tensor, lab);
            (products.instead_of.min(layer.backward), products.after)
        }
        // Encoding happens before, decoding after; both on the worker, so where they are counted makes no difference.
        (Some(choice), _) => (0.0, choice.cost().compute),
        _ => (0.0, 0.0),
    }
}

fn wire_of(choice: Option<&Choice>) -> f64 {
    choice.map_or(0.0, |choice| choice.cost().wire)
}

#[derive(Debug, Clone, Copy)]
struct Job {
    ready: f64,
    work: f64,
}

/// When each job is done, if one link serves them all: the first in the list that is ready has it, and gives it up to an earlier one
/// that becomes ready, as chunks do.
fn on_one_link(jobs: &[Job]) -> Vec<f64> {
    let mut done = vec![0.0; jobs.len()];
    let mut left: Vec<f64> = jobs.iter().map(|job| job.work).collect();
    let mut coming: Vec<usize> = (0..jobs.len()).collect();
    // Last to come first, so that the next one is at the end.
    coming.sort_by(|a, b| jobs[*b].ready.total_cmp(&jobs[*a].ready));
    let mut ready: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut now = 0.0f64;
    loop {
        // So put that even times that are no numbers come to an end.
        while let Some(next) =
            coming.last().filter(|next| jobs[**next].ready.partial_cmp(&now) != Some(Ordering::Greater))
        {
            ready.push(Reverse(*next));
            coming.pop();
        }
        let until = coming.last().map(|next| jobs[*next].ready);
        match (ready.peek().copied(), until) {
            (Some(Reverse(first)), until) => {
                let end = now + left[first];
                if until.is_none_or(|until| end <= until) {
                    (done[first], now) = (end, end);
                    ready.pop();
                } else if let Some(until) = until {
                    left[first] -= until - now;
                    now = until;
                }
            }
            (None, Some(until)) => now = until,
            (None, None) => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_serves_the_first_needed_first_and_never_idles_with_work() {
        let jobs = [Job { ready: 3.0, work: 1.0 }, Job { ready: 2.0, work: 1.0 }, Job { ready: 0.0, work: 5.0 }];
        // The last starts alone, gives way twice, and ends when all seven seconds of work are done.
        assert_eq!(on_one_link(&jobs), [4.0, 3.0, 7.0]);
        assert_eq!(on_one_link(&[Job { ready: 1.5, work: 0.0 }]), [1.5]);
        assert_eq!(on_one_link(&[]), [0.0f64; 0]);
    }
}
