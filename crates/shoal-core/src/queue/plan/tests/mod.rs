//! What a plan has to do, by subject; `play` plays fleets at random.

mod devices;
mod failures;
mod gangs;
mod lines;
mod places;
mod play;
mod turns;

use crate::queue::event::Action;
use crate::queue::sweep::Sweep;
use crate::queue::testing::{starts, sweep};

fn wanting(name: &str, owner: &str, cells: u32, change: impl FnOnce(&mut Sweep)) -> Sweep {
    let mut it = sweep(name, owner, cells, 1);
    change(&mut it);
    it
}

fn hosts_of(actions: &[Action]) -> Vec<String> {
    starts(actions).into_iter().map(|(_, host)| host).collect()
}
