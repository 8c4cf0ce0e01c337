//! `shoal`'s command line: its verbs.

use clap::{Parser, Subcommand};

/// Turn the machines you have into one place to train.
#[derive(Debug, Parser)]
#[command(name = "shoal", version, propagate_version = true, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Run(Box<super::run::Args>),
    Fleet(super::fleet::Args),
    Doctor(super::doctor::Args),
    Plan(Box<super::plan::Args>),
    Ps(super::ps::Args),
    Logs(super::logs::Args),
    Stop(super::stop::Args),
    /// What hosts run for us; not for people.
    #[command(hide = true)]
    Host(super::host::Args),
}
