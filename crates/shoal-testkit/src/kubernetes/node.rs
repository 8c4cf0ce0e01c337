//! Nodes of a plane: each the real kubelet, whose containers are processes of this machine.

use super::certificates::Authority;
use super::component::Component;
use super::error::Result;
use super::place::{Place, Port};
use std::path::Path;

/// What a node says it has. Only memory limits of containers are watched over; the rest is for the scheduler.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub cpus: u32,
    /// As Kubernetes writes it: `16Gi`.
    pub memory: String,
    /// Extended resources, such as `nvidia.com/gpu`.
    pub resources: Vec<(String, u32)>,
}

impl NodeSpec {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), labels: Vec::new(), cpus: 8, memory: "16Gi".into(), resources: Vec::new() }
    }

    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    pub fn gpus(mut self, count: u32) -> Self {
        self.resources.push(("nvidia.com/gpu".into(), count));
        self
    }
}

/// A node that was started or switched off; node `i` keeps its address and its port.
pub struct Node {
    pub spec: NodeSpec,
    pub component: Component,
}

impl Node {
    pub fn new(
        spec: NodeSpec,
        i: u8,
        place: &Place,
        authority: &Authority,
        programs: &Path,
        kubeconfig: &Path,
    ) -> Result<Self> {
        let address = place.node(i).to_string();
        let serving = authority.server(&format!("{}-kubelet", spec.name), &[address.clone(), spec.name.clone()])?;
        let root = place.folder().join("nodes").join(&spec.name);
        let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
        let args = vec![
            flag("name", &spec.name),
            flag("address", &address),
            flag("bridge", &place.bridge()),
            flag("port", &place.port(Port::Kubelet(i))),
            flag("kubeconfig", &kubeconfig.display()),
            flag("authority", &authority.file().display()),
            flag("certificate", &serving.certificate.display()),
            flag("key", &serving.key.display()),
            flag("root", &root.display()),
            flag("labels", &list(&spec.labels)),
            flag("resources", &list(&spec.resources)),
            flag("cpus", &spec.cpus),
            flag("memory", &spec.memory),
        ];
        let component =
            Component::new(&format!("node-{}", spec.name), programs.join("shoal-test-node"), args, &place.folder());
        Ok(Self { spec, component })
    }
}

fn list<T: std::fmt::Display>(pairs: &[(String, T)]) -> String {
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}
