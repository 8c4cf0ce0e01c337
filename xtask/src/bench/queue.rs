//! `cargo xtask bench queue`: how fast the queue takes runs in, starts them and tells of them; ours beside HyperQueue, GNU parallel and xargs.
//!
//! | file | question |
//! |---|---|
//! | `cases` | what is measured, and of whom |
//! | `ours` | how a queue of ours is set up, asked and taken down |
//! | `hyperqueue` | the same for HyperQueue; `peer.py` is its side |
//! | `lines` | how GNU parallel and xargs get as many commands |
//! | `child` | how a command is run to its end, but not for ever |
//! | `table` | what is printed |

mod cases;
pub(super) mod child;
mod hyperqueue;
mod lines;
pub(super) mod ours;
pub(super) mod table;

use anyhow::Result;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object a line on stdout instead of a table.
    #[arg(long)]
    json: bool,
    /// A thousand runs, one round, small sweeps: shows that the bench works.
    #[arg(long)]
    quick: bool,
    /// Rounds of each contestant, after the warm-up.
    #[arg(long)]
    rounds: Option<usize>,
    /// Only these cases: true-10k (with files), submit-100k, memory-1m, ps-100k, top-up-100k.
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    only: Vec<String>,
}

const PROGRAMS: [(&str, &[&str]); 2] = [("parallel", &["parallel"]), ("xargs", &["findutils"])];
/// Pinned: another version would be another peer.
const HYPERQUEUE: [&str; 1] = ["hyperqueue==0.27.0"];
const ROUNDS: usize = 3;
/// Runs at once, for everybody.
const SLOTS: usize = 2;

/// What the contestants are.
pub(super) struct Tools {
    shoal: PathBuf,
    /// Writes ends into the journal of a store, so that a sweep is nearly done without having run.
    seed: PathBuf,
    /// An interpreter that has HyperQueue.
    python: PathBuf,
}

struct Sizes {
    rounds: usize,
    runs: usize,
    cells: usize,
    /// For the memory of one; theirs is measured with `cells`, since ten times as many take minutes where ours take seconds.
    queued: usize,
}

impl Sizes {
    fn of(args: &Args) -> Sizes {
        match args.quick {
            true => Sizes { rounds: 1, runs: 1_000, cells: 10_000, queued: 100_000 },
            false => {
                Sizes { rounds: args.rounds.unwrap_or(ROUNDS).max(1), runs: 10_000, cells: 100_000, queued: 1_000_000 }
            }
        }
    }
}

pub fn run(args: Args) -> Result<()> {
    let cases = cases::chosen(&args.only)?;
    crate::setup::programs("the bench", &PROGRAMS)?;
    let python = crate::venv::ensure("hyperqueue", &HYPERQUEUE)?;
    let build = ["build", "--release", "--quiet", "--package"];
    crate::cargo::run(&mut crate::cargo::cargo(&[&build[..], &["shoal", "--bins"]].concat()), "build shoal")?;
    let seed = [&build[..], &["shoal-daemon", "--example", "queue_seed"]].concat();
    crate::cargo::run(&mut crate::cargo::cargo(&seed), "build the seeder of journals")?;
    let release = crate::cargo::target_dir()?.join("release");
    let tools = Tools { shoal: release.join("shoal"), seed: release.join("examples/queue_seed"), python };
    let sizes = Sizes::of(&args);
    if !args.json {
        println!(
            "{SLOTS} slots; ours keeps logs and exit records and syncs its journal; HyperQueue through its Python interface, without output and journal"
        );
        table::head();
    }
    for case in cases {
        case(&tools, &sizes)?.iter().for_each(|row| row.print(args.json));
    }
    Ok(())
}
