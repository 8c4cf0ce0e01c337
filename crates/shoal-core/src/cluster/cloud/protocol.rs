//! What `shoal` and the program that talks to the cloud say to each other: one request, then events, a JSON object a line each.
//!
//! The end of the program's input, or SIGTERM, asks it to stop: it ends the call under way, keeps its ledger true and says `failed` (stopped).

use super::difference::Instance;
use super::efs::Shared;
use super::preview::Preview;
use super::removal::Scan;
use crate::cluster::Cluster;
use serde::{Deserialize, Serialize};

/// Both programs come from one build; a mixture of two is found here (WIRE-1).
pub const VERSION: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub version: u32,
    pub cluster: Cluster,
    /// The cluster's folder on this machine: ledger and key.
    pub folder: String,
    /// user@machine, for those who find the objects.
    pub by: String,
    /// Treat what another machine made for a cluster of this name as ours.
    pub take_over: bool,
    pub ask: Ask,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// Which nodes are there?
    Nodes,
    /// Make what is missing; wait until all nodes run. `replace`: end nodes that were launched as something else.
    Ensure { replace: bool },
    /// What would `ensure` make? Nothing is made.
    Preview,
    /// End the nodes, remove what was made, look whether anything is left.
    End { how: Ending },
    /// Only look.
    Scan,
    /// An image of the head. Without `reboot`, files that are being written may be torn in it.
    Bake { name: String, reboot: bool },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Stop instead of terminate, and keep what they need to start again.
    pub keep_stopped: bool,
    /// The head and all objects stay.
    pub workers_only: bool,
    /// As many workers of each type as the file asks for stay, too.
    pub keep_min_workers: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// For people, while they wait.
    Tell {
        text: String,
    },
    /// The last one of `nodes` and `ensure`.
    Nodes {
        nodes: Vec<Instance>,
        shared: Option<Shared>,
        key: Option<String>,
    },
    /// The last one of `preview`.
    Preview {
        preview: Preview,
    },
    /// The last one of `end` and `scan`: what is proved gone, and what the scan found.
    Ended {
        gone: Vec<String>,
        scan: Scan,
    },
    /// The last one of `bake`.
    Baked {
        id: String,
        name: String,
    },
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub cause: Cause,
    /// What failed, where and why.
    pub text: String,
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The file or the request is wrong.
    Wrong,
    /// No credentials, or they may not do this.
    Credentials,
    /// A limit of the account.
    Quota,
    /// The cloud has no such machine to give now.
    Capacity,
    /// Still refused after all retries.
    Throttled,
    /// Waited for something that did not come.
    Late,
    /// Somebody else's object is in the way, or ours is protected.
    InTheWay,
    /// Something is left that should be gone.
    Left,
    /// Was asked to stop.
    Stopped,
    /// Anything else the cloud said.
    Cloud,
    /// This machine: files, programs.
    Here,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::want::tests::{aws, cluster};
    use super::*;

    /// As this version writes them (WIRE-1).
    const ASKS: &str = r#"{"ask":"nodes"}
{"ask":"ensure","replace":false}
{"ask":"preview"}
{"ask":"end","how":{"keep_stopped":true,"workers_only":false,"keep_min_workers":false}}
{"ask":"scan"}
{"ask":"bake","name":"paper","reboot":true}
"#;
    const EVENTS: &str = r#"{"event":"tell","text":"launching 3 x p3.2xlarge"}
{"event":"nodes","nodes":[{"id":"i-1","role":"head","kind":"ray.head.default","state":"running","launch":"ab","zone":"us-west-2a","instance_type":"t3.micro","spot":false,"since":1,"internal":"10.0.0.4","external":null}],"shared":{"id":"fs-1","region":"us-west-2","mount":"~/efs","targets":{"us-west-2a":"10.0.0.9"}},"key":"/home/a/key"}
{"event":"preview","preview":{"region":"us-west-2","launches":[{"role":"worker","kind":"gpu","count":2,"instance_type":"p3.2xlarge","spot":true,"image":"ami-1","zones":["us-west-2a"]}],"starts":["i-2"],"replaces":[],"spares":[],"objects":["a key pair"]}}
{"event":"ended","gone":["instance i-1"],"scan":{"left":[],"kept":[{"object":{"kind":"image","id":"ami-1","name":"paper","state":"available","tags":{"shoal-baked":"paper"}},"why":"baked"}],"others":[]}}
{"event":"baked","id":"ami-1","name":"paper"}
{"event":"failed","cause":"in-the-way","text":"it is taken","hint":null}
"#;

    #[test]
    fn kept_samples_are_read_and_written_alike() {
        for text in ASKS.lines() {
            let ask: Ask = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&ask).unwrap(), text);
        }
        for text in EVENTS.lines() {
            let event: Event = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), text);
        }
        let request = Request {
            version: VERSION,
            cluster: cluster(aws()),
            folder: "/home/a/.local/state/shoal/clusters/demo".into(),
            by: "alice@laptop".into(),
            take_over: false,
            ask: Ask::Scan,
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
    }
}
