//! How does a keeper tell its warden what happens?
//!
//! Over its stdout, which may block when output goes by pipe and the launcher is slow: never called by the thread that
//! ends ranks before they are ended. A warden that is gone is no error: a detached rank goes on.

use crate::inner::{self, FromKeeper};
use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

pub struct Status(Mutex<Option<File>>);

impl Status {
    pub fn new(stdout: File) -> Status {
        Status(Mutex::new(Some(stdout)))
    }

    pub fn send(&self, message: &FromKeeper) {
        self.with(|to| inner::send_from_keeper(to, message));
    }

    pub fn send_bytes(&self, offset: u64, bytes: &[u8]) {
        self.with(|to| inner::send_bytes(to, offset, bytes));
    }

    fn with(&self, write: impl FnOnce(&mut File) -> io::Result<()>) {
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = to.as_mut()
            && write(file).is_err()
        {
            *to = None;
        }
    }
}
