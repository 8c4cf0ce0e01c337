//! `cargo xtask bench k8s`: how fast a sweep is handed to a real Kubernetes control plane, and how fast one hears how it is; ours beside kubectl.
//!
//! There are no nodes: what is measured is clients and server, not how fast pods start.
//!
//! | file | question |
//! |---|---|
//! | `ours` | how a queue with a pool is set up, asked and taken down |
//! | `peer` | the same for kubectl |

mod ours;
mod peer;

use super::queue::table::{self, Peer, Row, Unit};
use anyhow::{Context, Result};
use ours::Ours;
use peer::Kubectl;
use shoal_testkit::kubernetes::ControlPlane;

#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object a line on stdout instead of a table.
    #[arg(long)]
    json: bool,
    /// One round of 50 cells: shows that the bench works.
    #[arg(long)]
    quick: bool,
    /// Rounds of each contestant, after the warm-up.
    #[arg(long)]
    rounds: Option<usize>,
}

const ROUNDS: usize = 7;
const CELLS: usize = 500;
const SPACE: &str = "lab";

pub fn run(args: Args) -> Result<()> {
    let programs = crate::kubernetes::ensure()?;
    let build = ["build", "--release", "--quiet", "--package", "shoal", "--bins"];
    crate::cargo::run(&mut crate::cargo::cargo(&build), "build shoal")?;
    let (cells, rounds) = if args.quick { (50, 1) } else { (CELLS, args.rounds.unwrap_or(ROUNDS).max(1)) };
    let plane = ControlPlane::start_from(&programs).context("a control plane")?;
    plane.kubectl().namespace(SPACE);
    let ours = Ours::new(&crate::cargo::target_dir()?.join("release/shoal"), &plane.kubeconfig(), cells)?;
    let kubectl = Kubectl::new(plane.kubectl(), ours.folder());
    if !args.json {
        println!(
            "{cells} cells, no nodes; ours: whole commands, the queue keeps its journal; kubectl: {cells} Jobs of one pod"
        );
        table::head();
    }
    let all = measure(&ours, &kubectl, cells, rounds)?;
    let row = |case, ours: &[f64], peer: Option<(&'static str, &[f64])>, note| Row {
        case,
        size: format!("{cells} cells"),
        unit: Unit::Ms,
        ours: ours.to_vec(),
        peer: peer.map(|(name, all)| Peer { name, all: all.to_vec() }),
        things: None,
        note,
    };
    let rows = [
        row("acknowledged", &all.acknowledged, None, "`shoal sweep` returns; nothing of it can be lost from here on"),
        row(
            "submit",
            &all.at_the_server,
            Some(("apply", &all.applied[..])),
            "until the server has all; `kubectl apply --server-side`",
        ),
        row(
            "submit",
            &all.at_the_server,
            Some(("create", &all.created[..])),
            "`kubectl create --validate=false`, its fastest way",
        ),
        row("status", &all.ps, Some(("get jobs", &all.got[..])), "`shoal ps SWEEP`; `kubectl get jobs`"),
    ];
    rows.iter().for_each(|row| row.print(args.json));
    Ok(())
}

#[derive(Default)]
struct Times {
    acknowledged: Vec<f64>,
    at_the_server: Vec<f64>,
    applied: Vec<f64>,
    created: Vec<f64>,
    ps: Vec<f64>,
    got: Vec<f64>,
}

/// Everybody in turns, so that what else the machine does hits all alike; whoever is done clears away before the next one begins.
fn measure(ours: &Ours, kubectl: &Kubectl, cells: usize, rounds: usize) -> Result<Times> {
    let mut times = Times::default();
    for round in 0..=rounds {
        let name = format!("round{round}");
        let (acknowledged, at_the_server) = ours.submit(&name, cells, &kubectl.follow(&name)?)?;
        ours.until_all_run(&name, cells)?;
        let ps = ours.ps(&name)?;
        ours.stop(&name, cells)?;
        kubectl.until_empty()?;
        let applied = kubectl.make(&["apply", "--server-side"], cells)?;
        let got = kubectl.get(cells)?;
        kubectl.remove()?;
        let created = kubectl.make(&["create", "--validate=false"], cells)?;
        kubectl.remove()?;
        if round > 0 {
            times.acknowledged.push(acknowledged);
            times.at_the_server.push(at_the_server);
            times.ps.push(ps);
            times.applied.push(applied);
            times.created.push(created);
            times.got.push(got);
        }
    }
    Ok(times)
}
