//! Who does what takes long, so that the loop does not wait? A few threads with one list.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

struct Shared<J> {
    jobs: Mutex<(VecDeque<J>, bool)>,
    changed: Condvar,
}

pub struct Pool<J>(Arc<Shared<J>>);

impl<J: Send + 'static> Pool<J> {
    /// `work` gets up to `batch` jobs at a time.
    pub fn start(
        name: &str,
        threads: usize,
        batch: usize,
        work: impl Fn(Vec<J>) + Send + Sync + 'static,
    ) -> io::Result<Pool<J>> {
        let shared = Arc::new(Shared { jobs: Mutex::new((VecDeque::new(), false)), changed: Condvar::new() });
        let work = Arc::new(work);
        for _ in 0..threads {
            let (shared, work) = (shared.clone(), work.clone());
            let run = move || {
                loop {
                    let mut held = shared.jobs.lock().unwrap_or_else(PoisonError::into_inner);
                    while held.0.is_empty() && !held.1 {
                        held = shared.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
                    }
                    if held.1 {
                        return;
                    }
                    let take = held.0.len().min(batch);
                    let jobs: Vec<J> = held.0.drain(..take).collect();
                    drop(held);
                    work(jobs);
                }
            };
            std::thread::Builder::new().name(name.into()).spawn(run)?;
        }
        Ok(Pool(shared))
    }

    pub fn add(&self, job: J) {
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner).0.push_back(job);
        self.0.changed.notify_one();
    }
}

impl<J> Drop for Pool<J> {
    fn drop(&mut self) {
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.0.changed.notify_all();
    }
}
