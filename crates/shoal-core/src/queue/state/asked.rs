//! What do people's wishes change?

use super::Queue;
use super::runs::State;
use super::sweeps::SweepState;
use crate::queue::cells::{self, MOST_RUNS};
use crate::queue::event::Pausable;
use crate::queue::sweep::{Axes, Sweep};
use crate::queue::{Attempt, Moment, Target, is_sweep_name};

impl Queue {
    pub(super) fn submitted(&mut self, at: Moment, sweep: &Sweep) {
        let Some(cells) = size(cells::total(sweep), sweep.reps) else { return };
        if !is_sweep_name(&sweep.name) || self.sweep_names.contains_key(&sweep.name) {
            return;
        }
        let user = self.user(&sweep.owner);
        let key = self.next_number();
        let mut state = SweepState::new(sweep.clone(), user, at);
        state.runs.grow(cells, sweep.reps);
        self.sweep_names.insert(sweep.name.clone(), key);
        self.sweeps.insert(key, state);
        self.reindex(key);
    }

    pub(super) fn topped_up(&mut self, name: &str, new: &[Axes], reps: u32, like: &Sweep) {
        let Some(key) = self.sweep_key(name) else { return };
        let Some(state) = self.sweeps.get_mut(&key) else { return };
        let more = new.iter().map(cells::count).fold(cells::total(&state.sweep), u64::saturating_add);
        let reps = reps.max(state.sweep.reps);
        let Some(cells) = size(more, reps) else { return };
        let sweep = &mut state.sweep;
        if sweep.command != like.command || sweep.wants != like.wants {
            // What the old ones took says nothing of the new ones.
            state.measured.peak_gpu_bytes = None;
        }
        sweep.parts.extend(new.iter().filter(|part| cells::count(part) > 0).cloned());
        sweep.reps = reps;
        sweep.command = like.command.clone();
        sweep.wants = like.wants.clone();
        sweep.rules = like.rules.clone();
        sweep.after = like.after.clone();
        sweep.provenance = like.provenance.clone();
        state.runs.grow(cells, reps);
        state.forgive();
        self.reindex(key);
    }

    pub(super) fn forgotten(&mut self, name: &str) {
        let Some(key) = self.sweep_key(name) else { return };
        let Some(state) = self.sweeps.get(&key).filter(|state| state.runs.count(State::Live) == 0) else { return };
        let (ready, user) = (state.ready, state.user);
        self.unlist(key, ready, user);
        self.sweeps.remove(&key);
        self.sweep_names.remove(name);
    }

    /// Runs that wait are stopped at once; live ones are told by the next plan.
    pub(super) fn stop_asked(&mut self, target: &Target, by: &str) {
        let Some(key) = self.sweep_key(target.sweep()) else { return };
        for (run, state) in self.places_of(key, target) {
            match state {
                State::Waiting => self.change(key, run, |slot| slot.state = State::Stopped),
                State::Live => {
                    let Some(live) = self.live.get_mut(&(key, run)) else { continue };
                    live.asked = true;
                    if live.stopping.is_none() {
                        self.to_stop.insert((key, run), format!("{by} asked for it"));
                    }
                }
                _ => {}
            }
        }
        self.reindex(key);
    }

    pub(super) fn stopping(&mut self, attempt: &Attempt, checkpoint_first: bool) {
        let Some(key) = self.live_key(attempt) else { return };
        self.to_stop.remove(&key);
        if let Some(live) = self.live.get_mut(&key) {
            live.stopping.get_or_insert(checkpoint_first);
        }
    }

    pub(super) fn retried(&mut self, target: &Target) {
        let Some(key) = self.sweep_key(target.sweep()) else { return };
        for (run, state) in self.places_of(key, target) {
            match state {
                State::Failed | State::Stopped => self.change(key, run, |slot| {
                    slot.state = State::Waiting;
                    slot.failed = 0;
                    slot.free = 0;
                }),
                // It is ending because somebody wanted so: now it starts again when it has.
                State::Live => {
                    let Some(live) = self.live.get_mut(&(key, run)) else { continue };
                    live.asked = false;
                    if live.failure.is_none() && !live.stopped {
                        self.to_stop.remove(&(key, run));
                    }
                }
                _ => {}
            }
        }
        if let Some(state) = self.sweeps.get_mut(&key) {
            state.forgive();
        }
        self.reindex(key);
    }

    pub(super) fn set_paused(&mut self, what: &Pausable, paused: bool) {
        match what {
            Pausable::Sweep(name) => {
                let Some(key) = self.sweep_key(name) else { return };
                if let Some(state) = self.sweeps.get_mut(&key) {
                    state.paused = paused;
                }
                self.reindex(key);
            }
            Pausable::Host(name) => {
                let Some(key) = self.host_key(name) else { return };
                let Some(host) = self.hosts.get_mut(&key) else { return };
                host.paused = paused;
                if !paused {
                    self.trust(key);
                }
            }
        }
    }

    fn change(&mut self, key: u32, run: u32, change: impl FnOnce(&mut super::runs::Slot)) {
        if let Some(state) = self.sweeps.get_mut(&key) {
            state.runs.change(run, change);
            state.endings.remove(&run);
            state.avoid.remove(&run);
            state.felled.remove(&run);
        }
    }

    /// Runs that a target means, and their states.
    pub(super) fn places_of(&self, key: u32, target: &Target) -> Vec<(u32, State)> {
        let Some(state) = self.sweeps.get(&key) else { return Vec::new() };
        let runs = &state.runs;
        let with_state = |run: u32| Some((run, runs.get(run)?.state));
        match target {
            Target::Sweep(_) => (0..runs.len()).filter_map(with_state).collect(),
            Target::Cell(_, cell) => (0..runs.reps()).filter_map(|rep| with_state(runs.index(*cell, rep)?)).collect(),
            Target::Run(run) => runs.index(run.cell, run.rep).and_then(with_state).into_iter().collect(),
        }
    }
}

/// How many configurations, if their runs can be numbered.
fn size(cells: u64, reps: u32) -> Option<u32> {
    (cells.checked_mul(u64::from(reps))? <= MOST_RUNS).then_some(())?;
    u32::try_from(cells).ok()
}

impl Target {
    pub fn sweep(&self) -> &str {
        match self {
            Target::Sweep(sweep) | Target::Cell(sweep, _) => sweep,
            Target::Run(run) => &run.sweep,
        }
    }
}
