//! `shoal token`'s command line.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// Say who may use the queue from elsewhere, and as what.
///
/// Use it on the machine of `shoal serve --listen`. Whoever is logged in there as the daemon's user needs no token. A token is shown once, when it is
/// made; the daemon keeps only what is needed to check it.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make a token for a user or a host; one that is there already is replaced.
    Add {
        /// Whose it is.
        #[arg(value_name = "USER")]
        user: String,
        /// What it allows.
        #[arg(long, value_enum, default_value_t = Role::Submit)]
        role: Role,
        /// How long, in days [default: for ever].
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: Option<u32>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take a user's token away; from then on nobody gets in with it.
    Remove {
        #[arg(value_name = "USER")]
        user: String,
    },
    /// Who has one.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// See everything, change nothing.
    Read,
    /// Also submit sweeps, and stop one's own.
    Submit,
    /// An agent that calls in.
    Host,
    /// Everything, everybody's sweeps and hosts included.
    Admin,
}

const HELP: &str = "\
Exit codes:
  0  done
  1  the daemon refused
  2  the command line is wrong
  3  the queue could not be reached

Examples:
  shoal token add alice
  shoal token add node3 --role host
  shoal token remove alice";
