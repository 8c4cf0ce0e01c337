//! What has become of each rank since we looked last? Output and exit codes from the volume, everything else from the server.

use super::Run;
use super::server::pods_of;
use crate::queue::pool::settle::{Known, Verdict, verdict};
use shoal_core::follow::Seen;
use shoal_core::kubernetes::gang::objects::{job_name, seat};
use shoal_core::kubernetes::pool::seen::{self, Stage};
use shoal_core::outcome::Ending;
use shoal_core::queue::work;
use shoal_core::rank::Rank;
use shoal_daemon::How;
use std::time::{Duration, Instant, SystemTime};

/// What was seen of a rank, and since when it has been so.
pub(super) struct Member {
    pub address: Option<String>,
    pub code: Option<(i64, SystemTime)>,
    pub stage: Option<Stage>,
    pub since: Instant,
    pub taken: u64,
    /// Somebody else takes its pod away, and why.
    pub leaving: Option<String>,
    pub over: bool,
}

impl Member {
    pub fn new() -> Member {
        Member { address: None, code: None, stage: None, since: Instant::now(), taken: 0, leaving: None, over: false }
    }
}

/// Another state, not the same one in other words.
fn changed(old: Option<&Stage>, new: Option<&Stage>) -> bool {
    new.is_some_and(|new| old.is_none_or(|old| !new.is_like(old)))
}

