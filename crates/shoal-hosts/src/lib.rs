//! Reaching machines: starting a program there and talking to it through pipes, the same way for this machine (`local`) and for
//! others (`ssh`); and `kubernetes`, where an API server starts it. Each way: pure rendering of what to run, pure reading of what went wrong, and the I/O in between.

pub mod files;
pub mod kubernetes;
pub mod lines;
pub mod local;
pub mod process;
pub mod ssh;

pub use process::Process;
