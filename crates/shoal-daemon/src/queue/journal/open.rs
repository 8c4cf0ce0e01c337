//! How is a journal's file opened, or made?

use super::{JournalError, SCHEMA};
use rusqlite::{Connection, OpenFlags};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE events (seq INTEGER PRIMARY KEY, version INTEGER NOT NULL, json TEXT NOT NULL);
    -- Which event says how an attempt ended, and whether that was a success.
    CREATE TABLE ended (
        sweep TEXT NOT NULL, cell INTEGER NOT NULL, rep INTEGER NOT NULL, number INTEGER NOT NULL, rank INTEGER NOT NULL,
        success INTEGER NOT NULL, seq INTEGER NOT NULL,
        PRIMARY KEY (sweep, cell, rep, number, rank)
    ) WITHOUT ROWID;
    -- Pages of results are made of this without a look at what failed.
    CREATE INDEX succeeded ON ended (sweep, cell, rep, number, rank) WHERE success;
";

pub(super) fn open(path: &Path) -> Result<Connection, JournalError> {
    let fail = |e| JournalError::of(path, e);
    // For the owner alone from its first moment: command lines and environments are in it (SEC-2).
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(|e| {
        let full = matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT));
        JournalError::Unwritable { path: path.into(), why: e.to_string(), full }
    })?;
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(fail)?;
    db.busy_timeout(Duration::from_secs(1)).map_err(fail)?;
    db.set_prepared_statement_cache_capacity(32);
    let set = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
               PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -16384;";
    // Some of these answer with a row, which `execute_batch` steps over.
    db.execute_batch(set).map_err(fail)?;
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(fail)?;
    if mode != "wal" {
        return Err(JournalError::corrupt(path, format!("it is kept in mode `{mode}`, not with a write-ahead log")));
    }
    let tables: u32 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(fail)?;
    if tables == 0 {
        make(&db).map_err(fail)?;
        // The file's own name has to be there after a power cut, too.
        let folder = path.parent().unwrap_or(Path::new("/"));
        let synced = crate::queue::places::sync_folder(folder);
        synced.map_err(|e| JournalError::Unwritable { path: path.into(), why: e.to_string(), full: false })?;
        return Ok(db);
    }
    let text: Result<String, _> = db.query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| row.get(0));
    let text = text.map_err(|_| JournalError::corrupt(path, "it is not a journal of shoal's".into()))?;
    match text.parse::<u32>() {
        Ok(SCHEMA) => Ok(db),
        Ok(found) if found > SCHEMA => Err(JournalError::Newer { path: path.into(), found, ours: SCHEMA }),
        _ => Err(JournalError::corrupt(path, format!("its version is `{text}`"))),
    }
}

/// In one transaction: a cut leaves an empty file, which is made again.
fn make(db: &Connection) -> rusqlite::Result<()> {
    let all = format!("BEGIN IMMEDIATE; {TABLES} INSERT INTO meta (key, value) VALUES ('schema', '{SCHEMA}'); COMMIT;");
    db.execute_batch(&all)
}
