//! Brings a cluster up.

use super::run::NotBegun;
use crate::args::up::Args;
use crate::cluster::confirm::confirm;
use crate::cluster::file;
use crate::cluster::up::{Order, up};
use shoal_core::cluster::steps::Options;
use shoal_core::cluster::{Cluster, Provider};
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut given = file::given(&args.cluster).map_err(NotBegun::Wrong)?;
    (given.min_workers, given.max_workers) = (args.min_workers, args.max_workers);
    let cluster = file::read_with(&args.cluster.file, &given).map_err(NotBegun::Wrong)?.cluster;
    if args.no_config_cache && !args.json {
        eprintln!("shoal up: --no-config-cache has no effect: there is no cache of configurations");
    }
    if !args.plan {
        confirm(&question(&cluster, args), args.yes)?;
    }
    let shown = args.cluster.file.display().to_string();
    let order = Order {
        file: &shown,
        options: Options {
            no_restart: args.no_restart,
            restart_only: args.restart_only,
            restart: args.restart,
            no_usage_stats: args.disable_usage_stats,
            normal_shells: args.use_normal_shells,
        },
        plan_only: args.plan,
        json: args.json,
        output: !args.redirect_command_output,
        limit_s: args.step_timeout,
    };
    up(&cluster, &order)
}

fn question(cluster: &Cluster, args: &Args) -> String {
    let machines = match &cluster.provider {
        Provider::Local(local) => {
            let workers = local.workers.len().min(cluster.max_workers as usize);
            format!("{} machines of yours", workers + 1)
        }
        Provider::Aws(aws) => {
            let workers: u32 = cluster.workers.iter().map(|kind| kind.min_workers).sum();
            format!("{} machines in {}, which cost money", workers + 1, aws.region)
        }
    };
    let what = match args {
        Args { no_restart: true, .. } => "set-up commands run where needed",
        Args { restart_only: true, .. } | Args { restart: true, .. } => "start commands run on all of them",
        _ => "commands run where something changed, and start commands where what they started does not run",
    };
    format!("bring up cluster {}: {machines}; {what}?", cluster.name)
}