impl Run<'_> {
    pub(super) fn look(&mut self) {
        let mut ended: Vec<(SystemTime, Rank, work::Ending)> = Vec::new();
        // One whose end is known, but not what it means: whoever ended after it may have done so because of it.
        let mut pending: Option<SystemTime> = None;
        for rank in self.members.keys().copied().collect::<Vec<_>>() {
            self.take_output(rank);
            self.look_at(rank);
            let Some(member) = self.members.get_mut(&rank).filter(|member| !member.over) else { continue };
            let known = Known {
                code: member.code.map(|(code, _)| code),
                to_stop: self.stop.is_some(),
                limit: false,
                told: false,
                stage: member.stage.as_ref(),
                since: member.since.elapsed(),
                grace: Duration::from_secs(self.placed.gang.grace_seconds),
                given_up: None,
            };
            let at = member.code.map_or_else(SystemTime::now, |(_, at)| at);
            match verdict(&known) {
                Verdict::Over(ending) => ended.push((at, rank, ending)),
                Verdict::Goes(_) if member.code.is_some() => pending = Some(pending.map_or(at, |old| old.min(at))),
                Verdict::Goes(_) | Verdict::TakeAway => {}
            }
        }
        ended.sort_by_key(|(at, rank, _)| (*at, *rank));
        for (at, rank, ending) in ended {
            if pending.is_none_or(|pending| at <= pending) {
                let ending = self.meaning(rank, ending);
                self.over(rank, ending);
            }
        }
    }

    fn look_at(&mut self, rank: Rank) {
        let run = self.placed.gang.run;
        let (role, index) = seat(rank);
        let name = job_name(run, role);
        let pods = pods_of(&self.shown, run, rank);
        let stops = self.stop.is_some();
        let Some(member) = self.members.get_mut(&rank) else { return };
        let knows = self.shown.is_whole && self.known.contains(&name);
        let stage =
            knows.then(|| seen::once(self.shown.jobs.get(&name).map(AsRef::as_ref), index as usize, &pods, None));
        let code = member.code.or_else(|| self.placed.volume.code(rank));
        // A server that is away for a moment says nothing new.
        if code != member.code || changed(member.stage.as_ref(), stage.as_ref()) {
            member.since = Instant::now();
        }
        (member.code, member.stage) = (code, stage.or(member.stage.take()).filter(|_| self.shown.is_whole));
        if !stops {
            member.leaving = pods.iter().find_map(|pod| seen::leaving(pod)).or(member.leaving.take());
        }
        if let Some(node) = pods.iter().find_map(|pod| pod["spec"]["nodeName"].as_str()) {
            self.follow.is_on(rank, node);
        }
    }

    fn take_output(&mut self, rank: Rank) {
        let Some(member) = self.members.get_mut(&rank) else { return };
        if let Ok(bytes) = self.placed.volume.output(rank, member.taken)
            && !bytes.is_empty()
        {
            self.gather.take(rank, member.taken, &bytes);
            member.taken += bytes.len() as u64;
        }
    }

    /// In the words of a run.
    fn meaning(&mut self, rank: Rank, ending: work::Ending) -> Ending {
        let leaving = self.members.get(&rank).and_then(|member| member.leaving.clone());
        let begun = self.gone.is_some();
        match (ending, leaving) {
            _ if self.stop.is_some() => Ending::Stopped,
            (work::Ending::Signaled(_) | work::Ending::Lost { .. }, Some(why)) => Ending::Lost { why },
            (work::Ending::TimeLimit, _) if !begun => {
                Ending::NotStarted { why: "not all pods of the gang were up in time".into() }
            }
            (work::Ending::Exited(code @ (126 | 127)), _) if !matches!(rank, Rank::Worker(_)) => {
                let hint = "shoal's own program cannot be executed in the pool's image; it needs Linux of the same architecture as this machine";
                self.hints.insert(rank, hint.into());
                Ending::NotStarted { why: format!("its program could not be executed (code {code})") }
            }
            (work::Ending::Exited(code), _) => Ending::Exited(code),
            (work::Ending::Signaled(signal), _) => Ending::Signaled(signal),
            (work::Ending::OutOfMemory, _) => Ending::OutOfMemory,
            (work::Ending::NotStarted { why }, _) => Ending::NotStarted { why },
            (work::Ending::Stopped, _) => Ending::Stopped,
            (work::Ending::TimeLimit, _) => Ending::Lost { why: "the server ended its Job at a deadline".into() },
            (work::Ending::Lost { why, .. } | work::Ending::NotPublished { why }, _) => Ending::Lost { why },
        }
    }

    /// The last word on a rank, once all it printed is here.
    pub(super) fn over(&mut self, rank: Rank, ending: Ending) {
        let Some(member) = self.members.get_mut(&rank).filter(|member| !member.over) else { return };
        member.over = true;
        loop {
            let before = self.members.get(&rank).map(|member| member.taken);
            self.take_output(rank);
            if self.members.get(&rank).map(|member| member.taken) == before {
                break;
            }
        }
        if ending.is_failure() {
            self.tails.insert(rank, self.placed.volume.last_lines(rank));
        }
        self.note_end(rank, &ending);
        let ran_ms = self.gone.map_or(0, |at| self.now().saturating_sub(at));
        let host = self.follow.members().find(|member| member.rank == rank).map(|member| member.host.clone());
        self.screen
            .event("ended", serde_json::json!({ "rank": rank, "host": host, "ending": ending, "ran_ms": ran_ms }));
        self.see(Seen::Ended { rank, ending, ran_ms });
    }

    /// For `shoal ps`, `logs` and `stop`. A disk that is full here must not end a run.
    pub(super) fn note_end(&mut self, rank: Rank, ending: &Ending) {
        let bytes = self.members.get(&rank).map_or(0, |member| member.taken);
        let ending = match ending.clone() {
            Ending::Exited(code) => shoal_daemon::Ending::Exited(code),
            Ending::Signaled(signal) => shoal_daemon::Ending::Signaled(signal),
            Ending::OutOfMemory => shoal_daemon::Ending::OutOfMemory,
            Ending::NotStarted { why } | Ending::Unreachable { why } => {
                shoal_daemon::Ending::NotStarted { why, hint: None }
            }
            Ending::Lost { why } => shoal_daemon::Ending::Lost { why },
            Ending::Stopped => shoal_daemon::Ending::Stopped(How::Signaled(15)),
        };
        if let Some(records) = &mut self.records {
            let _ = records.end(rank, ending, bytes);
        }
    }
}
