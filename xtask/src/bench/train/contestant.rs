//! Who trains: ours, the framework's own way in every variant that may be its best, and nobody (the compute alone).

use super::Framework;
use crate::bench::sync::contestant::{OURS, Variant, token};
use crate::bench::sync::group::WORKERS;
use crate::bench::sync::place::Place;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// The exchange left out: no step can be faster than this.
pub const COMPUTE: &str = "compute";

/// Ours first.
pub fn all(
    framework: Framework,
    place: &Place,
    python: &Path,
    logs: &Path,
) -> Result<Vec<(&'static str, Vec<Variant>)>> {
    let script = format!("train/worker_{}.py", framework.name());
    let peers = |sync: &str, label, more: &[(&str, String)]| -> Result<Variant> {
        let rendezvous = format!("{}:{}", place.first_address(), place.free_port()?);
        let worker = |rank: usize| {
            let mut worker = worker(place, python, &script, sync, rank, logs);
            worker.env("BENCH_RENDEZVOUS", scheme(framework, &rendezvous));
            worker.env("GLOO_SOCKET_IFNAME", place.interface()).envs(more.iter().map(|(k, v)| (*k, v)));
            (format!("worker-{rank}"), worker)
        };
        Ok(Variant { label, list_modes: &["plain"], commands: (0..WORKERS).map(worker).collect() })
    };
    let ours = shoal(place, python, &script, logs)?;
    Ok(match framework {
        Framework::Torch => {
            let four = [place.interface(); 4].join(",");
            let ddp = vec![
                peers("ddp", "buckets of 25 MB", &[])?,
                peers("ddp", "buckets of 5 MB", &[("BENCH_BUCKET_MB", "5".into())])?,
                peers("ddp", "4 connections", &[("GLOO_SOCKET_IFNAME", four)])?,
            ];
            vec![(OURS, vec![ours]), ("ddp", ddp), (COMPUTE, vec![peers("none", "", &[])?])]
        }
        Framework::Tensorflow => vec![(OURS, vec![ours]), ("multiworker", vec![peers("multiworker", "", &[])?])],
        Framework::Jax => vec![(OURS, vec![ours]), ("jax-gloo", vec![peers("gloo", "", &[])?])],
    })
}

/// The losses of one process that sees everybody's batches.
pub fn one_process(framework: Framework, case: &str, python: &Path, logs: &Path) -> Result<()> {
    let script = format!("train/worker_{}.py", framework.name());
    let mut alone = worker(&Place::Here, python, &script, "joined", 0, logs);
    crate::cargo::run(alone.arg(case), "train in one process")
}

fn scheme(framework: Framework, rendezvous: &str) -> String {
    match framework {
        Framework::Torch => format!("tcp://{rendezvous}"),
        Framework::Tensorflow | Framework::Jax => rendezvous.to_owned(),
    }
}

fn worker(place: &Place, python: &Path, script: &str, sync: &str, rank: usize, logs: &Path) -> Command {
    let mut worker = place.worker(rank, python, script);
    worker.env("BENCH_SYNC", sync).env("BENCH_RANK", rank.to_string()).env("BENCH_WORKERS", WORKERS.to_string());
    worker.env("BENCH_CURVES", logs).env("BENCH_HOSTS", place.addresses().join(","));
    // Frameworks say much that is of no use here.
    worker.env("TF_CPP_MIN_LOG_LEVEL", "2").env("TF_ENABLE_ONEDNN_OPTS", "0").env("JAX_PLATFORMS", "cpu");
    worker
}

/// One variant: what a user gets without tuning.
fn shoal(place: &Place, python: &Path, script: &str, logs: &Path) -> Result<Variant> {
    let address = format!("tcp://{}:{}", place.first_address(), place.free_port()?);
    let token = token()?;
    let ours = |mut command: Command| {
        command.env("SHOAL_TOKEN", &token).env("SHOAL_MASTER_ADDRESS", &address);
        command
    };
    let mut master = ours(place.command(0, &crate::cargo::target_dir()?.join("release/ps_master")));
    master.args(["--address", &address, "--workers", &WORKERS.to_string(), "--servers", "0"]);
    let mut commands = vec![("master".to_owned(), master)];
    for rank in 0..WORKERS {
        let mut worker = ours(worker(place, python, script, "shoal", rank, logs));
        worker.env("SHOAL_CLIENT_ID", rank.to_string()).env("SHOAL_NUM_WORKERS", WORKERS.to_string());
        commands.push((format!("worker-{rank}"), worker));
    }
    Ok(Variant { label: "", list_modes: &["plain"], commands })
}
