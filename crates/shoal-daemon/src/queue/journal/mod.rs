//! What has happened, durable. The queue in memory is made of this and of nothing else (CORE-2).
//!
//! One SQLite file. Events are numbered rows of JSON; ends are indexed, so that the results of a sweep and the tail of a failed run
//! are found without being kept in memory. `append` is one transaction and returns when it is on disk (QUEUE-1): write-ahead log,
//! `synchronous=FULL`. The lock is exclusive, so SQLite needs no memory shared with other processes, which file systems over a
//! network do not have.

mod ends;
mod error;
mod open;

pub use ends::{EndRow, Finished};
pub use error::JournalError;

use rusqlite::{Connection, TransactionBehavior};
use shoal_core::queue::event::{EVENT_VERSION, Event};
use std::path::{Path, PathBuf};

/// Of the tables (WIRE-1). Events have a version of their own.
pub const SCHEMA: u32 = 1;

pub struct Journal {
    db: Connection,
    path: PathBuf,
    /// The number of the last event.
    last: i64,
}

impl Journal {
    /// Opens it, or makes a new one where there is none. Never makes a new one over what cannot be read.
    pub fn open(path: &Path) -> Result<Journal, JournalError> {
        let db = open::open(path)?;
        let fail = |e| JournalError::of(path, e);
        let last = db.query_row("SELECT coalesce(max(seq), 0) FROM events", [], |row| row.get(0)).map_err(fail)?;
        Ok(Journal { db, path: path.into(), last })
    }

    /// All of them, or none; durable when it returns.
    pub fn append(&mut self, events: &[Event]) -> Result<(), JournalError> {
        if events.is_empty() {
            return Ok(());
        }
        let fail = |e| JournalError::of(&self.path, e);
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        let mut seq = self.last;
        {
            let insert = "INSERT INTO events (seq, version, json) VALUES (?1, ?2, ?3)";
            let mut insert = transaction.prepare_cached(insert).map_err(fail)?;
            let mut json = Vec::with_capacity(1024);
            for event in events {
                seq += 1;
                json.clear();
                serde_json::to_writer(&mut json, event).map_err(|e| JournalError::Unwritable {
                    path: self.path.clone(),
                    why: e.to_string(),
                    full: false,
                })?;
                // SQLite keeps it as text; serde_json writes nothing else.
                let text = std::str::from_utf8(&json).unwrap_or_default();
                insert.execute((seq, EVENT_VERSION, text)).map_err(fail)?;
                ends::index(&transaction, seq, event).map_err(fail)?;
            }
        }
        transaction.commit().map_err(fail)?;
        self.last = seq;
        Ok(())
    }

    /// Every event, in order. Stops at the first that cannot be understood.
    pub fn replay(&self, mut take: impl FnMut(Event)) -> Result<u64, JournalError> {
        let fail = |e| JournalError::of(&self.path, e);
        let mut select = self.db.prepare("SELECT seq, version, json FROM events ORDER BY seq").map_err(fail)?;
        let mut rows = select.query([]).map_err(fail)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(fail)? {
            let (seq, version): (i64, u32) = (row.get(0).map_err(fail)?, row.get(1).map_err(fail)?);
            if version > EVENT_VERSION {
                return Err(JournalError::Newer { path: self.path.clone(), found: version, ours: EVENT_VERSION });
            }
            let text = row.get_ref(2).map_err(fail)?;
            let text = text.as_str().map_err(|e| JournalError::corrupt(&self.path, format!("event {seq}: {e}")))?;
            let event = serde_json::from_str(text)
                .map_err(|e| JournalError::corrupt(&self.path, format!("event {seq} cannot be understood: {e}")))?;
            take(event);
            count += 1;
        }
        Ok(count)
    }

    /// Whether it can be written: a small transaction that changes nothing anybody reads.
    pub fn probe(&mut self) -> Result<(), JournalError> {
        let write = "INSERT INTO meta (key, value) VALUES ('probe', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1";
        // Pages' worth of it: a full disk takes the few bytes that are left over in the last page.
        let text = "-".repeat(16 << 10);
        self.db.execute(write, [text]).map_err(|e| JournalError::of(&self.path, e))?;
        self.db.execute("DELETE FROM meta WHERE key = 'probe'", []).map_err(|e| JournalError::of(&self.path, e))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
