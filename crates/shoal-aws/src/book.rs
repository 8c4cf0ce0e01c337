//! The ledger on disk: every line is there, and safe, before what it announces happens.

use crate::failure::{Outcome, failure, here, wrong};
use rustix::fs::{FlockOperation, flock};
use shoal_core::cluster::cloud::Kind;
use shoal_core::cluster::cloud::ledger::{self, Entry, Ledger};
use shoal_core::cluster::cloud::protocol::Cause;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const NAME: &str = "ledger.jsonl";

pub struct Book {
    pub ledger: Ledger,
    path: PathBuf,
    /// How much of the file is whole lines of ours.
    length: u64,
    /// Locked for as long as the book is open for writing; `None`: it is only read.
    file: Option<File>,
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Book {
    /// For looking only: nothing is written, and a cluster that never was has an empty book.
    pub fn peek(folder: &Path, cluster: &str, region: &str) -> Outcome<Book> {
        let path = folder.join(NAME);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(here(format!("cannot read {}: {e}", path.display()))),
        };
        let ledger = parse(&path, &text)?.unwrap_or_else(|| Ledger::new("none", cluster, region, ""));
        Ok(Book { ledger, path, length: 0, file: None })
    }

    pub fn open(folder: &Path, cluster: &str, region: &str, by: &str) -> Outcome<Book> {
        let path = folder.join(NAME);
        let bad = |e: std::io::Error| here(format!("cannot write {}: {e}", path.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(bad)?;
        let mut file = private().read(true).append(true).create(true).open(&path).map_err(bad)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let text = format!("another shoal is at work on cluster `{cluster}`: {} is locked", path.display());
            return Err(failure(Cause::InTheWay, text, "wait until it has ended, or stop it"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(bad)?;
        // Half a line is what a crash left; the next one must not stick to it.
        let length = ledger::whole(&text) as u64;
        file.set_len(length).map_err(bad)?;
        file.seek(SeekFrom::End(0)).map_err(bad)?;
        // A ledger whose name is lost with the power knows of nothing.
        for folder in [Some(folder), folder.parent()].into_iter().flatten() {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(bad)?;
        }
        if let Some(known) = parse(&path, &text)? {
            let mut book = Book { ledger: known, path: path.clone(), length, file: Some(file) };
            if book.ledger.region != region && book.ledger.open().next().is_none() {
                // All of it is gone, and the cluster moves: a new book, beside the old one.
                std::fs::rename(&path, folder.join(format!("ledger-{}.jsonl", book.ledger.id))).map_err(bad)?;
                book = Book::open(folder, cluster, region, by)?;
            }
            return Ok(book);
        }
        let ledger = Ledger::new(&new_id()?, cluster, region, by);
        let mut book = Book { path, length: 0, file: Some(file), ledger };
        book.write(book.ledger.opening())?;
        Ok(book)
    }

    pub fn will(&mut self, kind: Kind, name: &str) -> Outcome<u32> {
        let n = self.ledger.next();
        self.enter(Entry::Will { n, kind, name: name.into() })?;
        Ok(n)
    }

    pub fn made(&mut self, n: u32, id: &str) -> Outcome<()> {
        self.enter(Entry::Made { n, id: id.into() })
    }

    pub fn gone(&mut self, n: u32) -> Outcome<()> {
        self.enter(Entry::Gone { n })
    }

    pub fn kept(&mut self, n: u32) -> Outcome<()> {
        self.enter(Entry::Kept { n })
    }

    fn enter(&mut self, entry: Entry) -> Outcome<()> {
        let mut next = self.ledger.clone();
        next.take(now(), &entry).map_err(|why| here(format!("the ledger of this program is wrong: {why}")))?;
        self.write(entry)?;
        // Known is what is on disk.
        self.ledger = next;
        Ok(())
    }

    fn write(&mut self, entry: Entry) -> Outcome<()> {
        let Some(file) = &mut self.file else { return Err(here("the ledger was opened for reading only")) };
        let line = ledger::line(now(), entry);
        // A full disk may have taken half of the last line; the next one must not stick to it.
        let mut append = || {
            file.set_len(self.length)?;
            file.write_all(line.as_bytes())?;
            file.sync_data()
        };
        append().map_err(|e| {
            let hint = "is there space? what was asked for already is found by its tags";
            failure(Cause::Here, format!("cannot write {}: {e}", self.path.display()), hint)
        })?;
        self.length += line.len() as u64;
        Ok(())
    }
}

fn parse(path: &Path, text: &str) -> Outcome<Option<Ledger>> {
    ledger::read(text).map_err(|e| {
        let hint =
            "move the file aside and run again with SHOAL_TAKE_OVER=1: objects are then known by their tags alone";
        wrong(format!("{}: {e}", path.display()), hint)
    })
}

/// Nobody else may read what is in the cluster's folder (SEC-2).
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn new_id() -> Outcome<String> {
    let mut bytes = [0u8; 4];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    got.map_err(|e| here(format!("no random numbers: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_book_is_private_locked_and_survives_half_a_line() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("demo");
        let mut book = Book::open(&folder, "demo", "us-west-2", "me@here").unwrap();
        let n = book.will(Kind::KeyPair, "key").unwrap();
        let id = book.ledger.id.clone();
        let path = folder.join(NAME);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let second = Book::open(&folder, "demo", "us-west-2", "me@here").err().unwrap();
        assert_eq!(second.cause, Cause::InTheWay);
        drop(book);

        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"{\"v\":1,\"at").unwrap();
        let mut book = Book::open(&folder, "demo", "us-west-2", "me@here").unwrap();
        assert_eq!((book.ledger.id.clone(), book.ledger.unsure().count()), (id, 1));
        book.made(n, "key-1").unwrap();
        // As a disk that is full leaves it: the line that failed in half, and others after it.
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"{\"v\":1,\"at\":5,\"will").unwrap();
        book.gone(n).unwrap();
        let again = Book::peek(&folder, "demo", "us-west-2").unwrap();
        assert_eq!((again.ledger.items.len(), again.ledger.open().count()), (1, 0));
        drop(book);
        // Nothing is left in the old region: the cluster may move.
        let moved = Book::open(&folder, "demo", "eu-west-1", "me@here").unwrap();
        assert_eq!((moved.ledger.region.as_str(), moved.ledger.items.len()), ("eu-west-1", 0));
        drop(moved);
        std::fs::write(&path, "nonsense\n").unwrap();
        let error = Book::peek(&folder, "demo", "us-west-2").err().unwrap();
        assert!(error.text.contains("line 1") && error.hint.unwrap().contains("SHOAL_TAKE_OVER"));
    }
}
