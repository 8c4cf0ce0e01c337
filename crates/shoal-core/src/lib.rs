//! Shoal's nouns and decisions, as values and functions over values (CORE-1: no I/O, no clock, no global, no randomness).

pub mod job;
pub mod rank;
