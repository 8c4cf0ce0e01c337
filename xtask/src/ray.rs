//! Where is Ray: the peer of `bench up`, and what tests bring up on test hosts.

use anyhow::{Context, Result};
use std::path::PathBuf;

/// Pinned to one minor version: what it does and how long it takes is what we are compared with.
const PACKAGES: [&str; 1] = ["ray[default]==2.60.*"];

/// The folder of the virtual environment that has Ray.
pub fn ensure() -> Result<PathBuf> {
    let python = crate::venv::ensure("ray", &PACKAGES)?;
    Ok(python.ancestors().nth(2).context("the interpreter lies in no environment")?.to_path_buf())
}
