//! Which host is unlike the others? One Python or driver of another version is how runs fail in the middle of the night.

use super::facts::Facts;
use super::judge_python::minor;
use super::{Check, Finding, HostReport};
use std::collections::BTreeMap;
use std::time::Duration;

/// Clocks further apart than this confuse people and tools that compare times of files.
pub const CLOCK_YELLOW: Duration = Duration::from_secs(2);
/// Further apart: certificates, tokens and build tools fail.
pub const CLOCK_RED: Duration = Duration::from_secs(30);

/// How far a host's clock is ahead of ours, and how far off that may be: half the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    pub ahead_ns: i64,
    pub give_or_take_ns: u64,
}

impl Clock {
    /// From the times, on our clock, of asking and hearing, and what the host said in between. The quickest answer knows best.
    pub fn best(samples: impl IntoIterator<Item = (u64, u64, u64)>) -> Option<Clock> {
        let clock = |(asked, said, heard): (u64, u64, u64)| {
            let trip = heard.saturating_sub(asked);
            let middle = asked.saturating_add(trip / 2);
            let ahead = i128::from(said) - i128::from(middle);
            let limit = |n: i128| n.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            Clock { ahead_ns: limit(ahead), give_or_take_ns: trip / 2 }
        };
        samples.into_iter().map(clock).min_by_key(|clock| clock.give_or_take_ns)
    }

    pub fn finding(self) -> Finding {
        let apart = Duration::from_nanos(self.ahead_ns.unsigned_abs());
        let side = if self.ahead_ns < 0 { "behind" } else { "ahead of" };
        let unsure = Duration::from_nanos(self.give_or_take_ns);
        let text = format!("its clock is {} {side} this one's, give or take {}", duration(apart), duration(unsure));
        let sign = if self.ahead_ns < 0 { '-' } else { '+' };
        let cell =
            if apart <= unsure { format!("±{}", duration(unsure)) } else { format!("{sign}{}", duration(apart)) };
        // Only what is certain counts: a slow line must not look like a wrong clock.
        let certain = apart.saturating_sub(unsure);
        let hint = "let it keep time by itself: `timedatectl set-ntp true`, or install chrony there; or it is this machine's clock that is wrong";
        if certain > CLOCK_RED {
            Finding::red(Check::Clock, cell, text, hint)
        } else if certain > CLOCK_YELLOW {
            Finding::yellow(Check::Clock, cell, text, hint)
        } else {
            Finding::green(Check::Clock, cell, text)
        }
    }
}

/// For people: three digits at most.
pub(super) fn duration(time: Duration) -> String {
    let s = time.as_secs_f64();
    match s {
        s if s >= 172_800.0 => format!("{:.0} d", s / 86_400.0),
        s if s >= 5_400.0 => format!("{:.0} h", s / 3_600.0),
        s if s >= 100.0 => format!("{:.0} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.0001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// Marks hosts whose Python or driver is not what most of the others have.
pub fn hosts(reports: &mut [HostReport]) {
    let python = |facts: &Facts| {
        let (major, minor) = minor(&facts.python.as_ref().ok()?.version)?;
        Some(format!("{major}.{minor}"))
    };
    odd_one_out(
        reports,
        Check::Python,
        "Python",
        &python,
        "the same Python on all hosts avoids surprises with packages and pickles",
    );
    let driver = |facts: &Facts| Some(facts.gpus.as_ref().ok()?.first()?.driver.clone());
    odd_one_out(
        reports,
        Check::Gpus,
        "driver",
        &driver,
        "the same driver on all hosts avoids surprises with CUDA and NCCL",
    );
}

fn odd_one_out(
    reports: &mut [HostReport],
    check: Check,
    what: &str,
    value: &dyn Fn(&Facts) -> Option<String>,
    hint: &str,
) {
    let of = |report: &HostReport| report.facts.as_ref().and_then(value);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    reports.iter().filter_map(of).for_each(|value| *counts.entry(value).or_default() += 1);
    // With as many of one kind as of the other, neither is odd, but both are marked: they differ.
    let most = counts.values().copied().max().unwrap_or(0);
    let norms: Vec<&String> = counts.iter().filter(|(_, count)| **count == most).map(|(value, _)| value).collect();
    if counts.len() < 2 {
        return;
    }
    for report in reports.iter_mut() {
        let Some(mine) = of(report) else { continue };
        let others: Vec<&str> = match norms.as_slice() {
            [norm] if **norm == mine => continue,
            [norm] => vec![norm.as_str()],
            _ => counts.keys().map(String::as_str).filter(|value| *value != mine).collect(),
        };
        let Some(old) = report.finding(check) else { continue };
        let text = format!("{}; others have {what} {}", old.text, others.join(", "));
        report.add(Finding::yellow(check, old.cell.clone(), text, hint));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level::{self, Green, Red, Yellow};
    use super::super::facts::tests::healthy;
    use super::super::judge;
    use super::*;

    #[test]
    fn the_quickest_answer_counts() {
        let clock = Clock::best([(0, 10_000, 1000), (2000, 2600, 2200), (3000, 9000, 4000)]);
        assert_eq!(clock, Some(Clock { ahead_ns: 500, give_or_take_ns: 100 }));
        assert_eq!(Clock::best([]), None);
        // A host whose clock stands at zero is decades behind, and no number overflows.
        assert!(Clock::best([(u64::MAX, 0, u64::MAX)]).is_some_and(|clock| clock.ahead_ns < 0));
    }

    #[test]
    fn clocks() {
        let s = 1_000_000_000i64;
        for (ahead_ns, unsure, level, cell) in [
            (0, 300_000, Green, "±0.3 ms"),
            (2 * s, 0, Green, "+2.0 s"),
            (-2 * s - 1, 0, Yellow, "-2.0 s"),
            (30 * s, 0, Yellow, "+30.0 s"),
            (31 * s, 0, Red, "+31.0 s"),
            (-7200 * s, 0, Red, "-2 h"),
            // On a line this slow, nobody can tell.
            (3 * s, 2_000_000_000, Green, "+3.0 s"),
        ] {
            let finding = Clock { ahead_ns, give_or_take_ns: unsure }.finding();
            assert_eq!((finding.level, finding.cell.as_str()), (level, cell), "{finding:?}");
        }
    }

    fn reports(versions: &[&str]) -> Vec<HostReport> {
        let report = |version: &&str| {
            let mut facts = healthy();
            if let Ok(python) = &mut facts.python {
                python.version = (*version).into();
            }
            let findings = judge::host(&facts, &judge::Wants { shoal: "0.1.0".into(), ..judge::Wants::default() });
            let mut report =
                HostReport { name: "n".into(), address: "n".into(), findings: Vec::new(), facts: Some(facts) };
            findings.into_iter().for_each(|finding| report.add(finding));
            report
        };
        versions.iter().map(report).collect()
    }

    #[test]
    fn the_odd_python_is_found() {
        for (versions, levels) in [
            (&["3.11.2", "3.11.9"][..], &[Green, Green][..]),
            (&["3.11.2", "3.12.0", "3.11.2"], &[Green, Yellow, Green]),
            (&["3.11.2", "3.12.0"], &[Yellow, Yellow]),
            (&["3.11.2"], &[Green]),
        ] {
            let mut reports = reports(versions);
            hosts(&mut reports);
            let got: Vec<Level> = reports.iter().filter_map(|r| r.finding(Check::Python)).map(|f| f.level).collect();
            assert_eq!(got, levels, "{versions:?}");
        }
    }
}
