//! `shoal image build`, `push` and `pull` with real engines and a real registry.

mod support;

use serde_json::Value;
use shoal_testkit::Drive;
use std::process::Command;
use support::images::{PASSWORD, Registry, USER, Yard, fails, missing, ran};

fn yard() -> Option<Yard> {
    match missing() {
        Some(name) => {
            shoal_testkit::skip(format_args!("{name} is not installed"));
            None
        }
        None => Some(Yard::new()),
    }
}

/// Step 0 and 2 of a group's own guide: a base image is fetched and named, a project built on it and pushed; an edit sends the code alone.
#[test]
fn an_edit_sends_the_code_alone() {
    let Some(mut yard) = yard() else { return };
    let registry = Registry::start(&yard.desk.work(), "registry", false);
    let host = registry.host.clone();
    yard.base("lab-base:1");
    yard.says("", &["image", "push", &format!("{host}/jamesher"), "-n", "lab-base", "-t", "1"]);
    // Somebody else's machine.
    yard.elsewhere();
    let (out, err) = yard.says("", &["image", "pull", &format!("{host}/jamesher/lab-base:1"), "-n", "l2r-base"]);
    assert_eq!(out, "l2r-base:latest\n");
    assert!(err.contains("docker is here, but cannot work (Cannot connect"), "{err}");
    assert!(err.contains("podman does it"), "{err}");

    for (name, text) in [
        ("requirements.txt", "numpy\n"),
        ("train.sh", "echo first; cat /opt/installed\n"),
        ("net/mlp.sh", "echo net\n"),
        (".gitignore", "data/\n"),
        (".dockerignore", "notes.md\n"),
        ("data/big", "much"),
        ("notes.md", "private"),
    ] {
        yard.desk.file(&format!("project/{name}"), text);
    }
    let build = ["image", "build", "-n", "train", "--base", "l2r-base"];
    assert_eq!(yard.says("project", &build).0, "train:latest\n");
    let push = ["image", "push", &format!("{host}/lab")];
    let (pushed, _) = yard.says("project", &push);
    assert!(pushed.starts_with(&format!("{host}/lab/train:latest@sha256:")), "{pushed}");

    let (blobs, layers) = (registry.blobs(), registry.layers());
    yard.desk.file("project/train.sh", "echo second; cat /opt/installed\n");
    yard.says("project", &build);
    let (again, _) = yard.says("project", &push);
    assert_ne!(pushed, again);
    let (more, new) = (registry.blobs(), registry.layers());
    let new: Vec<_> = new.difference(&layers).collect();
    assert_eq!(new.len(), 1, "one layer: {new:?}");
    assert_eq!(more.difference(&blobs).count(), 3, "that layer, the image's settings, and the list of layers");
    let listed = ran(Command::new("tar").arg("-tzf").arg(new[0]));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("app/train.sh") && !listed.contains("opt/"), "{listed}");

    // Nothing changed: nothing is sent, though every file was touched.
    ran(Command::new("find").arg(yard.desk.work().join("project")).args(["-exec", "touch", "{}", "+"]));
    yard.says("project", &build);
    assert_eq!(yard.says("project", &push).0, again);
    assert_eq!(registry.blobs(), more);

    let pull = ["image", "pull", &format!("{host}/lab/train"), "-n", "mine", "-t", "2", "--json"];
    let said: Value = serde_json::from_str(&yard.says("", &pull).0).expect("JSON");
    assert_eq!(said["image"], "mine:2");
    assert_eq!(said["engine"], "podman");
    let run = |line: &str| yard.podman(&["run", "--rm", "--network=none", "mine:2", "sh", "-c", line]);
    assert_eq!(run("sh train.sh"), "second\ninstall --no-cache-dir -r requirements.txt\n");
    assert_eq!(run("ls -A"), ".gitignore\nnet\nrequirements.txt\ntrain.sh\n");
}

