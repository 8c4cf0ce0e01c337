//! The first losses of every contestant, which its workers leave beside the logs: training faster but otherwise is no gain.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
struct Told {
    framework: String,
    sync: String,
    case: String,
    rank: u32,
    losses: Vec<f64>,
}

pub struct Curve {
    pub framework: String,
    pub sync: String,
    pub case: String,
    /// Of each step, the mean over all workers.
    pub losses: Vec<f64>,
}

/// Of each contestant, network and rank the last one told.
pub fn read(folder: &Path) -> Result<Vec<Curve>> {
    let path = folder.join("curves.jsonl");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut last: BTreeMap<(String, String, String), BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    for line in text.lines() {
        let told: Told = serde_json::from_str(line).with_context(|| format!("{}: {line}", path.display()))?;
        last.entry((told.framework, told.sync, told.case)).or_default().insert(told.rank, told.losses);
    }
    let curve = |((framework, sync, case), ranks): (_, BTreeMap<u32, Vec<f64>>)| {
        let steps = ranks.values().map(Vec::len).min().unwrap_or(0);
        let mean = |step| ranks.values().map(|losses| losses[step]).sum::<f64>() / ranks.len() as f64;
        Curve { framework, sync, case, losses: (0..steps).map(mean).collect() }
    };
    Ok(last.into_iter().map(curve).collect())
}

impl Curve {
    /// The largest difference to another curve, over the size of the numbers.
    pub fn apart(&self, other: &Curve) -> f64 {
        let pairs = self.losses.iter().zip(&other.losses);
        pairs.map(|(a, b)| (a - b).abs() / a.abs().max(b.abs()).max(1e-12)).fold(0.0, f64::max)
    }
}
