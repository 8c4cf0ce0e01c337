//! Where does the output of a rank go?
//!
//! Byte for byte to the log file, from which the warden reads: a slow launcher never holds up a rank and never loses
//! bytes. What the file does not take goes to the warden by pipe, and the file is tried again a second later.
//! `<log>.times` has a line `offset unix_ms` for output that came at least 200 ms after the line before.

use super::lookup::plain;
use super::status::Status;
use crate::frame::CHUNK;
use crate::inner::FromKeeper;
use crate::records::unix_ms;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::Timespec;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// News of growth are held back this long, so that a rank that prints lines does not cost a message a line.
const NEWS: Duration = Duration::from_millis(5);
const TIMES: u64 = 200;
const RETRY: Duration = Duration::from_secs(1);
const TAIL_BYTES: usize = 16 << 10;
const TAIL_LINES: usize = 20;

pub struct Log {
    file: Option<File>,
    times: Option<File>,
    /// Whether what was written can be read back.
    pub readable: bool,
    /// Where the next byte goes.
    pub at: u64,
    retry_at: Option<Instant>,
    /// Bytes since the file stopped taking them.
    gap: u64,
}

/// What is known when the output is over.
#[derive(Debug, Default)]
pub struct LogEnd {
    pub bytes: u64,
    /// Not in the log file.
    pub missing: u64,
    pub tail: String,
}

impl Log {
    pub fn open(path: &Path) -> io::Result<Log> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // Others have no business in what a program prints (SEC-2).
        let open = |path: &Path| OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = open(path)?;
        let meta = file.metadata()?;
        let mut times = path.as_os_str().to_owned();
        times.push(".times");
        let times = meta.is_file().then(|| open(Path::new(&times)).ok()).flatten();
        Ok(Log { file: Some(file), times, readable: meta.is_file(), at: meta.len(), retry_at: None, gap: 0 })
    }

    /// For a log that could not be opened.
    pub fn nowhere() -> Log {
        Log { file: None, times: None, readable: false, at: 0, retry_at: None, gap: 0 }
    }

    /// How much of `bytes` is in the file now, and what went wrong.
    fn put(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        let Some(file) = &mut self.file else { return (0, None) };
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            self.gap += bytes.len() as u64;
            return (0, None);
        }
        if self.gap > 0 {
            let note =
                format!("\n[shoal: {} bytes of output are missing here: the log could not be written]\n", self.gap);
            if file.write_all(note.as_bytes()).is_ok() {
                self.at += note.len() as u64;
                self.gap = 0;
            }
        }
        let mut done = 0;
        let mut error = None;
        while done < bytes.len() && (self.gap == 0) {
            match file.write(&bytes[done..]) {
                Ok(0) => error = Some(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => error = Some(e),
            }
            if error.is_some() {
                break;
            }
        }
        self.at += done as u64;
        let rest = (bytes.len() - done) as u64;
        self.gap += rest;
        self.retry_at = (rest > 0).then(|| Instant::now() + RETRY);
        (done, error)
    }
}

/// Output in the log that the warden has not heard of.
#[derive(Default)]
struct News {
    offset: u64,
    at: u64,
    len: u64,
}

impl News {
    fn send(&mut self, status: &Status) {
        if self.len > 0 {
            status.send(&FromKeeper::Filed { offset: self.offset, at: self.at, len: self.len });
            self.len = 0;
        }
    }
}

