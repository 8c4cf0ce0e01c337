//! What do the client and `shoal host setup` on a node say to each other? One JSON value a line, both ways (WIRE-1).

use super::record::{Ended, NodeRecord};
use super::stamp::Stamp;
use crate::cluster::docker::{container_stop, in_container};
use crate::cluster::{Docker, Mount, Role, TypeDocker};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Changes whenever the meaning of a field does. Both sides are the same file, so that a difference is a mistake, not a case to handle.
pub const WIRE_VERSION: u32 = 1;
/// Lines of a step's output that are shown when it fails.
pub const LAST_LINES: usize = 20;

/// From the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// First of all. Without a `holder` nothing is locked and nothing can be run.
    Hello {
        version: u32,
        cluster: String,
        holder: Option<Box<Holder>>,
        container: Option<Container>,
        silence_s: u64,
    },
    /// Run these, one after another until one fails.
    Run {
        steps: Vec<Task>,
    },
    /// Put this key in place for logins between these addresses. It is answered like a step.
    Mesh {
        id: String,
        stamp: Stamp,
        private: String,
        public: String,
        addresses: Vec<String>,
    },
    /// Something that the client did itself for this node.
    Note {
        id: String,
        stamp: Stamp,
        done: bool,
    },
    /// End what is running.
    Stop,
    /// End what was started for the cluster, remove what is ours, and look for what is left.
    Forget {
        stop: Option<Vec<String>>,
        container: Option<Container>,
        program: bool,
    },
    /// The client is there.
    Ping,
    Bye,
}

/// A step for the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: String,
    pub stamp: Stamp,
    pub work: Doing,
    pub limit_s: Option<u64>,
    /// Whether what it leaves behind is the cluster's, and ends with it.
    pub mark: bool,
    /// Of a start command: which start of the head it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    Program(Vec<String>),
    /// A program that stops Ray and does nothing else: where nothing of Ray is, it has nothing to do.
    StopRay(Vec<String>),
    Container(Box<Containing>),
}

/// The container that a node shall have. What it is started with depends on the node, so that the node decides it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containing {
    pub docker: Docker,
    pub role: Role,
    pub kind: Option<TypeDocker>,
    pub mounts: Vec<Mount>,
    /// One that runs is replaced: what it was started with is not what the file says now.
    pub anew: bool,
}

/// Who works on a node, for others who want to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Unique for one `up` or `down`.
    pub id: String,
    pub who: String,
    pub verb: String,
    pub pid: u32,
    pub machine: String,
    pub since_ms: u64,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`shoal {}` of {}@{} (pid {})", self.verb, self.who, self.machine, self.pid)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Docker, podman, or whichever the node has: the words that its commands begin with.
    pub engine: Vec<String>,
    pub name: String,
    pub stop: Vec<String>,
}

impl Container {
    pub fn of(docker: &Docker) -> Container {
        // What runs something in it begins with the engine's own words, then `exec -i NAME`.
        let mut engine = in_container(docker, &[], false);
        engine.truncate(engine.len().saturating_sub(3));
        Container { engine, name: docker.container_name.clone(), stop: container_stop(docker) }
    }
}

/// From the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Say {
    /// Before anything is asked: it is us, not what a login prints.
    Ready {
        version: u32,
    },
    Hello {
        record: NodeRecord,
        trouble: Option<String>,
        boot: String,
        container: Option<String>,
        /// Steps that left something running, all of which still runs.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        alive: BTreeSet<String>,
    },
    Locked {
        holder: Option<Holder>,
    },
    Begun {
        id: String,
    },
    Line {
        id: String,
        text: String,
    },
    /// `log` is a file of the node.
    Ended {
        id: String,
        how: Ended,
        ms: u64,
        last: Vec<String>,
        log: String,
    },
    /// A step is still at it, and so am I.
    Beat,
    /// All steps are done, or the first failure was said.
    Idle,
    Forgot {
        removed: Vec<String>,
        left: Vec<String>,
    },
    Trouble {
        what: String,
        hint: String,
    },
}

