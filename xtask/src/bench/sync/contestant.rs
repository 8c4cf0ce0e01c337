//! Who takes part: the commands that start each contestant, in every variant that may be its best.

use super::group::WORKERS;
use super::place::Place;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

pub const OURS: &str = "shoal";

/// One way to start a contestant. For lists of tensors it has several ways to sum, too; the best of all is what counts.
pub struct Variant {
    pub label: &'static str,
    pub list_modes: &'static [&'static str],
    pub commands: Vec<(String, Command)>,
}

/// Ours has one variant and one mode: what a user gets without tuning.
pub fn shoal(place: &Place, python: &Path, shared_memory: bool) -> Result<Variant> {
    let address = format!("tcp://{}:{}", place.first_address(), place.free_port()?);
    let token = token()?;
    let ours = |mut command: Command| {
        command.env("SHOAL_TOKEN", &token).env("SHOAL_MASTER_ADDRESS", &address);
        command
    };
    let master = crate::cargo::target_dir()?.join("release/ps_master");
    let mut master = ours(place.command(0, &master));
    master.args(["--address", &address, "--workers", &WORKERS.to_string(), "--servers", "0"]);
    let mut commands = vec![("master".to_owned(), master)];
    for rank in 0..WORKERS {
        let mut worker = ours(place.worker(rank, python, "sync/worker_shoal.py"));
        worker
            .env("SHOAL_CLIENT_ID", rank.to_string())
            .env("SHOAL_NUM_WORKERS", WORKERS.to_string())
            .env("SHOAL_SHARED_MEMORY", if shared_memory { "1" } else { "0" });
        commands.push((format!("worker-{rank}"), worker));
    }
    Ok(Variant { label: "", list_modes: &["each"], commands })
}

/// One connection a pair of workers, and four: which is faster depends on the size.
pub fn gloo(place: &Place, python: &Path) -> Result<Vec<Variant>> {
    let interface = place.interface();
    let variant = |label, interfaces: String| -> Result<Variant> {
        let rendezvous = format!("tcp://{}:{}", place.first_address(), place.free_port()?);
        let worker = |rank: usize| {
            let mut worker = place.worker(rank, python, "sync/worker_gloo.py");
            worker
                .env("BENCH_RANK", rank.to_string())
                .env("BENCH_WORKERS", WORKERS.to_string())
                .env("BENCH_RENDEZVOUS", &rendezvous)
                .env("GLOO_SOCKET_IFNAME", &interfaces);
            (format!("worker-{rank}"), worker)
        };
        let commands = (0..WORKERS).map(worker).collect();
        Ok(Variant { label, list_modes: &["buckets", "each"], commands })
    };
    Ok(vec![variant("1 connection", interface.to_owned())?, variant("4 connections", [interface; 4].join(","))?])
}

/// Open MPI's own choice of algorithm, and each algorithm that may beat it.
pub fn mpi(place: &Place, python: &Path, shared_memory: bool) -> Vec<Variant> {
    const ALL: &[&str] = &["buckets", "one by one", "each"];
    // `Iallreduce`, which is what "each" is, takes no notice of the forced algorithm: once is enough.
    const FORCED: &[&str] = &["buckets", "one by one"];
    let links: &[&str] =
        if shared_memory { &["btl", "vader,self"] } else { &["btl", "tcp,self", "btl_tcp_if_include", "lo"] };
    let variant = |label, list_modes, settings: &[&str]| {
        let mut mpirun = place.command(0, Path::new("mpirun"));
        mpirun.args(["--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-n", &WORKERS.to_string()]);
        for setting in [&["pml", "ob1"], links, settings].concat().chunks(2) {
            mpirun.arg("--mca").args(setting);
        }
        place.add_worker(&mut mpirun, python, "sync/worker_mpi.py");
        Variant { label, list_modes, commands: vec![("mpirun".to_owned(), mpirun)] }
    };
    let forced = |label, number| {
        let settings = ["coll_tuned_use_dynamic_rules", "1", "coll_tuned_allreduce_algorithm", number];
        variant(label, FORCED, &settings)
    };
    let mut variants = vec![
        variant("its own choice", ALL, &[]),
        forced("Rabenseifner", "6"),
        forced("ring", "4"),
        forced("segmented ring", "5"),
        forced("recursive doubling", "3"),
    ];
    if shared_memory {
        variants.push(variant("coll/sm", FORCED, &["coll_sm_priority", "100"]));
    }
    variants
}

/// As long as a real run's; from the kernel.
pub fn token() -> Result<String> {
    let mut bytes = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
