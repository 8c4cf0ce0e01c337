//! Everything that may happen next, and what then happens.

use super::gang::{Gang, State};
use super::link::{Arriving, Leaving, Wire};
use shoal_sync::node::Sink;
use shoal_sync::wire::Header;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Move {
    Submit(u32),
    Finish(u32),
    /// A frame starts to leave; the rest of it leaves.
    Start(u32, u32),
    Rest(u32, u32),
    /// A header arrives; its payload arrives.
    Head(u32, u32),
    Body(u32, u32),
    /// The end of a connection is seen.
    End(u32, u32),
    /// The master says who died.
    Master(u32),
    Leave(u32),
}

impl Gang {
    pub fn possible(&self) -> Vec<Move> {
        let mut out = Vec::new();
        for n in (0..self.members.len() as u32).filter(|n| self.members[*n as usize].state == State::Up) {
            let member = &self.members[n as usize];
            if let Some(script) = &member.script {
                if !script.ready(&self.plan).is_empty() {
                    out.push(Move::Submit(n));
                }
                if self.plan.leave && script.may_finish(&self.plan) {
                    out.push(Move::Finish(n));
                }
            }
            if member.heard < self.dead.len() {
                out.push(Move::Master(n));
            }
            if self.plan.leave && self.may_leave(n) {
                out.push(Move::Leave(n));
            }
            for peer in self.peers(n) {
                let (to, from) = (self.link(n, peer), self.link(peer, n));
                if to.leaving.is_some() && !from.ended {
                    out.push(Move::Rest(n, peer));
                } else if !from.ended && !to.stalled && to.bytes < self.plan.capacity && member.node.wants_to_send(peer)
                {
                    out.push(Move::Start(n, peer));
                }
                if from.arriving.as_ref().is_some_and(|a| !a.cut) {
                    out.push(Move::Body(peer, n));
                } else if from.arriving.is_none() && !from.wire.is_empty() {
                    out.push(Move::Head(peer, n));
                }
                if from.at_end() {
                    out.push(Move::End(peer, n));
                }
            }
        }
        // A straggler's turn comes when the others are stuck without it.
        let late = |m: &Move| matches!(m, Move::Submit(n) if Some(*n) == self.plan.straggler);
        if out.iter().any(|m| !late(m)) {
            out.retain(|m| !late(m));
        }
        out
    }

    pub fn perform(&mut self, action: Move) {
        let now = self.events + 1;
        match action {
            Move::Submit(n) => self.submit(n),
            Move::Finish(n) => {
                let member = &mut self.members[n as usize];
                let script = member.script.as_mut().expect("a worker");
                match member.node.finish() {
                    Ok(()) => script.finished = true,
                    Err(e) => script.error = Some(e),
                }
                self.after(n);
            }
            Move::Start(from, to) => {
                let frame = self.members[from as usize].node.next_frame(to, now);
                self.after(from);
                let Some(frame) = frame else {
                    self.link_mut(from, to).stalled = true;
                    return;
                };
                let half = if self.plan.pieces { frame.payload.bytes().len() / 2 } else { 0 };
                let first_piece = frame.payload.bytes()[..half].to_vec();
                self.link_mut(from, to).leaving = Some(Leaving { frame, first_piece });
                if !self.plan.pieces {
                    self.rest(from, to);
                }
            }
            Move::Rest(from, to) => self.rest(from, to),
            Move::Head(from, to) => self.head(from, to),
            Move::Body(from, to) => self.body(from, to),
            Move::End(from, to) => self.end(from, to),
            Move::Master(n) => {
                let who = self.dead[self.members[n as usize].heard];
                self.members[n as usize].heard += 1;
                self.members[n as usize].node.lost(who, "the master said so");
                self.after(n);
            }
            Move::Leave(n) => self.leave(n),
        }
    }

    fn rest(&mut self, from: u32, to: u32) {
        let Some(Leaving { frame, first_piece: mut payload }) = self.link_mut(from, to).leaving.take() else { return };
        let ended = self.members[from as usize].node.fatal().is_some();
        if !ended || !matches!(frame.payload, shoal_sync::node::outbox::Payload::Memory { .. }) {
            payload.extend_from_slice(&frame.payload.bytes()[payload.len()..]);
        } else {
            // The user has the tensor back: what is left of the frame is nobody's, and may be anything.
            payload.resize(frame.payload.bytes().len(), 0);
        }
        self.link_mut(from, to).put(Wire { header: frame.header, payload, cut: false });
        self.members[from as usize].node.sent(frame);
        self.after(from);
    }

    fn head(&mut self, from: u32, to: u32) {
        let Some(Wire { header, payload, cut }) = self.link_mut(from, to).take() else { return };
        let header = Header::decode(&header).unwrap_or_else(|e| panic!("a node sent nonsense: {e}"));
        assert!(cut || header.len as usize == payload.len(), "a frame of the wrong length: {header:?}");
        let sink = self.members[to as usize].node.begin(from, &header);
        let sink = sink.unwrap_or_else(|e| panic!("an honest frame {from} -> {to} was refused: {e}\n{header:?}"));
        self.after(to);
        self.link_mut(from, to).arriving = Some(Arriving { header, sink, payload, cut });
        if !self.plan.pieces && !cut {
            self.body(from, to);
        }
    }

    fn body(&mut self, from: u32, to: u32) {
        let Some(Arriving { header, mut sink, payload, .. }) = self.link_mut(from, to).arriving.take() else { return };
        let node = &mut self.members[to as usize].node;
        match &mut sink {
            Sink::Buffer(buffer) => buffer.bytes_mut(payload.len()).copy_from_slice(&payload),
            // After the end of a run the user has its memory back: whoever reads a payload must look first.
            Sink::Memory { at, len } if node.fatal().is_none() => {
                assert_eq!(*len, payload.len());
                // SAFETY: the operation is open, its tensor is kept by the script.
                unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), *at, *len) }
            }
            Sink::Words(words) => words.copy_from_slice(&payload),
            Sink::Memory { .. } | Sink::None | Sink::Discard => {}
        }
        let done = node.finish_frame(from, &header, sink, self.events + 1);
        done.unwrap_or_else(|e| panic!("an honest frame {from} -> {to} was refused: {e}\n{header:?}"));
        self.after(to);
    }

    /// The receiver sees the end of the stream: half a frame is given up, and what it was sending is too.
    fn end(&mut self, gone: u32, n: u32) {
        let link = self.link_mut(gone, n);
        link.ended = true;
        let arriving = link.arriving.take();
        let back = self.link_mut(n, gone);
        back.wire.clear();
        back.bytes = 0;
        let leaving = back.leaving.take();
        let node = &mut self.members[n as usize].node;
        if let Some(arriving) = arriving {
            node.abandon(arriving.sink);
        }
        node.lost(gone, "the connection was closed");
        if let Some(leaving) = leaving {
            node.sent(leaving.frame);
        }
        self.after(n);
    }
}
