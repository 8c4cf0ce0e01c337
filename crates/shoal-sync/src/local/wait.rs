//! Waiting for an operation, and working meanwhile. Every wait ends: with data, or with a named death (GRAD-5).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::{Duration, Instant};

use super::area::Half;
use super::arena;
use super::bell;
use super::cause::{self, Cause};
use super::error::{LocalError, Result};
use super::group::{LocalGroup, Ticket};
use super::kernel;
use super::op::Kind;
use super::state;
use super::work::members;

/// How often a waiting thread lets others run before it sleeps. On a machine with fewer cores than ranks
/// this is what lets the missing rank arrive; sleeping and being woken costs several times as much.
const YIELDS: u32 = 24;
/// How long a withdrawing rank waits for workers that hold a chunk of the operation.
const DRAIN: Duration = Duration::from_secs(1);

/// Stages of a ticket: the first thread to see the end copies out and leaves; others wait for it.
const IN_FLIGHT: u8 = 0;
const LEAVING: u8 = 1;
const DONE: u8 = 2;
const FAILED: u8 = 3;

impl LocalGroup {
    /// Waits until the operation is done, working on it and on others meanwhile. `Ok(false)`: the time is up and
    /// the operation is still in flight. An error ends it for this rank (see [`submit`](Self::submit)).
    pub fn wait(&self, ticket: &Ticket, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.map(|t| Instant::now() + t);
        let head = self.area.half(ticket.half);
        let mut idle = 0;
        loop {
            if self.is_done(ticket)? {
                return Ok(true);
            }
            if self.work(ticket.half) || self.help() {
                idle = 0;
                continue;
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            idle += 1;
            if idle <= YIELDS {
                std::thread::yield_now();
                continue;
            }
            let bits = bell::slot_bit(ticket.slot) | bell::HELP;
            let ready = || {
                let over = state::is_done(head, ticket.tag) || state::load(head).aborted();
                over || state::has_work(head, ticket.tag) || self.dead().is_some()
            };
            if !bell::sleep(self.area.header(), bits, left.unwrap_or(bell::NAP), ready) {
                self.look_for_the_dead(ticket);
            }
        }
    }

    /// Whether the operation is over, without waiting. Like `wait`, it ends it for this rank.
    pub fn is_done(&self, ticket: &Ticket) -> Result<bool> {
        let head = self.area.half(ticket.half);
        loop {
            match ticket.stage.compare_exchange(IN_FLIGHT, LEAVING, Acquire, Acquire) {
                Ok(_) => break,
                Err(DONE) => return Ok(true),
                Err(FAILED) => return Err(self.why(ticket)),
                // Another thread of this rank is copying a few KiB or withdrawing (bounded).
                Err(_) => std::thread::yield_now(),
            }
        }
        if state::is_done(head, ticket.tag) {
            ticket.contributors.store(state::load(head).mask(), Relaxed);
            self.copy_out(ticket);
            self.leave(ticket);
            ticket.stage.store(DONE, Release);
            return Ok(true);
        }
        if self.dead().is_none() && !state::load(head).aborted() {
            ticket.stage.store(IN_FLIGHT, Release);
            return Ok(false);
        }
        let why = self.withdraw(ticket);
        self.leave(ticket);
        ticket.stage.store(FAILED, Release);
        Err(why)
    }

    /// The result of a small operation lies in the arena: everyone fetches it.
    fn copy_out(&self, ticket: &Ticket) {
        let Some(staging) = ticket.staging else { return };
        let (to, len) = (ticket.target as *mut u8, ticket.bytes);
        let fetch = |part: usize, to: *mut u8| {
            let Some(from) = self.area.data(staging.part(part), len) else { return };
            // SAFETY: the submitter vouched for the target; the arena part is not written before we leave.
            unsafe { kernel::copy(from, to, len) };
        };
        match ticket.kind {
            Kind::Reduce(..) | Kind::Collect(..) if ticket.direct => {}
            Kind::Reduce(..) => fetch(self.members.len(), to),
            Kind::Collect(..) if !self.is_first(ticket) => {}
            Kind::Collect(..) => fetch(self.members.len(), to),
            Kind::Broadcast { root } => fetch(root.into(), to),
            Kind::AllGather => {
                members(ticket.contributors.load(Relaxed)).for_each(|m| fetch(m, to.wrapping_add(m * len)));
            }
            Kind::Barrier => {}
        }
        let contributors = ticket.contributors.load(Relaxed).count_ones();
        arena::leave(&self.area, ticket.half, ticket.tag, staging, contributors);
    }

    /// Takes this rank out of an operation that has failed, and says why it has.
    ///
    /// Another rank may be in the middle of writing into our tensor, so the caller must not get it back yet.
    /// After the abort nobody begins a chunk (`state.rs`); those who hold one show it in `working`, and we
    /// wait until all are through. A rank that was killed never lowers its `working`, but a process that has
    /// ended writes no more: the kernel ends a process only after its last system call. What remains
    /// is a rank that is alive and does not go on, stopped between two writes: after a bound we say so (`Stuck`).
    fn withdraw(&self, ticket: &Ticket) -> LocalError {
        let head = self.area.half(ticket.half);
        state::abort(head, ticket.tag);
        bell::ring(self.area.header(), bell::slot_bit(ticket.slot), u32::MAX);
        let until = Instant::now() + DRAIN;
        for (member, peer) in self.peers.iter().enumerate() {
            let cell = self.area.cell(ticket.half, member);
            while cell.working.load(SeqCst) > 0 && !peer.has_ended() {
                if Instant::now() >= until {
                    let (slot, step) = (ticket.slot, ticket.step);
                    return LocalError::Stuck { slot, step, rank: peer.rank, pid: peer.pid };
                }
                let nap = Duration::from_millis(2);
                bell::sleep(self.area.header(), bell::slot_bit(ticket.slot), nap, || cell.working.load(SeqCst) == 0);
            }
        }
        self.why(ticket)
    }

    /// Why the ticket's operation failed.
    pub(super) fn why(&self, ticket: &Ticket) -> LocalError {
        match cause::read(&self.area.half(ticket.half).cause, ticket.tag) {
            // A dead rank's memory is gone: the death is what to tell.
            Some(Cause::Memory { member, errno: libc::ESRCH, .. }) => {
                LocalError::Dead { rank: self.members[member as usize] }
            }
            Some(cause) => self.explain(ticket, cause),
            None => LocalError::Dead { rank: self.dead().unwrap_or(self.members[self.me]) },
        }
    }

    pub(super) fn explain(&self, ticket: &Ticket, cause: Cause) -> LocalError {
        let (slot, step) = (ticket.slot, ticket.step);
        let rank = |member: u32| self.members.get(member as usize).copied().unwrap_or(u32::MAX);
        match cause {
            Cause::Mismatch { member, other, what } => {
                LocalError::Mismatch { slot, step, rank: rank(member), other: rank(other), what }
            }
            Cause::Memory { by, member, errno } => {
                LocalError::Memory { slot, step, rank: rank(member), by: rank(by), errno }
            }
            Cause::RootFinished { root } => LocalError::RootFinished { slot, step, root: rank(root) },
        }
    }

    /// Does one chunk of any operation that has one. For a background thread; see [`wait_for_work`](Self::wait_for_work).
    pub fn help(&self) -> bool {
        let header = self.area.header();
        let words = (header.slots_used.load(Relaxed) as usize * 2).div_ceil(64);
        for (i, word) in header.open[..words].iter().enumerate() {
            let mut bits = word.load(Relaxed);
            while bits != 0 {
                if self.work(Half(i as u32 * 64 + bits.trailing_zeros())) {
                    return true;
                }
                bits &= bits - 1;
            }
        }
        false
    }

    /// Sleeps until there may be work for [`help`](Self::help), at most 100 ms.
    pub fn wait_for_work(&self, timeout: Duration) {
        bell::sleep(self.area.header(), bell::HELP, timeout, || false);
    }

    /// Sleeps until anything happens in the group or [`ring`](Self::ring) is called, at most 100 ms, unless there is news already.
    pub fn wait_for_news(&self, news: &AtomicBool) {
        bell::sleep(self.area.header(), bell::ALL, bell::NAP, || news.load(SeqCst));
    }

    /// Wakes whoever sleeps in [`wait_for_news`](Self::wait_for_news).
    pub fn ring(&self) {
        bell::ring(self.area.header(), bell::ALL, u32::MAX);
    }

    /// The global ranks the operation waits for: those who have not come, or who hold a chunk of it.
    pub fn missing(&self, ticket: &Ticket) -> Vec<u32> {
        let head = self.area.half(ticket.half);
        let state = state::load(head);
        let waits = |&m: &usize| match state.closed() {
            true => self.area.cell(ticket.half, m).working.load(SeqCst) > 0,
            false => (self.expected() & !state.mask()) >> m & 1 == 1,
        };
        let over = state::is_done(head, ticket.tag) || state.tag() != ticket.tag;
        let all = if over { 0 } else { self.members.len() };
        (0..all).filter(waits).map(|m| self.members[m]).collect()
    }

    /// Whether this rank is the first of those whose parts are in the result of an operation that is done.
    pub(super) fn is_first(&self, ticket: &Ticket) -> bool {
        ticket.contributors.load(Relaxed).trailing_zeros() as usize == self.me
    }

    /// What the parts of an operation that is done weigh together. To be asked before this rank brings the key's next operation.
    pub fn total_weight(&self, ticket: &Ticket) -> f64 {
        members(ticket.contributors.load(Relaxed)).map(|m| self.weight(ticket.half, m)).sum()
    }

    /// The global ranks whose parts are in the result of an operation that is done.
    pub fn contributors(&self, ticket: &Ticket) -> Vec<u32> {
        members(ticket.contributors.load(Relaxed)).map(|m| self.members[m]).collect()
    }

    /// This rank brings nothing more: the others go on without it. Operations that waited only for it are opened.
    pub fn finish(&self) -> Result<()> {
        match self.in_flight.load(SeqCst) {
            0 => {}
            tickets => return Err(LocalError::InFlight { tickets }),
        }
        let header = self.area.header();
        header.finished.0.fetch_or(1 << self.me, SeqCst);
        for half in (0..header.slots_used.load(SeqCst) * 2).map(Half) {
            if let Some(closed) = state::close(self.area.half(half), || self.expected()) {
                self.open(half, closed);
            }
        }
        Ok(())
    }

    /// Declares a rank dead: every operation of every rank that is not done ends with an error naming it.
    pub fn poison(&self, rank: u32) {
        let Some(member) = self.members.iter().position(|&m| m == rank) else { return };
        self.area.header().poisoned.fetch_or(1 << member, SeqCst);
        bell::ring(self.area.header(), bell::ALL, u32::MAX);
    }

    pub(super) fn dead(&self) -> Option<u32> {
        let poisoned = self.area.header().poisoned.load(SeqCst);
        members(poisoned).next().and_then(|m| self.members.get(m)).copied()
    }

    pub(super) fn check_alive(&self) -> Result<()> {
        if self.area.header().finished.0.load(SeqCst) >> self.me & 1 == 1 {
            return Err(LocalError::Finished);
        }
        self.dead().map_or(Ok(()), |rank| Err(LocalError::Dead { rank }))
    }

    /// A process that ended without finishing is dead, whether or not anybody has said so yet.
    pub fn look_for_the_dead(&self, ticket: &Ticket) {
        for (member, peer) in self.peers.iter().enumerate() {
            // In this order: a rank finishes, then ends.
            let ended = member != self.me && peer.has_ended();
            // One that has finished may have died with a chunk in its hands, helping.
            let in_hand = || self.area.cell(ticket.half, member).working.load(SeqCst) > 0;
            if ended && (self.expected() >> member & 1 == 1 || in_hand()) {
                self.poison(peer.rank);
            }
        }
    }
}
