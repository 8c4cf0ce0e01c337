//! What is sent to the launcher next?
//!
//! One thread writes to stdout and may wait there; nobody else does. Messages go before output, ranks take turns. Output
//! waits in the log files, not here: this holds at most [`IN_MEMORY`] bytes a rank, of what a log did not take.

use crate::frame::{self, CHUNK, OUTPUT};
use crate::protocol::{self, FromWarden};
use shoal_core::rank::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of a rank that may wait here; beyond, its keeper waits.
const IN_MEMORY: usize = 4 << 20;
/// Of complaints; beyond, they are dropped.
const TROUBLES: usize = 1000;

/// A piece of output that is to be sent.
enum Part {
    Filed { offset: u64, at: u64, len: u64 },
    Bytes { offset: u64, bytes: Vec<u8> },
}

struct Lane {
    rank: Rank,
    file: Option<Arc<File>>,
    parts: VecDeque<Part>,
    in_memory: usize,
    /// Up to where output was handed in.
    end: u64,
    /// Where in its log file the last of it lies.
    file_end: u64,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Vec<u8>>,
    troubles: usize,
    usage: BTreeMap<Rank, Vec<u8>>,
    lanes: Vec<Lane>,
    turn: usize,
    /// The last message was handed in: whatever comes after it is dropped.
    last: bool,
    /// The launcher is gone: everything is dropped.
    closed: bool,
    /// The writer is writing.
    busy: bool,
}

enum Next {
    Message(Vec<u8>),
    Filed { rank: Rank, file: Arc<File>, offset: u64, at: u64, len: usize },
    Bytes { rank: Rank, offset: u64, bytes: Vec<u8> },
}

#[derive(Default)]
pub struct Outbox {
    state: Mutex<State>,
    news: Condvar,
    room: Condvar,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn send(&self, message: &FromWarden) {
        let mut state = self.lock();
        let bytes = protocol::encode_from_warden(message);
        match message {
            _ if state.closed || state.last => return,
            // Only the newest is of interest.
            FromWarden::Usage { rank, .. } => _ = state.usage.insert(*rank, bytes),
            FromWarden::Pong if state.messages.contains(&bytes) => {}
            FromWarden::Trouble { .. } if state.troubles >= TROUBLES => {}
            FromWarden::Trouble { .. } => {
                state.troubles += 1;
                state.messages.push_back(bytes);
            }
            _ => state.messages.push_back(bytes),
        }
        drop(state);
        self.news.notify_one();
    }

    /// Nothing is said after this one. What of the output has not been sent by now is in the log.
    pub fn send_last(&self, message: &FromWarden) {
        let mut state = self.lock();
        state.usage.clear();
        state.lanes.iter_mut().for_each(Lane::clear);
        state.messages.push_back(protocol::encode_from_warden(message));
        state.last = true;
        drop(state);
        self.news.notify_one();
        self.room.notify_all();
    }

    /// A lane for the output of a rank.
    pub fn add_lane(&self, rank: Rank) -> usize {
        let mut state = self.lock();
        let lane = Lane { rank, file: None, parts: VecDeque::new(), in_memory: 0, end: 0, file_end: 0 };
        state.lanes.push(lane);
        state.lanes.len() - 1
    }

    pub fn set_log(&self, lane: usize, file: File, start: u64) {
        let lane = &mut self.lock().lanes[lane];
        lane.file = Some(Arc::new(file));
        lane.file_end = start;
    }

    /// Output that is in the log. Never waits.
    pub fn filed(&self, lane: usize, offset: u64, at: u64, len: u64) {
        let mut state = self.lock();
        let closed = state.closed || state.last;
        let lane = &mut state.lanes[lane];
        (lane.end, lane.file_end) = (offset + len, at + len);
        if closed {
            return;
        }
        match lane.parts.back_mut() {
            Some(Part::Filed { offset: o, at: a, len: l }) if *o + *l == offset && *a + *l == at => *l += len,
            _ => lane.parts.push_back(Part::Filed { offset, at, len }),
        }
        drop(state);
        self.news.notify_one();
    }

