//! A ledger: every run appends a line when it begins and one when it ends, the test one when it kills a host; then the ledger is compared with
//! what was asked for. No run is lost, none runs twice, and never two attempts of one at once (QUEUE-2).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// How often a run may have been begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Once, whatever was killed: its keeper lived.
    Never,
    /// Again after its host was killed, which the ledger says.
    AfterItsHost,
    /// Again after something that the ledger does not know of, such as the end of its keeper.
    Perhaps,
}

/// What the ledger says when nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub runs: usize,
    pub attempts: usize,
}

#[derive(Debug, Clone)]
pub struct Ledger(PathBuf);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line<'a> {
    Begins { run: &'a str, attempt: &'a str, host: &'a str },
    Ends { run: &'a str, attempt: &'a str },
    Killed { host: &'a str },
}

impl Ledger {
    pub fn at(path: impl Into<PathBuf>) -> Ledger {
        Ledger(path.into())
    }

    /// A line for a shell, with the variables of a run of the queue. A short line is appended whole.
    pub fn around(&self, middle: &str) -> String {
        let (own, path) = ("$SHOAL_RUN $SHOAL_ATTEMPT", self.0.display());
        format!("read h < /proc/sys/kernel/hostname; echo b {own} $h >> {path}; {middle}; echo e {own} $h >> {path}")
    }

    /// Nothing runs on this host any more. Said before it is started again.
    pub fn killed(&self, host: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.0).expect("the ledger");
        file.write_all(format!("x {host}\n").as_bytes()).expect("the ledger");
    }

    /// Compares it with the runs that were asked for. What is wrong is said with the lines that show it.
    pub fn check(&self, wanted: impl IntoIterator<Item = impl fmt::Display>, again: Again) -> Result<Count, String> {
        let text = std::fs::read_to_string(&self.0).map_err(|e| format!("{}: {e}", self.0.display()))?;
        let wanted: BTreeSet<String> = wanted.into_iter().map(|run| run.to_string()).collect();
        compare(&text, &wanted, again)
    }
}

fn read(line: &str) -> Option<Line<'_>> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["b", run, attempt, host] => Some(Line::Begins { run, attempt, host }),
        ["e", run, attempt, _] => Some(Line::Ends { run, attempt }),
        ["x", host] => Some(Line::Killed { host }),
        _ => None,
    }
}

/// Pure.
fn compare(text: &str, wanted: &BTreeSet<String>, again: Again) -> Result<Count, String> {
    let shown = |run: &str| text.lines().filter(|line| line.split(' ').nth(1) == Some(run)).collect::<Vec<_>>();
    let mut open: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let (mut begun, mut done) = (BTreeSet::new(), BTreeMap::<&str, usize>::new());
    for line in text.lines() {
        match read(line).ok_or_else(|| format!("`{line}` is no line of a ledger"))? {
            Line::Begins { run, attempt, host } => {
                if !wanted.contains(run) {
                    return Err(format!("nobody asked for {run}"));
                }
                if !begun.insert((run, attempt)) {
                    return Err(format!("{run} #{attempt} ran twice: {:?}", shown(run)));
                }
                if open.insert(run, (attempt, host)).is_some() && again != Again::Perhaps {
                    return Err(format!("two attempts of {run} at once: {:?}", shown(run)));
                }
            }
            Line::Ends { run, attempt } => {
                if open.get(run).is_none_or(|(of, _)| *of != attempt) && again != Again::Perhaps {
                    return Err(format!("{run} #{attempt} ended and did not run: {:?}", shown(run)));
                }
                open.remove(run);
                *done.entry(run).or_default() += 1;
            }
            Line::Killed { host } => open.retain(|_, (_, on)| *on != host),
        }
    }
    let never: Vec<&String> = wanted.iter().filter(|run| !done.contains_key(run.as_str())).collect();
    if let Some(first) = never.first() {
        return Err(format!("{} runs never came to their end, {first} for one: {:?}", never.len(), shown(first)));
    }
    let mut often: BTreeMap<&str, usize> = BTreeMap::new();
    begun.iter().for_each(|(run, _)| *often.entry(run).or_default() += 1);
    match often.iter().find(|(_, times)| **times > 1) {
        Some((run, _)) if again == Again::Never => Err(format!("{run} was started again: {:?}", shown(run))),
        _ => Ok(Count { runs: wanted.len(), attempts: begun.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_found() {
        let wanted: BTreeSet<String> = ["s:0.0", "s:1.0"].map(String::from).into();
        let good = "b s:0.0 1 h\nb s:1.0 1 h\ne s:0.0 1 h\ne s:1.0 1 h\n";
        assert_eq!(compare(good, &wanted, Again::Never), Ok(Count { runs: 2, attempts: 2 }));
        let lost = "b s:0.0 1 h\nb s:1.0 1 k\nx h\nb s:0.0 2 k\ne s:1.0 1 k\ne s:0.0 2 k\n";
        assert_eq!(compare(lost, &wanted, Again::AfterItsHost), Ok(Count { runs: 2, attempts: 3 }));
        // Its end was not told before its host was killed.
        let told = "b s:0.0 1 h\ne s:0.0 1 h\nx h\nb s:0.0 2 k\ne s:0.0 2 k\nb s:1.0 1 k\ne s:1.0 1 k\n";
        assert!(compare(told, &wanted, Again::AfterItsHost).is_ok());
        for (text, again, why) in [
            (lost, Again::Never, "started again"),
            ("b s:0.0 1 h\ne s:0.0 1 h\n", Again::Never, "never came to their end, s:1.0"),
            ("b s:0.0 1 h\nb s:0.0 1 h\n", Again::AfterItsHost, "ran twice"),
            ("b s:0.0 1 h\nb s:0.0 2 k\n", Again::AfterItsHost, "two attempts of s:0.0 at once"),
            ("b s:0.0 1 h\nx k\nb s:0.0 2 k\n", Again::AfterItsHost, "two attempts of s:0.0 at once"),
            ("e s:0.0 1 h\n", Again::Never, "did not run"),
            ("b other 1 h\n", Again::Perhaps, "nobody asked for other"),
            ("b s:0.0", Again::Never, "no line of a ledger"),
        ] {
            let said = compare(text, &wanted, again).expect_err(text);
            assert!(said.contains(why), "{said}");
        }
        let perhaps = "b s:0.0 1 h\nb s:0.0 2 h\ne s:0.0 2 h\nb s:1.0 1 h\ne s:1.0 1 h\n";
        assert_eq!(compare(perhaps, &wanted, Again::Perhaps), Ok(Count { runs: 2, attempts: 3 }));
    }
}
