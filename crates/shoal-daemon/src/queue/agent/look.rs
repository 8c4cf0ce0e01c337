//! What did a run that is over leave: numbers, last lines, files?

use super::note::Note;
use super::numbers::{self, Numbers};
use super::{about, room, tensorboard};
use crate::keeper::command::{expand, home};
use crate::queue::keeper::diary::note;
use crate::queue::keeper::folder::{Folder, make};
use crate::queue::keeper::packs::{self, Packed};
use crate::queue::keeper::words::Over;
use shoal_core::queue::work::{Ended, Ending, Publish};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const TAIL_LINES: usize = 20;
const TAIL_BYTES: u64 = 4 << 10;

pub struct Looked {
    pub name: String,
    pub note: Note,
    pub ended: Ended,
    /// Its folder, if it succeeded and left something in it, or gets a place in any case.
    pub leaves: Option<PathBuf>,
}

/// What is known without looking.
pub fn plain(over: &Over, note: &Note) -> Ended {
    Ended {
        attempt: note.attempt.clone(),
        rank: note.rank,
        ending: over.ending.clone(),
        began: over.began,
        ended: over.ended,
        cpu_ms: over.cpu_ms,
        peak_memory_bytes: over.peak_memory_bytes,
        peak_gpu_bytes: 0,
        output_bytes: over.output.map_or(0, |place| place.len),
        metrics: Vec::new(),
        tail: String::new(),
        results: None,
    }
}

/// Reads what it left. What is of no use to anybody is removed; what a run that failed left is put aside.
pub fn look(folder: &Folder, over: &Over, note: Note) -> Looked {
    let mut ended = plain(over, &note);
    let room = [folder.work(), folder.attempts()].map(|at| at.join(&over.name)).into_iter().find(|at| at.is_dir());
    let mut numbers = Numbers::default();
    if let Some(place) = over.output
        && let Ok(packed) = packs::open(&folder.packs(), &over.name, place)
    {
        numbers.merge(numbers::of_tail(&packed, packed.len).unwrap_or_default());
        if !over.ending.success() {
            ended.tail = tail(&packed);
        }
    }
    let mut leaves = None;
    if let Some(room) = room {
        numbers.merge(tensorboard::of_folder(&room));
        numbers.merge(of_file(&room.join("metrics.jsonl")));
        let empty = is_empty(&room, &note.ours);
        match (over.ending.success(), empty) {
            (true, empty) if !empty || note.always => leaves = Some(room),
            (false, false) => put_aside(folder, &over.name),
            (false, true) => drop(room::remove(&room)),
            // Removed when its end is acknowledged, not before: whose folder is not there has lost it.
            (true, _) => {}
        }
    } else if over.ending.success() {
        // Looked at before, by an agent that was killed after it had put the results in place: the same is told again.
        let place = match &note.publish {
            Publish::Folder(to) => Some((to, expand(to, &home(&std::env::vars_os().collect())))),
            Publish::Send(_) => None,
        };
        if let Some((to, place)) = place.filter(|(_, place)| about::is_there(place, &note)) {
            numbers.merge(tensorboard::of_folder(&place));
            numbers.merge(of_file(&place.join("metrics.jsonl")));
            ended.results = Some(to.clone());
        } else {
            let room = folder.work().join(&over.name);
            let why = format!("its folder {} was removed before its results were taken from it", room.display());
            ended.ending = Ending::lost(why);
        }
    }
    ended.metrics = numbers.into_pairs();
    Looked { name: over.name.clone(), note, ended, leaves }
}

pub fn of_file(path: &Path) -> Numbers {
    let read = File::open(path).and_then(|file| {
        let len = file.metadata()?.len();
        numbers::of_tail(&file, len)
    });
    read.unwrap_or_default()
}

/// Whether there is nothing but what was put there for it.
fn is_empty(room: &Path, ours: &[String]) -> bool {
    let is_ours = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| ours.iter().any(|own| own == name));
    fs::read_dir(room).into_iter().flatten().flatten().all(|entry| is_ours(&entry.file_name()))
}

/// What a run leaves that did not succeed: nobody counts it as a result, and nothing is lost.
pub fn put_aside(folder: &Folder, name: &str) {
    let (from, to) = (folder.work().join(name), folder.attempts().join(name));
    if from.is_dir() {
        let _ = room::remove(&to);
        let moved = fs::rename(&from, &to).or_else(|_| make(&folder.attempts()).and_then(|()| fs::rename(&from, &to)));
        // As old as its end, and not as the last file that it made: the oldest go first.
        super::store::touch(&to);
        if let Err(e) = moved {
            note("agent", format!("{} could not be put aside: {e}", from.display()));
        }
    }
}

/// The last lines; of a longer output, without the first, which may be half a line.
fn tail(packed: &Packed) -> String {
    let start = packed.len.saturating_sub(TAIL_BYTES);
    let bytes = numbers::read(packed, start, packed.len - start).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(&bytes), start > 0)
}

/// Pure.
fn last_lines(text: &str, cut: bool) -> String {
    let text = match text.split_once('\n') {
        Some((_, rest)) if cut && !rest.is_empty() => rest,
        _ => text,
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    if !tail.is_empty() {
        tail.push('\n');
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_twenty_lines() {
        let text: String = (0..30).map(|k| format!("{k}\n")).collect();
        let tail = last_lines(&text, false);
        assert!(tail.starts_with("10\n") && tail.ends_with("29\n"));
        assert_eq!(last_lines("half\nwhole", true), "whole\n");
        assert_eq!(last_lines("only", true), "only\n");
        assert_eq!(last_lines("", false), "");
    }
}
