//! The ways between hosts as people see them: a small matrix where there is room for it, the range, and the worst by name.

use super::cells::{Cell, Grid, Look, name, tie, wrap};
use super::compare::duration;
use super::network::Pair;
use super::peers::rate;
use super::{Level, Report};
use std::collections::BTreeMap;
use std::time::Duration;

/// How many of the worst pairs are named.
const WORST: usize = 3;
/// More hosts would make a matrix that nobody reads.
const LARGEST_MATRIX: usize = 8;

pub fn render(report: &Report, look: Look) -> String {
    let pairs = &report.pairs;
    if pairs.is_empty() {
        return String::new();
    }
    let mut trips: Vec<(u64, &Pair)> =
        pairs.iter().filter_map(|pair| Some((*pair.round_trip_ns.as_ref().ok()?, pair))).collect();
    let mut loads: Vec<(u64, &Pair)> = pairs.iter().filter_map(|pair| Some((pair.bits_per_s?, pair))).collect();
    trips.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    loads.sort_by_key(|(bits, _)| *bits);
    let mut line = format!("between hosts: {} of {} ways open", trips.len(), pairs.len());
    if let (Some((most, _)), Some((least, _))) = (trips.first(), trips.last()) {
        line.push_str(&format!("; round trip {}", span(&time(*least), &time(*most))));
    }
    if let (Some((least, _)), Some((most, _))) = (loads.first(), loads.last()) {
        let of =
            if loads.len() * 2 < pairs.len() { format!(" ({} pairs measured)", loads.len()) } else { String::new() };
        line.push_str(&format!("; bandwidth {}{of}", span(&rate(*least), &rate(*most))));
    }
    let mut out = wrap("", &line, 2, look);
    out.push('\n');
    match matrix(report) {
        Some(grid) if grid.fits(look) => {
            out.push_str("bandwidth above the diagonal, round trip below\n");
            out.push_str(&grid.render(look));
        }
        // In a matrix the worst are seen; two hosts have no others to be worse than.
        _ if report.hosts.len() > 2 => {
            out.push_str(&worst("slowest", &loads, rate, look));
            out.push_str(&worst("farthest", &trips, time, look));
        }
        _ => {}
    }
    out
}

fn time(ns: u64) -> String {
    duration(Duration::from_nanos(ns))
}

fn span(from: &str, to: &str) -> String {
    if from == to { tie(from) } else { format!("{} to {}", tie(from), tie(to)) }
}

fn worst(word: &str, sorted: &[(u64, &Pair)], show: impl Fn(u64) -> String, look: Look) -> String {
    if sorted.is_empty() {
        return String::new();
    }
    let named: Vec<String> = sorted
        .iter()
        .take(WORST)
        .map(|(value, pair)| format!("{} to {} {}", pair.from, pair.to, tie(&show(*value))))
        .collect();
    format!("{}\n", wrap("  ", &format!("{word}: {}", named.join(", ")), 4, look))
}

fn matrix(report: &Report) -> Option<Grid> {
    let ways: BTreeMap<(&str, &str), &Pair> =
        report.pairs.iter().map(|pair| ((pair.from.as_str(), pair.to.as_str()), pair)).collect();
    let takes_part = |name: &&str| ways.keys().any(|(from, to)| from == name || to == name);
    let names: Vec<&str> = report.hosts.iter().map(|host| host.name.as_str()).filter(takes_part).collect();
    if !(3..=LARGEST_MATRIX).contains(&names.len()) {
        return None;
    }
    let cell = |row: usize, column: usize| {
        if row == column {
            return Cell::new(Level::Unknown, ".");
        }
        let load = ways.get(&(names[row.min(column)], names[row.max(column)])).and_then(|pair| pair.bits_per_s);
        match ways.get(&(names[row], names[column])).map(|pair| &pair.round_trip_ns) {
            None => Cell::new(Level::Unknown, "-"),
            Some(Err(_)) => Cell::new(Level::Red, "none"),
            Some(Ok(_)) if row < column => Cell::new(Level::Green, &load.map_or_else(|| "-".into(), rate)),
            Some(Ok(ns)) => Cell::new(Level::Green, &time(*ns)),
        }
    };
    let row = |row: usize| (name(names[row]), (0..names.len()).map(|column| cell(row, column)).collect());
    Some(Grid {
        corner: "FROM \\ TO".into(),
        heads: names.iter().map(|host| name(host)).collect(),
        rows: (0..names.len()).map(row).collect(),
    })
}
