//! What is printed: medians, spread, rates and ratios, as people or programs read them.

use serde_json::{Map, Value, json};

/// What is counted. Less is better, always.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Given in seconds, shown in milliseconds.
    Ms,
    /// For each run.
    Bytes,
    Files,
}

/// A peer and what was measured of it.
pub struct Peer {
    pub name: &'static str,
    pub all: Vec<f64>,
}

pub struct Row {
    pub case: &'static str,
    pub size: String,
    pub unit: Unit,
    pub ours: Vec<f64>,
    /// There may be none that does such a thing.
    pub peer: Option<Peer>,
    /// Things done in that time; then there is a rate.
    pub things: Option<usize>,
    /// What a reader has to know.
    pub note: &'static str,
}

pub fn head() {
    println!(
        "{:<12} {:<13} {:>10} {:>17} {:>7}   {:<10} {:>10} {:>17} {:>7}  {:>6}",
        "case", "size", "ours", "(min-max)", "per s", "peer", "", "(min-max)", "per s", "ratio"
    );
}

impl Unit {
    fn key(self) -> &'static str {
        match self {
            Unit::Ms => "ms",
            Unit::Bytes => "bytes",
            Unit::Files => "files",
        }
    }

    fn of(self, measured: f64) -> f64 {
        let shown = if self == Unit::Ms { measured * 1e3 } else { measured };
        (shown * 10.0).round() / 10.0
    }
}

impl Row {
    pub fn print(&self, json: bool) {
        if json { println!("{}", self.object()) } else { println!("{}", self.line()) }
    }

    fn rate(&self, all: &[f64]) -> Option<f64> {
        self.things.map(|things| (things as f64 / stats(all).0).round())
    }

    fn ratio(&self) -> Option<f64> {
        let ratio = stats(&self.peer.as_ref()?.all).0 / stats(&self.ours).0;
        Some((ratio * 100.0).round() / 100.0)
    }

    fn line(&self) -> String {
        let side = |all: &[f64]| {
            let (median, min, max) = stats(all);
            let range = match all {
                [_] => String::new(),
                _ => format!("({:.0}-{:.0})", self.unit.of(min), self.unit.of(max)),
            };
            let rate = self.rate(all).map_or_else(String::new, |rate| rate.to_string());
            let shown =
                format!("{} {}", self.unit.of(median), if self.unit == Unit::Bytes { "B" } else { self.unit.key() });
            format!("{shown:>10} {range:>17} {rate:>7}")
        };
        let peer = match &self.peer {
            Some(peer) => format!("{:<10} {}  {:>6.2}", peer.name, side(&peer.all), self.ratio().unwrap_or(f64::NAN)),
            None => "none".into(),
        };
        let note = if self.note.is_empty() { String::new() } else { format!("  ({})", self.note) };
        format!("{:<12} {:<13} {}   {peer}{note}", self.case, self.size, side(&self.ours))
    }

    /// The peer's keys are there and null where there is no peer.
    fn object(&self) -> Value {
        let mut row = Map::new();
        row.insert("case".into(), json!(self.case));
        row.insert("size".into(), json!(self.size));
        let mut side = |who: &str, all: Option<&[f64]>| {
            let key = self.unit.key();
            let (median, min, max) = all.map_or((f64::NAN, f64::NAN, f64::NAN), stats);
            // What is not a number becomes null.
            row.insert(format!("{who}_{key}"), json!(self.unit.of(median)));
            row.insert(format!("{who}_min_{key}"), json!(self.unit.of(min)));
            row.insert(format!("{who}_max_{key}"), json!(self.unit.of(max)));
            if self.things.is_some() {
                row.insert(format!("{who}_per_s"), json!(all.and_then(|all| self.rate(all))));
            }
        };
        side("ours", Some(&self.ours));
        side("peer", self.peer.as_ref().map(|peer| peer.all.as_slice()));
        row.insert("peer".into(), json!(self.peer.as_ref().map(|peer| peer.name)));
        row.insert("ratio".into(), json!(self.ratio()));
        if !self.note.is_empty() {
            row.insert("note".into(), json!(self.note));
        }
        Value::Object(row)
    }
}

/// Median, least and most.
fn stats(all: &[f64]) -> (f64, f64, f64) {
    let mut all = all.to_vec();
    all.sort_by(f64::total_cmp);
    let at = |i: usize| all.get(i).copied().unwrap_or(f64::NAN);
    (at(all.len() / 2), at(0), at(all.len().saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(peer: Option<Peer>) -> Row {
        let ours = vec![0.5, 0.4, 0.6];
        Row { case: "true-10k", size: "10000".into(), unit: Unit::Ms, ours, peer, things: Some(1000), note: "" }
    }

    #[test]
    fn rows_say_who_is_ahead_and_leave_out_whom_there_is_not() {
        let both = row(Some(Peer { name: "xargs", all: vec![1.0] })).object();
        assert_eq!((both["ours_ms"].as_f64(), both["ours_per_s"].as_f64()), (Some(500.0), Some(2000.0)));
        assert_eq!((both["peer_ms"].as_f64(), both["ratio"].as_f64()), (Some(1000.0), Some(2.0)));
        let alone = row(None).object();
        assert!(alone["peer"].is_null() && alone["peer_ms"].is_null() && alone["ratio"].is_null());
        assert_eq!(alone["ours_min_ms"].as_f64(), Some(400.0));
    }
}
