//! Which Jobs has the server refused, why, and when is it asked again? Each waits for itself: one that a quota or a hook keeps away says
//! nothing of the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<String, Refusal>);

#[derive(Debug)]
struct Refusal {
    why: String,
    again_at: Instant,
    pause: Duration,
}

impl Refusals {
    pub fn is_due(&self, job: &str, now: Instant) -> bool {
        self.0.get(job).is_none_or(|refusal| now >= refusal.again_at)
    }

    pub fn refused(&mut self, job: String, why: String, now: Instant) {
        let pause = self.0.get(&job).map_or(FIRST, |before| (before.pause * 2).min(LONGEST));
        self.0.insert(job, Refusal { why, again_at: now + pause, pause });
    }

    pub fn forget(&mut self, job: &str) {
        self.0.remove(job);
    }

    /// Of Jobs that still wait for the server.
    pub fn retain(&mut self, waits: impl Fn(&str) -> bool) {
        self.0.retain(|job, _| waits(job));
    }

    /// What is said of the pool.
    pub fn words(&self) -> Option<String> {
        self.0.values().next().map(|refusal| refusal.why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_refused_waits_alone_and_longer_each_time() {
        let (mut refusals, begun) = (Refusals::default(), Instant::now());
        let after = |seconds: u64| begun + Duration::from_secs(seconds);
        refusals.refused("a".into(), "quota".into(), begun);
        assert!(!refusals.is_due("a", after(1)) && refusals.is_due("a", after(2)) && refusals.is_due("b", begun));
        refusals.refused("a".into(), "quota".into(), begun);
        assert!(!refusals.is_due("a", after(3)) && refusals.is_due("a", after(4)));
        for _ in 0..9 {
            refusals.refused("a".into(), "quota".into(), begun);
        }
        assert!(refusals.is_due("a", after(60)));
        assert_eq!(refusals.words().as_deref(), Some("quota"));
        refusals.retain(|job| job != "a");
        assert_eq!(refusals.words(), None);
    }
}
