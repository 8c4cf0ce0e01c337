//! What does the daemon tell whoever looks after it? Lines of daemon.log, and of stderr when it was started by hand.
//!
//! Never a token, an environment or a command line (SEC-2).

use crate::queue::places::Store;
use crate::records::unix_ms;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;

/// Then it becomes daemon.log.1 and a new one begins.
const MOST: u64 = 8 << 20;

pub struct Log {
    path: PathBuf,
    to: Mutex<Option<(File, u64)>>,
    loud: bool,
}

impl Log {
    pub fn open(store: &Store, loud: bool) -> Log {
        let path = store.log();
        let to = Mutex::new(open(&path));
        Log { path, to, loud }
    }

    /// Where it cannot be written, on a full disk, the line is lost: nothing may depend on it.
    pub fn say(&self, text: impl AsRef<str>) {
        let text = text.as_ref().replace('\n', " | ");
        let line = format!("{} {text}\n", shoal_core::queue::render::time::iso(unix_ms()));
        if self.loud {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        let mut to = self.to.lock().unwrap_or_else(|e| e.into_inner());
        if to.as_ref().is_some_and(|(_, length)| *length > MOST) {
            let _ = std::fs::rename(&self.path, self.path.with_extension("log.1"));
            *to = open(&self.path);
        }
        if let Some((file, length)) = to.as_mut() {
            *length += line.len() as u64;
            let _ = file.write_all(line.as_bytes());
        }
    }
}

fn open(path: &std::path::Path) -> Option<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok()?;
    let length = file.metadata().map_or(0, |meta| meta.len());
    Some((file, length))
}
