//! What is written down of runs, so that a keeper that comes later knows them? (QUEUE-2; WIRE-1)
//!
//! A file of lines, each one JSON value, only ever appended to. A run is written down **before** it is started: whatever may have begun
//! is in here, so whatever is not in here can be started without running twice. What a crash cut off at the end is no line.

use super::words::Over;
use crate::proc::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const RECORDS_VERSION: u32 = 1;
/// Lines that mean nothing any more are kept up to this much.
const DEAD: u64 = 4 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A keeper begins to write. Its runs bear its mark.
    Keeper {
        version: u32,
        mark: String,
        machine: Machine,
        pid: u32,
    },
    /// Written before it is started.
    Begins(Begins),
    /// Its pid, as soon as there is one.
    Is {
        name: String,
        pid: u32,
        until: u64,
    },
    /// Without its note if that is in the line that says how it began.
    Ended(Over),
    Forgotten {
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begins {
    pub name: String,
    pub note: String,
    pub at: u64,
    /// Its output is in `live/<number>.log`.
    pub log: u64,
    /// Clock ticks since boot, before it was started; `Is::until`: after.
    pub from: u64,
}

/// One that began and of which no end is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub begins: Begins,
    /// Its pid, and until when it was started.
    pub is: Option<(u32, u64)>,
}

/// What the lines say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Marks of keepers whose runs may be alive, and the machine of the last.
    pub marks: Vec<String>,
    pub machine: Option<Machine>,
    pub open: BTreeMap<String, Open>,
    pub over: BTreeMap<String, Over>,
    /// A log that may be in use has at most this number.
    pub last_log: u64,
    /// Lines that could not be read, before the last one.
    pub unreadable: u32,
}

/// Pure.
pub fn replay(bytes: &[u8]) -> Result<Known, u32> {
    let mut known = Known::default();
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    for line in bytes[..whole].split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Err(_) => known.unreadable += 1,
            Ok(Line::Keeper { version, .. }) if version > RECORDS_VERSION => return Err(version),
            Ok(Line::Keeper { mark, machine, .. }) => {
                known.marks.push(mark);
                known.machine = Some(machine);
            }
            Ok(Line::Begins(begins)) => {
                known.last_log = known.last_log.max(begins.log);
                known.open.insert(begins.name.clone(), Open { begins, is: None });
            }
            Ok(Line::Is { name, pid, until }) => {
                if let Some(open) = known.open.get_mut(&name) {
                    open.is = Some((pid, until));
                }
            }
            Ok(Line::Ended(mut over)) => {
                let open = known.open.remove(&over.name);
                if let Some(open) = open.filter(|_| over.note.is_empty()) {
                    over.note = open.begins.note;
                }
                known.over.insert(over.name.clone(), over);
            }
            Ok(Line::Forgotten { names }) => names.iter().for_each(|name| {
                known.over.remove(name);
            }),
        }
    }
    Ok(known)
}

/// Reads what earlier keepers wrote; nothing if there is no file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        Err(e) => return Err(e),
    };
    Ok(bytes)
}

/// The file, as its one writer sees it.
pub struct Records {
    path: PathBuf,
    file: Arc<File>,
    len: u64,
    /// Lines that are not in the file yet.
    pending: Vec<u8>,
    /// What a new file has to begin with.
    first: Line,
    /// Bytes in the file that still mean something, roughly.
    live: u64,
}

fn push(to: &mut Vec<u8>, line: &Line) {
    // Serializing these shapes cannot fail: all keys are strings.
    let _ = serde_json::to_writer(&mut *to, line);
    to.push(b'\n');
}

