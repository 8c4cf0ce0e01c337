//! `shoal fleet`'s command line.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// Check, convert and describe fleet files.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Read a fleet file and say what it means, or what is wrong with it and where.
    Check {
        /// shoal.yaml, a Poseidon JSON or a Ray cluster file.
        file: PathBuf,
        /// Print the hosts as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a Poseidon or Ray file in the native form.
    Convert { file: PathBuf },
    /// Print the JSON Schema of the native form, for editors.
    Schema,
}