    /// Output that is nowhere else. Waits while there is too much of it, and the launcher lives.
    pub fn bytes(&self, lane: usize, offset: u64, bytes: Vec<u8>) {
        let mut state = self.lock();
        while !state.closed && !state.last && state.lanes[lane].in_memory >= IN_MEMORY {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let closed = state.closed || state.last;
        let lane = &mut state.lanes[lane];
        lane.end = offset + bytes.len() as u64;
        if !closed {
            lane.in_memory += bytes.len();
            lane.parts.push_back(Part::Bytes { offset, bytes });
            drop(state);
            self.news.notify_one();
        }
    }

    /// A keeper died: what it had written to the log without telling is taken too. Returns all bytes of the rank.
    pub fn rest_of_log(&self, lane: usize) -> u64 {
        let (file, end, file_end) = {
            let lane = &self.lock().lanes[lane];
            (lane.file.clone(), lane.end, lane.file_end)
        };
        let len = file.and_then(|f| f.metadata().ok()).map_or(0, |m| m.len().saturating_sub(file_end));
        if len > 0 {
            self.filed(lane, end, file_end, len);
        }
        end + len
    }

    /// Nobody listens any more. Whoever waits for room goes on.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.messages.clear();
        state.usage.clear();
        state.lanes.iter_mut().for_each(Lane::clear);
        drop(state);
        self.news.notify_all();
        self.room.notify_all();
    }

    /// Everything handed in was written, or dropped because nobody listens.
    pub fn is_empty(&self) -> bool {
        let state = self.lock();
        state.closed
            || !state.busy
                && state.messages.is_empty()
                && state.usage.is_empty()
                && state.lanes.iter().all(|l| l.parts.is_empty())
    }

    /// Writes until the box is closed or `to` fails. `idle` is told whenever nothing is left.
    pub fn write(&self, to: &mut impl Write, idle: impl Fn()) -> io::Result<()> {
        let mut buf = vec![0u8; CHUNK];
        while let Some(next) = self.next(&idle) {
            match next {
                Next::Message(bytes) => to.write_all(&bytes)?,
                Next::Bytes { rank, offset, bytes } => {
                    frame::write(to, OUTPUT, &protocol::output_head(rank, offset), &bytes)?;
                }
                Next::Filed { rank, file, offset, at, len } => match read_full(&file, &mut buf[..len], at) {
                    Ok(n) if n == len => {
                        frame::write(to, OUTPUT, &protocol::output_head(rank, offset), &buf[..n])?;
                    }
                    read => {
                        let why = read.err().map_or("it is shorter than what was written".into(), |e| e.to_string());
                        self.send(&FromWarden::Trouble {
                            rank: Some(rank),
                            what: format!("{len} bytes of its log at {at} cannot be read back: {why}"),
                            hint: Some("zeros stand for them here; did somebody truncate the log?".into()),
                        });
                        // The launcher counts bytes: it must get them.
                        buf[..len].fill(0);
                        frame::write(to, OUTPUT, &protocol::output_head(rank, offset), &buf[..len])?;
                    }
                },
            }
        }
        Ok(())
    }

    fn next(&self, idle: &impl Fn()) -> Option<Next> {
        let mut state = self.lock();
        state.busy = false;
        loop {
            if state.closed {
                return None;
            }
            if let Some(next) = state.take() {
                state.busy = true;
                drop(state);
                self.room.notify_all();
                return Some(next);
            }
            drop(state);
            idle();
            state = self.lock();
            if state.take_nothing() {
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl State {
    fn take_nothing(&self) -> bool {
        !self.closed
            && self.messages.is_empty()
            && self.usage.is_empty()
            && self.lanes.iter().all(|l| l.parts.is_empty())
    }

    fn take(&mut self) -> Option<Next> {
        if let Some(bytes) = self.messages.pop_front() {
            return Some(Next::Message(bytes));
        }
        if let Some((_, bytes)) = self.usage.pop_first() {
            return Some(Next::Message(bytes));
        }
        for _ in 0..self.lanes.len() {
            self.turn = (self.turn + 1) % self.lanes.len();
            if let Some(next) = self.lanes[self.turn].take() {
                return Some(next);
            }
        }
        None
    }
}

impl Lane {
    fn clear(&mut self) {
        self.parts.clear();
        self.in_memory = 0;
    }

    fn take(&mut self) -> Option<Next> {
        match self.parts.front_mut()? {
            Part::Filed { offset, at, len } => {
                let Some(file) = self.file.clone() else {
                    // No descriptor left for it: it is in the log. Kept here, it would keep us from ever being done.
                    self.parts.pop_front();
                    return None;
                };
                let n = (*len).min(CHUNK as u64);
                let next = Next::Filed { rank: self.rank, file, offset: *offset, at: *at, len: n as usize };
                (*offset, *at, *len) = (*offset + n, *at + n, *len - n);
                if *len == 0 {
                    self.parts.pop_front();
                }
                Some(next)
            }
            Part::Bytes { .. } => match self.parts.pop_front() {
                Some(Part::Bytes { offset, bytes }) => {
                    self.in_memory = self.in_memory.saturating_sub(bytes.len());
                    Some(Next::Bytes { rank: self.rank, offset, bytes })
                }
                _ => None,
            },
        }
    }
}

fn read_full(file: &File, buf: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
