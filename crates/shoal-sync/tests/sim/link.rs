//! One direction of a connection: frames in order, in pieces, of bounded size, and cut short when their sender dies.

use shoal_sync::node::Sink;
use shoal_sync::node::outbox::Frame;
use shoal_sync::wire::{HEADER, Header};
use std::collections::VecDeque;

/// A frame on the wire.
pub struct Wire {
    pub header: [u8; HEADER],
    pub payload: Vec<u8>,
    /// The sender died in the middle: the payload never comes.
    pub cut: bool,
}

/// A frame of which the first piece has left.
pub struct Leaving {
    pub frame: Frame,
    pub first_piece: Vec<u8>,
}

/// A frame whose header has been read.
pub struct Arriving {
    pub header: Header,
    pub sink: Sink,
    pub payload: Vec<u8>,
    pub cut: bool,
}

#[derive(Default)]
pub struct Link {
    pub wire: VecDeque<Wire>,
    pub bytes: usize,
    pub leaving: Option<Leaving>,
    pub arriving: Option<Arriving>,
    /// The sender is no more: what is on the wire is all that comes.
    pub closed: bool,
    /// The receiver has seen the end.
    pub ended: bool,
    /// The sender had nothing to send and has not changed since.
    pub stalled: bool,
    /// Picked once in so many times.
    pub slow: usize,
}

impl Link {
    pub fn put(&mut self, wire: Wire) {
        self.bytes += wire.payload.len() + HEADER;
        self.wire.push_back(wire);
    }

    pub fn take(&mut self) -> Option<Wire> {
        let wire = self.wire.pop_front()?;
        self.bytes -= wire.payload.len() + HEADER;
        Some(wire)
    }

    /// A death: of the stream of bytes only a prefix arrives, which may end within a frame.
    pub fn cut_at(&mut self, frames: usize, within: bool) {
        self.closed = true;
        if let Some(Leaving { frame, first_piece }) = self.leaving.take() {
            self.put(Wire { header: frame.header, payload: first_piece, cut: true });
        }
        if frames < self.wire.len() {
            self.wire.truncate(frames + usize::from(within));
            if within && let Some(last) = self.wire.back_mut() {
                last.cut = true;
            }
            self.bytes = self.wire.iter().map(|w| w.payload.len() + HEADER).sum();
        }
    }

    /// Whether nothing more can be read although the sender is gone.
    pub fn at_end(&self) -> bool {
        let arriving = self.arriving.as_ref();
        self.closed && !self.ended && arriving.map_or(self.wire.is_empty(), |a| a.cut)
    }
}
