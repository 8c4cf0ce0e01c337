//! Where does the output of a live run go?
//!
//! Straight into a file of its own, `live/<number>.log`: nobody has to read along, and a reader can follow it. A file whose run printed
//! nothing, or whose output nobody can have opened, serves the next run: most short runs make no file and remove none.

use super::folder::make;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Empty files that are kept for later, at most.
const SPARE: usize = 256;

pub struct Logs {
    folder: PathBuf,
    next: u64,
    spare: Vec<Log>,
}

pub struct Log {
    pub number: u64,
    pub file: File,
}

impl Log {
    pub fn bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.size())
    }

    fn has_a_name(&self) -> bool {
        self.file.metadata().is_ok_and(|m| m.nlink() > 0)
    }
}

/// The path of a live log.
pub fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.log"))
}

impl Logs {
    /// `next`: beyond every number that is in use.
    pub fn new(folder: PathBuf, next: u64) -> Logs {
        Logs { folder, next, spare: Vec::new() }
    }

    pub fn take(&mut self) -> io::Result<Log> {
        while let Some(log) = self.spare.pop() {
            // Somebody may have removed the folder: nobody would find its output.
            if log.has_a_name() {
                return Ok(log);
            }
        }
        let mut made = false;
        loop {
            let number = self.next;
            self.next += 1;
            let open = OpenOptions::new()
                .read(true)
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(path(&self.folder, number));
            match open {
                Ok(file) => return Ok(Log { number, file }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound && !made => {
                    made = true;
                    make(&self.folder)?;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Nobody holds it, nobody knows it: for the next run.
    pub fn reuse(&mut self, log: Log) {
        if self.spare.len() < SPARE && log.file.set_len(0).is_ok() {
            self.spare.push(log);
        } else {
            self.discard(log);
        }
    }

    pub fn give_back_empty(&mut self, log: Log) {
        if self.spare.len() < SPARE { self.spare.push(log) } else { self.discard(log) }
    }

    /// Somebody may have it open: they read to its end, and nobody else finds it.
    pub fn discard(&mut self, log: Log) {
        let _ = fs::remove_file(path(&self.folder, log.number));
    }

    pub fn path(&self, log: &Log) -> PathBuf {
        path(&self.folder, log.number)
    }

    pub fn remove_spare(&mut self) {
        for log in std::mem::take(&mut self.spare) {
            self.discard(log);
        }
    }
}
