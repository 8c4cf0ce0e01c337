//! Which way should a tensor travel, and what does it cost? (CORE-1: pure)
//!
//! Read in this order: [`Conditions`] and [`Tensor`] (what is known), [`cost`] (seconds and bytes of each scheme), [`choose`]
//! (the cheapest that is allowed, and why), [`predict`] (a whole step), [`words`] (figures as people read them).

pub mod choose;
pub mod cost;
pub mod predict;
#[cfg(test)]
mod tests;
pub mod words;

pub use choose::{Choice, Policy, UseFactors, choose};
pub use cost::{Cost, cost};
pub use predict::{Bound, Layer, LayerForecast, Prediction, predict};

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Thinner layers have no room in their factors for what senders say about themselves, and nothing to gain.
pub const THINNEST: u64 = 8;

/// One way to bring a gradient to all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// A single worker has nobody to tell.
    Nothing,
    /// The gradient itself, summed at shards.
    Dense,
    /// The two thin matrices that it is the product of; everybody multiplies. Exact.
    Factors,
    /// Rounded to 16 bits on the wire.
    Bf16,
    /// Rounded to 8 bits with a scale for each block.
    Int8,
    /// Approximated by a matrix of this rank.
    PowerSgd(u32),
}

impl Scheme {
    /// Whether what arrives is the sum but for the rounding of fp32.
    pub fn is_exact(self) -> bool {
        matches!(self, Scheme::Nothing | Scheme::Dense | Scheme::Factors)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::Nothing => f.pad("nothing"),
            Scheme::Dense => f.pad("dense"),
            Scheme::Factors => f.pad("factors"),
            Scheme::Bf16 => f.pad("bf16"),
            Scheme::Int8 => f.pad("int8"),
            Scheme::PowerSgd(rank) => f.pad(&format!("powersgd:{rank}")),
        }
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Scheme, String> {
        match text {
            "nothing" => Ok(Scheme::Nothing),
            "dense" => Ok(Scheme::Dense),
            "factors" => Ok(Scheme::Factors),
            "bf16" => Ok(Scheme::Bf16),
            "int8" => Ok(Scheme::Int8),
            _ => {
                let rank = text.strip_prefix("powersgd:").and_then(|rank| rank.parse().ok());
                let rank = rank.filter(|rank| (1..=1024).contains(rank));
                let wanted = "dense, factors, bf16, int8, or powersgd:RANK with a rank from 1 to 1024";
                rank.map(Scheme::PowerSgd).ok_or_else(|| format!("`{text}` is no scheme; expected {wanted}"))
            }
        }
    }
}

impl Serialize for Scheme {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What the workers and the network between them can do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Conditions {
    pub workers: u32,
    /// 0: the shards are inside the workers.
    pub servers: u32,
    /// Workers that share a host, its memory and its link. When all do, `bandwidth` is what each gets of that host's memory.
    pub per_host: u32,
    /// Bytes a second through a host's link, each way, for sums.
    pub bandwidth: f64,
    /// The same for gathers, which take another path through the engine.
    pub gather_bandwidth: f64,
    /// Seconds.
    pub round_trip: f64,
    /// Floating-point operations a second in matrix products.
    pub flops: f64,
    /// Bytes of fp32 a second that a shard adds up, or a codec goes through.
    pub summing: f64,
}

impl Conditions {
    /// What cannot be reckoned with, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.workers == 0 || self.per_host == 0 {
            return Err("there must be at least one worker, on a host".into());
        }
        let rates = [
            ("bandwidth", self.bandwidth),
            ("gather_bandwidth", self.gather_bandwidth),
            ("flops", self.flops),
            ("summing", self.summing),
        ];
        for (name, rate) in rates {
            if rate.is_nan() || rate <= 0.0 {
                return Err(format!("{name} is {rate}; expected more than 0"));
            }
        }
        if !(self.round_trip >= 0.0 && self.round_trip.is_finite()) {
            return Err(format!("round_trip is {}; expected seconds, 0 or more", self.round_trip));
        }
        Ok(())
    }
}

/// A gradient. `rows` > 0: that of a linear layer, whose batch has so many rows, and so has factors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tensor {
    /// All numbers, those of a bias included.
    pub elements: u64,
    /// How many of them are a bias: dense, it travels as a tensor of its own; factors contain it.
    pub bias: u64,
    pub rows: u64,
    pub outputs: u64,
    pub inputs: u64,
}

impl Tensor {
    pub fn plain(elements: u64) -> Tensor {
        Tensor { elements, ..Tensor::default() }
    }

    #[must_use]
    pub fn with_bias(self, bias: u64) -> Tensor {
        Tensor { elements: self.elements.saturating_add(bias), bias: self.bias.saturating_add(bias), ..self }
    }

    /// The weight alone.
    pub fn linear(rows: u64, outputs: u64, inputs: u64) -> Tensor {
        Tensor { elements: outputs.saturating_mul(inputs), bias: 0, rows, outputs, inputs }
    }
}
