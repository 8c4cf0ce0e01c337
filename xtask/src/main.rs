//! `cargo xtask VERB`: one verb, one file.

mod again;
mod bench;
mod cargo;
mod ci;
mod days;
mod demo;
mod frameworks;
mod gang;
mod hosts;
mod kubernetes;
mod ray;
mod report;
mod setup;
mod show;
mod test;
mod venv;
mod wheel;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

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
    /// What CI runs: all of `test`, with nothing skipped.
    Ci,
    /// Kill, unmount and fill up under the queue, many rounds of each, and print figures.
    Days(days::Args),
    /// Train a small network on four workers, and compare with one process.
    Demo,
    /// Test hosts to try things on by hand: machines made of namespaces, reached over real ssh.
    Hosts(hosts::Args),
    /// A real Kubernetes control plane for the tests: build its programs.
    Kubernetes(kubernetes::Args),
    /// Install what the tests need from the system.
    Setup,
    /// Run every check and test.
    Test(test::Args),
}

/// The root of the checkout.
pub fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_path_buf()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", report::told(&error));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    match Args::parse().verb {
        Verb::Bench(args) => bench::run(args),
        Verb::Ci => ci::run(),
        Verb::Days(args) => days::run(args),
        Verb::Demo => demo::run(cargo::Profile::Release),
        Verb::Hosts(args) => hosts::run(args),
        Verb::Kubernetes(args) => kubernetes::run(args),
        Verb::Setup => setup::run(),
        Verb::Test(args) => test::run(args),
    }
}
