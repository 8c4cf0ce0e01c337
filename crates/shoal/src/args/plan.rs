//! `shoal plan`'s command line.

use crate::predict::amount;
use clap::{Args as ClapArgs, ValueEnum};
use shoal_sync::scheme::{Scheme, UseFactors};

/// Predict a training step without training: its time, its bytes, and how each layer's gradient should travel.
///
/// Use it before you buy a switch or book machines, to see what a batch size, a faster link or more workers would change, and to understand
/// what the planner chose in a run. It needs nothing but a list of layers: a built-in one, a file, or your own PyTorch model.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// A built-in model (vgg16, vgg19, resnet50, alexnet), a description (model.json), or module:function or file.py:function that makes a torch module.
    #[arg(long, value_name = "MODEL")]
    pub model: String,

    /// How many workers.
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub workers: u32,

    /// Each host's link, each way: 1gbit, 2.5gbit, 125MB/s.
    #[arg(long, value_name = "RATE", value_parser = amount::bandwidth)]
    pub bandwidth: f64,

    /// Samples in a worker's batch, if not those of the description.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub batch: Option<u64>,

    /// Speed of a worker's matrix products, in operations a second: 50G, 1.2T.
    #[arg(long, value_name = "RATE", value_parser = amount::flops, conflicts_with = "measure")]
    pub flops: Option<f64>,

    /// Measure that speed on this machine; and, for module:function, time the model's layers.
    #[arg(long)]
    pub measure: bool,

    /// Round trip between two hosts: 0.2ms, 30us.
    #[arg(long, value_name = "TIME", default_value = "0.2ms", value_parser = amount::time)]
    pub rtt: f64,

    /// Parameter servers on hosts of their own; 0: the workers sum themselves.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub servers: u32,

    /// Workers that share one host, its memory and its link.
    #[arg(long, value_name = "G", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub per_host: u32,

    /// Whether gradients of linear layers travel as factors.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub use_sfb: UseSfb,

    /// Also weigh schemes that lose something: bf16, int8, powersgd:RANK.
    #[arg(long, value_name = "SCHEME", value_delimiter = ',', value_parser = lossy)]
    pub allow: Vec<Scheme>,

    /// The shape of one sample, for module:function: 3x224x224.
    #[arg(long, value_name = "SHAPE", value_parser = amount::shape)]
    pub input: Option<String>,

    /// The Python that makes the model and measures.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: String,

    /// Show every layer, not only those that matter.
    #[arg(long)]
    pub all: bool,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UseSfb {
    /// Where it is faster.
    Auto,
    /// Wherever it is possible.
    True,
    /// Nowhere.
    False,
}

impl From<UseSfb> for UseFactors {
    fn from(when: UseSfb) -> UseFactors {
        match when {
            UseSfb::Auto => UseFactors::Auto,
            UseSfb::True => UseFactors::Always,
            UseSfb::False => UseFactors::Never,
        }
    }
}

fn lossy(text: &str) -> Result<Scheme, String> {
    let wanted = "expected bf16, int8, or powersgd:RANK with a rank from 1 to 1024";
    match text.parse::<Scheme>() {
        Ok(scheme) if !scheme.is_exact() => Ok(scheme),
        Ok(_) => Err(format!("`{text}` loses nothing and is always weighed; {wanted}")),
        Err(_) => Err(wanted.into()),
    }
}

const HELP: &str = "\
In the table, SENT is what one worker sends for the layer in a step, TIME how long its gradient takes if it has the link to itself.

Exit codes:
  0    predicted
  1    the model could not be made or measured here
  2    the command line or the description is wrong

Examples:
  shoal plan --model vgg19 --workers 8 --bandwidth 1gbit --flops 200G
  shoal plan --model train.py:make_model --batch 32 --workers 4 --bandwidth 10gbit --measure
  shoal plan --model model.json --workers 16 --bandwidth 1gbit --json | jq .planned.seconds";
