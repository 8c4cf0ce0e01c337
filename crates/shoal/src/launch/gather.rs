//! What ranks write, on the launching machine: into files under the same names as on their hosts, and their last lines for people.

use shoal_core::rank::Rank;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A line longer than this is shown in parts.
const LONGEST_LINE: usize = 8 << 10;
/// Of a large piece of output, this much at its end is looked at for the last line.
const LOOK_AT: usize = 8 << 10;

pub struct Gather {
    ranks: BTreeMap<Rank, Mutex<Output>>,
    /// Prints every line, with its rank in front.
    streaming: bool,
    width: usize,
    /// Nobody reads what is printed.
    deaf: AtomicBool,
}

struct Output {
    path: Option<PathBuf>,
    file: Option<File>,
    /// Bytes taken so far; the next ones begin here.
    taken: u64,
    /// The line that is not complete yet.
    open: Vec<u8>,
    last: String,
    problem: Option<String>,
}

impl Gather {
    /// `files`: where each rank's output goes; `None` where its host writes to this machine's files itself.
    pub fn new(files: impl IntoIterator<Item = (Rank, Option<PathBuf>)>, streaming: bool) -> Gather {
        let output = |path| Output { path, file: None, taken: 0, open: Vec::new(), last: String::new(), problem: None };
        let ranks: BTreeMap<Rank, Mutex<Output>> =
            files.into_iter().map(|(rank, path)| (rank, Mutex::new(output(path)))).collect();
        let width = ranks.keys().map(|rank| rank.to_string().len()).max().unwrap_or(0);
        Gather { ranks, streaming, width, deaf: AtomicBool::new(false) }
    }

