//! Who comes first?

use super::hosts;
use crate::queue::Moment;
use crate::queue::plan::gate;
use crate::queue::plan::place::Asker;
use crate::queue::plan::room::Need;
use crate::queue::state::runs::State;
use crate::queue::state::sweeps::SweepState;
use crate::queue::state::{Queue, RunKey};
use std::cmp::Reverse;

/// Other sweeps that go first, and how many of their runs wait.
pub(super) struct Ahead<'q> {
    sweeps: Vec<(&'q SweepState, u32)>,
}

impl<'q> Ahead<'q> {
    pub fn of(queue: &'q Queue, state: &SweepState, key: RunKey, now: Moment) -> Ahead<'q> {
        let priority = state.sweep.rules.priority;
        let share = |user: u32| queue.users.get(user as usize).map_or(0.0, |user| user.share(now));
        let mine = share(state.user);
        let mut sweeps = Vec::new();
        for (band, users) in queue.ready.range(..=Reverse(priority)) {
            for (user, keys) in users {
                let first = band.0 > priority || share(*user).total_cmp(&mine).then(user.cmp(&state.user)).is_lt();
                let before = keys.iter().filter(|other| first || (*user == state.user && **other < key.0));
                sweeps.extend(before.filter_map(|other| {
                    let other = queue.sweeps.get(other)?;
                    // Who cannot start is in nobody's way.
                    let asker = Asker { state: other, need: Need::of(other), avoid: None, ends: None };
                    let held = queue.users.get(other.user as usize).map_or(0, |user| user.held);
                    let open = gate::closed(queue, other, now).is_none()
                        && gate::quota(queue, other.user, held, asker.need.ranks).is_none()
                        && hosts::none_would(queue, &asker).is_none();
                    open.then(|| (other, other.runs.count(State::Waiting)))
                }));
            }
        }
        Ahead { sweeps }
    }

    pub fn is_nobody(&self) -> bool {
        self.sweeps.is_empty()
    }

    /// How long all hosts are busy with them, if that is known.
    pub fn work_ms(&self, queue: &Queue) -> Option<u64> {
        let seats: u64 = queue.hosts.values().map(|host| u64::from(host.used.slots)).sum();
        let mut work = 0u64;
        for (state, waiting) in &self.sweeps {
            let ms = u64::from(*waiting).saturating_mul(state.measured.mean_ms()?);
            work = work.saturating_add(ms.saturating_mul(u64::from(state.sweep.wants.ranks)));
        }
        Some(work / seats.max(1))
    }

    pub fn sentence(&self) -> String {
        let runs: u64 = self.sweeps.iter().map(|(_, waiting)| u64::from(*waiting)).sum();
        let name = |(state, waiting): &(&SweepState, u32)| {
            format!("{waiting} of {}'s `{}`", state.sweep.owner, state.sweep.name)
        };
        let mut names: Vec<String> = self.sweeps.iter().take(3).map(name).collect();
        if self.sweeps.len() > 3 {
            names.push(format!("and those of {} other sweeps", self.sweeps.len() - 3));
        }
        let are = if runs == 1 { "run is" } else { "runs are" };
        format!("{runs} {are} before it: {}", names.join(", "))
    }
}
