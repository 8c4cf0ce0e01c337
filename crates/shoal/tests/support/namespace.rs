//! A namespace of a real Kubernetes, a volume claim in it, and `shoal k8s` as its user types it.
#![allow(dead_code, reason = "each test binary uses its own part")]

use serde_json::{Value, json};
use shoal_testkit::kubernetes::{ControlPlane, Kubectl, NodeSpec};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub const SHOAL: &str = env!("CARGO_BIN_EXE_shoal");
pub const CLAIM: &str = "l2r-persistent-claim";

pub struct Out {
    pub code: Option<i32>,
    pub text: String,
    pub errors: String,
}

impl Out {
    /// The outcome as `--json` prints it.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}\n{}", self.text, self.errors))
    }

    #[track_caller]
    pub fn expect(self, code: i32, says: &[&str]) -> Out {
        assert_eq!(self.code, Some(code), "{}\n{}", self.text, self.errors);
        for words in says {
            assert!(self.errors.contains(words), "`{words}` is not said:\n{}", self.errors);
        }
        self
    }
}

pub fn nodes() -> [NodeSpec; 2] {
    [NodeSpec::new("phortx1").gpus(8), NodeSpec::new("phortx2").gpus(8)]
}

/// One plane for all tests of a file; it ends with the process.
pub fn plane() -> Option<&'static ControlPlane> {
    static PLANE: OnceLock<Option<ControlPlane>> = OnceLock::new();
    let start = || {
        let mut plane = ControlPlane::up_or_skip()?;
        plane.add_nodes(nodes()).expect("two nodes");
        Some(plane)
    };
    PLANE.get_or_init(start).as_ref()
}

pub struct Namespace {
    pub name: String,
    pub kubectl: Kubectl,
    pub kubeconfig: PathBuf,
    /// What pods have at /mnt.
    pub volume: PathBuf,
    pub folder: tempfile::TempDir,
}

impl Namespace {
    pub fn new(plane: &ControlPlane, name: &str) -> Namespace {
        let kubectl = plane.kubectl();
        kubectl.namespace(name);
        let volume = plane.folder().join(format!("volume-{name}"));
        std::fs::create_dir_all(volume.join("code")).expect("a volume");
        let size = json!({"storage": "20Gi"});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
                "capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "", "hostPath": {"path": volume}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM, "namespace": name}, "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name, "resources": {"requests": size}}},
        ]});
        kubectl.apply(&list.to_string());
        let claim = format!("persistentvolumeclaim/{CLAIM}");
        let bound = "--for=jsonpath={.status.phase}=Bound";
        kubectl.text(&["wait", &claim, bound, "--timeout=60s", "--namespace", name]);
        let example = example("run.bash");
        std::fs::copy(&example, volume.join("code/run.bash")).expect("the example's script");
        let folder = tempfile::tempdir().expect("a folder");
        Namespace { name: name.into(), kubectl, kubeconfig: plane.kubeconfig(), volume, folder }
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// `shoal k8s ARGS --namespace HERE`, as somebody called ada.
    pub fn shoal(&self, args: &[&str]) -> Out {
        self.shoal_as(&self.kubeconfig, &[args, &["--namespace", &self.name]].concat())
    }

    pub fn shoal_as(&self, kubeconfig: &Path, args: &[&str]) -> Out {
        out_of(self.command(args).env("KUBECONFIG", kubeconfig))
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "240", SHOAL, "k8s"]).args(args);
        command.env("USER", "ada").env("HOME", self.folder.path()).env_remove("KUBECONFIG").stdin(Stdio::null());
        command
    }

    /// `kubectl get WHAT` here, as JSON.
    pub fn get(&self, what: &str) -> Vec<Value> {
        let list = self.kubectl.json(&["get", what, "--namespace", &self.name]);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// What people look at to see that nothing is left.
    pub fn all(&self) -> String {
        let out = self.kubectl.output(&["get", "all", "--namespace", &self.name]);
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
    }

    #[track_caller]
    pub fn assert_empty(&self) {
        let all = self.all();
        assert!(all.contains("No resources found"), "{all}");
    }
}

pub fn out_of(command: &mut Command) -> Out {
    let out = command.output().expect("shoal starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Out { code: out.status.code(), text: text(&out.stdout), errors: text(&out.stderr) }
}

pub fn example(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kubernetes-seeds").join(file);
    path.canonicalize().expect("the example").display().to_string()
}

pub fn example_text(file: &str) -> String {
    std::fs::read_to_string(example(file)).expect("the example")
}
