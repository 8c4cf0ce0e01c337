//! Files to a pool's volume and back, through pods that really run.

#[path = "support/namespace.rs"]
mod namespace;

use namespace::{CLAIM, Namespace, Out, SHOAL, out_of, plane};
use shoal_testkit::kubernetes::ControlPlane;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(180);

fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < end, "waited {LONG:?} for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A namespace with a fleet file whose pool has its claim at /mnt.
struct Lab {
    here: Namespace,
    file: String,
}

impl Lab {
    fn new(plane: &ControlPlane, name: &str) -> Lab {
        let here = Namespace::new(plane, name);
        let file = here.write("lab.yaml", &fleet(name, "here", CLAIM, ""));
        Lab { here, file }
    }

    fn fleet(&self, name: &str, text: &str) -> String {
        self.here.write(name, text)
    }

    /// Each with a bound of three seconds for a client that is gone.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "240", SHOAL]).args(args);
        command.env("HOME", self.here.folder.path()).env("KUBECONFIG", &self.here.kubeconfig);
        command.env("SHOAL_HELPER_IDLE_S", "10").stdin(Stdio::null());
        command
    }

    fn shoal(&self, args: &[&str]) -> Out {
        out_of(&mut self.command(args))
    }

    fn shoal_as(&self, kubeconfig: &Path, args: &[&str]) -> Out {
        out_of(self.command(args).env("KUBECONFIG", kubeconfig))
    }

    fn local(&self, name: &str) -> std::path::PathBuf {
        self.here.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.local(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }
}

