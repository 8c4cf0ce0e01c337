//! What does a scheme cost for one tensor? Bytes on the link, and seconds until everybody has the result (CORE-1: pure).

use super::{Conditions, Scheme, THINNEST, Tensor};
use serde::Serialize;

/// Every part of a gather has one more row, which says how many rows its sender had and what they weigh (`_factors.py`).
const FIELDS_ROW: f64 = 1.0;
/// From here on, workers of one host sum in memory and one of them speaks (see ARCHITECTURE.md).
const TEAM_BYTES: f64 = 64.0 * 1024.0;
/// Larger parts for one shard are announced first, which is another round trip.
const ANNOUNCED_BYTES: f64 = 512.0 * 1024.0;
/// Numbers that share a scale in block int8, each scale of 2 bytes.
const INT8_BLOCK: f64 = 256.0;
const FP32: f64 = 4.0;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    pub scheme: Scheme,
    /// Bytes that a worker sends and receives, headers left out; the mean over workers, whose shards may differ.
    pub sent: f64,
    pub received: f64,
    /// Seconds for which the busiest link is taken.
    pub wire: f64,
    /// Seconds of round trips, in which other tensors may use the link.
    pub latency: f64,
    /// Seconds of arithmetic that dense does not need: rebuilding, less the local product it replaces; encoding and decoding.
    pub compute: f64,
    /// All of it.
    pub seconds: f64,
}

/// None if the tensor cannot travel so.
pub fn cost(scheme: Scheme, tensor: &Tensor, lab: &Conditions) -> Option<Cost> {
    let size = FP32 * tensor.elements as f64;
    let (outputs, inputs) = (tensor.outputs as f64, tensor.inputs as f64);
    let alone = lab.workers <= 1;
    match scheme {
        Scheme::Nothing => alone.then(|| total(scheme, Traffic::default(), 0.0, 0.0)),
        Scheme::Dense => Some(whole(scheme, tensor, FP32, 0.0, lab)),
        Scheme::Factors => has_factors(tensor)
            .then(|| total(scheme, gathered(tensor, lab), lab.round_trip, rebuilding(tensor, lab).net())),
        // Once to encode, once to decode.
        Scheme::Bf16 => Some(whole(scheme, tensor, 2.0, 2.0 * size / lab.summing, lab)),
        Scheme::Int8 => Some(whole(scheme, tensor, 1.0 + 2.0 / INT8_BLOCK, 2.0 * size / lab.summing, lab)),
        Scheme::PowerSgd(rank) => {
            let rank = f64::from(rank);
            let worth_it = tensor.outputs > 0 && rank < outputs.min(inputs);
            worth_it.then(|| {
                // Two sums one after the other: of the rows' factor, then of the columns'.
                let (first, second) = (FP32 * rank * outputs, FP32 * rank * inputs);
                let traffic = summed(first, lab).and(summed(second, lab));
                let latency = round_trips(first, lab) + round_trips(second, lab);
                // Projecting twice, and multiplying the two factors again.
                total(scheme, traffic, latency, 6.0 * rank * outputs * inputs / lab.flops)
            })
        }
    }
}

/// All numbers as sums, of so many bytes each.
fn whole(scheme: Scheme, tensor: &Tensor, width: f64, compute: f64, lab: &Conditions) -> Cost {
    let bias = width * tensor.bias.min(tensor.elements) as f64;
    let weight = width * tensor.elements as f64 - bias;
    total(scheme, summed(weight, lab).and(summed(bias, lab)), round_trips(weight, lab), compute)
}

/// Seconds of the products around factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rebuilding {
    /// The product of everybody's factors, after they have arrived.
    pub after: f64,
    /// The product of the own ones during the backward pass, which is left out for it.
    pub instead_of: f64,
}

impl Rebuilding {
    pub fn net(self) -> f64 {
        self.after - self.instead_of
    }
}

