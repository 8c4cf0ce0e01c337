//! What is to be run, and which runs can be of one Job?

use crate::queue::host::Held;
use crate::queue::work::{Ending, Start};
use crate::queue::{Attempt, Moment};
use serde::{Deserialize, Serialize};

/// What the cluster has to know of a run; the rest is in its script. (WIRE-1)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Of its folder.
    pub name: String,
    pub attempt: Attempt,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Held>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_seconds: Option<u64>,
    pub grace_seconds: u32,
}

impl Ask {
    pub fn of(start: &Start, name: &str) -> Ask {
        Ask {
            name: name.into(),
            attempt: start.attempt.clone(),
            devices: start.devices.clone(),
            memory_bytes: start.memory_bytes,
            time_limit_seconds: start.time_limit_seconds,
            grace_seconds: start.grace_seconds,
        }
    }

    /// Pods of one Job are alike in everything but their index.
    fn is_like(&self, other: &Ask) -> bool {
        let alike = |ask: &Ask| (ask.memory_bytes, ask.time_limit_seconds, ask.grace_seconds);
        self.attempt.run.sweep == other.attempt.run.sweep
            && self.devices == other.devices
            && alike(self) == alike(other)
    }
}

/// How a run ended. Moments are of its own pod, without the time it waited for a node. (WIRE-1)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub ending: Ending,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Moment>,
}

/// A Job stays readable for people, and its status far below what etcd takes.
pub const MOST: usize = 500;

/// Runs that are alike together, in the order in which they came.
pub fn group(asks: &[Ask]) -> Vec<Vec<Ask>> {
    let mut groups: Vec<Vec<Ask>> = Vec::new();
    for ask in asks {
        match groups.iter_mut().rev().find(|group| group.len() < MOST && group[0].is_like(ask)) {
            Some(group) => group.push(ask.clone()),
            None => groups.push(vec![ask.clone()]),
        }
    }
    groups
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::queue::RunId;

    pub fn ask(sweep: &str, cell: u32, device: Option<(&str, u32)>) -> Ask {
        let attempt = Attempt { run: RunId { sweep: sweep.into(), cell, rep: 0 }, number: 1 };
        let devices = device.map(|(uuid, milli)| Held { uuid: uuid.into(), milli }).into_iter().collect();
        let name = format!("{sweep}_{cell}.0_1");
        Ask { name, attempt, devices, memory_bytes: Some(1 << 30), time_limit_seconds: None, grace_seconds: 10 }
    }

    #[test]
    fn runs_that_are_alike_are_of_one_job() {
        let asks = [
            ask("a", 0, Some(("n/0", 250))),
            ask("a", 1, Some(("n/1", 250))),
            ask("b", 0, None),
            ask("a", 2, Some(("n/0", 250))),
        ];
        let groups = group(&asks);
        let cells: Vec<Vec<u32>> =
            groups.iter().map(|group| group.iter().map(|ask| ask.attempt.run.cell).collect()).collect();
        assert_eq!(cells, [vec![0, 2], vec![1], vec![0]]);
        let many: Vec<Ask> = (0..MOST as u32 + 1).map(|cell| ask("a", cell, None)).collect();
        assert_eq!(group(&many).iter().map(Vec::len).collect::<Vec<_>>(), [MOST, 1]);
    }

    #[test]
    fn the_kept_samples_read_and_write() {
        const ASK: &str = r#"{"name":"a_3.0_1","attempt":{"run":{"sweep":"a","cell":3,"rep":0},"number":1},"devices":[{"uuid":"n/0","milli":250}],"memory_bytes":1073741824,"grace_seconds":10}"#;
        let read: Ask = serde_json::from_str(ASK).expect("an ask");
        assert_eq!(read, ask("a", 3, Some(("n/0", 250))));
        assert_eq!(serde_json::to_string(&read).expect("text"), ASK);
        const END: &str = r#"{"ending":{"exited":3},"began":5,"ended":7}"#;
        let read: End = serde_json::from_str(END).expect("an end");
        assert_eq!(serde_json::to_string(&read).expect("text"), END);
    }
}
