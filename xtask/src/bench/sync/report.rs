//! What the bench shows: a table for people, or one JSON object a line.

use super::group::Measure;
use serde_json::json;

/// The rounds of one contestant at one size.
#[derive(Clone)]
pub struct Stats {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub cpu_per_gb: f64,
    pub peak_bytes: f64,
    pub bytes_sent: f64,
    tensor_bytes: f64,
}

impl Stats {
    pub fn of(measures: &[Measure]) -> Self {
        let all = |of: fn(&Measure) -> f64| measures.iter().map(of).collect::<Vec<f64>>();
        let seconds = all(|measure| measure.seconds);
        Self {
            median: median(seconds.clone()),
            min: seconds.iter().copied().fold(f64::INFINITY, f64::min),
            max: seconds.iter().copied().fold(0.0, f64::max),
            cpu_per_gb: median(all(|measure| measure.cpu_per_gb)),
            peak_bytes: all(|measure| measure.peak_bytes).into_iter().fold(0.0, f64::max),
            bytes_sent: median(all(|measure| measure.bytes_sent)),
            tensor_bytes: median(all(|measure| measure.tensor_bytes)),
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// Ours beside one peer at one size; what failed says why.
pub struct Row {
    pub case: &'static str,
    pub size: &'static str,
    pub peer: &'static str,
    /// The variant with which the peer was best.
    pub how: String,
    pub ours: Result<Stats, String>,
    pub theirs: Result<Stats, String>,
}

impl Row {
    /// Above 1: we are ahead.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.theirs.as_ref().ok()?.median / self.ours.as_ref().ok()?.median)
    }

    pub fn failed(&self) -> Option<String> {
        let (ours, theirs) = (self.ours.as_ref().err(), self.theirs.as_ref().err());
        let told: Vec<&str> = ours.into_iter().chain(theirs).map(String::as_str).collect();
        if told.is_empty() { None } else { Some(told.join("\n")) }
    }

    fn json(&self) -> serde_json::Value {
        // JSON has no NaN: what was not measured is null.
        let get = |stats: &Result<Stats, String>, of: fn(&Stats) -> f64| {
            stats.as_ref().ok().map(of).filter(|value| value.is_finite()).map(round)
        };
        json!({
            "case": self.case,
            "size": self.size,
            "ours_ms": get(&self.ours, |stats| stats.median * 1e3),
            "ours_min_ms": get(&self.ours, |stats| stats.min * 1e3),
            "ours_max_ms": get(&self.ours, |stats| stats.max * 1e3),
            "peer": self.peer,
            "peer_how": self.how,
            "peer_ms": get(&self.theirs, |stats| stats.median * 1e3),
            "peer_min_ms": get(&self.theirs, |stats| stats.min * 1e3),
            "peer_max_ms": get(&self.theirs, |stats| stats.max * 1e3),
            "ratio": self.ratio().map(round),
            "ours_cpu_s_per_gb": get(&self.ours, |stats| stats.cpu_per_gb),
            "peer_cpu_s_per_gb": get(&self.theirs, |stats| stats.cpu_per_gb),
            "ours_peak_mb": get(&self.ours, |stats| stats.peak_bytes / 1048576.0),
            "ours_peak_over_size": get(&self.ours, |stats| stats.peak_bytes / stats.tensor_bytes),
            "bytes_sent": get(&self.ours, |stats| stats.bytes_sent),
            "failed": self.failed(),
        })
    }

    fn table(&self) -> String {
        let time = |stats: &Result<Stats, String>| match stats {
            Ok(stats) => format!("{:.3} [{:.3}-{:.3}]", stats.median * 1e3, stats.min * 1e3, stats.max * 1e3),
            Err(_) => "failed".to_owned(),
        };
        let get = |stats: &Result<Stats, String>, of: fn(&Stats) -> f64| {
            let value = stats.as_ref().ok().map(of).filter(|value| value.is_finite());
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
        };
        let ratio = self.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        line([
            self.size,
            &time(&self.ours),
            self.peer,
            &time(&self.theirs),
            &ratio,
            &get(&self.ours, |stats| stats.cpu_per_gb),
            &get(&self.theirs, |stats| stats.cpu_per_gb),
            &get(&self.ours, |stats| stats.peak_bytes / stats.tensor_bytes),
            &get(&self.ours, |stats| stats.bytes_sent / stats.tensor_bytes),
            &self.how,
        ])
    }
}

/// Four figures after the point are more than the clock knows.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn line(cells: [&str; 10]) -> String {
    const WIDTHS: [usize; 10] = [9, 28, 7, 28, 5, 8, 8, 8, 8, 0];
    let cell = |(cell, width): (&str, usize)| format!("{cell:<width$}");
    let line = cells.into_iter().zip(WIDTHS).map(cell).collect::<Vec<_>>().join(" | ");
    format!("| {line} |")
}

/// The cause of a row's failure.
pub fn cause(error: &anyhow::Error) -> String {
    crate::report::told(error).trim_start_matches("error: ").to_owned()
}

/// Prints rows as they come: a bench takes minutes.
pub struct Report {
    json: bool,
    failures: usize,
    /// A contestant that is gone fails in all rows that follow, for the same reason.
    told: Vec<String>,
}

impl Report {
    pub fn new(json: bool) -> Self {
        Self { json, failures: 0, told: Vec::new() }
    }

    pub fn failures(&self) -> usize {
        self.failures
    }

    pub fn begin(&self, case: &str, rounds: usize) {
        if self.json {
            eprintln!("case {case}, {rounds} rounds");
            return;
        }
        println!("\n### {case}: median [min-max] of {rounds} rounds in ms\n");
        let head =
            ["size", "ours", "peer", "theirs", "ratio", "our s/GB", "its s/GB", "memory/S", "sent/S", "best variant"];
        println!("{}\n{}", line(head), line(["---"; 10]));
    }

    pub fn add(&mut self, row: Row) {
        if let Some(failed) = row.failed() {
            self.failures += 1;
            if !self.told.contains(&failed) {
                eprintln!("{}, {}, {}: {failed}", row.case, row.size, row.peer);
                self.told.push(failed);
            }
        }
        println!("{}", if self.json { row.json().to_string() } else { row.table() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(seconds: &[f64]) -> Stats {
        let measure = |seconds: &f64| Measure {
            seconds: *seconds,
            cpu_per_gb: 0.5,
            peak_bytes: 1.2e6,
            bytes_sent: 1.5e6,
            tensor_bytes: 1e6,
        };
        Stats::of(&seconds.iter().map(measure).collect::<Vec<_>>())
    }

    fn row(ours: Result<Stats, String>) -> Row {
        Row { case: "tcp", size: "1 MB", peer: "gloo", how: String::new(), ours, theirs: Ok(stats(&[0.3, 0.2, 0.4])) }
    }

    #[test]
    fn ratio_is_theirs_over_ours_by_medians() {
        let json = row(Ok(stats(&[0.2, 0.1, 0.1, 0.1]))).json();
        assert_eq!((json["ours_ms"].as_f64(), json["peer_ms"].as_f64()), (Some(100.0), Some(300.0)));
        assert_eq!((json["ratio"].as_f64(), json["failed"].is_null()), (Some(3.0), true));
    }

    #[test]
    fn a_failure_keeps_what_the_other_did() {
        let row = row(Err("rank 2 left".into()));
        assert_eq!(row.json()["failed"], "rank 2 left");
        assert_eq!((row.json()["ratio"].is_null(), row.json()["peer_ms"].as_f64()), (true, Some(300.0)));
        assert!(row.table().contains("failed"));
    }
}
