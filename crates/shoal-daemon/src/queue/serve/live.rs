//! What is known of live attempts that the journal need not know? What they printed last, and who has just begun.
//!
//! A beginning is written down only when it has lasted: a run that is over by then says itself when it began. That is a third of the
//! journal where runs are short.

use shoal_core::queue::event::Event;
use shoal_core::queue::state::Queue;
use shoal_core::queue::{Attempt, Moment};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

const LASTED: Duration = Duration::from_millis(400);
/// Attempts whose numbers are kept, numbers of each, and bytes of each.
const MOST: usize = 20_000;
const MOST_NUMBERS: usize = 64;
const MOST_BYTES: usize = 200;

type Numbers = Vec<(String, String)>;

#[derive(Default)]
pub struct Live {
    begun: VecDeque<(Instant, Attempt, Moment)>,
    numbers: HashMap<Attempt, Numbers>,
}

impl Live {
    pub fn begins(&mut self, attempt: Attempt, at: Moment) {
        self.begun.push_back((Instant::now(), attempt, at));
    }

    /// Those that have lasted.
    pub fn begun(&mut self, queue: &Queue) -> Vec<Event> {
        let mut events = Vec::new();
        while self.begun.front().is_some_and(|(since, ..)| since.elapsed() >= LASTED) {
            let Some((_, attempt, at)) = self.begun.pop_front() else { break };
            if queue.live(&attempt).is_some_and(|live| live.began.is_none()) {
                events.push(Event::Began { at, attempt });
            }
        }
        events
    }

    pub fn rest(&self) -> Option<Duration> {
        self.begun.front().map(|(since, ..)| LASTED.saturating_sub(since.elapsed()))
    }

    pub fn prints(&mut self, attempt: Attempt, numbers: Numbers) {
        let small = |text: &String| text.len() <= MOST_BYTES;
        let numbers = numbers.into_iter().filter(|(name, value)| small(name) && small(value));
        if self.numbers.len() < MOST || self.numbers.contains_key(&attempt) {
            self.numbers.insert(attempt, numbers.take(MOST_NUMBERS).collect());
        }
    }

    pub fn numbers(&self, attempt: &Attempt) -> Option<&Numbers> {
        self.numbers.get(attempt)
    }

    /// Some have ended without a word of theirs: their host is lost.
    pub fn keep_only(&mut self, lives: impl Fn(&Attempt) -> bool) {
        self.numbers.retain(|attempt, _| lives(attempt));
    }

    pub fn ends(&mut self, attempt: &Attempt) {
        self.numbers.remove(attempt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::RunId;

    #[test]
    fn numbers_go_with_their_attempts() {
        let attempt = |cell| Attempt { run: RunId { sweep: "s".into(), cell, rep: 0 }, number: 1 };
        let mut live = Live::default();
        (0..4).for_each(|cell| live.prints(attempt(cell), vec![("loss".into(), "1".into())]));
        live.ends(&attempt(0));
        live.keep_only(|attempt| attempt.run.cell > 2);
        let left: Vec<u32> = (0..4).filter(|cell| live.numbers(&attempt(*cell)).is_some()).collect();
        assert_eq!(left, [3]);
    }
}
