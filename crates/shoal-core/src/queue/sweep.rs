//! What was asked for?
//!
//! Configurations are kept as axes and made when they are needed: a million of them cost what their axes cost.

use super::work::Tree;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Changes whenever the meaning of a field does (WIRE-1).
pub const SWEEP_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub version: u32,
    /// Unique in a queue; submitting under the same name tops up.
    pub name: String,
    pub owner: String,
    /// Parts, one after the other, in which configuration numbers are counted. Submitting again appends what is new.
    pub parts: Vec<Axes>,
    /// Until this many finished copies of each configuration exist.
    pub reps: u32,
    pub command: Command,
    pub wants: Wants,
    pub rules: Rules,
    /// Sweeps that have to be complete before this one starts.
    pub after: Vec<String>,
    pub provenance: Provenance,
}

/// A part of a sweep: the product of its dimensions, less what the conditions exclude.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axes {
    /// In every configuration of the part, unless a dimension says otherwise.
    pub fixed: BTreeMap<String, Value>,
    /// The last one turns fastest.
    pub dimensions: Vec<Dimension>,
    /// Numbers, in the full product, of those that conditions leave; `None`: all. Ascending.
    pub only: Option<Vec<u32>>,
}

/// Parameters that move together, and the values they take: a grid's axis has one name, a zip several, a list of
/// configurations as many as they have. `None` where a configuration of a list lacks the parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dimension {
    pub names: Vec<String>,
    pub rows: Vec<Vec<Option<Value>>>,
}

/// What a parameter can be: what YAML, JSON and Python have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

/// One configuration.
pub type Config = BTreeMap<String, Value>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Words may hold `{name}` of parameters, `{seed}`, `{rep}`, `{run}`, `{run_dir}`.
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// How parameters reach the program, beside placeholders.
    pub pass: Pass,
    /// Source and data that the run finds in its folder.
    pub trees: Vec<Tree>,
    /// Where it runs when there is no tree: a folder that the host has.
    pub folder: Option<String>,
    /// Lines for a shell before it (modules, conda), and a virtualenv; as in a fleet's `environment`.
    pub setup: Vec<String>,
    pub virtualenv: Option<String>,
    /// Text of a lock file: an environment is made of it, once per host.
    pub requirements: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pass {
    /// `--name value` behind the command.
    pub flags: bool,
    /// `SHOAL_PARAM_name=value`.
    pub env: bool,
    /// `param2val.yaml` and `params.json` in the run's folder; its path in `SHOAL_PARAMS`.
    pub file: bool,
}

/// What one run needs. Thousandths where parts of a thing can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wants {
    pub cpus_milli: u32,
    pub memory_bytes: Option<u64>,
    pub gpus_milli: u32,
    pub gpu_memory_bytes: Option<u64>,
    /// Processes of a gang; 1 for an ordinary run. What is above is for each of them.
    pub ranks: u32,
    /// Only on hosts of these names or groups; all if empty.
    pub on: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    pub time_limit_seconds: Option<u64>,
    /// Further attempts after one that failed by itself. A lost host costs none.
    pub retries: u32,
    /// Higher goes first.
    pub priority: i32,
    /// The sweep stops starting runs when this many different runs failed and none succeeded.
    pub stop_after_failures: u32,
    pub grace_seconds: u32,
    /// An exit code that means: do not try again.
    pub fatal_codes: Vec<i32>,
    /// Where complete results go; `None`: they stay in the queue's store.
    pub results: Option<String>,
    /// What that folder is known by, if it was seen when the sweep was submitted: a mount point without its drive is an empty folder
    /// of the same name, and results that are put there are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_mark: Option<String>,
    /// The first seed; rep k of every configuration gets `seed + k`.
    pub seed: u64,
}

/// What is written beside results so that somebody can do it again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub folder: String,
    pub host: String,
    pub commit: Option<String>,
    /// Whether anything differed from the commit; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
    /// Digest of the difference to the commit, kept in the store.
    pub diff: Option<String>,
    pub packages: Vec<String>,
}

impl Default for Wants {
    fn default() -> Wants {
        Wants { cpus_milli: 1000, memory_bytes: None, gpus_milli: 0, gpu_memory_bytes: None, ranks: 1, on: Vec::new() }
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            time_limit_seconds: None,
            retries: 0,
            priority: 0,
            stop_after_failures: 5,
            grace_seconds: 10,
            fatal_codes: Vec::new(),
            results: None,
            results_mark: None,
            seed: 0,
        }
    }
}
