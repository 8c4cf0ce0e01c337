//! What is wrong on hosts that ends no run by itself, in their own words? For `hosts`, `why` and `ps`; said again when a host comes back.

use shoal_core::queue::Attempt;
use std::collections::{BTreeMap, HashMap};

/// Words of one host, and runs in trouble on it, at most.
const MOST_WORDS: usize = 16;
const MOST_RUNS: usize = 1000;

#[derive(Default)]
struct OfHost {
    words: Vec<String>,
    runs: BTreeMap<Attempt, String>,
}

#[derive(Default)]
pub struct Troubles(HashMap<String, OfHost>);

impl Troubles {
    pub fn says(&mut self, host: &str, attempt: Option<Attempt>, what: String) {
        let of = self.0.entry(host.into()).or_default();
        match attempt {
            None if of.words.len() < MOST_WORDS && !of.words.contains(&what) => of.words.push(what),
            Some(attempt) if of.runs.len() < MOST_RUNS || of.runs.contains_key(&attempt) => {
                of.runs.insert(attempt, what);
            }
            _ => {}
        }
    }

    pub fn is_over(&mut self, host: &str, attempt: Option<&Attempt>, what: &str) {
        let Some(of) = self.0.get_mut(host) else { return };
        match attempt {
            None => of.words.retain(|word| word != what),
            Some(attempt) => drop(of.runs.remove(attempt)),
        }
    }

    /// The run is.
    pub fn ends(&mut self, host: &str, attempt: &Attempt) {
        if let Some(of) = self.0.get_mut(host) {
            of.runs.remove(attempt);
        }
    }

    /// Its line is another one: whatever is still so is said again.
    pub fn forget(&mut self, host: &str) {
        self.0.remove(host);
    }

    pub fn of_run(&self, host: &str, attempt: &Attempt) -> Option<&String> {
        self.0.get(host)?.runs.get(attempt)
    }

    /// What is wrong with runs of a sweep on it; the first speaks for all.
    pub fn of_sweep(&self, host: &str, sweep: &str) -> Option<&String> {
        self.0.get(host)?.runs.iter().find(|(attempt, _)| attempt.run.sweep == sweep).map(|(_, what)| what)
    }

    /// One line for people: the host's own, and of its runs the first, which nearly always speaks for all.
    pub fn of_host(&self, host: &str) -> Option<String> {
        let of = self.0.get(host)?;
        let mut words = of.words.clone();
        if let Some((attempt, what)) = of.runs.first_key_value() {
            words.push(match of.runs.len() {
                1 => format!("{}: {what}", attempt.run),
                2 => format!("{} and 1 more run: {what}", attempt.run),
                n => format!("{} and {} more runs: {what}", attempt.run, n - 1),
            });
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::RunId;

    #[test]
    fn each_trouble_ends_by_itself() {
        let run = |cell| Attempt { run: RunId { sweep: "s".into(), cell, rep: 0 }, number: 1 };
        let mut troubles = Troubles::default();
        assert_eq!(troubles.of_host("a"), None);
        for _ in 0..2 {
            troubles.says("a", None, "the disk is full".into());
        }
        troubles.says("a", Some(run(1)), "results wait".into());
        troubles.says("a", Some(run(2)), "results wait".into());
        assert_eq!(troubles.of_host("a").as_deref(), Some("the disk is full; s:1.0 and 1 more run: results wait"));
        assert_eq!(troubles.of_run("a", &run(2)).map(String::as_str), Some("results wait"));
        assert_eq!(troubles.of_sweep("a", "s").map(String::as_str), Some("results wait"));
        assert_eq!((troubles.of_sweep("a", "t"), troubles.of_sweep("b", "s")), (None, None));
        troubles.is_over("a", None, "another");
        troubles.is_over("a", Some(&run(1)), "results wait");
        troubles.ends("b", &run(2));
        assert_eq!(troubles.of_host("a").as_deref(), Some("the disk is full; s:2.0: results wait"));
        troubles.ends("a", &run(2));
        troubles.is_over("a", None, "the disk is full");
        assert_eq!(troubles.of_host("a"), None);
        (0..2000).for_each(|cell| troubles.says("a", Some(run(cell)), "x".into()));
        assert!(troubles.of_host("a").is_some_and(|text| text.contains("and 999 more")));
        troubles.forget("a");
        assert_eq!(troubles.of_host("a"), None);
    }
}
