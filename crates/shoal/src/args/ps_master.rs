//! `ps_master`'s command line.

use clap::Parser;

/// Keep the table of a run's nodes.
///
/// Start one per run, before or after its servers and workers: they find each other here, learn of each other's
/// death here, and need nothing else from it. It ends by itself when all workers have finished.
#[derive(Debug, Parser)]
#[command(name = "ps_master", version, after_help = super::EXIT_CODES)]
pub struct Args {
    /// Where to listen (with --status: where the master listens).
    #[arg(long, alias = "master_address", default_value = shoal_sync::settings::DEFAULT_MASTER_ADDRESS, env = "SHOAL_MASTER_ADDRESS")]
    pub address: String,

    /// Number of workers. Without it, the first worker that knows the number (SHOAL_NUM_WORKERS) sets it.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65534))]
    pub workers: Option<u32>,

    /// Number of ps_server processes; 0 puts the shards into the workers.
    #[arg(long, default_value_t = 0)]
    pub servers: u32,

    /// Serve Prometheus text on this address, such as 127.0.0.1:9100.
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,

    /// Write logs as JSON, one object a line.
    #[arg(long)]
    pub log_json: bool,

    /// Ask a running master for the state of its run, print it, and exit.
    #[arg(long)]
    pub status: bool,

    /// With --status: print JSON instead of a table.
    #[arg(long, requires = "status")]
    pub json: bool,
}