    fn rank(&self, rank: Rank) -> Option<MutexGuard<'_, Output>> {
        self.ranks.get(&rank).map(|output| output.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The rank has started: its log is there from now on, even if nothing ever comes.
    pub fn begin(&self, rank: Rank) {
        if let Some(mut output) = self.rank(rank).filter(|output| output.taken == 0) {
            output.open_file();
        }
    }

    /// Takes a piece of a rank's output.
    pub fn take(&self, rank: Rank, offset: u64, bytes: &[u8]) {
        let Some(mut output) = self.rank(rank) else { return };
        // Pieces come in order and without gaps; one that was sent twice is taken once.
        let known = output.taken.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let (bytes, offset) = (&bytes[known..], offset + known as u64);
        output.keep(offset, bytes);
        output.taken = offset + bytes.len() as u64;
        let bytes = if self.streaming { bytes } else { output.skip_to_the_end(bytes) };
        let mut shown = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let ends = piece.ends_with(b"\n");
            let mut parts = piece.chunks(LONGEST_LINE).peekable();
            while let Some(part) = parts.next() {
                output.open.extend_from_slice(part);
                if (ends && parts.peek().is_none()) || output.open.len() >= LONGEST_LINE {
                    output.show(rank, self.width, self.streaming.then_some(&mut shown));
                }
            }
        }
        if !shown.is_empty() {
            // A reader that went away is no reason to end a run.
            if std::io::stdout().lock().write_all(&shown).is_err() {
                self.deaf.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The rank's last line, as far as it has come.
    pub fn last_line(&self, rank: Rank) -> String {
        let Some(output) = self.rank(rank) else { return String::new() };
        match clean(&output.open) {
            open if open.is_empty() => output.last.clone(),
            open => open,
        }
    }

    /// Whether whoever read stdout is gone.
    pub fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }

    pub fn taken(&self, rank: Rank) -> u64 {
        self.rank(rank).map_or(0, |output| output.taken)
    }

    /// Shows what ranks have left of a line, and says what could not be kept.
    pub fn finish(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for rank in self.ranks.keys() {
            let Some(mut output) = self.rank(*rank) else { continue };
            let mut shown = Vec::new();
            if !output.open.is_empty() {
                output.show(*rank, self.width, self.streaming.then_some(&mut shown));
                let _ = std::io::stdout().lock().write_all(&shown);
            }
            problems.extend(output.problem.take());
            problems.extend(output.was_deleted());
        }
        problems
    }
}

impl Output {
    /// Only the last line is shown, and looking at millions before it takes longer than writing them to disk.
    fn skip_to_the_end<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(from) = bytes.len().checked_sub(LOOK_AT).filter(|from| *from > 0) else { return bytes };
        self.open.clear();
        let end = &bytes[from..];
        end.iter().position(|b| *b == b'\n').map_or(end, |newline| &end[newline + 1..])
    }

    /// Somebody removed the file while it was written; what it held is gone with it.
    fn was_deleted(&self) -> Option<String> {
        let links = std::os::unix::fs::MetadataExt::nlink(&self.file.as_ref()?.metadata().ok()?);
        let path = self.path.as_ref().filter(|_| links == 0)?;
        Some(format!("{} was removed during the run; its host has the log", path.display()))
    }

    fn open_file(&mut self) {
        let Some(path) = self.path.as_ref().filter(|_| self.file.is_none()) else { return };
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        match made.and_then(|()| File::options().write(true).create_new(true).open(path)) {
            Ok(file) => self.file = Some(file),
            // The host writes into the same folder (a shared file system): it is here already.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => self.problem = Some(format!("{} cannot be written: {e}", path.display())),
        }
    }

    fn keep(&mut self, offset: u64, bytes: &[u8]) {
        if offset == 0 && self.taken == 0 {
            self.open_file();
        }
        if let Some(file) = &self.file
            && let Err(e) = file.write_all_at(bytes, offset)
        {
            let path = self.path.as_deref().map_or_else(String::new, |p| p.display().to_string());
            self.problem
                .get_or_insert_with(|| format!("{path} is incomplete from byte {offset} on: {e}; the host has it all"));
        }
    }

    /// One line is complete.
    fn show(&mut self, rank: Rank, width: usize, stream: Option<&mut Vec<u8>>) {
        let line = clean(&self.open);
        if let Some(out) = stream {
            let text = String::from_utf8_lossy(&self.open);
            out.extend_from_slice(format!("{rank:<width$} | {}\n", text.trim_end_matches(['\n', '\r'])).as_bytes());
        }
        if !line.is_empty() {
            self.last = line;
        }
        self.open.clear();
    }
}

/// A line for a table: what stands after the last carriage return (progress bars), without control characters.
fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.trim_end_matches(['\n', '\r']).rsplit('\r').next().unwrap_or_default();
    let mut out = String::new();
    let mut escape = false;
    for c in line.chars().take(400) {
        match c {
            '\u{1b}' => escape = true,
            c if escape => escape = !c.is_ascii_alphabetic(),
            '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people_have_no_escapes_and_only_the_last_state_of_a_bar() {
        assert_eq!(clean(b"10%\r50%\r\x1b[32m100%\x1b[0m\n"), "100%");
        assert_eq!(clean(b"a\tb\x07\n"), "a b");
    }

    #[test]
    fn pieces_are_kept_at_their_place_and_twice_sent_ones_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/worker0.log");
        let gather = Gather::new([(Rank::Worker(0), Some(path.clone()))], false);
        gather.begin(Rank::Worker(0));
        assert_eq!(std::fs::read(&path).expect("an empty log"), b"");
        gather.take(Rank::Worker(0), 0, b"one\ntw");
        gather.take(Rank::Worker(0), 4, b"two\nthr");
        assert_eq!(gather.last_line(Rank::Worker(0)), "thr");
        assert_eq!(std::fs::read(path).expect("the log"), b"one\ntwo\nthr");
        assert!(gather.finish().is_empty());
        assert_eq!(gather.taken(Rank::Worker(0)), 11);
    }

    #[test]
    fn of_much_output_the_last_line_is_found() {
        let gather = Gather::new([(Rank::Worker(0), None)], false);
        let mut text = "a line like any other\n".repeat(10_000);
        text.push_str("the last one\n\nand a beg");
        gather.take(Rank::Worker(0), 0, text.as_bytes());
        assert_eq!(gather.last_line(Rank::Worker(0)), "and a beg");
        gather.take(Rank::Worker(0), text.len() as u64, b"inning\n");
        assert_eq!(gather.last_line(Rank::Worker(0)), "and a beginning");
        let endless = vec![b'x'; 100_000];
        gather.take(Rank::Worker(0), text.len() as u64 + 7, &endless);
        assert!(gather.last_line(Rank::Worker(0)).starts_with("xxx"));
    }
}
