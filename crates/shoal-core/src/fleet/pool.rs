//! What is a pool? A part of a Kubernetes cluster that takes runs of the queue, as a host does, without being a machine that one logs in to.

use crate::queue::host::{Gpu, HostPolicy, Reached};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kept in the journal as JSON (WIRE-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// What people call it; a DNS label, since objects bear it.
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Runs at once, at most.
    pub slots: u32,
    /// Of all its runs together; without it the cluster alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    pub kubernetes: Kubernetes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubernetes {
    /// Of the kubeconfig; none: the one it has chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// None: the context's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub image: String,
    /// Names of secrets that the image is pulled with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<String>,
    /// The first that is seen `here` carries code to the pods and results back.
    pub volumes: Vec<Volume>,
    /// By the label `kubernetes.io/hostname`; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
    /// How containers are run, where the cluster has several ways (`nvidia`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class: Option<String>,
    /// Whose pods they are, for clusters that allow things by that. Nothing in them is told its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Of /dev/shm, in memory: what loaders share with their workers. None: the runtime's (64 MiB, mostly).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_bytes: Option<u64>,
}

/// A persistent volume claim of the namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    pub claim: String,
    /// Where pods find it.
    pub at: String,
    /// Where the machine of the queue's daemon sees the same files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpus {
    pub share: Share,
    /// Pinned: of each of `nodes`. Else of the whole pool.
    pub count: u32,
    /// On one GPU at once, at most.
    pub runs: u32,
    /// What the device plugin calls them; pinned runs ask for none.
    pub resource: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// A GPU is one run's.
    Whole,
    /// The queue says which run sees which GPU of which node; Kubernetes counts nothing.
    Pinned,
    /// The device plugin offers each GPU `runs` times, by turns.
    Slices,
    /// The same by NVIDIA's multi-process service.
    Mps,
}

impl Share {
    pub const ALL: [(&'static str, Share); 4] =
        [("whole", Share::Whole), ("pinned", Share::Pinned), ("slices", Share::Slices), ("mps", Share::Mps)];

    pub fn word(self) -> &'static str {
        Share::ALL.iter().find(|(_, share)| *share == self).map_or("whole", |(word, _)| word)
    }
}

/// What device plugins call NVIDIA's.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";
/// Whole, in thousandths.
const WHOLE: u32 = 1000;
/// Where the file sets no bound, the queue sets none either: the cluster knows what it has.
pub const ANY_CPUS: u32 = 10_000;
pub const ANY_MEMORY: u64 = 1 << 50;

/// Of the name of a pool's device: the node it is in, or the pool where nobody says which node.
pub fn node_of(device: &str) -> &str {
    device.rsplit_once('/').map_or("", |(node, _)| node)
}

impl Pool {
    /// The volume that carries code and results, and where this machine sees it.
    pub fn carrier(&self) -> Option<(&Volume, &str)> {
        self.kubernetes.volumes.iter().find_map(|volume| Some((volume, volume.here.as_deref()?)))
    }

    /// Its devices as the queue counts them: `node/number` where they are pinned, numbers of no meaning elsewhere.
    pub fn devices(&self) -> Vec<String> {
        let Some(gpus) = &self.kubernetes.gpus else { return Vec::new() };
        let numbers = 0..gpus.count;
        match gpus.share {
            Share::Pinned => {
                let nodes = self.kubernetes.nodes.iter();
                nodes.flat_map(|node| numbers.clone().map(move |n| format!("{node}/{n}"))).collect()
            }
            _ => numbers.map(|n| format!("{}/{n}", self.name)).collect(),
        }
    }

    pub fn gpus(&self) -> Vec<Gpu> {
        let model = self.kubernetes.gpus.as_ref().map_or("", |gpus| gpus.share.word());
        let gpu = |uuid: String| Gpu {
            pci: uuid.clone(),
            uuid,
            model: model.into(),
            // Nobody here can look: what a run says it needs is believed.
            memory_bytes: ANY_MEMORY,
            foreign_bytes: 0,
            foreign_processes: 0,
        };
        self.devices().into_iter().map(gpu).collect()
    }

    pub fn cpus(&self) -> u32 {
        self.cpus.unwrap_or(ANY_CPUS)
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.unwrap_or(ANY_MEMORY)
    }

    /// A part of a GPU so small that more than `runs` of them could meet on one.
    pub fn is_too_small(&self, milli: u32) -> Option<String> {
        let gpus = self.kubernetes.gpus.as_ref()?;
        let least = WHOLE / gpus.runs.max(1);
        (milli < least).then(|| {
            let (asked, runs) = (f64::from(milli) / f64::from(WHOLE), gpus.runs);
            format!(
                "it asks for {asked} of a GPU, and the pool {} lets {runs} share one; ask for {} or more, or raise `runs` of the pool",
                self.name,
                f64::from(least) / f64::from(WHOLE)
            )
        })
    }

    pub fn policy(&self, lost_after_seconds: u64, base: &str) -> HostPolicy {
        HostPolicy {
            name: self.name.clone(),
            groups: self.groups.clone(),
            slots: Some(self.slots),
            cpus: Some(self.cpus()),
            memory_bytes: Some(self.memory_bytes()),
            owner: None,
            lost_after_seconds,
            reach: Some(Reached::Pool { pool: serde_json::to_string(self).unwrap_or_default(), base: base.into() }),
            address: None,
            jumped: false,
            environment: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{"name":"phoebe","slots":12,"kubernetes":{"image":"i","volumes":[{"claim":"c","at":"/mnt","here":"/hot"}],"nodes":["n1","n2"],"gpus":{"share":"pinned","count":2,"runs":4,"resource":"nvidia.com/gpu"}}}"#;

    #[test]
    fn the_kept_sample_reads_and_writes() {
        let pool: Pool = serde_json::from_str(SAMPLE).expect("a pool");
        assert_eq!(serde_json::to_string(&pool).expect("text"), SAMPLE);
    }

    #[test]
    fn what_pods_are_like_is_kept_too() {
        let more =
            SAMPLE.replace("}}}", r#"},"runtime_class":"nvidia","service_account":"lab","shm_bytes":8589934592}}"#);
        let pool: Pool = serde_json::from_str(&more).expect("a pool");
        assert_eq!(
            (pool.kubernetes.runtime_class.as_deref(), pool.kubernetes.shm_bytes),
            (Some("nvidia"), Some(8 << 30))
        );
        assert_eq!(serde_json::to_string(&pool).expect("text"), more);
    }

    #[test]
    fn a_gpu_is_shared_by_no_more_than_was_asked() {
        let mut pool: Pool = serde_json::from_str(SAMPLE).expect("a pool");
        assert_eq!(pool.devices(), ["n1/0", "n1/1", "n2/0", "n2/1"]);
        assert_eq!(pool.is_too_small(250), None);
        assert!(pool.is_too_small(200).expect("refused").contains("ask for 0.25 or more"));
        let gpus = pool.kubernetes.gpus.as_mut().expect("gpus");
        (gpus.share, gpus.runs) = (Share::Whole, 1);
        assert_eq!(pool.devices(), ["phoebe/0", "phoebe/1"]);
        assert!(pool.is_too_small(500).is_some());
    }
}
