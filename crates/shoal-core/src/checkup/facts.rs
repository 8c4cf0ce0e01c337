//! What a host is asked and what it tells about itself. Travels as one line of JSON each way, through ssh (WIRE-1).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Changes whenever the meaning of a field does.
pub const FACTS_VERSION: u32 = 1;
/// Begins the line of facts, so that what a noisy shell says before it can be told apart.
pub const FACTS_MARK: &str = "shoal-facts ";

/// What the fleet wants to find. By stdin, because paths may hold anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    pub version: u32,
    /// What comes before every program; of it, setup lines are not run, because they may change the host.
    pub prepare: crate::job::Prepare,
    /// The fleet's variables: PATH may be among them. May hold secrets.
    pub env: BTreeMap<String, String>,
    /// The folder that all hosts share.
    pub shared: Option<String>,
    /// Ports to try to take at once.
    pub ports: u32,
}

/// Something that was looked at, or why it could not be: a program that hangs, a file system that does not answer.
pub type Item<T> = Result<T, String>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub version: u32,
    /// The version of the program that answers.
    pub shoal: String,
    /// What the machine calls itself.
    pub machine: String,
    pub user: String,
    /// Kernel and architecture.
    pub system: String,
    pub uptime_s: u64,
    pub cpus: u32,
    /// Programs that wanted a CPU, on average over a minute.
    pub load: f64,
    pub memory: Item<Memory>,
    pub home: Item<Space>,
    pub tmp: Item<Space>,
    /// Nothing where the fleet has no shared folder.
    pub shared: Option<Item<Space>>,
    pub python: Item<Python>,
    /// An empty list where there is no `nvidia-smi`.
    pub gpus: Item<Vec<Gpu>>,
    pub sudo: Item<Sudo>,
    pub open_files: Item<OpenFiles>,
    pub ports: Item<Ports>,
    /// Its own address and the asker's, as its sshd sees them.
    pub server: Option<String>,
    pub client: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub total_bytes: u64,
    pub available_bytes: u64,
}

/// A folder and the file system it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub path: String,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub writable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    pub path: String,
    /// Such as `3.11.2`.
    pub version: String,
    /// The version of the package `shoal` it can import, if any.
    pub shoal: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    pub name: String,
    pub driver: String,
    pub total_bytes: u64,
    pub used_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sudo {
    /// The user is root already.
    Root,
    /// Works without a password.
    Free,
    /// Asks for a password, or does not let this user.
    Asks,
    Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFiles {
    pub soft: u64,
    pub hard: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// How many were tried, and how many of them could be taken.
    pub tried: u32,
    pub taken: u32,
    /// Where the system takes free ports from.
    pub low: u16,
    pub high: u16,
}

/// A line of a host, if it is the one with the facts.
pub fn read(line: &str) -> Option<Result<Facts, String>> {
    let json = line.trim_end().split_once(FACTS_MARK)?.1;
    let facts = serde_json::from_str::<Facts>(json).map_err(|e| format!("its facts cannot be read: {e}"));
    Some(facts.and_then(|facts| match facts.version {
        FACTS_VERSION => Ok(facts),
        other => Err(format!("its facts are of version {other}, not {FACTS_VERSION}")),
    }))
}

/// The line that `read` reads.
pub fn line(facts: &Facts) -> String {
    // Nothing in it can fail to be written: no maps with odd keys, no foreign types.
    format!("{FACTS_MARK}{}\n", serde_json::to_string(facts).unwrap_or_default())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A host with nothing to complain about.
    pub fn healthy() -> Facts {
        let space =
            |path: &str| Space { path: path.into(), total_bytes: 500 << 30, free_bytes: 200 << 30, writable: true };
        Facts {
            version: FACTS_VERSION,
            shoal: "0.1.0".into(),
            machine: "node01".into(),
            user: "me".into(),
            system: "Linux 6.1.0 x86_64".into(),
            uptime_s: 86_400,
            cpus: 16,
            load: 0.5,
            memory: Ok(Memory { total_bytes: 64 << 30, available_bytes: 60 << 30 }),
            home: Ok(space("/home/me")),
            tmp: Ok(space("/tmp")),
            shared: None,
            python: Ok(Python { path: "/usr/bin/python3".into(), version: "3.11.2".into(), shoal: None }),
            gpus: Ok(Vec::new()),
            sudo: Ok(Sudo::Asks),
            open_files: Ok(OpenFiles { soft: 1024, hard: 1 << 20 }),
            ports: Ok(Ports { tried: 64, taken: 64, low: 32768, high: 60999 }),
            server: Some("10.0.0.1".into()),
            client: Some("10.0.0.9".into()),
        }
    }

    /// WIRE-1: the sample of version 1. If this must change, so must the version.
    const SAMPLE: &str = r#"shoal-facts {"version":1,"shoal":"0.1.0","machine":"node01","user":"me","system":"Linux 6.1.0 x86_64","uptime_s":86400,"cpus":16,"load":0.5,"memory":{"Ok":{"total_bytes":68719476736,"available_bytes":64424509440}},"home":{"Ok":{"path":"/home/me","total_bytes":536870912000,"free_bytes":214748364800,"writable":true}},"tmp":{"Ok":{"path":"/tmp","total_bytes":536870912000,"free_bytes":214748364800,"writable":true}},"shared":null,"python":{"Ok":{"path":"/usr/bin/python3","version":"3.11.2","shoal":null}},"gpus":{"Ok":[]},"sudo":{"Ok":"asks"},"open_files":{"Ok":{"soft":1024,"hard":1048576}},"ports":{"Ok":{"tried":64,"taken":64,"low":32768,"high":60999}},"server":"10.0.0.1","client":"10.0.0.9"}
"#;

    #[test]
    fn the_kept_sample_is_still_what_is_said() {
        assert_eq!(line(&healthy()), SAMPLE);
        assert_eq!(read(SAMPLE), Some(Ok(healthy())));
    }

    /// WIRE-1: the sample of a question of version 1.
    #[test]
    fn the_kept_question_is_still_what_is_asked() {
        let sample = r#"{"version":1,"prepare":{"virtualenv":"~/venv","conda":null,"modules":["cuda"],"setup":[]},"env":{"A":"b"},"shared":"/data","ports":64}"#;
        let ask = Ask {
            version: FACTS_VERSION,
            prepare: crate::job::Prepare {
                virtualenv: Some("~/venv".into()),
                modules: vec!["cuda".into()],
                ..crate::job::Prepare::default()
            },
            env: [("A".to_string(), "b".to_string())].into(),
            shared: Some("/data".into()),
            ports: 64,
        };
        assert_eq!(serde_json::to_string(&ask).ok().as_deref(), Some(sample));
        assert_eq!(serde_json::from_str::<Ask>(sample).ok(), Some(ask));
    }

    #[test]
    fn noise_is_passed_over_even_without_a_line_end() {
        assert_eq!(read("Welcome to node01"), None);
        assert_eq!(read(&format!("prompt> {SAMPLE}")), Some(Ok(healthy())));
        assert!(matches!(read("shoal-facts {"), Some(Err(_))));
        let newer = SAMPLE.replace("\"version\":1", "\"version\":2");
        assert!(matches!(read(&newer), Some(Err(why)) if why.contains("version 2")));
    }
}
