//! One turn of the loop: what came within a moment becomes events, one commit, and only then is anybody told (QUEUE-1, QUEUE-2).

use super::message::Reply;
use shoal_core::queue::event::Event;
use shoal_core::queue::line::ToHost;
use shoal_core::queue::request::Answer;
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

    pub fn tell(&mut self, host: &str, order: ToHost) {
        self.orders.push((host.into(), order));
    }
}

/// What failed, why, and what to do.
pub fn refused(why: impl Into<String>, hint: &str) -> Answer {
    Answer::Refused { why: why.into(), hint: Some(hint.to_string()).filter(|hint| !hint.is_empty()) }
}
