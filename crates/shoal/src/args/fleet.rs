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
        /// Fill in a slot of a Ray cluster file: --set 'AMI ID=ami-0123' for { AMI ID }.
        #[arg(long, value_name = "SLOT=VALUE", value_parser = shoal_core::cluster::read::values::assignment)]
        set: Vec<(String, String)>,
        /// Fill in slots from a file: a YAML map of names and values.
        #[arg(long, value_name = "FILE")]
        values: Option<PathBuf>,
    },
    /// Print a Poseidon or Ray file in the native form.
    Convert { file: PathBuf },
    /// Rewrite a Ray cluster file of 2020 for today's Ray, with its comments and its layout.
    ///
    /// For files with head_node, worker_nodes or initial_workers, which Ray 2 refuses. Shoal reads both; migrate when the file is to be
    /// used with Ray as well, or to be kept. What changes is said on stderr; the result means the same cluster, or nothing is written.
    Migrate {
        file: PathBuf,
        /// Write the result there instead of to stdout.
        #[arg(short, long, value_name = "FILE", conflicts_with = "in_place")]
        output: Option<PathBuf>,
        /// Replace the file itself.
        #[arg(long)]
        in_place: bool,
    },
    /// Print the JSON Schema of the native form, for editors.
    Schema {
        /// Of Ray's cluster files instead, with what Shoal adds to them.
        #[arg(long)]
        cluster: bool,
    },
}