/// Takes output until its last holder closes it, or `quit`.
pub fn gather(pipe: OwnedFd, mut log: Log, status: &Status, quit: &AtomicBool) -> LogEnd {
    // Fewer turns for a rank that prints much; where it is not allowed, the usual size serves.
    let _ = rustix::pipe::fcntl_setpipe_size(&pipe, CHUNK);
    let mut buf = vec![0u8; CHUNK];
    let mut tail: Vec<u8> = Vec::with_capacity(2 * TAIL_BYTES);
    let (mut end, mut news) = (LogEnd::default(), News::default());
    let (mut told, mut timed, mut complained) = (Instant::now(), 0u64, false);
    loop {
        let wait = if news.len > 0 { NEWS.saturating_sub(told.elapsed()) } else { Duration::from_millis(100) };
        if !ready(&pipe, wait) {
            news.send(status);
            told = Instant::now();
            // Somebody holds our pipe who is no descendant of the rank: its output is not the rank's.
            if quit.load(Ordering::Acquire) && !ready(&pipe, Duration::ZERO) {
                break;
            }
            continue;
        }
        let n = match rustix::io::read(&pipe, &mut buf[..]) {
            Ok(0) => break,
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => break,
        };
        let bytes = &buf[..n];
        let now = unix_ms();
        if now >= timed + TIMES {
            timed = now;
            if let Some(times) = &mut log.times {
                let _ = times.write_all(format!("{} {now}\n", end.bytes).as_bytes());
            }
        }
        keep_tail(&mut tail, bytes);
        let (filed, error) = log.put(bytes);
        if let Some(e) = error.filter(|_| !complained) {
            complained = true;
            status.send(&FromKeeper::Trouble {
                what: format!("its log cannot be written: {}", plain(&e)),
                hint: Some(
                    "the rank goes on and its output still comes here; free some space, and the log goes on too".into(),
                ),
            });
        }
        if filed > 0 && log.readable {
            let at = log.at - filed as u64;
            if news.len > 0 && (news.offset + news.len != end.bytes || news.at + news.len != at) {
                news.send(status);
            }
            if news.len == 0 {
                news = News { offset: end.bytes, at, len: 0 };
            }
            news.len += filed as u64;
        }
        let by_pipe = if log.readable { &bytes[filed..] } else { bytes };
        if !by_pipe.is_empty() {
            news.send(status);
            status.send_bytes(end.bytes + (n - by_pipe.len()) as u64, by_pipe);
        }
        end.missing += (n - filed) as u64;
        end.bytes += n as u64;
        if news.len >= CHUNK as u64 {
            news.send(status);
            told = Instant::now();
        }
    }
    news.send(status);
    end.tail = last_lines(&tail);
    end
}

fn ready(pipe: &OwnedFd, wait: Duration) -> bool {
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos() as _ };
    poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&wait)).is_ok_and(|n| n > 0)
}

fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
    if tail.len() > TAIL_BYTES {
        tail.drain(..tail.len() - TAIL_BYTES);
    }
}

/// The last lines, as text. Pure.
fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded_in_bytes_and_lines() {
        let mut tail = Vec::new();
        for i in 0..10_000 {
            keep_tail(&mut tail, format!("line {i}\n").as_bytes());
        }
        keep_tail(&mut tail, b"no end");
        let text = last_lines(&tail);
        assert_eq!(text.lines().count(), TAIL_LINES);
        assert!(text.starts_with("line 9981\n") && text.ends_with("line 9999\nno end"), "{text}");
        keep_tail(&mut tail, &vec![b'x'; 1 << 20]);
        assert_eq!(tail.len(), TAIL_BYTES);
    }

    #[test]
    fn a_full_disk_is_reported_and_tried_again() {
        let mut log = Log { file: Some(OpenOptions::new().write(true).open("/dev/full").unwrap()), ..Log::nowhere() };
        let (done, error) = log.put(b"abc");
        assert_eq!((done, error.unwrap().raw_os_error()), (0, Some(libc::ENOSPC)));
        assert_eq!(log.put(b"de").0, 0, "not tried again at once");
        let file = tempfile::NamedTempFile::new().unwrap();
        log.file = Some(file.reopen().unwrap());
        log.retry_at = None;
        assert_eq!(log.put(b"fg").0, 2);
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(text.contains("5 bytes of output are missing") && text.ends_with("]\nfg"), "{text}");
        assert_eq!(log.at, text.len() as u64);
    }
}
