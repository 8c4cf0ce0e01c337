//! `ps_server`'s command line.

use clap::Parser;

/// Sum the workers' gradients: one shard of the key space.
///
/// Use servers where the workers' own hosts should not do the summing, or where a run must survive the death
/// of a worker. Any number of them serves any number of workers. It ends by itself when all workers have finished.
#[derive(Debug, Parser)]
#[command(name = "ps_server", version, after_help = super::EXIT_CODES)]
pub struct Args {
    /// Where ps_master listens.
    #[arg(long = "master_address", alias = "master-address", default_value = shoal_sync::settings::DEFAULT_MASTER_ADDRESS, env = "SHOAL_MASTER_ADDRESS")]
    pub master_address: String,

    /// This server's number, from 0; without it, the master chooses.
    #[arg(long, alias = "server_id")]
    pub id: Option<u32>,

    /// Blocks it may announce ahead of what it has summed.
    #[arg(long = "num_pull_threads", alias = "num-pull-threads", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub num_pull_threads: u32,

    /// Address to listen on for workers; by default the one that reaches the master.
    #[arg(long, env = "SHOAL_LISTEN_HOST")]
    pub listen_host: Option<String>,

    /// Seconds to wait until all nodes of the run are there.
    #[arg(long, env = "SHOAL_CONNECT_TIMEOUT", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub connect_timeout: u64,

    /// Serve Prometheus text on this address, such as 127.0.0.1:9101.
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,

    /// Write logs as JSON, one object a line.
    #[arg(long)]
    pub log_json: bool,

    /// When done, print what was summed as one JSON object on stdout.
    #[arg(long)]
    pub json: bool,
}
