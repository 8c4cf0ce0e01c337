//! What of a program's output is passed on: whole lines, not too long, not too many at once.
//!
//! Programs write to a file, not to us: what they leave behind may go on writing when we are gone.

use shoal_core::cluster::steps::wire::LAST_LINES;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Longer lines are cut.
const LONGEST: usize = 1000;
/// Passed on at a time; the rest is in the file.
const MOST_AT_ONCE: usize = 100;
/// Read at a time; what a flood brings beyond that is skipped over.
const READ_AT_ONCE: u64 = 1 << 20;
/// A log that grows beyond this begins anew: a home has a quota.
const LARGEST: u64 = 64 << 20;

/// What bash says when it has no terminal; nobody can do anything about it.
const COMPLAINTS: [&str; 2] = ["cannot set terminal process group", "no job control in this shell"];

pub struct Output {
    file: File,
    at: u64,
    part: Vec<u8>,
    last: VecDeque<String>,
    lines: u64,
}

impl Output {
    pub fn of(file: File) -> Output {
        Output { file, at: 0, part: Vec::new(), last: VecDeque::new(), lines: 0 }
    }

    /// New lines. In the `end`, one that has no end of its own counts too.
    pub fn more(&mut self, end: bool) -> Vec<String> {
        let mut lines = self.read().unwrap_or_default();
        if end && !self.part.is_empty() {
            let part = std::mem::take(&mut self.part);
            lines.extend(self.line(&part));
        }
        for line in &lines {
            if self.last.len() == LAST_LINES {
                self.last.pop_front();
            }
            self.last.push_back(line.clone());
        }
        let left_out = lines.len().saturating_sub(MOST_AT_ONCE);
        if left_out > 0 {
            lines.drain(..left_out);
            lines.insert(0, format!("({left_out} lines left out here; they are in the log)"));
        }
        lines
    }

    pub fn last(self) -> Vec<String> {
        self.last.into()
    }

    fn read(&mut self) -> io::Result<Vec<String>> {
        let size = self.file.metadata()?.len();
        if size < self.at {
            self.at = 0;
        }
        if size - self.at > READ_AT_ONCE {
            self.at = size - READ_AT_ONCE;
            self.part.clear();
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        self.at += (&self.file).take(READ_AT_ONCE).read_to_end(&mut bytes)? as u64;
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.part.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let part = std::mem::take(&mut self.part);
                lines.extend(self.line(&part));
            }
        }
        if size > LARGEST {
            // Only now: the last that was said may be why it fails. Whoever writes appends, so that they go on at the new end.
            self.file.set_len(0)?;
            self.at = 0;
            lines.insert(0, format!("(the log was larger than {} MB and begins anew)", LARGEST >> 20));
        }
        // A progress bar may draw for hours without ending its line.
        if self.part.len() > 16 * LONGEST {
            self.part.drain(..self.part.len() - LONGEST);
        }
        Ok(lines)
    }

    fn line(&mut self, bytes: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        // What a terminal would show in the end.
        let text = text.rsplit('\r').next().unwrap_or_default();
        self.lines += 1;
        if self.lines <= 2 && text.starts_with("bash: ") && COMPLAINTS.iter().any(|words| text.contains(words)) {
            return None;
        }
        Some(plain(text))
    }
}

/// Without colours and other commands to a terminal, cut to what fits.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().take(LONGEST * 4);
    while let Some(c) = chars.next() {
        match c {
            // `ESC [ ... letter`.
            '\u{1b}' => while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {},
            '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    match out.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &out[..end]),
        None => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_come_whole_plain_and_bounded() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut output = Output::of(file.try_clone().expect("a handle"));
        let mut write = |text: &str| {
            file.seek(SeekFrom::End(0)).expect("the end");
            file.write_all(text.as_bytes()).expect("text");
        };
        write("bash: cannot set terminal process group (7): Inappropriate ioctl for device\n");
        write("bash: no job control in this shell\none\ntw");
        assert_eq!(output.more(false), ["one"]);
        write("o\n 10%\r 50%\r100%\n\u{1b}[31mred\u{1b}[0m\n");
        assert_eq!(output.more(false), ["two", "100%", "red"]);
        write(&"x\n".repeat(300));
        let many = output.more(false);
        assert_eq!(many.len(), 101);
        assert!(many[0].contains("200 lines left out"), "{}", many[0]);
        write(&"y".repeat(5000));
        assert!(output.more(false).is_empty());
        assert_eq!(output.more(true)[0].len(), LONGEST + 3);
        assert_eq!(output.last().len(), LAST_LINES);
    }

    #[test]
    fn the_last_words_of_a_flood_are_heard() {
        let mut file = tempfile::tempfile().expect("a file");
        let mut output = Output::of(file.try_clone().expect("a handle"));
        file.set_len(LARGEST).expect("a long file");
        file.seek(SeekFrom::End(0)).expect("the end");
        file.write_all(b"\nno such package\n").expect("text");
        assert!(output.more(false)[0].contains("begins anew"));
        assert_eq!(file.metadata().expect("a file").len(), 0);
        file.rewind().expect("the new end");
        file.write_all(b"bye").expect("text");
        assert_eq!(output.more(true), ["bye"]);
        assert_eq!(output.last()[2..], ["no such package", "bye"]);
    }
}
