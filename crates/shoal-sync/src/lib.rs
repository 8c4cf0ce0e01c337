//! The gradient engine.
pub mod dtype;
pub mod error;
pub mod layout;
pub mod node;
pub mod reduce;
pub mod settings;
pub mod wire;
