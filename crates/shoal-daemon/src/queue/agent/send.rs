//! How do results get to a daemon whose folder this host does not see? As a tar, in pieces, over the line.

use super::about::{self, Here, run_json};
use super::note::Note;
use super::outbox::Outbox;
use shoal_core::queue::Attempt;
use shoal_core::queue::line::FromHost;
use shoal_core::queue::work::{Ended, Origin};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

const PIECE: usize = 256 << 10;

/// What one run leaves, to be sent.
pub struct Sending {
    pub name: String,
    pub room: PathBuf,
    pub note: Note,
    pub ended: Ended,
    pub here: Here,
}

/// Cuts what is written into pieces of the line. The last one is known only when nothing more comes.
struct Pieces<'a> {
    outbox: &'a Arc<Outbox>,
    attempt: &'a Attempt,
    rank: u32,
    at: u64,
    held: Vec<u8>,
}

impl Pieces<'_> {
    fn send(&mut self, last: bool) -> io::Result<()> {
        let message = FromHost::Result { attempt: self.attempt.clone(), at: self.at, last, rank: self.rank };
        if !self.outbox.send_piece(&message, &self.held) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.at += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.len() == PIECE {
            self.send(false)?;
        }
        let n = bytes.len().min(PIECE - self.held.len());
        self.held.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends all that is in its folder and not ours, and `run.json`. Whether it arrived is heard later.
pub fn send(outbox: &Arc<Outbox>, sending: &Sending) -> io::Result<()> {
    let Sending { room, note, ended, here, .. } = sending;
    let pieces = Pieces { outbox, attempt: &note.attempt, rank: note.rank, at: 0, held: Vec::with_capacity(PIECE) };
    let mut tar = tar::Builder::new(pieces);
    tar.follow_symlinks(false);
    let file = about::name(room, note);
    for entry in fs::read_dir(room)? {
        let entry = entry?;
        let name = entry.file_name();
        if note.ours.iter().any(|own| name == own.as_str()) || name == file {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            tar.append_dir_all(&name, entry.path())?;
        } else if kind.is_file() || kind.is_symlink() {
            tar.append_path_with_name(entry.path(), &name)?;
        }
    }
    // The daemon has the difference itself, and puts it there.
    let diff = note.origin.as_ref().and_then(Origin::diff_name).map(|name| format!("../../{name}"));
    let text = run_json(note, ended, here, diff);
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(ended.ended / 1000);
    tar.append_data(&mut header, file, text.as_bytes())?;
    tar.into_inner()?.send(true)
}
