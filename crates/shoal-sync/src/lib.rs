//! The gradient engine.
//!
//! Workers and shards exchange blocks of tensors; a master knows who they are. Read in this order:
//! [`layout`] (how a tensor is cut), [`wire`] (what a frame is), [`node`] (what happens to it, without any I/O), [`net`] (sockets),
//! [`engine`] (what programs call), [`master`] and [`server`] (the other programs of a run), [`local`] (workers of one host).

pub mod control;
pub mod dtype;
pub mod engine;
pub mod error;
pub mod handshake;
pub mod host;
pub mod layout;
pub mod local;
pub mod master;
pub mod net;
pub mod node;
pub mod reduce;
pub mod scheme;
pub mod server;
pub mod settings;
pub mod wire;

pub use dtype::DType;
pub use engine::{Boundary, Engine, Key, Op, Pending, TensorSpec};
pub use error::SyncError;
pub use settings::{OnDeath, Settings};
