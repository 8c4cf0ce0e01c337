//! The whole report as people see it: a table, the ways between hosts, what is wrong and what to do, and one line to sum up.

pub use super::cells::Look;
use super::cells::{Cell, Grid, mark, name, paint};
pub use super::cells::{tie, wrap};
use super::{Check, Finding, HostReport, Level, Report, notes, pairs_table};

pub fn render(report: &Report, look: Look) -> String {
    let mut out = match report.hosts.as_slice() {
        [host] => alone(host, look),
        hosts => together(hosts, look),
    };
    for part in [pairs_table::render(report, look), notes::render(report, look)] {
        if !part.is_empty() && report.hosts.len() > 1 {
            out.push('\n');
            out.push_str(&part);
        }
    }
    out.push('\n');
    out.push_str(&sum(report, look));
    out
}

/// Checks that anybody has an answer to; if nobody has, there is nothing to see.
fn checks(hosts: &[HostReport]) -> Vec<Check> {
    let asked = |check: &Check| hosts.iter().filter_map(|host| host.finding(*check)).any(is_known);
    Check::ALL.into_iter().filter(asked).collect()
}

fn is_known(finding: &Finding) -> bool {
    finding.level != Level::Unknown
}

/// One host has room for whole sentences, and for hints where they belong.
fn alone(host: &HostReport, look: Look) -> String {
    let mut out = format!("{}\n", host.name);
    for finding in host.findings.iter().filter(|finding| is_known(finding)) {
        let (start, level) = (format!("  {:<9} ", finding.check), finding.level);
        let words = wrap(&start, &format!("{}{}", mark(level), finding.text), start.len(), look);
        let (head, rest) = words.split_at(start.len().min(words.len()));
        out.push_str(head);
        out.push_str(&if level == Level::Green { rest.to_string() } else { paint(rest, level, look) });
        out.push('\n');
        if let Some(hint) = &finding.hint {
            out.push_str(&wrap(&format!("{}hint: ", " ".repeat(start.len())), hint, start.len() + 6, look));
            out.push('\n');
        }
    }
    let unknown: Vec<&str> = host.findings.iter().filter(|f| !is_known(f)).map(|f| f.check.name()).collect();
    if !unknown.is_empty() {
        out.push_str(&wrap("  ", &format!("not looked at: {}", unknown.join(", ")), 4, look));
        out.push('\n');
    }
    out
}

/// Few hosts side by side, so that a check is read from left to right; many below each other.
fn together(hosts: &[HostReport], look: Look) -> String {
    let checks = checks(hosts);
    let row = |check: &Check| (check.to_string(), hosts.iter().map(|host| Cell::of(host.finding(*check))).collect());
    let beside = Grid {
        corner: "CHECK".into(),
        heads: hosts.iter().map(|host| name(&host.name)).collect(),
        rows: checks.iter().map(row).collect(),
    };
    if beside.fits(look) {
        return beside.render(look);
    }
    // Columns in which every row says the same are said once; what is left may fit.
    let (same, checks): (Vec<Check>, Vec<Check>) = checks.iter().partition(|check| common(hosts, **check).is_some());
    let row = |host: &HostReport| (name(&host.name), checks.iter().map(|c| Cell::of(host.finding(*c))).collect());
    let below = Grid {
        corner: "HOST".into(),
        heads: checks.iter().map(Check::to_string).collect(),
        rows: hosts.iter().map(row).collect(),
    };
    let mut out = below.render(look);
    if !same.is_empty() {
        let words: Vec<String> =
            same.iter().filter_map(|check| Some(format!("{check} {}", common(hosts, *check)?))).collect();
        out.push_str(&wrap("", &format!("the same on all: {}", words.join(", ")), 2, look));
        out.push('\n');
    }
    out
}

/// What all hosts that could be asked have in common, if they are green.
fn common(hosts: &[HostReport], check: Check) -> Option<&str> {
    let mut cells = hosts.iter().filter_map(|host| host.finding(check)).filter(|f| is_known(f)).peekable();
    let first = cells.peek()?.cell.as_str();
    cells.all(|finding| finding.level == Level::Green && finding.cell == first).then_some(first)
}

fn sum(report: &Report, look: Look) -> String {
    let counted = |n: usize, what: &str| (n > 0).then(|| format!("{n} {what}{}", if n == 1 { "" } else { "s" }));
    let pools = report.hosts.iter().filter(|host| host.is_pool()).count();
    let hosts = [counted(report.hosts.len() - pools, "host"), counted(pools, "pool")];
    let hosts = hosts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let (red, yellow) = (report.count(Level::Red), report.count(Level::Yellow));
    let (level, words) = match (red, yellow) {
        (0, 0) => (Level::Green, "all green".to_string()),
        (0, yellow) => (Level::Yellow, format!("fit to run; {yellow} yellow")),
        (red, 0) => (Level::Red, format!("{red} red")),
        (red, yellow) => (Level::Red, format!("{red} red, {yellow} yellow")),
    };
    format!("{}, {hosts}: {}\n", report.fleet, paint(&words, level, look))
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
