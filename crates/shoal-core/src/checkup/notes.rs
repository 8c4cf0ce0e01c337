//! What is wrong, on which hosts, and what to do about it: the worst first, and every hint once.

use super::cells::{Look, mark, paint, wrap};
use super::{Check, Finding, Level, Report};
use crate::fleet::range;
use std::collections::BTreeMap;

pub fn render(report: &Report, look: Look) -> String {
    let mut out = String::new();
    for level in [Level::Red, Level::Yellow] {
        // By hint, because that is what the reader acts upon; texts differ in numbers.
        let mut groups: BTreeMap<(Check, &str), Vec<(&Finding, &str)>> = BTreeMap::new();
        for host in &report.hosts {
            for finding in host.findings.iter().filter(|finding| finding.level == level) {
                let hint = finding.hint.as_deref().unwrap_or_default();
                groups.entry((finding.check, hint)).or_default().push((finding, &host.name));
            }
        }
        for ((check, hint), found) in groups {
            let mut texts: Vec<(&str, Vec<&str>)> = Vec::new();
            for (finding, host) in found {
                match texts.iter_mut().find(|(text, _)| *text == finding.text) {
                    Some((_, hosts)) => hosts.push(host),
                    None => texts.push((&finding.text, vec![host])),
                }
            }
            for (text, hosts) in texts {
                let line = format!("{}, {check}: {text}", range::fold(hosts).join(", "));
                out.push_str(&paint(&wrap(mark(level), &line, 3, look), level, look));
                out.push('\n');
            }
            if !hint.is_empty() {
                out.push_str(&wrap("   hint: ", hint, 9, look));
                out.push('\n');
            }
        }
    }
    out
}
