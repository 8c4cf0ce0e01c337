//! Runs on Kubernetes: from a template and a list of runs to the objects to apply, and what may be said of them later.

pub mod attach;
pub mod checkup;
pub mod complaint;
pub mod difference;
pub mod emit;
pub mod end;
pub mod gang;
pub mod helper;
pub mod inventory;
pub mod manifest;
pub mod meet;
pub mod names;
pub mod place;
pub mod plan;
pub mod pool;
pub mod rows;
pub mod runs;
pub mod save_path;
pub mod state;
pub mod summary;
pub mod template;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod variables;
