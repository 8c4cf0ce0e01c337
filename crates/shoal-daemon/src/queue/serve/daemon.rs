//! The loop: one thread has the queue and its journal, and everything passes through it.
//!
//! Events are applied to memory first and committed at the end of the turn, so that ends and the assignments that follow from them are one
//! transaction. Nobody hears of anything before it is on disk. If it cannot be written, memory is made anew from the journal, requests of
//! the turn are refused, and hosts keep what was not acknowledged.

use super::clock::Clock;
use super::full::Full;
use super::here::Here;
use super::hosts::Unheard;
use super::line::{Dialer, Outbox};
use super::live::Live;
use super::message::Message;
use super::options::Options;
use super::reach::Reacher;
use super::shared::Shared;
use super::troubles::Troubles;
use super::turn::{Acknowledged, Turn};
use crate::queue::journal::{Journal, JournalError};
use shoal_core::queue::Attempt;
use shoal_core::queue::event::Event;
use shoal_core::queue::line::ToHost;
use shoal_core::queue::state::Queue;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Messages that one turn takes.
const BATCH: usize = 1024;
/// Time alone changes little: it is looked at no more often than this.
const TICK: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

pub struct Daemon {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Queue,
    pub(super) journal: Journal,
    pub(super) clock: Clock,
    /// Since when hosts may open lines.
    pub(super) open_since: Instant,
    /// Since when hosts are silent that were there since then.
    pub(super) silent: HashMap<String, Instant>,
    pub(super) options: Options,
    pub(super) here: Arc<Here>,
    pub(super) reacher: Arc<dyn Reacher>,
    pub(super) lines: HashMap<String, (u64, Arc<Outbox>)>,
    pub(super) dialers: HashMap<String, Dialer>,
    /// Why hosts are not there.
    pub(super) problems: HashMap<String, String>,
    /// Hosts that are others under another name.
    pub(super) twins: HashMap<String, super::twins::Twin>,
    /// What is wrong on those that are.
    pub(super) troubles: Troubles,
    pub(super) live: Live,
    /// Attempts that their hosts should say something of.
    pub(super) unheard: Vec<Unheard>,
    /// Starts that fit in no message: host, attempt, rank.
    pub(super) unsent: Vec<(String, Attempt, u32)>,
    pub(super) full: Option<Full>,
    pub(super) leaving: Option<super::leave::Leaving>,
    /// Since when there has been nothing to do.
    pub(super) idle: Instant,
    /// A plan may find more than the last one did.
    pub(super) again: bool,
}

impl Daemon {
    /// Until it is told to end. An error is one that it cannot go on with.
    pub fn run(&mut self, inbox: &Receiver<Message>) -> Result<(), JournalError> {
        loop {
            let first = match inbox.recv_timeout(self.rest()) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let mut turn = Turn::new(self.clock.now());
            for message in first.into_iter().chain(inbox.try_iter().take(BATCH)) {
                self.take(message, &mut turn);
            }
            self.pass_time(&mut turn)?;
            self.finish(turn)?;
            if self.is_over() {
                return Ok(());
            }
        }
    }

    fn take(&mut self, message: Message, turn: &mut Turn) {
        match message {
            Message::Asked { by, request, reply } => self.ask(&by, *request, reply, turn),
            Message::FindLog { run, attempt, rank, reply } => drop(reply.try_send(self.find_log(run, attempt, rank))),
            Message::Look { sweep, reply } => {
                let row = self.queue.sweep_row(&sweep, turn.now).map(|row| (row, self.queue.is_over(&sweep)));
                let _ = reply.try_send(row);
            }
            Message::Up(up) => self.up(*up, turn),
            Message::Said { host, line, message } => self.said(&host, line, message, turn),
            Message::Down { host, line, why } => self.down(&host, line, &why, turn),
            Message::Unreachable { host, why } => self.unreachable(host, why),
            Message::PublishTo { host, attempt, rank, reply } => {
                drop(reply.try_send(self.publish_to(&host, &attempt, rank)));
            }
            Message::Full { why } => self.no_room(&why, turn),
            Message::Signal(signal) => self.signal(signal),
        }
    }

    /// Applied now, in the journal at the end of the turn.
    pub(super) fn note(&mut self, turn: &mut Turn, event: Event) {
        self.queue.apply(&event);
        match &event {
            Event::Ended { ended, .. } => self.live.ends(&ended.attempt),
            Event::HostLost { .. } | Event::HostRemoved { .. } => {
                let queue = &self.queue;
                self.live.keep_only(|attempt| queue.live(attempt).is_some());
            }
            _ => {}
        }
        turn.events.push(event);
    }

    /// What changes because time passes.
    fn pass_time(&mut self, turn: &mut Turn) -> Result<(), JournalError> {
        if self.full.is_some() {
            let back = self.try_again()?;
            if !back {
                return Ok(());
            }
            // What it said at first was refused then; it cannot be now.
            let _ = self.begin(turn);
        }
        for event in self.live.begun(&self.queue) {
            self.note(turn, event);
        }
        for event in shoal_core::queue::plan::silent::lost(&self.queue, turn.now, |host| self.silence(host)) {
            self.shared.log.say(format!("lost: {}", super::hosts::told(&event)));
            self.note(turn, event);
        }
        self.give_up_unsent(turn);
        self.give_up_unheard(turn);
        if self.again || self.queue.wake_at().is_some_and(|wake| wake <= turn.now) {
            turn.look = true;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, mut turn: Turn) -> Result<(), JournalError> {
        if self.full.is_none() && (turn.look || !turn.events.is_empty()) {
            self.again = false;
            self.plan(&mut turn);
        }
        self.hurry(&mut turn);
        if let Err(e) = self.journal.append(&turn.events) {
            return self.fall_back(turn, e);
        }
        for (host, Acknowledged { attempts, ranks }) in std::mem::take(&mut turn.acknowledged) {
            if !attempts.is_empty() {
                self.tell(&host, &ToHost::Ended { attempts });
            }
            if !ranks.is_empty() {
                self.tell(&host, &ToHost::EndedRanks { ended: ranks });
            }
        }
        for (host, starts) in turn.starts_of(&self.queue) {
            self.tell_starts(&host, starts);
        }
        for (host, order) in &turn.orders {
            self.tell(host, order);
        }
        for (reply, answer) in turn.answers {
            // Whoever asked and went away does not need it.
            let _ = reply.try_send(answer);
        }
        Ok(())
    }

    /// If its line is over, it is told when it is back.
    pub(super) fn tell(&self, host: &str, order: &ToHost) {
        if let Some((_, outbox)) = self.lines.get(host) {
            outbox.tell(order);
        }
    }

    /// How long nothing can change by itself.
    fn rest(&mut self) -> Duration {
        if self.full.is_none() && (self.again || !self.unsent.is_empty()) {
            return Duration::ZERO;
        }
        let now = self.clock.now();
        let by_queue = self.queue.wake_at().map(|wake| Duration::from_millis(wake.saturating_sub(now)));
        let by_full = self.full.as_ref().map(Full::rest);
        let by_live = self.live.rest();
        let by_unheard = self.unheard.first().map(Unheard::rest);
        let by_leaving = self.leaving.as_ref().map(|_| TICK);
        let by_idle = self.options.auto.then(|| self.options.idle.saturating_sub(self.idle.elapsed()));
        let soonest = [by_queue, by_full, by_live, by_unheard, by_leaving, by_idle]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(LONGEST);
        soonest.clamp(TICK, LONGEST)
    }
}
