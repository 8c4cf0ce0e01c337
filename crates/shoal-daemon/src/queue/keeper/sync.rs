//! When is what was written on disk?
//!
//! One thread syncs for all that came meanwhile: a moment after the first end, then at most every few milliseconds, however many runs end.

use rustix::event::{EventfdFlags, eventfd};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two syncs, at least: each costs the disk, and processors that runs need.
const EVERY: Duration = Duration::from_millis(20);
const RETRY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Shared {
    /// Everything up to this number is in the files.
    wanted: u64,
    done: u64,
    files: Vec<Arc<File>>,
    problem: Option<String>,
}

pub struct Syncer {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    /// Readable when something was synced.
    pub woken: Arc<OwnedFd>,
}

impl Syncer {
    pub fn start() -> io::Result<Syncer> {
        let woken = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let shared = Arc::new((Mutex::new(Shared::default()), Condvar::new()));
        let (mine, wake) = (shared.clone(), woken.clone());
        std::thread::Builder::new().name("sync".into()).stack_size(128 << 10).spawn(move || work(&mine, &wake))?;
        Ok(Syncer { shared, woken })
    }

    /// Asks for `files` to be synced; `number` is done then.
    pub fn want(&self, number: u64, files: impl IntoIterator<Item = Arc<File>>) {
        let mut shared = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.wanted = shared.wanted.max(number);
        for file in files {
            if !shared.files.iter().any(|known| Arc::ptr_eq(known, &file)) {
                shared.files.push(file);
            }
        }
        self.shared.1.notify_one();
    }

    /// Up to which number all is on disk, and what is in the way of the rest.
    pub fn done(&self) -> (u64, Option<String>) {
        let mut drain = [0u8; 8];
        let _ = rustix::io::read(&*self.woken, &mut drain);
        let shared = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        (shared.done, shared.problem.clone())
    }
}

fn work(shared: &(Mutex<Shared>, Condvar), woken: &OwnedFd) {
    let mut last = None::<Instant>;
    loop {
        {
            let mut held = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            while held.wanted <= held.done {
                held = shared.1.wait(held).unwrap_or_else(PoisonError::into_inner);
            }
        }
        if let Some(last) = last {
            std::thread::sleep(EVERY.saturating_sub(last.elapsed()));
        }
        let (number, files) = {
            let mut held = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            (held.wanted, std::mem::take(&mut held.files))
        };
        last = Some(Instant::now());
        let problem = files.iter().find_map(|file| file.sync_data().err()).map(|e| e.to_string());
        let failed = problem.is_some();
        {
            let mut held = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            if failed {
                held.files.extend(files);
            } else {
                held.done = number;
            }
            held.problem = problem;
        }
        let _ = rustix::io::write(woken, &1u64.to_ne_bytes());
        if failed {
            std::thread::sleep(RETRY);
        }
    }
}
