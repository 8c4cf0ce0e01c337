//! Images: of containers (`build`, `push`, `pull`), and of a cluster's head (`bake`).

mod bake;
mod build;
mod pull;
mod push;

use super::run::NotBegun;
use crate::args::image::{Args, What};
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    match &args.what {
        What::Build(args) => build::run(args),
        What::Push(args) => push::run(args),
        What::Pull(args) => pull::run(args),
        What::Bake(args) => bake::run(args),
    }
}
