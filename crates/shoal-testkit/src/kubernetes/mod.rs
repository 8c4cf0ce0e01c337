//! A real Kubernetes for tests: etcd, API server, controllers and scheduler on loopback, and nodes whose pods really run.
//!
//! [`ControlPlane::up_or_skip`] starts one. One plane serves a whole file of tests, each in a namespace of its own.

mod certificates;
mod component;
mod error;
mod flags;
mod kubeconfig;
mod kubectl;
mod node;
mod place;

pub use error::{Error, Result};
pub use kubectl::Kubectl;
pub use node::NodeSpec;

use certificates::Authority;
use component::Component;
use kubeconfig::Identity;
use node::Node;
use place::{NODES, Place, Port};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names a folder with the programs in `bin/`.
pub const PROGRAMS: &str = "SHOAL_TEST_KUBERNETES";
/// The server takes a few seconds; a busy machine makes that many more.
const START_BOUND: Duration = Duration::from_secs(120);

/// Ends with this value, or with this process. Fields are dropped in order: whoever talks to a server goes before it.
pub struct ControlPlane {
    nodes: Vec<Node>,
    scheduler: Component,
    controllers: Component,
    api: Component,
    etcd: Component,
    authority: Authority,
    programs: PathBuf,
    place: Place,
}

impl ControlPlane {
    /// Where there are no programs of Kubernetes, the test is skipped.
    ///
    /// # Panics
    /// When the plane does not start; the message says which part of it and shows the end of its log.
    pub fn up_or_skip() -> Option<Self> {
        match Self::start() {
            Ok(plane) => Some(plane),
            Err(error) if error.is_unable() => {
                crate::skip(error);
                None
            }
            Err(error) => panic!("no control plane: {error}"),
        }
    }

    pub fn start() -> Result<Self> {
        let folder = std::env::var_os(PROGRAMS).ok_or(Error::NoPrograms { variable: PROGRAMS })?;
        Self::start_from(Path::new(&folder))
    }

    /// `folder`: what [`PROGRAMS`] would name.
    pub fn start_from(folder: &Path) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let programs = folder.join("bin");
        let place = Place::take()?;
        let folder = place.folder();
        let authority = Authority::new(&folder)?;
        let by = ["localhost", "127.0.0.1", flags::FIRST_SERVICE, "kubernetes.default.svc"].map(String::from);
        let (serving, tokens) = (authority.server("kube-apiserver", &by)?, authority.token_key()?);
        let kubelets = authority.client("kube-apiserver-to-kubelets", Some("system:masters"))?;
        let url = url(&place);
        let config = |name: &str, user: &str, group: Option<&str>| -> Result<PathBuf> {
            let file = folder.join(name);
            let pair = authority.client(user, group)?;
            kubeconfig::write(&file, &url, &authority.file(), &Identity::Certificate(&pair), "default")?;
            Ok(file)
        };
        config("admin.kubeconfig", "admin", Some("system:masters"))?;
        let manager = config("controllers.kubeconfig", "system:kube-controller-manager", None)?;
        let scheduling = config("scheduler.kubeconfig", "system:kube-scheduler", None)?;

