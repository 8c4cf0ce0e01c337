//! Whose turn is it? Who has used less of late goes first, within a priority; order only, nobody is shut out.

use super::Moment;
use super::sweep::Wants;

/// What somebody used a week ago counts half.
pub const HALF_LIFE_MS: u64 = 7 * 24 * 3_600_000;
/// A device counts as this many CPUs.
const CPUS_A_GPU: u64 = 8;
/// What has just been started counts as if it had run this long: else whoever comes first takes every slot at once.
pub const JUST_STARTED_SECONDS: f64 = 600.0;

/// Slot-seconds that fade.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    slot_seconds: f64,
    at: Moment,
}

impl Usage {
    pub fn now(&self, now: Moment) -> f64 {
        let half_lives = now.saturating_sub(self.at) as f64 / HALF_LIFE_MS as f64;
        self.slot_seconds * (-half_lives).exp2()
    }

    pub fn add(&mut self, slot_seconds: f64, now: Moment) {
        // A clock that went back must not make the past count again.
        let now = now.max(self.at);
        *self = Usage { slot_seconds: self.now(now) + slot_seconds, at: now };
    }
}

/// What one process counts, in thousandths of a slot: by the scarcer of its CPUs and its devices.
pub fn weight(wants: &Wants) -> u64 {
    u64::from(wants.cpus_milli).max(u64::from(wants.gpus_milli) * CPUS_A_GPU).max(1)
}

/// One who submits.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::queue) struct User {
    pub name: String,
    pub usage: Usage,
    /// Processes at once, at most.
    pub quota: Option<u32>,
    /// Processes that hold a seat now.
    pub held: u32,
    /// Their weights, and the weights times when they began: what they have used until now needs no list of them.
    weight: u64,
    weighed_begin: u128,
}

impl User {
    pub fn new(name: &str) -> User {
        User { name: name.into(), ..User::default() }
    }

    pub fn hold(&mut self, weight: u64, at: Moment) {
        self.held += 1;
        self.weight += weight;
        self.weighed_begin += u128::from(weight) * u128::from(at);
    }

    pub fn release(&mut self, weight: u64, since: Moment, at: Moment) {
        self.held = self.held.saturating_sub(1);
        self.weight = self.weight.saturating_sub(weight);
        self.weighed_begin = self.weighed_begin.saturating_sub(u128::from(weight) * u128::from(since));
        self.usage.add(slot_seconds(u128::from(weight) * u128::from(at.saturating_sub(since))), at);
    }

    /// What counts against them: what they used, what they use, and a little for what they have just begun to use.
    pub fn share(&self, now: Moment) -> f64 {
        let live = (u128::from(self.weight) * u128::from(now)).saturating_sub(self.weighed_begin);
        self.usage.now(now) + slot_seconds(live) + just_started(self.weight)
    }
}

/// What a run that starts now adds to a share.
pub fn just_started(weight: u64) -> f64 {
    weight as f64 / 1000.0 * JUST_STARTED_SECONDS
}

fn slot_seconds(milli_slot_ms: u128) -> f64 {
    milli_slot_ms as f64 / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_fades_by_half_in_a_week() {
        let mut usage = Usage::default();
        usage.add(100.0, 1_000);
        assert_eq!(usage.now(1_000), 100.0);
        assert_eq!(usage.now(1_000 + HALF_LIFE_MS), 50.0);
        assert_eq!(usage.now(1_000 + 2 * HALF_LIFE_MS), 25.0);
        usage.add(0.0, 500);
        assert_eq!(usage.now(1_000), 100.0, "a clock that goes back changes nothing");
        let mut often = Usage::default();
        often.add(100.0, 0);
        (1..=1_000).for_each(|k| often.add(0.0, HALF_LIFE_MS / 1_000 * k));
        assert!((often.now(HALF_LIFE_MS) - 50.0).abs() < 1e-3);
    }

    #[test]
    fn what_lives_counts_like_what_is_over() {
        let mut user = User::default();
        user.hold(2_000, 10_000);
        let live = user.share(70_000) - just_started(2_000);
        user.release(2_000, 10_000, 70_000);
        assert_eq!((live, user.share(70_000)), (120.0, 120.0));
        assert_eq!(user.held, 0);
    }

    #[test]
    fn a_device_counts_more_than_a_cpu() {
        let wants = |cpus_milli, gpus_milli| Wants { cpus_milli, gpus_milli, ..Wants::default() };
        assert_eq!(weight(&wants(1000, 0)), 1000);
        assert_eq!(weight(&wants(1000, 250)), 2000);
        assert_eq!(weight(&wants(0, 0)), 1);
    }
}
