//! One connection: frames in, frames out, without staging copies.
//!
//! Payloads are read by `readv` straight to where they belong, together with the next header; frames are written by `writev`
//! from where they lie. Readiness is edge-triggered, and a short read or write says that the socket is
//! drained or full, so no call is made just to hear `EAGAIN`.

use crate::error::SyncError;
use crate::node::outbox::{Frame, Payload};
use crate::node::world::NodeId;
use crate::node::{Node, Sink};
use crate::wire::{HEADER, Header};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;

/// Small frames are read together, up to this many bytes at once.
const STAGE: usize = 64 * 1024;
/// From this size on, a payload's successor is not read beyond its header, so that it too goes straight to its place.
const LARGE: usize = 16 * 1024;
/// The most that is waited for before the rest of a payload is read.
const LOW_WATER: usize = 64 * 1024;
/// What one peer may take of a turn before the next one's is looked at.
const TURN: usize = 512 * 1024;
/// What is gathered into one `writev`.
const GATHER: usize = 256 * 1024;
const GATHER_FRAMES: usize = 32;

enum Reading {
    Header,
    Payload { header: Header, sink: Sink, got: usize },
}

pub struct Conn {
    pub peer: NodeId,
    pub stream: TcpStream,
    /// The peer is on another host: its bytes come in small pieces.
    far: bool,
    /// Bytes that must be there before the kernel wakes us.
    low_water: usize,
    pub readable: bool,
    pub writable: bool,
    reading: Reading,
    stage: Box<[u8]>,
    staged: std::ops::Range<usize>,
    last_large: bool,
    frames: VecDeque<Frame>,
    /// Bytes of the first frame that are already written.
    written: usize,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// How a connection ended.
#[derive(Debug)]
pub enum End {
    /// The peer or the network closed it.
    Closed(String),
    /// The peer broke the protocol; the node has already decided what that means.
    Broke(SyncError),
}

impl Conn {
    pub fn new(peer: NodeId, stream: TcpStream) -> Conn {
        Conn {
            peer,
            far: !super::join::is_near(&stream),
            low_water: 1,
            stream,
            readable: true,
            writable: true,
            reading: Reading::Header,
            stage: vec![0; STAGE].into_boxed_slice(),
            staged: 0..0,
            last_large: false,
            frames: VecDeque::new(),
            written: 0,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    pub fn has_output(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Reads and acts on what is there, up to this peer's share of a turn.
    pub fn pump_in(&mut self, node: &mut Node, now: u64) -> Result<(), End> {
        let mut budget = TURN;
        loop {
            self.take_staged(node, now)?;
            if budget == 0 || !self.readable {
                self.set_low_water();
                return Ok(());
            }
            let n = self.fill()?;
            budget = budget.saturating_sub(n.max(1));
        }
    }

    /// In the middle of a large payload from afar there is nothing to do until more of it is here: being woken for every
    /// segment would cost more than the bytes are worth. Wherever a header may come, one byte must wake us.
    fn set_low_water(&mut self) {
        if !self.far {
            return;
        }
        let wanted = match &self.reading {
            Reading::Payload { header, got, .. } if header.len as usize >= LARGE => {
                (header.len as usize - got).clamp(1, LOW_WATER)
            }
            _ => 1,
        };
        if wanted != self.low_water && super::join::set_low_water(&self.stream, wanted) {
            self.low_water = wanted;
        }
    }

    /// Acts on all bytes that are already here.
    fn take_staged(&mut self, node: &mut Node, now: u64) -> Result<(), End> {
        loop {
            match &mut self.reading {
                Reading::Header => {
                    if self.staged.len() < HEADER {
                        return Ok(());
                    }
                    let at = self.staged.start;
                    let bytes: [u8; HEADER] = std::array::from_fn(|i| self.stage[at + i]);
                    self.staged.start += HEADER;
                    let header = match Header::decode(&bytes) {
                        Ok(header) => header,
                        Err(e) => return node.broke(self.peer, e).map_err(End::Broke),
                    };
                    let sink = node.begin(self.peer, &header).map_err(End::Broke)?;
                    self.reading = Reading::Payload { header, sink, got: 0 };
                }
                Reading::Payload { header, sink, got } => {
                    let len = header.len as usize;
                    let n = (len - *got).min(self.staged.len());
                    if n > 0 {
                        put(sink, *got, &self.stage[self.staged.start..self.staged.start + n]);
                        self.staged.start += n;
                        *got += n;
                    }
                    if *got < len {
                        return Ok(());
                    }
                    self.last_large = len >= LARGE;
                    let done = std::mem::replace(&mut self.reading, Reading::Header);
                    if let Reading::Payload { header, sink, .. } = done {
                        node.finish_frame(self.peer, &header, sink, now).map_err(End::Broke)?;
                    }
                }
            }
        }
    }

    /// One read: the rest of the current payload to its place, and what follows it to the stage.
    fn fill(&mut self) -> Result<usize, End> {
        // What is staged here is less than a header; move it to the front to make room.
        self.stage.copy_within(self.staged.clone(), 0);
        self.staged = 0..self.staged.len();
        let (have, direct, large) = match &mut self.reading {
            Reading::Header => (self.staged.end, None, self.last_large),
            Reading::Payload { header, sink, got } => {
                let rest = header.len as usize - *got;
                let large = header.len as usize >= LARGE && !matches!(sink, Sink::Discard);
                (self.staged.end, place(sink, *got, rest), large)
            }
        };
        let stage_to = if large { HEADER } else { STAGE };
        let stage = &mut self.stage[have..stage_to.max(have)];
        let (result, wanted, direct_len) = match direct {
            Some(direct) => {
                let (a, b) = (direct.len(), stage.len());
                let mut both = [IoSliceMut::new(direct), IoSliceMut::new(stage)];
                (self.stream.read_vectored(&mut both), a + b, a)
            }
            None => {
                let b = stage.len();
                (self.stream.read(stage), b, 0)
            }
        };
        match result {
            Ok(0) => Err(End::Closed("its connection closed".into())),
            Ok(n) => {
                self.bytes_in += n as u64;
                if n < wanted {
                    self.readable = false;
                }
                let to_sink = n.min(direct_len);
                if let Reading::Payload { got, .. } = &mut self.reading {
                    *got += to_sink;
                }
                self.staged.end = have + (n - to_sink);
                Ok(n)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(0)
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(0),
            Err(e) => Err(End::Closed(format!("its connection broke: {e}"))),
        }
    }

    /// Writes what the node has for this peer until the socket is full or nothing is left.
    pub fn pump_out(&mut self, node: &mut Node, now: u64) -> Result<(), End> {
        while self.writable {
            let mut queued: usize = self.frames.iter().map(|f| HEADER + f.payload.bytes().len()).sum();
            while queued < GATHER && self.frames.len() < GATHER_FRAMES {
                let Some(frame) = node.next_frame(self.peer, now) else { break };
                queued += HEADER + frame.payload.bytes().len();
                self.frames.push_back(frame);
            }
            if self.frames.is_empty() {
                return Ok(());
            }
            self.write_once(node)?;
        }
        Ok(())
    }

    fn write_once(&mut self, node: &mut Node) -> Result<(), End> {
        let mut slices = [IoSlice::new(&[]); 2 * GATHER_FRAMES];
        let (mut used, mut skip, mut wanted) = (0, self.written, 0);
        for frame in self.frames.iter().take(GATHER_FRAMES) {
            for part in [&frame.header[..], frame.payload.bytes()] {
                if skip >= part.len() {
                    skip -= part.len();
                    continue;
                }
                slices[used] = IoSlice::new(&part[skip..]);
                wanted += part.len() - skip;
                used += 1;
                skip = 0;
            }
        }
        match self.stream.write_vectored(&slices[..used]) {
            Ok(n) => {
                self.bytes_out += n as u64;
                self.writable = n == wanted;
                let mut n = n + self.written;
                while let Some(frame) = self.frames.front() {
                    let len = HEADER + frame.payload.bytes().len();
                    if n < len {
                        break;
                    }
                    n -= len;
                    if let Some(frame) = self.frames.pop_front() {
                        node.sent(frame);
                    }
                }
                self.written = n;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.writable = false;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(End::Closed(format!("its connection broke: {e}"))),
        }
    }

    /// The connection is over: what was under way in either direction goes back to the node, which counts on it.
    pub fn give_back(self, node: &mut Node) {
        for frame in self.frames {
            node.sent(frame);
        }
        if let Reading::Payload { sink, .. } = self.reading {
            node.abandon(sink);
        }
    }

    /// The run has failed and tensors go back to their owners: nothing here may point into them any longer.
    /// A frame that is half written is finished from a copy, so that the peer can still be told why.
    pub fn let_go(&mut self, node: &mut Node) {
        let keep = usize::from(self.written > 0).min(self.frames.len());
        for frame in self.frames.drain(keep..) {
            node.sent(frame);
        }
        if let Some(frame) = self.frames.front_mut()
            && let Payload::Memory { .. } = frame.payload
        {
            frame.payload = Payload::Words(frame.payload.bytes().into());
        }
        if let Reading::Payload { sink, .. } = &mut self.reading
            && let Sink::Memory { .. } = sink
        {
            *sink = Sink::Discard;
        }
    }
}

/// The place for the rest of a payload, where it can be read to directly.
fn place(sink: &mut Sink, got: usize, rest: usize) -> Option<&mut [u8]> {
    match sink {
        Sink::Buffer(buffer) => Some(&mut buffer.bytes_mut(got + rest)[got..]),
        // SAFETY: `begin` checked the place against the tensor's layout, and its owner leaves it alone.
        Sink::Memory { at, len } => Some(unsafe { std::slice::from_raw_parts_mut(at.add(got), rest.min(*len - got)) }),
        Sink::Words(words) => Some(&mut words[got..got + rest]),
        Sink::None | Sink::Discard => None,
    }
}

fn put(sink: &mut Sink, got: usize, bytes: &[u8]) {
    if let Some(target) = place(sink, got, bytes.len()) {
        target.copy_from_slice(bytes);
    }
}
