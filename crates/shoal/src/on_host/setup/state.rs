//! Where is the node's record, and how is it kept? Who holds the node?
//!
//! Each host has a folder of its own in `~/.cache/shoal/clusters/NAME`: homes are shared between the machines of many labs.

use shoal_core::cluster::steps::record::{NodeRecord, StepRecord};
use shoal_core::cluster::steps::wire::Holder;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub const HINT: &str = "shoal needs a writable home folder with some space";

pub struct State {
    pub cluster: String,
    pub folder: PathBuf,
    pub record: NodeRecord,
}

pub enum Held {
    Ours(File),
    By(Option<Holder>),
}

/// All clusters that this user's homes know of.
pub fn clusters() -> PathBuf {
    home().join(".cache/shoal/clusters")
}

pub fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

impl State {
    pub fn open(cluster: &str) -> io::Result<State> {
        if !shoal_daemon::records::is_safe_name(cluster) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{cluster}` cannot be the name of a folder"),
            ));
        }
        let host = shoal_daemon::proc::node_name();
        let host: String =
            host.chars().map(|c| if c.is_alphanumeric() || ".-_".contains(c) { c } else { '_' }).collect();
        let folder = clusters().join(cluster).join(format!("on-{host}"));
        Ok(State { cluster: cluster.into(), folder, record: NodeRecord::new(cluster) })
    }

    fn file(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// The output of a step.
    pub fn log(&self, id: &str) -> PathBuf {
        let name: String = id.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        self.folder.join("logs").join(format!("{name}.log"))
    }

    /// Reads the record. One that cannot be understood is said, and put aside by whoever holds the node: everything runs again.
    pub fn load(&mut self, held: bool) -> Option<String> {
        let text = match fs::read_to_string(self.file()) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            // Not UTF-8, or not readable: as good as none.
            Err(e) => return self.put_aside(&e.to_string(), held),
        };
        match NodeRecord::read(&self.cluster, &text) {
            Ok(record) => {
                self.record = record;
                None
            }
            Err(why) => self.put_aside(&why, held),
        }
    }

    fn put_aside(&self, why: &str, held: bool) -> Option<String> {
        if !held {
            return Some(format!("its record cannot be used ({why}); everything would run again"));
        }
        let aside = self.folder.join("state.json.corrupt");
        let moved = fs::rename(self.file(), &aside);
        let what =
            moved.map_or_else(|e| format!("it cannot be moved: {e}"), |()| format!("it is now {}", aside.display()));
        Some(format!("its record cannot be used ({why}); {what}; everything runs again"))
    }

    /// Writes what happened to a step, for good: a node that loses power a moment later still knows.
    pub fn put(&mut self, id: &str, step: StepRecord) -> io::Result<()> {
        self.record.steps.insert(id.into(), step);
        write_beside(&self.file(), &serde_json::to_vec(&self.record)?)
    }

    /// Start commands are one whole: once one begins, those behind it have not run. It is kept with the next word that is.
    pub fn forget_starts_after(&mut self, id: &str) {
        let number = |id: &str| id.strip_prefix("start ").and_then(|n| n.parse::<u32>().ok());
        if let Some(first) = number(id) {
            self.record.steps.retain(|id, _| number(id).is_none_or(|n| n < first));
        }
    }

    /// Takes the node for somebody, or tells who has it.
    pub fn hold(&self, holder: &Holder) -> io::Result<Held> {
        private_folder(&self.folder.join("logs"))?;
        let path = self.folder.join("lock");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Ok(Held::By(serde_json::from_str(&text).ok()));
            }
            Err(fs::TryLockError::Error(e)) => return Err(e),
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(holder)?)?;
        Ok(Held::Ours(file))
    }
}

pub fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A file for its owner alone, whole or not at all.
pub fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = path.with_extension(format!("new{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(aside, path)
}
