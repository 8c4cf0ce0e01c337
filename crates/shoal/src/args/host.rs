//! What `shoal` does on a host on behalf of a launcher elsewhere.

use clap::{Args as ClapArgs, Subcommand};
use shoal_core::rank::Rank;
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    pub part: Part,
}

#[derive(Debug, Subcommand)]
pub enum Part {
    /// Keeps this host's ranks of one run; speaks frames over stdin and stdout.
    Warden {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Owns one rank.
    Keeper {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Tells what this host is like, to `shoal doctor`.
    Probe,
    /// Measures the ways to other hosts, for `shoal doctor`.
    Peer,
    /// Prints this host's runs as JSON.
    List {
        #[arg(long)]
        run: Option<String>,
    },
    /// Sends logs as frames; ends when its stdin does.
    Tail {
        run: String,
        #[arg(long)]
        rank: Option<Rank>,
        #[arg(long)]
        follow: bool,
    },
    /// Stops a run, or one rank of it, on this host; answers in JSON.
    Stop {
        run: String,
        #[arg(long)]
        rank: Option<Rank>,
        #[arg(long)]
        grace_ms: u64,
    },
    /// Receives files, for `shoal up` and `shoal rsync-up`; with --send, gives them.
    Files {
        #[arg(long)]
        send: bool,
        /// What does not fit is refused before anything is taken.
        #[arg(long)]
        room: bool,
    },
    /// Does what a queue's daemon says on this host; speaks messages over stdin and stdout.
    Agent {
        /// The daemon's store: runs of different ones are never mixed.
        #[arg(long, required_unless_present = "connect")]
        store: Option<String>,
        /// As a service: calls the daemon (shoal://host:port#fingerprint) with the token in SHOAL_QUEUE_TOKEN, again and again.
        #[arg(long, value_name = "QUEUE", conflicts_with = "store")]
        connect: Option<String>,
        /// As the agent of a part of a Kubernetes cluster: what that is, in JSON.
        #[arg(long, value_name = "JSON", requires = "store")]
        pool: Option<String>,
    },
    /// Waits for a run that a pool does: passes on what it prints, and ends as it does.
    Pod { notes: PathBuf },
    /// Owns a queue's runs on this host; goes on in a process of its own.
    QueueKeeper {
        #[arg(long)]
        store: String,
    },
    /// Stands between a run and its keeper.
    Guard {
        #[arg(last = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Sets this host up as a node of a cluster; speaks JSON lines over stdin and stdout.
    Setup,
    /// Prints the name of this program's content.
    Digest,
}
