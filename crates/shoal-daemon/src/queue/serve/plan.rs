//! How do decisions become orders? Journal first: an assignment that no host has heard of is told when the host comes (QUEUE-2).

use super::daemon::Daemon;
use super::hosts::nothing_ran;
use super::message::PublishTo;
use super::turn::Turn;
use crate::queue::framing::{self, FramingError};
use shoal_core::queue::event::{Action, Event};
use shoal_core::queue::host::Reached;
use shoal_core::queue::line::ToHost;
use shoal_core::queue::plan::{TAKEN_BACK, plan};
use shoal_core::queue::request::{Filter, RunState};
use shoal_core::queue::state::LiveAttempt;
use shoal_core::queue::work::{Ending, Publish, Start};
use shoal_core::queue::{Attempt, Target, render};
use std::collections::BTreeSet;

/// Starts in one message.
const TOGETHER: usize = 200;

impl Daemon {
    pub(super) fn plan(&mut self, turn: &mut Turn) {
        for action in plan(&self.queue, turn.now) {
            self.note(turn, action.event(turn.now));
            match action {
                Action::Start { attempt, places, .. } => {
                    let Some(live) = self.queue.live(&attempt) else { continue };
                    (0..places.len() as u32).for_each(|rank| self.start(&live, rank, turn));
                }
                Action::Stop { attempt, why, .. } if why == TAKEN_BACK => self.take_back(attempt, turn),
                Action::Stop { attempt, checkpoint_first, .. } => {
                    self.tell_stop(&attempt, checkpoint_first, None, turn)
                }
                Action::Drain { host, why } => self.shared.log.say(format!("{host} takes no more runs: {why}")),
            }
        }
    }

    fn render(&self, live: &LiveAttempt, rank: u32) -> Result<Start, String> {
        let sweep = self.queue.sweep(&live.attempt.run.sweep).ok_or("its sweep is not there any more")?;
        let host = live.places.get(rank as usize).map(|seat| seat.host.as_str()).unwrap_or_default();
        let local = self
            .queue
            .host(host)
            .is_some_and(|(policy, _)| matches!(policy.reach, Some(Reached::Here | Reached::Pool { .. })));
        let results = self.shared.store.results();
        // Of the moment of the assignment: told twice, it is the same (PLAN-1).
        let (after, root, at) = (live.after.clone(), results.to_string_lossy(), live.assigned);
        let mut start = render::start(sweep, &live.attempt, &live.places, rank, after, local, &root, at)?;
        // A difference that is not here any more, or never was, keeps no run from starting.
        if let Some(origin) = &mut start.origin {
            origin.diff = origin.diff.take().filter(|digest| self.shared.trees.has(digest));
        }
        if let Some(environment) = self.queue.host(host).and_then(|(policy, _)| policy.environment.as_ref()) {
            environment.give(&mut start);
        }
        start.guarded = self.queue.was_felled(&live.attempt.run);
        Ok(start)
    }

    /// Tells the host of one rank what to run. One that cannot be put into words has not started.
    pub(super) fn start(&mut self, live: &LiveAttempt, rank: u32, turn: &mut Turn) {
        let Some(host) = live.places.get(rank as usize).map(|seat| seat.host.clone()) else { return };
        match self.render(live, rank) {
            Ok(start) => turn.starts.entry(host).or_default().push(start),
            Err(why) => {
                let ended = nothing_ran(live.attempt.clone(), rank, Ending::NotStarted { why }, turn.now);
                self.note(turn, Event::Ended { at: turn.now, host, ended: Box::new(ended) });
                self.again = true;
            }
        }
    }

