//! `cargo xtask VERB`: one verb, one file.

mod bench;
mod venv;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Shoal's own commands")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure ours and the peers side by side and print ratios.
    Bench(bench::Args),
}

/// The root of the checkout.
pub fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_path_buf()
}

fn main() -> anyhow::Result<()> {
    match Args::parse().verb {
        Verb::Bench(args) => bench::run(args),
    }
}
