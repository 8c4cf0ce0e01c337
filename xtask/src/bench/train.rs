//! `cargo xtask bench train`: steps of real networks with four workers; ours and the frameworks' own ways in turns.

mod contestant;
mod curves;
mod report;

use super::sync::field::Field;
use super::sync::group::Hub;
use super::sync::place::Place;
use super::sync::{Size, compare};
use anyhow::{Context, Result, bail};
use std::path::Path;

#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object a line on stdout instead of a table.
    #[arg(long)]
    json: bool,
    /// The smallest network, two rounds, no search for the best variant of a peer: shows that the bench works.
    #[arg(long)]
    quick: bool,
    /// Only this network; may be repeated.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(NETWORKS.map(|network| network.name)))]
    case: Vec<String>,
    /// Only with this between the workers; may be repeated.
    #[arg(long, value_enum)]
    between: Vec<Between>,
    /// Only this framework; may be repeated.
    #[arg(long, value_enum)]
    framework: Vec<Framework>,
    /// Rounds of each contestant, after the warm-up.
    #[arg(long)]
    rounds: Option<usize>,
}

/// What lies between the workers.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Between {
    /// A test host for each worker, 1 Gbit/s each way.
    #[value(name = "1gbit")]
    Link,
    /// A test host for each worker, as fast as the machine copies.
    Unlimited,
    /// All on one host.
    Host,
}

impl Between {
    const ALL: [Self; 3] = [Self::Link, Self::Unlimited, Self::Host];

    fn name(self) -> &'static str {
        match self {
            Self::Link => "1 Gbit/s",
            Self::Unlimited => "unlimited",
            Self::Host => "one host",
        }
    }

    fn place(self, python: &Path) -> Result<Place> {
        match self {
            Self::Link => Place::hosts(Some("1gbit"), python),
            Self::Unlimited => Place::hosts(None, python),
            Self::Host => Ok(Place::Here),
        }
    }
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum Framework {
    Torch,
    Tensorflow,
    Jax,
}

impl Framework {
    const ALL: [Self; 3] = [Self::Torch, Self::Tensorflow, Self::Jax];

    pub fn name(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::Tensorflow => "tensorflow",
            Self::Jax => "jax",
        }
    }
}

/// Steps in a round: enough to outweigh the clock.
const NETWORKS: [Size; 3] = [
    Size { name: "fc-mlp", iterations: 2, is_list: false, quick: true, link: true },
    Size { name: "conv-resnet18", iterations: 1, is_list: false, quick: false, link: true },
    Size { name: "vgg19", iterations: 1, is_list: false, quick: false, link: true },
];

const ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 2;

pub fn run(args: Args) -> Result<()> {
    let python = crate::frameworks::all()?;
    super::sync::build_ours(&python)?;
    super::sync::warn_if_busy();
    let hub = Hub::new()?;
    eprintln!("logs of the workers are in {}", hub.logs().display());
    let mut report = report::Report::new(args.json);
    for framework in Framework::ALL.into_iter().filter(|f| args.framework.is_empty() || args.framework.contains(f)) {
        for between in Between::ALL.into_iter().filter(|b| args.between.is_empty() || args.between.contains(b)) {
            if args.quick && between != Between::Link && args.between.is_empty() {
                continue;
            }
            one(framework, between, &args, &python, &hub, &mut report)
                .with_context(|| format!("{}, {}", framework.name(), between.name()))?;
        }
    }
    for (framework, case) in report.seen() {
        // Sleeping teaches nothing.
        if case != "vgg19" {
            contestant::one_process(framework, case, &python, hub.logs())?;
        }
    }
    report.curves(&curves::read(hub.logs())?);
    match report.failures() {
        0 => hub.remove(),
        failures => bail!("{failures} of the comparisons failed\nhint: the logs are in {}", hub.logs().display()),
    }
}

fn one(
    framework: Framework,
    between: Between,
    args: &Args,
    python: &Path,
    hub: &Hub,
    report: &mut report::Report,
) -> Result<()> {
    let wanted = |network: &&Size| {
        let asked = args.case.iter().any(|name| name == network.name);
        // The stub's tensors are PyTorch's, and sleeping shows nothing where the link is no limit.
        let fits = network.name != "vgg19" || (framework == Framework::Torch && between == Between::Link);
        fits && (asked || args.case.is_empty() && (!args.quick || network.quick))
    };
    let networks: Vec<&'static Size> = NETWORKS.iter().filter(wanted).collect();
    if networks.is_empty() {
        return Ok(());
    }
    let place = between.place(python)?;
    let mut field = Field::new(hub, &place, args.quick);
    for (name, variants) in contestant::all(framework, &place, python, hub.logs())? {
        field.add(name, variants);
    }
    let rounds = args.rounds.unwrap_or(if args.quick { QUICK_ROUNDS } else { ROUNDS });
    for network in networks {
        for row in compare(&mut field.contestants, network, rounds, network.name) {
            report.add(framework, between.name(), row);
        }
    }
    Ok(())
}
