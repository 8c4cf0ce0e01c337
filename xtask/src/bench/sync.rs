//! `cargo xtask bench sync`: the sum of a buffer, or of a network's gradients, over four workers; ours and the peers in turns.

pub(super) mod contestant;
pub(super) mod field;
pub(super) mod group;
mod iperf;
pub(super) mod place;
pub(super) mod report;

use anyhow::{Context, Result, bail};
use field::{Contestant, Field};
use group::{Hub, Measure};
use place::Place;
use report::{Report, Row, Stats};
use std::path::Path;

#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object a line on stdout instead of tables.
    #[arg(long)]
    json: bool,
    /// Small sizes, two rounds, no search for the best variant of a peer: shows that the bench works.
    #[arg(long)]
    quick: bool,
    /// Only this case; may be repeated.
    #[arg(long, value_enum)]
    case: Vec<Case>,
    /// Only this size; may be repeated.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(SIZES.map(|size| size.name)))]
    size: Vec<String>,
    /// Rounds of each contestant, after the warm-up.
    #[arg(long)]
    rounds: Option<usize>,
    /// Only this peer (gloo, mpi-tcp, mpi-shm, iperf3); may be repeated.
    #[arg(long)]
    peer: Vec<String>,
}

/// Where the workers are, and what lies between them.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Case {
    /// Loopback, shared memory off for all.
    Tcp,
    /// One machine, everything allowed.
    Shm,
    /// A test host for each worker, 1 Gbit/s each way.
    #[value(name = "link-1gbit")]
    Link,
}

impl Case {
    const ALL: [Self; 3] = [Self::Tcp, Self::Shm, Self::Link];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Shm => "shm",
            Self::Link => "link-1gbit",
        }
    }
}

pub struct Size {
    pub name: &'static str,
    /// Operations in a round: enough to outweigh the clock and the scheduler.
    pub iterations: u32,
    pub is_list: bool,
    pub quick: bool,
    /// Whether the slow link adds something to what loopback shows.
    pub link: bool,
}

/// In order of bytes, so that memory kept by a contestant from a smaller one is little beside the next.
const SIZES: [Size; 7] = [
    Size { name: "4 KB", iterations: 200, is_list: false, quick: true, link: false },
    Size { name: "1 MB", iterations: 20, is_list: false, quick: true, link: false },
    Size { name: "16 MB", iterations: 5, is_list: false, quick: true, link: true },
    Size { name: "64 MB", iterations: 3, is_list: false, quick: false, link: true },
    Size { name: "ResNet-50", iterations: 2, is_list: true, quick: false, link: false },
    Size { name: "256 MB", iterations: 1, is_list: false, quick: false, link: false },
    Size { name: "VGG19", iterations: 1, is_list: true, quick: false, link: false },
];

const ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 2;

pub fn run(args: Args) -> Result<()> {
    let python = super::peers::ensure()?;
    // The peers are measured even where ours does not build: the rows say why, and the bench ends with an error.
    let built = build_ours(&python).map_err(|error| report::cause(&error));
    warn_if_busy();
    let hub = Hub::new()?;
    eprintln!("logs of the workers are in {}", hub.logs().display());
    let mut report = Report::new(args.json);
    let cases = if args.case.is_empty() { Case::ALL.to_vec() } else { args.case.clone() };
    for case in cases {
        run_case(case, &args, &python, &built, &hub, &mut report).with_context(|| format!("case {}", case.name()))?;
    }
    match report.failures() {
        0 => hub.remove(),
        failures => bail!("{failures} of the comparisons failed\nhint: the logs are in {}", hub.logs().display()),
    }
}

/// Alternating is fair to all contestants, but figures from a busy machine are not worth keeping.
pub(super) fn warn_if_busy() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    if load > 0.5 {
        eprintln!("warning: something else keeps this machine busy (load {load}); figures will be too high");
    }
}

pub(super) fn build_ours(python: &Path) -> Result<()> {
    crate::wheel::ensure_installed(python)?;
    let mut build = crate::cargo::cargo(&["build", "--release", "--quiet", "--package", "shoal", "--bins"]);
    crate::cargo::run(&mut build, "build ps_master")
}

fn run_case(
    case: Case,
    args: &Args,
    python: &Path,
    built: &Result<(), String>,
    hub: &Hub,
    report: &mut Report,
) -> Result<()> {
    let sizes: Vec<&Size> = SIZES.iter().filter(|size| is_wanted(size, case, args)).collect();
    if sizes.is_empty() {
        return Ok(());
    }
    let place = match case {
        Case::Link => Place::hosts(Some("1gbit"), python)?,
        Case::Tcp | Case::Shm => Place::Here,
    };
    let mut field = Field::new(hub, &place, args.quick);
    match built {
        Ok(()) => field.add(contestant::OURS, vec![contestant::shoal(&place, python, case == Case::Shm)?]),
        Err(why) => field.add_failed(contestant::OURS, why.clone()),
    }
    let wanted = |peer: &str| args.peer.is_empty() || args.peer.iter().any(|name| name == peer);
    if let (Place::Hosts(hosts), true) = (&place, wanted("iperf3")) {
        field.add_bound("iperf3", hosts);
    }
    if wanted("gloo") {
        field.add("gloo", contestant::gloo(&place, python)?);
    }
    match case {
        Case::Tcp if wanted("mpi-tcp") => field.add("mpi-tcp", contestant::mpi(&place, python, false)),
        Case::Shm if wanted("mpi-shm") => field.add("mpi-shm", contestant::mpi(&place, python, true)),
        _ => {}
    }
    let rounds = args.rounds.unwrap_or(if args.quick { QUICK_ROUNDS } else { ROUNDS });
    report.begin(case.name(), rounds);
    for size in sizes {
        for row in compare(&mut field.contestants, size, rounds, case.name()) {
            report.add(row);
        }
    }
    Ok(())
}

fn is_wanted(size: &Size, case: Case, args: &Args) -> bool {
    let asked = args.size.iter().any(|name| name == size.name);
    asked || args.size.is_empty() && (!args.quick || size.quick) && (case != Case::Link || size.link)
}

/// One size: every contestant finds its best variant, then all take turns; a row for each peer.
pub(super) fn compare(
    contestants: &mut [Contestant],
    size: &'static Size,
    rounds: usize,
    case: &'static str,
) -> Vec<Row> {
    let mut measures: Vec<Result<Vec<Measure>>> =
        contestants.iter_mut().map(|contestant| contestant.prepare(size).map(|()| Vec::new())).collect();
    let count = contestants.len();
    for round in 0..rounds {
        // Each round begins with another one, so that nobody always follows the same neighbour.
        for turn in 0..count {
            let i = (round + turn) % count;
            if let Ok(done) = &mut measures[i] {
                match contestants[i].round(size) {
                    Ok(measure) => done.push(measure),
                    Err(error) => measures[i] = Err(error),
                }
            }
        }
    }
    let row = |(peer, measures): (&mut Contestant, Result<Vec<Measure>>), ours: &Result<Stats, String>| Row {
        case,
        size: size.name,
        peer: peer.name,
        how: peer.how(),
        ours: ours.clone(),
        theirs: stats(measures),
    };
    let mut all = contestants.iter_mut().zip(measures);
    let Some((_, ours)) = all.next() else { return Vec::new() };
    let ours = stats(ours);
    let rows = all.map(|pair| row(pair, &ours)).collect();
    contestants.iter_mut().for_each(Contestant::release);
    rows
}

fn stats(measures: Result<Vec<Measure>>) -> Result<Stats, String> {
    measures.map(|measures| Stats::of(&measures)).map_err(|error| report::cause(&error))
}
