//! What the bench shows: a table for people, or one JSON object a line.

use super::Framework;
use super::curves::Curve;
use crate::bench::sync::report::{Row, Stats};
use serde_json::json;

const HEAD: [&str; 10] = [
    "network",
    "framework, between",
    "ours ms",
    "peer",
    "theirs ms",
    "ratio",
    "our MB",
    "its MB",
    "our CPU s",
    "best variant",
];

pub struct Report {
    json: bool,
    failures: usize,
    begun: bool,
    seen: Vec<(Framework, &'static str)>,
}

impl Report {
    pub fn new(json: bool) -> Self {
        Self { json, failures: 0, begun: false, seen: Vec::new() }
    }

    pub fn failures(&self) -> usize {
        self.failures
    }

    /// What was trained, each once.
    pub fn seen(&self) -> Vec<(Framework, &'static str)> {
        self.seen.clone()
    }

    pub fn add(&mut self, framework: Framework, between: &str, row: Row) {
        if !self.seen.contains(&(framework, row.case)) {
            self.seen.push((framework, row.case));
        }
        if let Some(failed) = row.failed() {
            self.failures += 1;
            eprintln!("{}, {}, {between}, {}: {failed}", row.case, framework.name(), row.peer);
        }
        if self.json {
            println!("{}", as_json(framework, between, &row));
            return;
        }
        if !std::mem::replace(&mut self.begun, true) {
            println!("{}\n{}", line(HEAD), line(["---"; 10]));
        }
        println!("{}", as_line(framework, between, &row));
    }

    /// The losses of the same steps, beside one process that sees everybody's batches.
    pub fn curves(&mut self, curves: &[Curve]) {
        let ours = curves.iter().filter(|curve| curve.sync == "shoal");
        for curve in ours {
            for other in curves.iter().filter(|c| c.framework == curve.framework && c.case == curve.case) {
                if other.sync == "shoal" || other.sync == "none" {
                    continue;
                }
                if self.json {
                    println!(
                        "{}",
                        json!({ "case": curve.case, "framework": curve.framework, "curve": curve.losses, "beside": other.sync,
                            "its_curve": other.losses, "apart": curve.apart(other) })
                    );
                } else {
                    println!(
                        "{} in {}: losses of {} steps differ from those of {} by {:.1e} at most",
                        curve.case,
                        curve.framework,
                        curve.losses.len().min(other.losses.len()),
                        other.sync,
                        curve.apart(other)
                    );
                }
            }
        }
    }
}

fn as_json(framework: Framework, between: &str, row: &Row) -> serde_json::Value {
    let get = |stats: &Result<Stats, String>, of: fn(&Stats) -> f64| {
        stats.as_ref().ok().map(of).filter(|value| value.is_finite()).map(|value| (value * 1e3).round() / 1e3)
    };
    json!({
        "case": row.case,
        "size": between,
        "framework": framework.name(),
        "ours_ms": get(&row.ours, |s| s.median * 1e3),
        "ours_min_ms": get(&row.ours, |s| s.min * 1e3),
        "ours_max_ms": get(&row.ours, |s| s.max * 1e3),
        "peer": row.peer,
        "peer_how": row.how,
        "peer_ms": get(&row.theirs, |s| s.median * 1e3),
        "peer_min_ms": get(&row.theirs, |s| s.min * 1e3),
        "peer_max_ms": get(&row.theirs, |s| s.max * 1e3),
        "ratio": row.ratio().map(|ratio| (ratio * 1e3).round() / 1e3),
        "ours_mb_sent": get(&row.ours, |s| s.bytes_sent / 1e6),
        "peer_mb_sent": get(&row.theirs, |s| s.bytes_sent / 1e6),
        "ours_cpu_s": get(&row.ours, |s| s.cpu_per_gb),
        "peer_cpu_s": get(&row.theirs, |s| s.cpu_per_gb),
        "failed": row.failed(),
    })
}

fn as_line(framework: Framework, between: &str, row: &Row) -> String {
    let time = |stats: &Result<Stats, String>| match stats {
        Ok(s) => format!("{:.0} [{:.0}-{:.0}]", s.median * 1e3, s.min * 1e3, s.max * 1e3),
        Err(_) => "failed".to_owned(),
    };
    let get = |stats: &Result<Stats, String>, of: fn(&Stats) -> f64| {
        stats.as_ref().ok().map(of).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
    };
    let ratio = row.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    line([
        row.case,
        &format!("{}, {between}", framework.name()),
        &time(&row.ours),
        row.peer,
        &time(&row.theirs),
        &ratio,
        &get(&row.ours, |s| s.bytes_sent / 1e6),
        &get(&row.theirs, |s| s.bytes_sent / 1e6),
        &get(&row.ours, |s| s.cpu_per_gb),
        &row.how,
    ])
}

fn line(cells: [&str; 10]) -> String {
    const WIDTHS: [usize; 10] = [13, 20, 18, 11, 18, 5, 7, 7, 9, 0];
    let cell = |(cell, width): (&str, usize)| format!("{cell:<width$}");
    let line = cells.into_iter().zip(WIDTHS).map(cell).collect::<Vec<_>>().join(" | ");
    format!("| {line} |")
}