/// The other engine makes the same of it.
#[test]
fn buildah_does_it_as_well() {
    let Some(yard) = yard() else { return };
    let registry = Registry::start(&yard.desk.work(), "registry", false);
    yard.base("base");
    yard.desk.file("project/train.sh", "echo ran\n");
    let build = ["image", "build", "-n", "train", "--base", "base", "--engine", "buildah", "--json"];
    let said: Value = serde_json::from_str(&yard.says("project", &build).0).expect("JSON");
    assert_eq!(said["image"], "train:latest");
    assert_eq!(said["engine"], "buildah");
    assert_eq!(said["id"].as_str().map(str::len), Some(64));
    // The engine that made it sends it, though others come first.
    let (pushed, err) = yard.says("project", &["image", "push", &registry.host, "-t", "latest"]);
    assert!(pushed.starts_with(&format!("{}/train:latest@sha256:", registry.host)), "{pushed}");
    assert!(!err.contains("docker"), "{err}");
    yard.says("", &["image", "pull", &format!("{}/train", registry.host), "-n", "again", "--engine", "buildah"]);
    assert_eq!(yard.podman(&["run", "--rm", "--network=none", "again", "sh", "train.sh"]), "ran\n");
}

/// What would be done is said without doing it.
#[test]
fn a_dry_run_shows_the_dockerfile_and_the_commands() {
    let Some(yard) = yard() else { return };
    yard.desk.file("project/requirements.txt", "numpy\n");
    let build = ["image", "build", "-n", "lab/train", "-t", "3", "--base", "l2r-base", "--dry-run"];
    let out_of_it = yard.desk.work().join("project/link");
    std::os::unix::fs::symlink("../elsewhere", out_of_it).expect("a link");
    let (out, err) = yard.says("project", &build);
    assert!(err.contains("link leads out of the folder"), "{err}");
    assert!(out.starts_with("# Made by `shoal image build`"), "{out}");
    assert!(out.contains("\nFROM l2r-base\n") && out.contains("\nCOPY . ./\n"), "{out}");
    assert!(out.ends_with("\npodman build --layers -t lab/train:3 -f .shoal.Dockerfile -\n"), "{out}");
    assert!(err.contains("a tar of 2 files (6 bytes)"), "{err}");
    let said: Value = serde_json::from_str(&yard.says("project", &[&build[..], &["--json"]].concat()).0).expect("JSON");
    assert_eq!(said["commands"][0][0], "podman");
    assert!(said["generated"].as_str().is_some_and(|text| text.contains("FROM l2r-base")));
    let push = ["image", "push", "registry.example.org/lab", "-n", "train", "--dry-run", "--engine"];
    let shown = |engine: &str| yard.says("", &[&push[..], &[engine]].concat()).0;
    assert_eq!(
        shown("docker"),
        "docker tag train:latest registry.example.org/lab/train:latest\ndocker push registry.example.org/lab/train:latest\n"
    );
    // Plain http is for loopback, and for those who ask for it.
    assert!(!shown("podman").contains("tls-verify"));
    let asked = [&push[..], &["podman", "--insecure"]].concat();
    assert!(yard.says("", &asked).0.contains("--tls-verify=false"));
    assert!(!yard.storage.join("vfs-images/images.json").exists(), "nothing was made");
}

/// Logins come from the files that `docker login` and `podman login` write, and are in nobody's command line.
#[test]
fn a_registry_that_wants_a_login() {
    let Some(yard) = yard() else { return };
    let registry = Registry::start(&yard.desk.work(), "registry", true);
    let host = &registry.host;
    yard.base("base");
    let push = ["image", "push", host, "-n", "base"];
    yard.fails(
        1,
        &push,
        &[
            &format!("`{host}/base:latest` was not pushed"),
            &format!("no login for {host} was found: `podman login {host}`"),
        ],
    );
    let entry = |password: &str| {
        let both = base64(format!("{USER}:{password}").as_bytes());
        format!(r#"{{"auths": {{"{host}": {{"auth": "{both}"}}}}}}"#)
    };
    let dockers = yard.home().join(".docker/config.json");
    std::fs::create_dir_all(dockers.parent().expect("a parent")).expect("a folder");
    std::fs::write(&dockers, entry("wrong")).expect("a file");
    yard.fails(1, &push, &["is not accepted", ".docker/config.json"]);
    std::fs::write(&dockers, entry(PASSWORD)).expect("a file");
    let (_, err) = yard.says("", &push);
    let (shown, _) = yard.says("", &[&push[..], &["--dry-run"]].concat());
    assert!(shown.contains("--authfile"), "{shown}");
    for text in [&err, &shown] {
        assert!(!text.contains(PASSWORD) && !text.contains(&base64(format!("{USER}:{PASSWORD}").as_bytes())), "{text}");
    }
    // The file that somebody names comes first; what is no JSON is said, and the next one is looked at.
    let named = yard.desk.file("auth.json", &entry("wrong"));
    fails(yard.shoal("", &push).env("REGISTRY_AUTH_FILE", &named), 1, &["is not accepted", "auth.json"]);
    std::fs::write(&named, "{").expect("a file");
    let pull = ["image", "pull", &format!("{host}/base"), "-n", "mine"];
    let output = ran(yard.shoal("", &pull).env("REGISTRY_AUTH_FILE", &named));
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("auth.json cannot be used: it is no JSON"));
}

