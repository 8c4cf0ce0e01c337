//! What can be wrong with a journal, and what to do?

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum JournalError {
    #[error("{} was written by a newer shoal (version {found}; this one knows {ours})", path.display())]
    Newer { path: PathBuf, found: u32, ours: u32 },
    #[error("{} cannot be read: {why}", path.display())]
    Corrupt { path: PathBuf, why: String },
    #[error("{} is used by another process", path.display())]
    Busy { path: PathBuf },
    /// `full`: for want of room, so that it may work again later.
    #[error("{} cannot be written: {why}", path.display())]
    Unwritable { path: PathBuf, why: String, full: bool },
}

impl JournalError {
    pub(super) fn of(path: &Path, error: rusqlite::Error) -> JournalError {
        let path = path.to_path_buf();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                JournalError::Corrupt { path, why: error.to_string() }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::Busy { path },
            Some(ErrorCode::DiskFull) => {
                JournalError::Unwritable { path, why: "no space is left on the disk".into(), full: true }
            }
            // A quota, a drive that went away: SQLite calls all of it "disk I/O error".
            Some(ErrorCode::SystemIoFailure) => JournalError::Unwritable { path, why: error.to_string(), full: true },
            _ => JournalError::Unwritable { path, why: error.to_string(), full: false },
        }
    }

    pub(super) fn corrupt(path: &Path, why: String) -> JournalError {
        JournalError::Corrupt { path: path.into(), why }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            JournalError::Newer { .. } => "use the newer shoal, or another store (SHOAL_STORE)".into(),
            JournalError::Corrupt { path, .. } => format!(
                "nothing was changed. Put back a copy of it, or move it away together with {0}-wal to begin with an empty queue; \
                 `sqlite3 {0} .recover` saves what can be read",
                path.display()
            ),
            JournalError::Busy { .. } => "is another daemon running on this store? end it first".into(),
            JournalError::Unwritable { full: true, .. } => {
                "free space there. Runs go on, and what they give waits on their hosts".into()
            }
            JournalError::Unwritable { .. } => "look at the rights and the drive of that file".into(),
        }
    }
}
