//! In which state is each of a sweep's runs? Eight bytes and a bit for each of them.
//!
//! First copies come before second ones, so that a look at the whole comes early. A sweep that grows gets further blocks;
//! what is there keeps its place.

use super::bits::Bits;
use crate::queue::request::RunState;
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) struct Slot {
    pub state: State,
    /// Ends that were not the program's fault, since somebody last said: again.
    pub free: u8,
    /// Ends that were, since then.
    pub failed: u16,
    /// Attempts that were ever made.
    pub attempts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::queue) enum State {
    Waiting,
    /// An attempt of it is on a host, or in line behind another.
    Live,
    Finished,
    Failed,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    first: u32,
    cells: Range<u32>,
    reps: Range<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::queue) struct Runs {
    blocks: Vec<Block>,
    slots: Vec<Slot>,
    waiting: Bits,
    counts: [u32; 5],
    cells: u32,
    reps: u32,
}

impl Runs {
    /// Never smaller than before. What is new waits.
    pub fn grow(&mut self, cells: u32, reps: u32) {
        let (old_cells, old_reps) = (self.cells, self.reps);
        self.cells = cells.max(old_cells);
        self.reps = reps.max(old_reps);
        self.add(old_cells..self.cells, 0..old_reps);
        self.add(0..self.cells, old_reps..self.reps);
        let length = self.slots.len() as u32;
        self.waiting.grow(length, true);
    }

    fn add(&mut self, cells: Range<u32>, reps: Range<u32>) {
        let new = cells.len() * reps.len();
        if new == 0 {
            return;
        }
        let first = self.slots.len() as u32;
        let slot = Slot { state: State::Waiting, free: 0, failed: 0, attempts: 0 };
        self.slots.reserve_exact(new);
        self.slots.resize(self.slots.len() + new, slot);
        self.counts[State::Waiting as usize] += new as u32;
        match self.blocks.last_mut() {
            Some(last) if last.cells == cells && last.reps.end == reps.start => last.reps.end = reps.end,
            Some(last) if last.reps == reps && reps.len() == 1 && last.cells.end == cells.start => {
                last.cells.end = cells.end;
            }
            _ => self.blocks.push(Block { first, cells, reps }),
        }
    }

    pub fn cells(&self) -> u32 {
        self.cells
    }

    pub fn reps(&self) -> u32 {
        self.reps
    }

    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The place of a run.
    pub fn index(&self, cell: u32, rep: u32) -> Option<u32> {
        let block = self.blocks.iter().rev().find(|block| block.cells.contains(&cell) && block.reps.contains(&rep))?;
        let row = (rep - block.reps.start) * block.cells.len() as u32;
        Some(block.first + row + cell - block.cells.start)
    }

    /// The run of a place: configuration and copy.
    pub fn id(&self, index: u32) -> Option<(u32, u32)> {
        let block = self.blocks.get(self.blocks.partition_point(|block| block.first <= index).checked_sub(1)?)?;
        let width = block.cells.len() as u32;
        let within = index - block.first;
        let id = (block.cells.start + within % width, block.reps.start + within / width);
        (index < self.len()).then_some(id)
    }

    pub fn get(&self, index: u32) -> Option<Slot> {
        self.slots.get(index as usize).copied()
    }

    pub fn change(&mut self, index: u32, change: impl FnOnce(&mut Slot)) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let before = slot.state;
        change(slot);
        let after = slot.state;
        if before == after {
            return;
        }
        self.counts[before as usize] -= 1;
        self.counts[after as usize] += 1;
        match (before, after) {
            (State::Waiting, _) => self.waiting.remove(index),
            (_, State::Waiting) => self.waiting.insert(index),
            _ => {}
        }
    }

    pub fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    /// The first that waits, from this place on.
    pub fn waiting_from(&self, index: u32) -> Option<u32> {
        self.waiting.from(index)
    }

    /// How many wait before this place.
    pub fn waiting_before(&self, index: u32) -> u32 {
        self.waiting.count_below(index)
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.waiting.bytes() + self.blocks.capacity() * size_of::<Block>()
    }
}

impl State {
    pub fn shown(self) -> RunState {
        match self {
            State::Waiting => RunState::Waiting,
            State::Live => RunState::Running,
            State::Finished => RunState::Finished,
            State::Failed => RunState::Failed,
            State::Stopped => RunState::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_run_has_one_place_and_keeps_it(steps in proptest::collection::vec((0u32..9, 0u32..4), 1..8)) {
            let mut runs = Runs::default();
            let mut before = Vec::new();
            let (mut cells, mut reps) = (0, 0);
            for (more_cells, more_reps) in steps {
                cells += more_cells;
                reps += more_reps;
                runs.grow(cells, reps);
                for (index, id) in &before {
                    prop_assert_eq!(runs.id(*index), Some(*id));
                }
                before = (0..runs.len()).filter_map(|index| Some((index, runs.id(index)?))).collect();
                prop_assert_eq!(before.len() as u32, cells * reps);
                for (index, (cell, rep)) in &before {
                    prop_assert_eq!(runs.index(*cell, *rep), Some(*index));
                }
                prop_assert_eq!(runs.count(State::Waiting), runs.len());
                prop_assert_eq!(runs.id(runs.len()), None);
                prop_assert_eq!(runs.index(cells, 0), None);
            }
        }
    }

    #[test]
    fn a_run_is_small() {
        assert_eq!(size_of::<Slot>(), 8);
    }
}