    /// On all of its hosts, or one.
    pub(super) fn tell_stop(&self, attempt: &Attempt, checkpoint_first: bool, only: Option<&str>, turn: &mut Turn) {
        let Some(live) = self.queue.live(attempt) else { return };
        let asked = turn.graces.iter().find(|(target, _)| means(target, attempt)).map(|(_, grace)| *grace);
        let of_sweep = || self.queue.sweep(&attempt.run.sweep).map_or(10, |sweep| sweep.rules.grace_seconds);
        let grace = asked.unwrap_or_else(of_sweep);
        let mut hosts: Vec<&str> = live.places.iter().map(|seat| seat.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in hosts.into_iter().filter(|host| only.is_none_or(|only| only == *host)) {
            let owner = self.queue.host(host).and_then(|(policy, _)| policy.owner.as_ref());
            let theirs = owner.filter(|_| checkpoint_first).and_then(|owner| u32::try_from(owner.grace_seconds).ok());
            let grace_seconds = theirs.unwrap_or(grace);
            turn.tell(host, ToHost::Stop { attempt: attempt.clone(), checkpoint_first, grace_seconds });
        }
    }

    pub(super) fn take_back(&self, attempt: Attempt, turn: &mut Turn) {
        let hosts = self.queue.live(&attempt).into_iter().flat_map(|live| live.places).map(|seat| seat.host);
        for host in hosts.collect::<BTreeSet<String>>() {
            turn.tell(&host, ToHost::TakeBack { attempt: attempt.clone() });
        }
    }

    /// The plan tells nobody to end twice; those that were taken back had perhaps begun, and go on until somebody asks.
    pub(super) fn stop_taken_back(&self, target: &Target, turn: &mut Turn) {
        let hosts: Vec<String> = self.queue.hosts().map(|policy| policy.name.clone()).collect();
        for (attempt, _) in hosts.iter().flat_map(|host| self.queue.assigned_on(host)) {
            if means(target, &attempt) && self.queue.live(&attempt).is_some_and(|live| live.is_taken_back()) {
                self.tell_stop(&attempt, false, None, turn);
            }
        }
    }

    /// For those who do not want to wait: what was told to end before is told once more. A host never lengthens a grace.
    pub(super) fn hurry(&self, turn: &mut Turn) {
        for (target, grace_seconds) in std::mem::take(&mut turn.graces) {
            let filter = Filter { target: Some(target), states: vec![RunState::Running], ..Filter::default() };
            for row in self.queue.run_rows(&filter, 0, u32::MAX).0 {
                let attempt = Attempt { run: row.run, number: row.attempt };
                for host in row.hosts.into_iter().collect::<BTreeSet<_>>() {
                    let attempt = attempt.clone();
                    turn.tell(&host, ToHost::Stop { attempt, checkpoint_first: false, grace_seconds });
                }
            }
        }
    }

    pub(super) fn tell_starts(&mut self, host: &str, mut starts: Vec<Start>) {
        let Some((_, outbox)) = self.lines.get(host).cloned() else { return };
        while !starts.is_empty() {
            let rest = starts.split_off(starts.len().min(TOGETHER));
            let too_long = tell_some(&starts, &mut |bytes| outbox.tell_bytes(bytes));
            self.unsent.extend(too_long.into_iter().map(|(attempt, rank)| (host.to_string(), attempt, rank)));
            starts = rest;
        }
    }

    /// Those that are longer than a message may be have not started, and never will.
    pub(super) fn give_up_unsent(&mut self, turn: &mut Turn) {
        for (host, attempt, rank) in std::mem::take(&mut self.unsent) {
            let why = "its parameters and environment are too long for one message".to_string();
            let ended = nothing_ran(attempt, rank, Ending::NotStarted { why }, turn.now);
            self.note(turn, Event::Ended { at: turn.now, host, ended: Box::new(ended) });
        }
    }

    /// Where results go that a host sends.
    pub(super) fn publish_to(&self, host: &str, attempt: &Attempt, rank: u32) -> Option<PublishTo> {
        let live = self.queue.live(attempt)?;
        live.places.get(rank as usize).filter(|seat| seat.host == host)?;
        let start = self.render(&live, rank).ok()?;
        match start.publish {
            Publish::Send(name) => Some(PublishTo { name, beside: start.beside, origin: start.origin }),
            Publish::Folder(_) => None,
        }
    }
}

fn means(target: &Target, attempt: &Attempt) -> bool {
    match target {
        Target::Sweep(sweep) => attempt.run.sweep == *sweep,
        Target::Cell(sweep, cell) => attempt.run.sweep == *sweep && attempt.run.cell == *cell,
        Target::Run(run) => attempt.run == *run,
    }
}

/// In as few messages as they fit in; those that fit in none come back.
fn tell_some(starts: &[Start], tell: &mut impl FnMut(Vec<u8>) -> bool) -> Vec<(Attempt, u32)> {
    match framing::encode(&ToHost::Start { starts: starts.to_vec() }, &[]) {
        Ok(bytes) => {
            tell(bytes);
            Vec::new()
        }
        Err(FramingError::TooLong { .. }) if starts.len() > 1 => {
            let (one, other) = starts.split_at(starts.len() / 2);
            let mut back = tell_some(one, tell);
            back.extend(tell_some(other, tell));
            back
        }
        Err(_) => starts.iter().map(|start| (start.attempt.clone(), start.rank)).collect(),
    }
}
