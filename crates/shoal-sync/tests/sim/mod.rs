//! A gang in memory: real nodes, a network of queues, and a scheduler that may choose any order.
//!
//! There are no delays as numbers: the scheduler picks which of all possible moves happens next, and some links are
//! picked rarely. Every order that delays could cause can come about, and a seed repeats it.
#![allow(dead_code)] // every test binary uses a part

pub mod bound;
pub mod chooser;
pub mod dice;
pub mod gang;
pub mod link;
pub mod moves;
pub mod plan;
pub mod reference;
pub mod script;
pub mod tensor;

use plan::Plan;

/// Runs a plan and, if it fails, prints the line that repeats it.
pub fn told<T>(how_to_repeat: &str, run: impl FnOnce() -> T) -> T {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(value) => value,
        Err(cause) => {
            eprintln!("repeat with: {how_to_repeat}");
            std::panic::resume_unwind(cause)
        }
    }
}

/// A plan under a schedule of this seed.
pub fn run(plan: &Plan, schedule: u64) -> gang::Outcome {
    gang::Gang::new(plan.clone(), chooser::Chooser::random(schedule)).run().0
}