        let ca = authority.file();
        let server = flags::ApiServer { authority: &ca, serving: &serving, kubelets: &kubelets, tokens: &tokens };
        let part = |name: &str, args| Component::new(name, programs.join(name), args, &folder);
        let mut plane = Self {
            nodes: Vec::new(),
            scheduler: part("kube-scheduler", flags::scheduler(&scheduling)),
            controllers: part("kube-controller-manager", flags::controller_manager(&manager, &ca, &tokens)),
            api: part("kube-apiserver", server.flags(&place)),
            etcd: part("etcd", flags::etcd(&place)),
            authority,
            programs: programs.clone(),
            place,
        };
        plane.etcd.start()?;
        // The server itself waits for etcd.
        plane.start_api_server()?;
        plane.controllers.start()?;
        plane.scheduler.start()?;
        plane.controllers_ready()?;
        Ok(plane)
    }

    /// Waits until the controllers do their work: without a service account no pod is let in.
    fn controllers_ready(&mut self) -> Result<()> {
        let kubectl = self.kubectl();
        let probe = || kubectl.ok(&["get", "serviceaccount", "default", "--namespace=default"]).then_some(());
        self.controllers.wait("the service account of the namespace `default`", START_BOUND, probe)
    }

    /// SIGKILL, as when its machine goes down. What is stored stays.
    pub fn kill_api_server(&mut self) {
        self.api.kill();
    }

    /// Starts it where it was, and waits until it says that it is ready.
    pub fn start_api_server(&mut self) -> Result<()> {
        self.api.start()?;
        let kubectl = self.kubectl();
        self.api
            .wait("/readyz of the API server", START_BOUND, || kubectl.ok(&["get", "--raw", "/readyz"]).then_some(()))
    }

    pub fn restart_api_server(&mut self) -> Result<()> {
        self.kill_api_server();
        self.start_api_server()
    }

    /// Starts nodes, and waits until the scheduler may use them.
    pub fn add_nodes(&mut self, specs: impl IntoIterator<Item = NodeSpec>) -> Result<()> {
        let before = self.nodes.len();
        for spec in specs {
            let i = u8::try_from(self.nodes.len()).ok().filter(|i| *i < NODES).ok_or(Error::NoNode { nodes: NODES })?;
            let pair = self.authority.client(&format!("system:node:{}", spec.name), Some("system:nodes"))?;
            let config = self.write_config(&format!("node-{}", spec.name), &Identity::Certificate(&pair), "default")?;
            let mut node = Node::new(spec, i, &self.place, &self.authority, &self.programs, &config)?;
            node.component.start()?;
            self.nodes.push(node);
        }
        (before..self.nodes.len()).try_for_each(|i| self.node_ready(i))
    }

    fn node_ready(&mut self, i: usize) -> Result<()> {
        let kubectl = self.kubectl();
        let Node { spec, component } = &mut self.nodes[i];
        let ready = || {
            let node = kubectl.json(&["get", "node", &spec.name]);
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            // A node that is new or was away keeps others off until the controllers have seen it.
            (is_ready && node["spec"]["taints"].is_null()).then_some(())
        };
        component.wait(&format!("node {} to be ready", spec.name), START_BOUND, ready)
    }

    /// The node's power goes, and every container on it. The controllers miss it within seconds.
    ///
    /// # Panics
    /// When the plane has no node of that name.
    pub fn kill_node(&mut self, name: &str) {
        let node = self.nodes.iter_mut().find(|node| node.spec.name == name);
        node.unwrap_or_else(|| panic!("no node `{name}`")).component.kill();
    }

    /// The same node again.
    ///
    /// # Panics
    /// When the plane has no node of that name.
    pub fn start_node(&mut self, name: &str) -> Result<()> {
        let i = self.nodes.iter().position(|node| node.spec.name == name);
        let i = i.unwrap_or_else(|| panic!("no node `{name}`"));
        self.nodes[i].component.start()?;
        self.node_ready(i)
    }

    pub fn url(&self) -> String {
        url(&self.place)
    }

    /// The authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.authority.file()
    }

    /// Of somebody who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.place.folder().join("admin.kubeconfig")
    }

    /// The independent witness, as somebody who may do everything.
    pub fn kubectl(&self) -> Kubectl {
        self.kubectl_as(&self.kubeconfig())
    }

    pub fn kubectl_as(&self, kubeconfig: &Path) -> Kubectl {
        Kubectl::new(self.programs.join("kubectl"), kubeconfig.to_path_buf(), self.place.folder())
    }

    /// A kubeconfig of a user without any rights, at work in `namespace`. RBAC grants some: [`Kubectl::apply`] a Role and a RoleBinding of
    /// `kind: User`.
    pub fn user(&self, name: &str, namespace: &str) -> Result<PathBuf> {
        let pair = self.authority.client(name, None)?;
        self.write_config(name, &Identity::Certificate(&pair), namespace)
    }

    /// A kubeconfig that shows a token: of a service account, expired, or no token at all.
    pub fn bearer(&self, name: &str, token: &str, namespace: &str) -> Result<PathBuf> {
        self.write_config(name, &Identity::Token(token), namespace)
    }

    fn write_config(&self, name: &str, identity: &Identity, namespace: &str) -> Result<PathBuf> {
        let file = self.place.folder().join(format!("{name}.kubeconfig"));
        kubeconfig::write(&file, &self.url(), &self.authority.file(), identity, namespace)?;
        Ok(file)
    }

    /// Where the plane keeps its files; tests may put theirs here too.
    pub fn folder(&self) -> PathBuf {
        self.place.folder()
    }
}

fn url(place: &Place) -> String {
    format!("https://127.0.0.1:{}", place.port(Port::Api))
}
