//! `cargo xtask bench up`: how long clusters take to come up, to be used and to go, ours and Ray's, from the same file on the same kind of test hosts.
//!
//! | file | question |
//! |---|---|
//! | `life` | what happens to one cluster from its first `up` to its `down`, and how long did each take |
//! | `ground` | which hosts, files and programs does that take |
//! | `census` | when does Ray itself see all nodes |
//! | `table` | what is printed |

mod census;
mod ground;
mod life;
mod table;

use anyhow::{Context, Result};
use ground::{Tools, Who};

#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object a line on stdout instead of a table.
    #[arg(long)]
    json: bool,
    /// Two hosts, one round without a warm-up, few bytes: shows that the bench works.
    #[arg(long)]
    quick: bool,
    /// Rounds of each contestant, after the warm-up.
    #[arg(long)]
    rounds: Option<usize>,
    /// No warm-up: the first round counts.
    #[arg(long)]
    cold: bool,
    /// Clusters of these sizes.
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<usize>,
}

const PROGRAMS: [(&str, &[&str]); 3] =
    [("ssh", &["openssh-client"]), ("sshd", &["openssh-server"]), ("rsync", &["rsync"])];

/// Nothing here is a matter of luck or of a cache, but Ray is slow: a cluster of eight takes it minutes.
const ROUNDS: usize = 3;

pub fn run(args: Args) -> Result<()> {
    crate::setup::programs("the bench", &PROGRAMS)?;
    let build = ["build", "--release", "--quiet", "--package", "shoal", "--bins"];
    crate::cargo::run(&mut crate::cargo::cargo(&build), "build shoal")?;
    let tools = Tools::ready(args.quick)?;
    let sizes = match (args.nodes.is_empty(), args.quick) {
        (false, _) => args.nodes.clone(),
        (true, true) => vec![2],
        (true, false) => vec![1, 8],
    };
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { ROUNDS });
    let warm_up = usize::from(!args.quick && !args.cold);
    if !args.json {
        println!("Ray nodes: {}; autoscaler v1, as v2 starts no workers of local clusters", ground::LIMITS);
        table::head();
    }
    for count in sizes {
        let mut rows = table::Rows::default();
        let all = (0..rounds + warm_up).try_for_each(|round| {
            // In turns, so that what else the machine does hits both alike; never both at once.
            [Who::Ours, Who::Ray].into_iter().try_for_each(|who| {
                let mut add = |time| {
                    if round >= warm_up {
                        rows.add(who, time)
                    }
                };
                life::live(&tools, who, count, round, &mut add)
                    .with_context(|| format!("{}, {count} nodes, round {round}", who.name()))
            })
        });
        // What was measured before a failure is told all the same.
        rows.print(args.json);
        all?;
    }
    Ok(())
}
