//! `shoal results`'s command line.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Compare the finished runs of a sweep: the parameters that differ, the last value of each metric.
///
/// Use it instead of a notebook for a first look. Reps of a configuration are one line: mean and, from two on, a 95 % interval. Metrics come
/// from `shoal.log(...)`, from JSON lines a program prints, and from TensorBoard files it leaves.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The sweep.
    #[arg(value_name = "SWEEP")]
    pub sweep: String,

    /// Sort by this parameter or metric; with a minus in front, largest first: --sort=-accuracy.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub sort: Option<String>,

    /// One line for each run, not for each configuration.
    #[arg(long)]
    pub runs: bool,

    /// Only these columns, in this order: --columns lr,width,loss.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub columns: Vec<String>,

    /// Print CSV: one line a run, all parameters, all metrics.
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    pub csv: bool,

    /// Print JSON: one object, one entry a run.
    #[arg(long, conflicts_with = "svg")]
    pub json: bool,

    /// Draw one metric over one parameter into this file: mean and interval, a line for each value of the other parameters.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Which metric to draw [default: the first].
    #[arg(long, value_name = "METRIC", requires = "svg")]
    pub metric: Option<String>,

    /// Over which parameter to draw it [default: the one with the most values].
    #[arg(long, value_name = "PARAMETER", requires = "svg")]
    pub over: Option<String>,
}

const HELP: &str = "\
Exit codes:
  0  printed, even if no run has finished yet
  1  the queue refused, or the file could not be written
  2  the command line is wrong, or there is no such sweep, parameter or metric
  3  the queue could not be reached

Examples:
  shoal results mlp --sort=-accuracy
  shoal results mlp --csv > mlp.csv
  shoal results mlp --svg mlp.svg --metric loss --over lr";