/// One line; what JSON cannot say does not exist in these types.
pub fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_s_words_are_found() {
        let docker = Docker { container_name: "ray".into(), use_podman: true, ..Docker::default() };
        assert_eq!(Container::of(&docker).engine, ["podman"]);
        let either = Container::of(&Docker { use_podman: false, ..docker });
        assert_eq!(either.engine.last().map(String::as_str), Some("docker"));
    }

    /// WIRE-1: one of each kind, as it was said since this version.
    #[test]
    fn kept_samples_are_read_and_written() {
        let asks = [
            r#"{"ask":"hello","version":1,"cluster":"lab","holder":{"id":"7-1","who":"ann","verb":"up","pid":7,"machine":"desk","since_ms":1},"container":{"engine":["podman"],"name":"ray","stop":["true"]},"silence_s":20}"#,
            r#"{"ask":"run","steps":[{"id":"setup 1","stamp":{"hash":"a","own":"b","files":""},"work":{"program":["true"]},"limit_s":null,"mark":false}]}"#,
            r#"{"ask":"run","steps":[{"id":"start 1","stamp":{"hash":"a","own":"b","files":""},"work":{"stop_ray":["ray","stop"]},"limit_s":null,"mark":true,"epoch":"7-1"}]}"#,
            r#"{"ask":"run","steps":[{"id":"container","stamp":{"hash":"a","own":"b","files":""},"work":{"container":{"docker":{"head_image":"i","worker_image":"i","container_name":"ray","pull_before_run":false,"head_run_options":[],"worker_run_options":[],"detect_runtime":true,"detect_shm_size":true,"use_podman":true},"role":"head","kind":null,"mounts":[{"remote":"~/x","local":"/x"}],"anew":true}},"limit_s":5,"mark":false}]}"#,
            r#"{"ask":"mesh","id":"mesh","stamp":{"hash":"a","own":"b","files":""},"private":"k","public":"p","addresses":["10.0.0.1"]}"#,
            r#"{"ask":"note","id":"files ~/x","stamp":{"hash":"a","own":"b","files":"c"},"done":true}"#,
            r#"{"ask":"stop"}"#,
            r#"{"ask":"forget","stop":["bash","-c","ray stop"],"container":null,"program":true}"#,
            r#"{"ask":"ping"}"#,
            r#"{"ask":"bye"}"#,
        ];
        for sample in asks {
            let ask: Ask = serde_json::from_str(sample).expect(sample);
            assert_eq!(line(&ask).trim_end(), sample);
        }
        let says = [
            r#"{"say":"ready","version":1}"#,
            r#"{"say":"hello","record":{"version":1,"cluster":"lab","steps":{}},"trouble":null,"boot":"b","container":null}"#,
            r#"{"say":"hello","record":{"version":1,"cluster":"lab","steps":{}},"trouble":null,"boot":"b","container":null,"alive":["start 2"]}"#,
            r#"{"say":"locked","holder":null}"#,
            r#"{"say":"begun","id":"setup 1"}"#,
            r#"{"say":"line","id":"setup 1","text":"hi"}"#,
            r#"{"say":"ended","id":"setup 1","how":{"code":3},"ms":5,"last":["hi"],"log":"/l"}"#,
            r#"{"say":"ended","id":"setup 1","how":{"timed_out":5},"ms":5,"last":[],"log":"/l"}"#,
            r#"{"say":"beat"}"#,
            r#"{"say":"idle"}"#,
            r#"{"say":"forgot","removed":["r"],"left":["l"]}"#,
            r#"{"say":"trouble","what":"w","hint":"h"}"#,
        ];
        for sample in says {
            let say: Say = serde_json::from_str(sample).expect(sample);
            assert_eq!(line(&say).trim_end(), sample);
        }
    }
}