pub fn rebuilding(tensor: &Tensor, lab: &Conditions) -> Rebuilding {
    let own = 2.0 * tensor.rows as f64 * tensor.outputs as f64 * tensor.inputs as f64 / lab.flops;
    Rebuilding { after: f64::from(lab.workers) * own, instead_of: own }
}

pub fn has_factors(tensor: &Tensor) -> bool {
    tensor.rows > 0 && tensor.outputs.min(tensor.inputs) >= THINNEST
}

/// Bytes of one worker, and seconds of the busiest link.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    sent: f64,
    received: f64,
    wire: f64,
}

impl Traffic {
    fn and(self, other: Traffic) -> Traffic {
        Traffic { sent: self.sent + other.sent, received: self.received + other.received, wire: self.wire + other.wire }
    }
}

fn total(scheme: Scheme, traffic: Traffic, latency: f64, compute: f64) -> Cost {
    let Traffic { sent, received, wire } = traffic;
    Cost { scheme, sent, received, wire, latency, compute, seconds: wire + latency + compute }
}

/// Hosts, and workers on each. Where all share one host there is no link but its memory, and each counts for itself.
fn hosts(lab: &Conditions) -> (f64, f64) {
    let per_host = lab.per_host.clamp(1, lab.workers.max(1));
    if per_host == lab.workers.max(1) {
        return (f64::from(lab.workers), 1.0);
    }
    (f64::from(lab.workers.div_ceil(per_host)), f64::from(per_host))
}

/// A sum of `size` bytes.
fn summed(size: f64, lab: &Conditions) -> Traffic {
    if lab.workers <= 1 {
        return Traffic::default();
    }
    let ((hosts, per_host), workers) = (hosts(lab), f64::from(lab.workers));
    let team = per_host > 1.0 && size >= TEAM_BYTES;
    let speakers = if team { hosts } else { workers };
    let (sent, link, adding) = if lab.servers > 0 {
        let servers = f64::from(lab.servers);
        let from_host = if team { size } else { size * per_host };
        // A server takes what every speaker sends, and sends as much.
        let server = speakers * size / servers;
        (if team { size / per_host } else { size }, from_host.max(server), (speakers - 1.0) * size / servers)
    } else {
        // Each pushes to the shards of others, and its own shard answers them.
        let to_others = 2.0 * size * (hosts - 1.0) / hosts;
        let link = if team { to_others } else { to_others * per_host };
        // Some of the shards are on the same host, which costs no link but is sent all the same.
        let each = 2.0 * size * (workers - 1.0) / workers;
        (if team { each / per_host } else { each }, link, (speakers - 1.0) * size / workers)
    };
    // Sums are made while the next chunks arrive, so only the slower of the two counts.
    Traffic { sent, received: sent, wire: (link / lab.bandwidth).max(adding / lab.summing) }
}

/// Everybody's factors to everybody.
fn gathered(tensor: &Tensor, lab: &Conditions) -> Traffic {
    if lab.workers <= 1 {
        return Traffic::default();
    }
    let ((_, per_host), workers) = (hosts(lab), f64::from(lab.workers));
    let part = FP32 * (tensor.rows as f64 + FIELDS_ROW) * (tensor.outputs as f64 + tensor.inputs as f64);
    let all = part * (workers - 1.0);
    let (sent, link) = if lab.servers > 0 {
        // The servers make the copies.
        (part, (per_host * all).max(workers * all / f64::from(lab.servers)))
    } else {
        (all, per_host * part * (workers - per_host))
    };
    Traffic { sent, received: all, wire: link / lab.gather_bandwidth }
}

fn round_trips(size: f64, lab: &Conditions) -> f64 {
    let shards = f64::from(if lab.servers > 0 { lab.servers } else { lab.workers });
    match lab.workers {
        0 | 1 => 0.0,
        _ if size / shards > ANNOUNCED_BYTES => 2.0 * lab.round_trip,
        _ => lab.round_trip,
    }
}
