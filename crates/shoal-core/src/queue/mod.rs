//! The queue: hundreds of experiments over a lab's machines. Values and decisions only (CORE-1).
//!
//! | file | question |
//! |---|---|
//! | `sweep` | what was asked for: configurations, reps, command, resources |
//! | `host` | what a machine has, and when it may be used |
//! | `work` | what a host is told to run, and how that can end |
//! | `event` | what can happen to the queue; the journal is a list of these (CORE-2) |
//! | `line` | what daemon and agent say to each other |
//! | `request` | what people ask of the daemon, and what it answers |
//! | `cells` | which configuration has which number |
//! | `state/` | what the queue's state is: the fold of its events |
//! | `plan/` | what is to be done now: who starts where, who has to end |
//! | `share` | whose turn it is |
//! | `estimate` | how long it will take |
//! | `why` | why a run does not run |
//! | `read/` | what a `sweep.yaml`, or JSON from Python, asks for |
//! | `schema` | what may stand in a `sweep.yaml`, for editors |
//! | `grid` | what `--grid`, `--zip` and `--set` ask for |
//! | `render/` | what exactly a host is told to run for one attempt |
//! | `results/` | what came out: table, CSV, JSON, plot, progress |

pub mod cells;
pub mod estimate;
pub mod event;
pub mod grid;
pub mod host;
pub mod line;
pub mod plan;
pub mod read;
pub mod render;
pub mod request;
pub mod results;
pub mod schema;
pub mod share;
pub mod state;
pub mod sweep;
#[cfg(test)]
pub(crate) mod testing;
pub mod why;
pub mod work;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Milliseconds since 1970, as somebody else read them from a clock.
pub type Moment = u64;

/// One run of a sweep: `mlp:17.2` is the third copy of configuration 17.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    pub sweep: String,
    pub cell: u32,
    pub rep: u32,
}

/// A run may be tried several times; only one attempt lives at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    pub run: RunId,
    /// From 1.
    pub number: u32,
}

/// What a word on the command line means: `mlp`, `mlp:17` or `mlp:17.2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    Sweep(String),
    Cell(String, u32),
    Run(RunId),
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}.{}", self.sweep, self.cell, self.rep)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.run, self.number)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Sweep(sweep) => f.write_str(sweep),
            Target::Cell(sweep, cell) => write!(f, "{sweep}:{cell}"),
            Target::Run(run) => run.fmt(f),
        }
    }
}

/// A sweep's name is a word of files, shell lines and ids.
pub fn is_sweep_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain) && !name.starts_with(['-', '.'])
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let wrong =
            || format!("`{text}` names no sweep, configuration or run; they look like mlp, mlp:17 and mlp:17.2");
        let (sweep, rest) = match text.split_once(':') {
            None => (text, None),
            Some((sweep, rest)) => (sweep, Some(rest)),
        };
        if !is_sweep_name(sweep) {
            return Err(wrong());
        }
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        match rest.map(|rest| rest.split_once('.')) {
            None => Ok(Target::Sweep(sweep.into())),
            Some(None) => Ok(Target::Cell(sweep.into(), number(rest.unwrap_or_default())?)),
            Some(Some((cell, rep))) => {
                Ok(Target::Run(RunId { sweep: sweep.into(), cell: number(cell)?, rep: number(rep)? }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_back_as_written() {
        for text in ["mlp", "mlp:17", "mlp:17.2", "a.b-c_d:0.0"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", ":1", "mlp:", "mlp:x", "mlp:1.", "mlp:1.2.3", "-x", "a/b", "a b", ".x:1"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
