//! Which numbers do live runs print? Looked for every two seconds, and told when they changed.

use super::numbers::{Growing, Numbers};
use super::outbox::Outbox;
use super::shelf::Shelf;
use super::tensorboard;
use crate::queue::keeper::folder::Folder;
use crate::queue::keeper::logs;
use shoal_core::queue::Attempt;
use shoal_core::queue::line::FromHost;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub const EVERY: Duration = Duration::from_secs(2);
/// Of a file that grew, at most at a time.
const MOST: u64 = 256 << 10;
/// Event files are looked for every so many times: that takes a walk through the folder.
const WALK_EVERY: u32 = 5;

#[derive(Default)]
struct One {
    numbers: Numbers,
    log: Growing,
    file: Growing,
    events: HashMap<PathBuf, tensorboard::Reader>,
}

/// Whose numbers a name's are.
pub type Attempts = Arc<Mutex<HashMap<String, Attempt>>>;

/// Until the line is over.
pub fn watch(folder: &Folder, shelf: &Shelf, attempts: &Attempts, outbox: &Outbox) {
    let mut known: HashMap<String, One> = HashMap::new();
    for turn in 0u32.. {
        for _ in 0..20 {
            std::thread::sleep(EVERY / 20);
            if outbox.is_closed() {
                return;
            }
        }
        let live = shelf.live();
        known.retain(|name, _| live.iter().any(|(alive, ..)| alive == name));
        for (name, log, _) in live {
            let Some(attempt) = attempts.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned() else {
                continue;
            };
            let one = known.entry(name.clone()).or_default();
            let before = one.numbers.clone();
            let room = folder.work().join(&name);
            grow(&mut one.log, &logs::path(&folder.live(), log), &mut one.numbers);
            if turn % WALK_EVERY == 0 {
                for path in tensorboard::files(&room) {
                    one.events.entry(path).or_default();
                }
            }
            for (path, reader) in &mut one.events {
                if let Ok(file) = File::open(path)
                    && let Ok(meta) = file.metadata()
                {
                    let _ = reader.take(&file, meta.len(), &mut one.numbers);
                }
            }
            grow(&mut one.file, &room.join("metrics.jsonl"), &mut one.numbers);
            if one.numbers != before {
                outbox.say(&FromHost::Metrics { attempt, metrics: one.numbers.pairs().to_vec() });
            }
        }
    }
}

fn grow(growing: &mut Growing, path: &Path, numbers: &mut Numbers) {
    if let Ok(file) = File::open(path)
        && let Ok(meta) = file.metadata()
    {
        let _ = growing.take(&file, meta.len(), MOST, numbers);
    }
}
