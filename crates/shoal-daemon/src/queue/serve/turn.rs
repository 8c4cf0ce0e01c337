//! One turn of the loop: what came within a moment becomes events, one commit, and only then is anybody told (QUEUE-1, QUEUE-2).

use super::message::Reply;
use shoal_core::queue::event::Event;
use shoal_core::queue::line::ToHost;
use shoal_core::queue::request::Answer;
use shoal_core::queue::state::Queue;
use shoal_core::queue::work::Start;
use shoal_core::queue::{Attempt, Moment, Target};
use std::collections::BTreeMap;

pub struct Turn {
    pub now: Moment,
    /// Applied to the queue in memory already, and not in the journal yet.
    pub events: Vec<Event>,
    /// Answers, by the requests' order.
    pub answers: Vec<(Reply<Answer>, Answer)>,
    /// Ends that hosts may forget.
    pub acknowledged: BTreeMap<String, Acknowledged>,
    pub starts: BTreeMap<String, Vec<Start>>,
    /// Everything else that hosts are told, after what they start.
    pub orders: Vec<(String, ToHost)>,
    /// What has to end with another grace than its sweep's, in seconds.
    pub graces: Vec<(Target, u32)>,
    /// Something that no event says may have changed what can start.
    pub look: bool,
}

/// Of one host. Processes of gangs by rank, since others of the attempt may still live there.
#[derive(Default)]
pub struct Acknowledged {
    pub attempts: Vec<Attempt>,
    pub ranks: Vec<(Attempt, u32)>,
}

impl Turn {
    pub fn new(now: Moment) -> Turn {
        Turn {
            now,
            events: Vec::new(),
            answers: Vec::new(),
            acknowledged: BTreeMap::new(),
            starts: BTreeMap::new(),
            orders: Vec::new(),
            graces: Vec::new(),
            look: false,
        }
    }

    pub fn answer(&mut self, reply: Reply<Answer>, answer: Answer) {
        self.answers.push((reply, answer));
    }

    /// What hosts are to start, without what has ended meanwhile: that was acknowledged before, its host has forgotten it, and would run it
    /// a second time (QUEUE-2).
    pub fn starts_of(&mut self, queue: &Queue) -> BTreeMap<String, Vec<Start>> {
        let mut starts = std::mem::take(&mut self.starts);
        for (host, starts) in &mut starts {
            starts.retain(|start| queue.holds_seat(&start.attempt, start.rank, host));
        }
        starts.retain(|_, starts| !starts.is_empty());
        starts
    }

    pub fn tell(&mut self, host: &str, order: ToHost) {
        self.orders.push((host.into(), order));
    }
}

/// What failed, why, and what to do.
pub fn refused(why: impl Into<String>, hint: &str) -> Answer {
    Answer::Refused { why: why.into(), hint: Some(hint.to_string()).filter(|hint| !hint.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::serve::hosts::nothing_ran;
    use crate::queue::serve::options::this_machine;
    use shoal_core::queue::RunId;
    use shoal_core::queue::event::Seat;
    use shoal_core::queue::sweep::{
        Axes, Command, Dimension, Pass, Provenance, Rules, SWEEP_VERSION, Sweep, Value, Wants,
    };
    use shoal_core::queue::work::{Ending, Publish};
    use std::collections::BTreeMap;

    fn sweep(ranks: u32) -> Sweep {
        let rows = (0..3).map(|n| vec![Some(Value::Int(n))]).collect();
        let dimensions = vec![Dimension { names: vec!["x".into()], rows }];
        Sweep {
            version: SWEEP_VERSION,
            name: "s".into(),
            owner: "ann".into(),
            parts: vec![Axes { fixed: BTreeMap::new(), dimensions, only: None }],
            reps: 1,
            command: Command {
                argv: vec!["true".into()],
                env: BTreeMap::new(),
                pass: Pass::default(),
                trees: Vec::new(),
                folder: None,
                setup: Vec::new(),
                virtualenv: None,
                requirements: None,
            },
            wants: Wants { ranks, ..Wants::default() },
            rules: Rules::default(),
            after: Vec::new(),
            provenance: Provenance::default(),
        }
    }

    fn start(cell: u32, rank: u32) -> Start {
        Start {
            attempt: Attempt { run: RunId { sweep: "s".into(), cell, rep: 0 }, number: 1 },
            argv: Vec::new(),
            env: Vec::new(),
            setup: Vec::new(),
            virtualenv: None,
            requirements: None,
            trees: Vec::new(),
            folder: None,
            after: None,
            rank,
            hosts: Vec::new(),
            files: Vec::new(),
            beside: Vec::new(),
            devices: Vec::new(),
            memory_bytes: None,
            time_limit_seconds: None,
            grace_seconds: 1,
            publish: Publish::Send("x".into()),
            results_mark: None,
            always: false,
            guarded: false,
            origin: None,
        }
    }

    /// The host said hello, so a start was due; what it had not yet said came behind that, in the same turn.
    #[test]
    fn what_ended_in_the_same_turn_is_not_started_behind_its_acknowledgement() {
        let mut queue = Queue::new();
        let policy = this_machine();
        let host = policy.name.clone();
        queue.apply(&Event::HostAdded { at: 1, policy });
        queue.apply(&Event::Submitted { at: 1, sweep: Box::new(sweep(2)) });
        for cell in 0..2 {
            let seat = || Seat { host: host.clone(), devices: Vec::new(), meet: None };
            let attempt = start(cell, 0).attempt;
            queue.apply(&Event::Assigned { at: 1, attempt, places: vec![seat(), seat()], after: None });
        }
        let mut turn = Turn::new(2);
        let due = [(0, 0), (0, 1), (1, 0), (1, 1)];
        turn.starts.insert(host.clone(), due.iter().map(|(cell, rank)| start(*cell, *rank)).collect());
        turn.starts.insert("elsewhere".into(), vec![start(1, 0)]);
        let ends = [(0, 0, Ending::Exited(0)), (0, 1, Ending::Exited(0)), (1, 1, Ending::Exited(1))];
        for (cell, rank, ending) in ends {
            let ended = nothing_ran(start(cell, rank).attempt, rank, ending, 2);
            queue.apply(&Event::Ended { at: 2, host: host.clone(), ended: Box::new(ended) });
        }
        let left = turn.starts_of(&queue);
        let left: Vec<(&str, u32, u32)> = left
            .iter()
            .flat_map(|(host, starts)| starts.iter().map(move |it| (host.as_str(), it.attempt.run.cell, it.rank)))
            .collect();
        assert_eq!(left, [(host.as_str(), 1, 0)]);
        assert!(turn.starts.is_empty());
    }
}