impl Records {
    /// Begins a new file with what still counts, which takes the place of the old one whole or not at all.
    pub fn begin<'a>(path: PathBuf, first: Line, lines: impl Iterator<Item = &'a Over>) -> io::Result<Records> {
        let mut records =
            Records { file: Arc::new(File::open("/dev/null")?), path, len: 0, pending: Vec::new(), first, live: 0 };
        records.rewrite(&[], lines)?;
        Ok(records)
    }

    fn rewrite<'a>(&mut self, open: &[Line], over: impl Iterator<Item = &'a Over>) -> io::Result<()> {
        let mut bytes = Vec::new();
        push(&mut bytes, &self.first);
        open.iter().for_each(|line| push(&mut bytes, line));
        over.for_each(|over| push(&mut bytes, &Line::Ended(over.clone())));
        let beside = self.path.with_extension("new");
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&beside)?;
        file.set_len(0)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(&beside, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        (self.len, self.live) = (bytes.len() as u64, bytes.len() as u64);
        self.file = Arc::new(file);
        self.pending.clear();
        Ok(())
    }

    pub fn add(&mut self, line: &Line) {
        push(&mut self.pending, line);
    }

    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes back what was added last, down to `mark` bytes.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    pub fn take_back(&mut self, mark: usize) {
        self.pending.truncate(mark);
    }

    /// Into the file, all or nothing: half a line is cut off again, and tried later.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if let Err(e) = (&*self.file).write_all(&self.pending) {
            self.file.set_len(self.len)?;
            return Err(e);
        }
        self.len += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    pub fn file(&self) -> Arc<File> {
        self.file.clone()
    }

    /// Whether most of the file is about runs that nobody asks for any more.
    pub fn is_mostly_dead(&self) -> bool {
        self.len > self.live.saturating_mul(2) + DEAD
    }

    /// A new file with what still counts.
    pub fn compact<'a>(&mut self, open: &[Line], over: impl Iterator<Item = &'a Over>) -> io::Result<()> {
        self.flush()?;
        let done = self.rewrite(open, over);
        if done.is_err() {
            // Not tried again at once: the file as it is serves as well.
            self.live = self.len;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::work::Ending;

    /// WIRE-1: records of this shape are on people's disks.
    const SAMPLE: &str = concat!(
        r#"{"keeper":{"version":1,"mark":"m1","machine":{"node":"n","boot":"b"},"pid":7}}"#,
        "\n",
        r#"{"begins":{"name":"a","note":"{}","at":5,"log":3,"from":100}}"#,
        "\n",
        r#"{"is":{"name":"a","pid":9,"until":101}}"#,
        "\n",
        r#"{"begins":{"name":"b","note":"","at":6,"log":4,"from":102}}"#,
        "\n",
        r#"{"ended":{"name":"a","note":"","ending":{"exited":3},"began":5,"ended":8,"cpu_ms":1,"peak_memory_bytes":2,"output":{"pack":1,"at":2,"len":3}}}"#,
        "\n",
        r#"{"begins":{"name":"c","note":"","at":6,"log":2,"from":102}}"#,
        "\n",
        r#"{"ended":{"name":"c","note":"","ending":"stopped","began":5,"ended":8,"cpu_ms":1,"peak_memory_bytes":2,"output":null}}"#,
        "\n",
        r#"{"forgotten":{"names":["c"]}}"#,
        "\n"
    );

    #[test]
    fn the_kept_sample_reads_and_writes() {
        let known = replay(SAMPLE.as_bytes()).unwrap();
        assert_eq!(known.marks, ["m1"]);
        assert_eq!(known.over.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!((&known.over["a"].ending, known.over["a"].note.as_str()), (&Ending::Exited(3), "{}"));
        assert_eq!(known.open.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!((known.open["b"].is, known.last_log, known.unreadable), (None, 4, 0));
        for line in SAMPLE.lines() {
            let mut again = Vec::new();
            push(&mut again, &serde_json::from_str(line).unwrap());
            assert_eq!(String::from_utf8(again).unwrap(), format!("{line}\n"));
        }
        assert_eq!(replay(SAMPLE.replace("\"version\":1", "\"version\":2").as_bytes()), Err(2));
    }

    #[test]
    fn a_file_that_is_cut_anywhere_tells_what_its_whole_lines_tell() {
        for end in 0..SAMPLE.len() {
            let cut = replay(&SAMPLE.as_bytes()[..end]).unwrap();
            let lines = SAMPLE[..end].rfind('\n').map_or(0, |at| at + 1);
            assert_eq!(cut, replay(&SAMPLE.as_bytes()[..lines]).unwrap());
            assert_eq!(cut.unreadable, 0);
        }
    }

    #[test]
    fn what_is_written_is_read_and_dead_lines_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let first: Line = serde_json::from_str(SAMPLE.lines().next().unwrap()).unwrap();
        let over = |name: &str| Over {
            name: name.into(),
            note: "n".repeat(5000),
            ending: Ending::Exited(0),
            began: 1,
            ended: 2,
            cpu_ms: 0,
            peak_memory_bytes: 0,
            output: None,
        };
        let mut records = Records::begin(path.clone(), first, std::iter::empty()).unwrap();
        for k in 0..1000 {
            records.add(&Line::Ended(over(&k.to_string())));
            if k > 2 {
                records.add(&Line::Forgotten { names: vec![k.to_string()] });
            }
        }
        records.flush().unwrap();
        let before = replay(&read(&path).unwrap()).unwrap();
        assert_eq!(before.over.len(), 3);
        assert!(records.is_mostly_dead());
        records.compact(&[], before.over.values()).unwrap();
        assert!(!records.is_mostly_dead());
        assert_eq!(replay(&read(&path).unwrap()).unwrap(), before);
        records.add(&Line::Forgotten { names: vec!["0".into()] });
        records.flush().unwrap();
        assert_eq!(replay(&read(&path).unwrap()).unwrap().over.len(), 2);
        assert!(std::fs::metadata(&path).unwrap().len() < 50_000);
    }
}