/// Every error says what failed, where, and what to do.
#[test]
fn bad_days() {
    let Some(mut yard) = yard() else { return };
    yard.base("base");
    let build = |more: &[&'static str]| [&["image", "build", "-n", "node"], more].concat();
    yard.fails(2, &["image", "build", "-n", "L2R Node"], &["`l2r-node` would do"]);
    yard.fails(2, &build(&["-d", "Dockerfile-bas", "base"]), &["no Dockerfile Dockerfile-bas", "are: Dockerfile-base"]);
    for (lines, says) in [
        ("FROM base\n\nRNU ls\n", ["Dockerfile-x:3:1", "did you mean `RUN`?"]),
        ("RUN ls\n", ["Dockerfile-x:1:1", "before any FROM"]),
    ] {
        yard.desk.file("Dockerfile-x", lines);
        yard.fails(2, &build(&["-d", "Dockerfile-x"]), &says);
    }
    for (lines, says) in [
        ("FROM base\n# why\nRUN echo begun && \\\n  exit 7\nRUN ls\n", ["Dockerfile-x:3:1", "exit status 7"]),
        ("FROM base\n\nCOPY nothing.txt /a\n", ["Dockerfile-x:3:1", "nothing.txt"]),
        ("FROM nobody-has-this\n", ["Dockerfile-x:1:1", "give the whole name, with its registry"]),
    ] {
        yard.desk.file("Dockerfile-x", lines);
        yard.fails(1, &build(&["-d", "Dockerfile-x"]), &says);
    }
    // A port that is free, as far as one can know.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let pull = ["image", "pull", &format!("{closed}/base")];
    yard.fails(1, &pull, &["was not pulled", "connection refused", &format!("is it at {closed}?")]);
    yard.fails(
        2,
        &["image", "push", "jamesher", "-n", "base"],
        &["names no registry", "registry.example.org/jamesher"],
    );
    yard.fails(2, &["image", "push", "localhost:5000"], &["no image was built from", "-n"]);
    yard.fails(1, &["image", "push", "localhost:5000", "-n", "other"], &["podman has no image `other:latest`"]);
    let registry = Registry::start(&yard.desk.work(), "registry", false);
    let unknown = ["image", "pull", &format!("{}/nobody:1", registry.host)];
    yard.fails(1, &unknown, &["manifest unknown", "spelled right"]);

    // Engines: one that cannot work, and none at all.
    yard.fails(
        3,
        &build(&["--engine", "docker", "base"]),
        &["docker is here, but cannot work: Cannot connect", "systemctl start docker"],
    );
    let bin = yard.desk.work().parent().expect("a parent").join("bin");
    fails(
        yard.shoal("", &build(&["base"])).env("PATH", &bin),
        3,
        &["no engine for images works: docker is here", "apt install podman"],
    );
    fails(yard.shoal("", &build(&["base"])).env("PATH", "/nonexistent"), 3, &["neither docker nor podman nor buildah"]);

    let full = yard.desk.work().join("full");
    let Some(drive) = Drive::small(&full, 3 << 20) else {
        return shoal_testkit::skip(format_args!("mounting is not allowed here"));
    };
    yard.storage = full;
    yard.fails(1, &build(&["-d", "Dockerfile-base", "base"]), &["no space left on device", "podman system prune"]);
    drop(drive);
}

fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let chunk = |three: &[u8]| {
        let all = three.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let sign = |k: usize| if k > three.len() { '=' } else { SIGNS[(all >> (18 - 6 * k) & 63) as usize] as char };
        (0..4).map(sign).collect::<String>()
    };
    bytes.chunks(3).map(chunk).collect()
}
