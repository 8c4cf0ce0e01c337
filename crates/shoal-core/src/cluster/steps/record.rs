//! What has a node done so far, as it keeps it itself (`~/.cache/shoal/clusters/NAME/on-HOST/state.json`; WIRE-1)?

use super::stamp::Stamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Changes whenever the meaning of a field does.
pub const RECORD_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub version: u32,
    pub cluster: String,
    /// By the step's id.
    pub steps: BTreeMap<String, StepRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    pub stamp: Stamp,
    pub outcome: Outcome,
    /// When it began or ended, by the node's clock.
    pub at_ms: u64,
    /// The container that it made, where it made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// What it left running, where it left something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
    /// Of start commands: which start of the head they belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
}

/// Processes that outlive the command that started them: of this boot, each by its number and the moment it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    pub boot: String,
    pub processes: Vec<(u32, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nobody wrote down how it ended: it was cut off.
    Begun,
    Done,
    Failed(Ended),
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Code(i32),
    Signal(i32),
    /// After this many seconds.
    TimedOut(u64),
    /// Somebody asked for it, or the client went away.
    Stopped,
    NotStarted(String),
}

impl Ended {
    pub fn is_success(&self) -> bool {
        *self == Ended::Code(0)
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "exit code {code}"),
            Ended::Signal(signal) => write!(f, "ended by signal {signal}"),
            Ended::TimedOut(s) => write!(f, "not over after {s} s"),
            Ended::Stopped => f.write_str("stopped"),
            Ended::NotStarted(why) => write!(f, "could not be started: {why}"),
        }
    }
}

impl NodeRecord {
    pub fn new(cluster: &str) -> NodeRecord {
        NodeRecord { version: RECORD_VERSION, cluster: cluster.into(), steps: BTreeMap::new() }
    }

    /// Reads one back. A record of another version, or of another cluster, is not believed.
    pub fn read(cluster: &str, text: &str) -> Result<NodeRecord, String> {
        let record: NodeRecord = serde_json::from_str(text).map_err(|e| e.to_string())?;
        match record {
            NodeRecord { version, .. } if version != RECORD_VERSION => {
                Err(format!("it is of version {version}, not {RECORD_VERSION}"))
            }
            NodeRecord { cluster: other, .. } if other != cluster => Err(format!("it is of cluster `{other}`")),
            record => Ok(record),
        }
    }

    /// Whether anything was ever done for the cluster there.
    pub fn is_blank(&self) -> bool {
        !self.steps.values().any(|step| step.outcome == Outcome::Done)
    }

    /// The start of the head to which the node's last start command belongs. Not the first: what a worker only stops runs beside the head's
    /// start, and may not know of it yet.
    pub fn epoch(&self) -> Option<&str> {
        let starts = self.steps.iter().filter(|(id, _)| id.starts_with("start "));
        starts.filter_map(|(_, step)| step.epoch.as_deref()).next_back()
    }

    pub fn failed(&self) -> impl Iterator<Item = (&str, &StepRecord)> {
        self.steps.iter().filter(|(_, step)| step.outcome != Outcome::Done).map(|(id, step)| (id.as_str(), step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE-1: what nodes have kept since this version must be read for ever, or the version changes.
    #[test]
    fn a_kept_record_is_read() {
        let kept = r#"{"version":1,"cluster":"lab","steps":{"container":{"stamp":{"hash":"h","own":"o","files":""},"outcome":"done","at_ms":5,"made":"c0ffee"},"setup 1":{"stamp":{"hash":"a","own":"b","files":"c"},"outcome":"done","at_ms":7},"setup 2":{"stamp":{"hash":"d","own":"e","files":""},"outcome":{"failed":{"code":3}},"at_ms":8},"start 1":{"stamp":{"hash":"f","own":"g","files":""},"outcome":"begun","at_ms":9},"start 2":{"stamp":{"hash":"f","own":"g","files":""},"outcome":"done","at_ms":9,"left":{"boot":"b","processes":[[7,1234]]},"epoch":"7-1"}}}"#;
        let record = NodeRecord::read("lab", kept).expect("it is read");
        assert_eq!(record.steps["setup 2"].outcome, Outcome::Failed(Ended::Code(3)));
        assert_eq!(serde_json::to_string(&record).expect("text"), kept);
        assert_eq!(record.epoch(), Some("7-1"));
        let mut later = record.clone();
        later.steps.get_mut("start 1").expect("a step").epoch = Some("6-1".into());
        assert_eq!(later.epoch(), Some("7-1"), "the last one counts");
        assert_eq!(record.failed().map(|(id, _)| id).collect::<Vec<_>>(), ["setup 2", "start 1"]);
        for (text, why) in [
            ("", "EOF"),
            ("{}", "missing field"),
            (&kept.replace("\"version\":1", "\"version\":9") as &str, "version 9"),
            (&kept.replace("lab", "other"), "cluster `other`"),
        ] {
            let error = NodeRecord::read("lab", text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
