//! `cargo xtask bench NAME`: side-by-side measurements.

mod k8s;
mod launch;
pub mod peers;
mod queue;
mod sync;
mod train;
mod up;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Sum gradients of four workers: ours, Gloo and Open MPI.
    Sync(sync::Args),
    /// Start a gang on 16 hosts and gather its logs: ours, mpirun, pdsh and ssh.
    Launch(launch::Args),
    /// Train networks with four workers: ours beside DDP, MultiWorkerMirroredStrategy and JAX's own.
    Train(train::Args),
    /// Bring clusters up, use them and take them down: ours and Ray, from the same file on the same test hosts.
    Up(up::Args),
    /// Take in and start many short runs: ours, HyperQueue, GNU parallel and xargs.
    Queue(queue::Args),
    /// Hand a sweep of 500 to a real Kubernetes control plane and ask how it is: ours and kubectl.
    K8s(k8s::Args),
}

pub fn run(args: Args) -> anyhow::Result<()> {
    match args.bench {
        Bench::Sync(args) => sync::run(args),
        Bench::Launch(args) => launch::run(args),
        Bench::Train(args) => train::run(args),
        Bench::Up(args) => up::run(args),
        Bench::Queue(args) => queue::run(args),
        Bench::K8s(args) => k8s::run(args),
    }
}
