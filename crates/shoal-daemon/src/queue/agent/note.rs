//! What does an agent have to know of a run when it is over? All of it travels with the run and comes back: an agent that is started
//! anew has forgotten everything. (WIRE-1: notes are in keepers' records)

use serde::{Deserialize, Serialize};
use shoal_core::queue::Attempt;
use shoal_core::queue::host::Held;
use shoal_core::queue::work::{Origin, Publish, Start};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub attempt: Attempt,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rank: u32,
    pub publish: Publish,
    pub argv: Vec<String>,
    /// Top-level names in its folder that are ours: links and files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ours: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Held>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trees: Vec<String>,
    /// What the folder for results is known by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_mark: Option<String>,
    /// It gets a folder even if it leaves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// The lock file's digest, if an environment was made of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<String>,
    /// Which environment it has, by its key in `packages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Note {
    pub fn of(start: &Start, ours: Vec<String>, requirements: Option<String>) -> Note {
        Note {
            attempt: start.attempt.clone(),
            rank: start.rank,
            publish: start.publish.clone(),
            argv: start.argv.clone(),
            ours,
            beside: start.beside.clone(),
            devices: start.devices.clone(),
            seed: start.env.iter().find(|(name, _)| name == "SHOAL_SEED").map(|(_, value)| value.clone()),
            trees: start.trees.iter().map(|tree| tree.digest.clone()).collect(),
            results_mark: start.results_mark.clone(),
            always: start.always,
            requirements,
            packages: None,
            origin: start.origin.clone(),
        }
    }
}

/// What a run's files are called, and its process at the keeper: `mlp:17.2#1` is `mlp_17.2_1`. Different processes have different names,
/// since numbers are read from the right.
pub fn name(attempt: &Attempt, rank: u32) -> String {
    let run = &attempt.run;
    let mut name = format!("{}_{}.{}_{}", run.sweep, run.cell, run.rep, attempt.number);
    if rank > 0 {
        name.push_str(&format!("_r{rank}"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::RunId;

    const SAMPLE: &str = r#"{"attempt":{"run":{"sweep":"mlp","cell":17,"rep":2},"number":1},"rank":3,"publish":{"folder":"/r"},"argv":["a"],"ours":["src"],"beside":[["param2val.yaml","lr: 1\n"]],"devices":[{"uuid":"GPU-1","milli":250}],"seed":"7","trees":["d"],"results_mark":"m","requirements":"e"}"#;

    #[test]
    fn the_kept_sample_reads_and_writes() {
        let note: Note = serde_json::from_str(SAMPLE).unwrap();
        assert_eq!(serde_json::to_string(&note).unwrap(), SAMPLE);
        assert_eq!(name(&note.attempt, note.rank), "mlp_17.2_1_r3");
        let long = SAMPLE.replace(
            r#""requirements":"e""#,
            r#""always":true,"requirements":"e","packages":"0123","origin":{"commit":"c0","dirty":true,"diff":"d1","folder":"/home/a","host":"h"}"#,
        );
        let all: Note = serde_json::from_str(&long).unwrap();
        assert_eq!(serde_json::to_string(&all).unwrap(), long);
        let short =
            r#"{"attempt":{"run":{"sweep":"a_1.2","cell":1,"rep":2},"number":1},"publish":{"send":"x"},"argv":[]}"#;
        let note: Note = serde_json::from_str(short).unwrap();
        assert_eq!(serde_json::to_string(&note).unwrap(), short);
        assert_eq!(name(&note.attempt, 0), "a_1.2_1.2_1");
        let other = Attempt { run: RunId { sweep: "a".into(), cell: 1, rep: 2 }, number: 1 };
        assert_ne!(name(&other, 0), name(&note.attempt, 0));
        assert!(crate::records::is_safe_name(&name(&other, 2)));
    }
}
