//! The gradient engine.
pub mod dtype;
pub mod reduce;
