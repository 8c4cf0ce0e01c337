//! Shoal's nouns and decisions, as values and functions over values (CORE-1: no I/O, no clock, no global, no randomness).

pub mod checkup;
pub mod cluster;
pub mod diagnostic;
pub mod document;
pub mod fleet;
pub mod follow;
pub mod image;
pub mod job;
pub mod kubernetes;
pub mod outcome;
pub mod plan;
pub mod queue;
pub mod quote;
pub mod rank;
pub mod suggest;
pub mod variables;
