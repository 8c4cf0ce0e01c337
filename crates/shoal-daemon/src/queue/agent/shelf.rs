//! Where is the output of each run now? Kept by the loop, read by whoever serves logs and looks for numbers.

use crate::queue::keeper::words::Place;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// It has not begun, or only just.
    Waits,
    /// In `live/<number>.log`.
    Live { log: u64, pid: u32 },
    /// It is over; nothing if it printed nothing.
    Packed(Option<Place>),
}

#[derive(Default)]
pub struct Shelf {
    places: Mutex<HashMap<String, Where>>,
    /// The most GPU memory that each run was seen with.
    peaks: Mutex<HashMap<String, u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    pub fn put(&self, name: &str, at: Where) {
        lock(&self.places).insert(name.into(), at);
    }

    pub fn get(&self, name: &str) -> Option<Where> {
        lock(&self.places).get(name).copied()
    }

    pub fn remove(&self, name: &str) {
        lock(&self.places).remove(name);
        lock(&self.peaks).remove(name);
    }

    /// Name, log and pid of all that live.
    pub fn live(&self) -> Vec<(String, u64, u32)> {
        let places = lock(&self.places);
        let live = places.iter().filter_map(|(name, at)| match at {
            Where::Live { log, pid } => Some((name.clone(), *log, *pid)),
            _ => None,
        });
        live.collect()
    }

    pub fn saw_gpu_memory(&self, name: &str, bytes: u64) {
        let mut peaks = lock(&self.peaks);
        let peak = peaks.entry(name.into()).or_default();
        *peak = bytes.max(*peak);
    }

    pub fn peak_gpu_memory(&self, name: &str) -> u64 {
        lock(&self.peaks).get(name).copied().unwrap_or(0)
    }
}
