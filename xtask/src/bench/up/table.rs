//! What is printed: medians, spread and ratios, as people or programs read them.

use super::ground::Who;
use serde_json::json;

/// What the start commands take without a launcher.
pub const FLOOR: &str = "floor";

/// One thing that was timed.
pub struct Time {
    pub case: &'static str,
    pub size: String,
    pub seconds: f64,
}

struct Row {
    case: &'static str,
    size: String,
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

/// In the order in which cases were first met.
#[derive(Default)]
pub struct Rows(Vec<Row>);

impl Rows {
    pub fn add(&mut self, who: Who, Time { case, size, seconds }: Time) {
        let found = self.0.iter().position(|row| row.case == case && row.size == size);
        let at = found.unwrap_or_else(|| {
            self.0.push(Row { case, size, ours: Vec::new(), theirs: Vec::new() });
            self.0.len() - 1
        });
        match who {
            Who::Ours => self.0[at].ours.push(seconds),
            Who::Ray => self.0[at].theirs.push(seconds),
        }
    }

    /// Those that have both sides, and what nobody can be faster than.
    pub fn print(&self, json: bool) {
        let has_both = |row: &&Row| !row.ours.is_empty() && !row.theirs.is_empty();
        self.0.iter().filter(|row| has_both(row) || row.case == FLOOR).for_each(|row| row.print(json));
    }
}

pub fn head() {
    println!(
        "{:<8} {:<22} {:>9} {:>20}   {:<5} {:>9} {:>20}  {:>6}",
        "case", "size", "ours ms", "(min-max)", "peer", "ms", "(min-max)", "ratio"
    );
}

impl Row {
    fn print(&self, json: bool) {
        let (a, b) = (stats(&self.ours), stats(&self.theirs));
        let (case, size, ratio) = (self.case, &self.size, b.0 / a.0);
        if json && case == FLOOR {
            println!(
                "{}",
                json!({ "case": case, "size": size, "ms": round(a.0), "min_ms": round(a.1), "max_ms": round(a.2) })
            );
            return;
        }
        if json {
            let row = json!({ "case": case, "size": size, "ours_ms": round(a.0), "ours_min_ms": round(a.1), "ours_max_ms": round(a.2),
                "peer": "ray", "peer_ms": round(b.0), "peer_min_ms": round(b.1), "peer_max_ms": round(b.2),
                "ratio": (ratio * 100.0).round() / 100.0 });
            println!("{row}");
            return;
        }
        let range = |s: (f64, f64, f64)| format!("({:.0}-{:.0})", s.1 * 1e3, s.2 * 1e3);
        if case == FLOOR {
            println!(
                "{case:<8} {size:<22} {:>9.0} {:>20}   the start commands without a launcher",
                a.0 * 1e3,
                range(a)
            );
            return;
        }
        println!(
            "{case:<8} {size:<22} {:>9.0} {:>20}   {:<5} {:>9.0} {:>20}  {ratio:>6.2}",
            a.0 * 1e3,
            range(a),
            "ray",
            b.0 * 1e3,
            range(b)
        );
    }
}

/// Median, least and most.
pub fn stats(times: &[f64]) -> (f64, f64, f64) {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let at = |i: usize| times.get(i).copied().unwrap_or(f64::NAN);
    (at(times.len() / 2), at(0), at(times.len().saturating_sub(1)))
}

fn round(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 10.0
}
