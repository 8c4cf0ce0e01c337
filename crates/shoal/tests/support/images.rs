//! Engines and registries for tests: podman and buildah with a storage that goes away with the test, a docker without its daemon in front of them, and Debian's
//! docker-registry on loopback.

use super::desk::{Desk, text};
use super::{LONG, Process, until};
use shoal_testkit::hosts::find_program;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What is missing here.
pub fn missing() -> Option<&'static str> {
    let programs = ["podman", "buildah", "runc", "busybox", "docker-registry"];
    programs.into_iter().find(|name| find_program(name).is_none())
}

pub struct Yard {
    pub desk: Desk,
    /// Images are kept here.
    pub storage: PathBuf,
}

impl Yard {
    pub fn new() -> Yard {
        let desk = Desk::new();
        let root = desk.work().parent().expect("a parent").to_path_buf();
        let policy = root.join("home/.config/containers/policy.json");
        std::fs::create_dir_all(policy.parent().expect("a parent")).expect("a folder");
        std::fs::write(policy, r#"{"default": [{"type": "insecureAcceptAnything"}]}"#).expect("a file");
        // As podman runs without systemd and the right to raise limits.
        let settings = "[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
                        [containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n";
        std::fs::write(root.join("containers.conf"), settings).expect("a file");
        let yard = Yard { storage: root.join("images"), desk };
        yard.program(
            "docker",
            "#!/bin/sh\necho 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2\nexit 1\n",
        );
        yard
    }

    fn root(&self) -> PathBuf {
        self.desk.work().parent().expect("a parent").to_path_buf()
    }

    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Found before any other of its name.
    pub fn program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.root().join("bin").join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, script).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// Another machine, as far as images are concerned.
    pub fn elsewhere(&mut self) {
        self.storage = self.root().join("images-elsewhere");
    }

    fn set(&self, command: &mut Command) {
        let conf = self.root().join("storage.conf");
        let text = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
            self.storage.display(),
            self.root().join("run/storage").display()
        );
        std::fs::write(&conf, text).expect("a file");
        // A name without a registry leads nowhere, whatever this machine's settings are.
        let registries = self.root().join("registries.conf");
        std::fs::write(&registries, "").expect("a file");
        command.env("CONTAINERS_REGISTRIES_CONF", registries);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.root().join("bin").display()));
        command.env("CONTAINERS_STORAGE_CONF", conf).env("CONTAINERS_CONF", self.root().join("containers.conf"));
        for name in ["REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "DOCKER_HOST", "CONTAINER_HOST", "BUILDAH_LAYERS"] {
            command.env_remove(name);
        }
    }

    /// In a folder below the desk's.
    pub fn shoal(&self, folder: &str, args: &[&str]) -> Command {
        let mut command = self.desk.shoal(args);
        self.set(&mut command);
        command.current_dir(self.desk.work().join(folder));
        command
    }

    #[track_caller]
    pub fn says(&self, folder: &str, args: &[&str]) -> (String, String) {
        let output = ran(&mut self.shoal(folder, args));
        assert!(output.status.success(), "{args:?}: {:?}", output.status.code());
        (text(&output.stdout), text(&output.stderr))
    }

    /// It must end with this code, and say all of these on stderr.
    #[track_caller]
    pub fn fails(&self, code: i32, args: &[&str], said: &[&str]) {
        fails(&mut self.shoal("", args), code, said);
    }

    /// podman itself, as the witness.
    #[track_caller]
    pub fn podman(&self, args: &[&str]) -> String {
        let mut command = Command::new("podman");
        self.set(&mut command);
        command.args(args).env("HOME", self.home()).env("XDG_RUNTIME_DIR", self.root().join("run"));
        let output = ran(&mut command);
        assert!(output.status.success(), "podman {args:?}");
        text(&output.stdout)
    }

    /// busybox, and a `pip` that leaves what it was told, and something that is never the same twice.
    pub fn base(&self, name: &str) {
        let busybox = find_program("busybox").expect("busybox");
        self.desk.file(
            "base/pip",
            "#!/bin/sh\nmkdir -p /opt\necho \"$@\" > /opt/installed\ncat /proc/sys/kernel/random/uuid > /opt/noise\n",
        );
        std::fs::copy(busybox, self.desk.work().join("base/busybox")).expect("a copy");
        let lines = "FROM scratch\nCOPY busybox /bin/busybox\nRUN [\"/bin/busybox\", \"--install\", \"-s\", \"/bin\"]\n\
                     COPY pip /bin/pip\nRUN chmod 755 /bin/pip\n";
        self.desk.file("base/Dockerfile-base", lines);
        self.says("", &["image", "build", "-n", name, "-d", "Dockerfile-base", "base"]);
    }
}

/// To its end; what it said is shown if the test fails.
pub fn ran(command: &mut Command) -> Output {
    let output = command.output().expect("it runs");
    eprintln!("$ {command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    output
}

#[track_caller]
pub fn fails(command: &mut Command, code: i32, said: &[&str]) {
    let output = ran(command);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for what in said {
        assert!(stderr.contains(what), "no `{what}` in:\n{stderr}");
    }
}

/// Debian's docker-registry, which ends with it.
pub struct Registry {
    /// `127.0.0.1:PORT`
    pub host: String,
    folder: PathBuf,
    _process: Process,
}

/// Of the registry that asks for one.
pub const USER: &str = "lab";
pub const PASSWORD: &str = "not-on-any-command-line";
const HASHED: &str = "$2y$05$abcdefghijklmnopqrstuut5VC4MA.08L.xh3MERiTlzqzjI/jxPW";

impl Registry {
    /// `locked`: only for those who log in.
    pub fn start(below: &Path, name: &str, locked: bool) -> Registry {
        let folder = below.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("users"), format!("{USER}:{HASHED}\n")).expect("a file");
        let auth = format!("auth: {{htpasswd: {{realm: lab, path: {}}}}}\n", folder.join("users").display());
        let config = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n{}",
            folder.display(),
            if locked { &auth } else { "" }
        );
        std::fs::write(folder.join("config.yml"), config).expect("a file");
        let mut command = Command::new(find_program("docker-registry").expect("docker-registry"));
        command.arg("serve").arg(folder.join("config.yml"));
        let process = Process::start("registry", &folder, &mut command);
        let host = until(LONG, "the registry to listen", || {
            let said = process.said();
            let rest = said.split_once("listening on ")?.1;
            rest.split_once('"').map(|(host, _)| host.to_string())
        });
        Registry { host, folder, _process: process }
    }

    /// All that it keeps: layers, images' settings, lists of layers.
    pub fn blobs(&self) -> BTreeSet<PathBuf> {
        let folders = |at: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(at).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        let all = folders(&self.folder.join("docker/registry/v2/blobs/sha256"));
        all.iter().flat_map(|two| folders(two)).map(|blob| blob.join("data")).filter(|data| data.exists()).collect()
    }

    /// The layers among them.
    pub fn layers(&self) -> BTreeSet<PathBuf> {
        let is_layer = |path: &PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(&[0x1f, 0x8b]));
        self.blobs().into_iter().filter(is_layer).collect()
    }
}