fn fleet(namespace: &str, image: &str, claim: &str, more: &str) -> String {
    format!(
        "pools:\n  - name: cloud\n    slots: 4\n    kubernetes:\n      namespace: {namespace}\n      image: {image}\n      volumes: [{{claim: {claim}, at: /mnt, here: /nowhere}}]\n{more}"
    )
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn a_tree_goes_up_once_and_comes_back() {
    let Some(plane) = plane() else { return };
    let lab = Lab::new(plane, "files");
    let large: Vec<u8> = (0..3_000_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    lab.put("tree/a/large", &large);
    lab.put("tree/run.sh", b"#!/bin/sh\necho hello\n");
    lab.put("tree/with space/empty", b"");
    std::fs::set_permissions(lab.local("tree/run.sh"), PermissionsExt::from_mode(0o755)).expect("a mode");
    std::os::unix::fs::symlink("run.sh", lab.local("tree/link")).expect("a link");
    let tree = lab.local("tree/").display().to_string();
    let up = |more: &[&str]| lab.shoal(&[&["rsync-up", &lab.file, &tree, "/mnt/data", "--json"], more].concat());

    let first = up(&[]).expect(0, &["cloud: 3 files"]).json();
    assert_eq!((&first["nodes"][0]["files"], &first["nodes"][0]["ok"]), (&3.into(), &true.into()), "{first}");
    let there = lab.here.volume.join("data");
    assert!(read(&there.join("a/large")) == large, "the large file is another one there");
    assert_eq!(std::fs::read_link(there.join("link")).expect("a link"), Path::new("run.sh"));
    assert_eq!(std::fs::metadata(there.join("run.sh")).expect("a file").permissions().mode() & 0o777, 0o755);
    lab.here.assert_empty();

    // Again: nothing. After an edit: the edit.
    let again = up(&[]).expect(0, &["nothing to send"]).json();
    assert_eq!(again["nodes"][0]["bytes"], 0, "{again}");
    lab.put("tree/run.sh", b"#!/bin/sh\necho goodbye\n");
    lab.put("tree/new", b"new");
    let edit = up(&["--delete"]).expect(0, &["cloud: 2 files"]).json();
    assert!(edit["nodes"][0]["bytes"].as_u64().is_some_and(|bytes| bytes < 100), "{edit}");
    assert_eq!(read(&there.join("run.sh")), b"#!/bin/sh\necho goodbye\n");

    // Back, relative to the volume: what runs have left there, too.
    std::fs::write(there.join("result"), "0.97\n").expect("a result");
    let target = lab.local("back/").display().to_string();
    lab.shoal(&["rsync-down", &lab.file, "data/", &target]).expect(0, &["cloud: 5 files"]);
    assert!(read(&lab.local("back/a/large")) == large);
    assert_eq!(read(&lab.local("back/result")), b"0.97\n");
    assert_eq!(read(&lab.local("back/new")), b"new");
    lab.shoal(&["rsync-down", &lab.file, "/mnt/data/", &target]).expect(0, &["nothing to send"]);
    let missing = ["rsync-down", &lab.file, "/mnt/nothing", &target];
    lab.shoal(&missing).expect(1, &["/mnt/nothing"]);
    lab.here.assert_empty();
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_sent() {
    let Some(plane) = plane() else { return };
    let volume = plane.folder().join("volume-small");
    std::fs::create_dir_all(&volume).expect("a folder");
    let mount = |args: &[&str]| {
        let done = Command::new(args[0]).args(&args[1..]).arg(&volume).status().expect("the program starts");
        assert!(done.success(), "{args:?}");
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs"]);
    {
        let lab = Lab::new(plane, "small");
        lab.put("tree/large", &vec![7; 12 << 20]);
        lab.put("tree/little", b"x");
        let tree = lab.local("tree/").display().to_string();
        let said = lab.shoal(&["rsync-up", &lab.file, &tree, "/mnt/data"]);
        let said =
            said.expect(1, &["/mnt/data: it does not fit: 12.0 MiB are needed, and ", " of 8.0 MiB are free there"]);
        assert!(said.errors.contains("hint: free some there"), "{}", said.errors);
        assert!(!volume.join("data/little").exists(), "something was sent");
        // What fits goes.
        lab.shoal(&["rsync-up", &lab.file, &tree, "/mnt/data", "--exclude", "large"]).expect(0, &["cloud: 1 file"]);
        assert_eq!(read(&volume.join("data/little")), b"x");
        lab.here.assert_empty();
    }
    mount(&["umount", "--lazy"]);
}

#[test]
fn what_is_missing_is_named() {
    let Some(plane) = plane() else { return };
    let lab = Lab::new(plane, "wrong");
    lab.put("f", b"f");
    let f = lab.local("f").display().to_string();
    let file = |name: &str, text: &str| lab.fleet(name, text);
    let other = file("claim.yaml", &fleet("wrong", "here", "other", ""));
    let image = file("image.yaml", &fleet("wrong", "missing/image:1", CLAIM, ""));
    let nodes = file("nodes.yaml", &fleet("wrong", "here", CLAIM, "      nodes: [nobody]\n"));
    let space = file("space.yaml", &fleet("nowhere", "here", CLAIM, ""));
    let hosts = file("hosts.yaml", "hosts: [a]\n");
    let cases: [(&str, &str, i32, &[&str]); 6] = [
        (&lab.file, "/etc/f", 2, &["`/etc/f` is on no volume of the pool `cloud`", "the pool's volumes are at /mnt"]),
        (&other, "/mnt/f", 3, &["there is no persistent volume claim `other` in namespace `wrong`"]),
        (&image, "/mnt/f", 3, &["image missing/image:1 cannot be had", "imagePullSecrets"]),
        (&nodes, "/mnt/f", 3, &["no node takes its pod: 0/2 nodes are available"]),
        (&space, "/mnt/f", 3, &["no namespace `nowhere`"]),
        (&hosts, "/mnt/f", 2, &["has no pools"]),
    ];
    // All at once: most of their time is waiting.
    std::thread::scope(|scope| {
        for (file, target, code, words) in cases {
            let (lab, f) = (&lab, &f);
            scope.spawn(move || lab.shoal(&["rsync-up", file, f, target]).expect(code, words));
        }
    });
    lab.here.assert_empty();
    lab.shoal(&["rsync-up", &lab.file, &f, "/mnt/f", "--pool", "clod"]).expect(2, &["did you mean `cloud`?"]);

    // Somebody who may make Jobs and look at pods, but execute nothing in them.
    let role = ["create", "role", "some", "--verb=get,list,watch,create,patch,delete", "--resource=jobs.batch,pods"];
    lab.here.kubectl.text(&[&role[..], &["--namespace=wrong"]].concat());
    lab.here.kubectl.text(&["create", "rolebinding", "some", "--role=some", "--user=eve", "--namespace=wrong"]);
    let eve = plane.user("eve", "wrong").expect("a user");
    let said = lab.shoal_as(&eve, &["rsync-up", &lab.file, &f, "/mnt/f"]);
    said.expect(3, &["`eve` may not", "pods/exec"]);
    lab.here.assert_empty();
    let mallory = plane.user("mallory", "wrong").expect("a user");
    lab.shoal_as(&mallory, &["rsync-up", &lab.file, &f, "/mnt/f"]).expect(3, &["`mallory` may not patch jobs.batch"]);
}

/// A client with much to watch over: its pod is there until the client ends.
fn watching(lab: &Lab) -> (Child, String) {
    lab.put("tree/f", b"f");
    let tree = lab.local("tree/").display().to_string();
    let mut command = Command::new(SHOAL);
    command.args(["rsync-up", &lab.file, &tree, "/mnt/w", "--watch"]);
    command.env("HOME", lab.here.folder.path()).env("KUBECONFIG", &lab.here.kubeconfig);
    command.env("SHOAL_HELPER_IDLE_S", "10").stdin(Stdio::null()).stderr(Stdio::null());
    let client = command.spawn().expect("shoal starts");
    let file = lab.here.volume.join("w/f");
    until("the first transfer", || file.exists().then_some(()));
    let pods = lab.here.get("pods");
    assert_eq!(pods.len(), 1, "{pods:#?}");
    assert_eq!(pods[0]["metadata"]["labels"]["app.kubernetes.io/managed-by"], "shoal");
    (client, pods[0]["metadata"]["name"].as_str().expect("a name").into())
}

#[test]
fn a_client_that_is_gone_leaves_nothing() {
    let Some(plane) = plane() else { return };
    let lab = Lab::new(plane, "gone");
    // As long as it lives the pod stays, longer than the bound.
    let (mut client, pod) = watching(&lab);
    let begun = Instant::now();
    until("more than the bound", || (begun.elapsed() > Duration::from_secs(15)).then_some(()));
    assert_eq!(lab.here.get("pods")[0]["metadata"]["name"], pod.as_str());
    lab.put("tree/g", b"g");
    until("what changed", || lab.here.volume.join("w/g").exists().then_some(()));
    client.kill().expect("it can be killed");
    client.wait().expect("it has ended");
    until("an empty namespace after kill -9", || lab.here.all().contains("No resources found").then_some(()));

    let (mut client, _) = watching(&lab);
    let pid = rustix::process::Pid::from_child(&client);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    client.wait().expect("it has ended");
    lab.here.assert_empty();
}
