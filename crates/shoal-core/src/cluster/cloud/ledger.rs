//! What was made for a cluster, and what came of it: a line before each making, a line after it, a line when it is gone.
//!
//! Kept by whoever makes things; a crash between two lines leaves an open intention, which the next `down` looks into.

use super::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Of the file's lines (WIRE-1).
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub v: u32,
    /// Seconds since 1970.
    pub at: u64,
    #[serde(flatten)]
    pub entry: Entry,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// The first line.
    Opened {
        ledger: String,
        cluster: String,
        region: String,
        by: String,
    },
    /// About to be asked for.
    Will {
        n: u32,
        kind: Kind,
        name: String,
    },
    Made {
        n: u32,
        id: String,
    },
    /// Proved to be gone, or never to have been.
    Gone {
        n: u32,
    },
    /// Stays when the cluster goes.
    Kept {
        n: u32,
    },
}

/// What the lines add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// No two are the same.
    pub id: String,
    pub cluster: String,
    pub region: String,
    pub by: String,
    pub items: BTreeMap<u32, Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub n: u32,
    pub kind: Kind,
    pub name: String,
    /// When it was about to be made.
    pub at: u64,
    /// Not known: nobody heard how the making ended.
    pub id: Option<String>,
    pub fate: Fate,
}

impl std::fmt::Display for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.id {
            Some(id) if *id == self.name => write!(f, "{} {id}", self.kind),
            Some(id) => write!(f, "{} {id} ({})", self.kind, self.name),
            None => write!(f, "{} {}, of which nobody heard whether it was made", self.kind, self.name),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    There,
    Gone,
    Kept,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} of the ledger cannot be used: {why}")]
pub struct Unreadable {
    pub line: usize,
    pub why: String,
}

impl Ledger {
    pub fn new(id: &str, cluster: &str, region: &str, by: &str) -> Ledger {
        let items = BTreeMap::new();
        Ledger { id: id.into(), cluster: cluster.into(), region: region.into(), by: by.into(), items }
    }

    pub fn opening(&self) -> Entry {
        let Ledger { id, cluster, region, by, .. } = self.clone();
        Entry::Opened { ledger: id, cluster, region, by }
    }

    /// The number of the next intention.
    pub fn next(&self) -> u32 {
        self.items.last_key_value().map_or(1, |(n, _)| n + 1)
    }

    /// What may still be there and is to be removed.
    pub fn open(&self) -> impl Iterator<Item = &Item> {
        self.items.values().filter(|item| item.fate == Fate::There)
    }

    /// The intentions of which nobody knows how they ended.
    pub fn unsure(&self) -> impl Iterator<Item = &Item> {
        self.open().filter(|item| item.id.is_none())
    }

    pub fn by_id(&self, id: &str) -> Option<&Item> {
        self.items.values().find(|item| item.id.as_deref() == Some(id))
    }

    /// Takes one more line; says why it cannot.
    pub fn take(&mut self, at: u64, entry: &Entry) -> Result<(), String> {
        match entry {
            Entry::Opened { .. } => return Err("a ledger is opened once".into()),
            Entry::Will { n, kind, name } => {
                let item = Item { n: *n, kind: *kind, name: name.clone(), at, id: None, fate: Fate::There };
                if self.items.insert(*n, item).is_some() {
                    return Err(format!("number {n} is there twice"));
                }
            }
            Entry::Made { n, id } => self.item(*n)?.id = Some(id.clone()),
            Entry::Gone { n } => self.item(*n)?.fate = Fate::Gone,
            Entry::Kept { n } => self.item(*n)?.fate = Fate::Kept,
        }
        Ok(())
    }

    fn item(&mut self, n: u32) -> Result<&mut Item, String> {
        self.items.get_mut(&n).ok_or_else(|| format!("nothing has the number {n}"))
    }
}

pub fn line(at: u64, entry: Entry) -> String {
    // Values of these types always have a text.
    serde_json::to_string(&Line { v: VERSION, at, entry }).unwrap_or_default() + "\n"
}

/// How many bytes of the text are whole lines: what a crash left of the last one does not count.
pub fn whole(text: &str) -> usize {
    text.rfind('\n').map_or(0, |end| end + 1)
}

/// `None`: nothing was ever made.
pub fn read(text: &str) -> Result<Option<Ledger>, Unreadable> {
    let mut ledger: Option<Ledger> = None;
    for (index, text) in text[..whole(text)].lines().enumerate() {
        let bad = |why: String| Unreadable { line: index + 1, why };
        let version: Version = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        if version.v != VERSION {
            return Err(bad(format!("it is of version {}, this program knows version {VERSION}", version.v)));
        }
        let line: Line = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        match (&mut ledger, &line.entry) {
            (None, Entry::Opened { ledger: id, cluster, region, by }) => {
                ledger = Some(Ledger::new(id, cluster, region, by));
            }
            (None, _) => return Err(bad("the line that opens it is missing".into())),
            (Some(ledger), entry) => ledger.take(line.at, entry).map_err(bad)?,
        }
    }
    Ok(ledger)
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kept as it was written by the first version (WIRE-1).
    const SAMPLE: &str = r#"{"v":1,"at":1000,"entry":"opened","ledger":"0123abcd","cluster":"demo","region":"us-west-2","by":"alice@laptop"}
{"v":1,"at":1001,"entry":"will","n":1,"kind":"security-group","name":"shoal-demo-0123abcd"}
{"v":1,"at":1002,"entry":"made","n":1,"id":"sg-1"}
{"v":1,"at":1003,"entry":"will","n":2,"kind":"instance","name":"head"}
{"v":1,"at":1004,"entry":"will","n":3,"kind":"image","name":"paper"}
{"v":1,"at":1005,"entry":"made","n":3,"id":"ami-1"}
{"v":1,"at":1006,"entry":"kept","n":3}
{"v":1,"at":1007,"entry":"gone","n":1}
"#;

    #[test]
    fn the_kept_sample_is_read_and_written_alike() {
        let ledger = read(SAMPLE).unwrap().unwrap();
        assert_eq!((ledger.id.as_str(), ledger.region.as_str(), ledger.next()), ("0123abcd", "us-west-2", 4));
        assert_eq!(ledger.open().map(|item| item.n).collect::<Vec<_>>(), [2]);
        assert_eq!(ledger.unsure().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["head"]);
        assert_eq!(ledger.by_id("ami-1").map(|item| item.fate), Some(Fate::Kept));
        let again: String = SAMPLE
            .lines()
            .map(|text| serde_json::from_str::<Line>(text).unwrap())
            .map(|it| line(it.at, it.entry))
            .collect();
        assert_eq!(again, SAMPLE);
    }

    #[test]
    fn half_a_last_line_is_a_crash_and_anything_else_is_an_error() {
        let torn = format!("{SAMPLE}{{\"v\":1,\"at\":10");
        assert_eq!(read(&torn), read(SAMPLE));
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("{\"v\""), Ok(None));
        for (text, line, why) in [
            ("nonsense\n".to_string(), 1, "expected"),
            (SAMPLE.lines().skip(1).map(|l| format!("{l}\n")).collect(), 1, "opens it is missing"),
            (SAMPLE.replace("\"v\":1,\"at\":1002", "\"v\":2,\"at\":1002"), 3, "version 2"),
            (format!("{SAMPLE}{}", line(9, Entry::Gone { n: 77 })), 9, "number 77"),
            (format!("{SAMPLE}{}", SAMPLE.lines().nth(1).map(|l| format!("{l}\n")).unwrap()), 9, "there twice"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.line == line && error.why.contains(why), "{error}");
        }
    }
}
