//! What does the `docker` block of a cluster file mean on a node? Which container runs there, with what, and how commands get into it
//! (pure). Docker or podman: what the file says, else whichever the node has.
//!
//! As Ray has it: one container a node, in the node's own network, with the file mounts bound into it from
//! `/tmp/ray_tmp_mount/CLUSTER` of the node, as much shared memory as an object store wants, and the GPUs if there are any.

use super::{Docker, Mount, Role, TypeDocker};
use crate::quote::{join, quote};

/// Ray's share of the free memory for objects, its most, and the tenth it adds for good measure.
const SHARE_OF_MEMORY: f64 = 0.3;
const MOST_SHARED: f64 = 200e9;
const MARGIN: f64 = 1.1;

/// Docker if it is there, else podman: which one a node has is for the node to say.
const WHICHEVER: &str = "engine=$(command -v docker || command -v podman) || \
    { echo \"shoal: this node has neither docker nor podman\" >&2; exit 127; }; exec \"$engine\" \"$@\"";

/// The words that a command of the container program begins with.
fn engine(docker: &Docker) -> Vec<String> {
    match docker.use_podman {
        true => vec!["podman".into()],
        false => ["sh", "-c", WHICHEVER, "docker"].map(Into::into).into(),
    }
}

fn command(docker: &Docker, words: &[&str]) -> Vec<String> {
    engine(docker).into_iter().chain(words.iter().map(|word| (*word).into())).collect()
}

/// A program inside the node's container.
pub fn in_container(docker: &Docker, argv: &[String], terminal: bool) -> Vec<String> {
    let how = if terminal { "-it" } else { "-i" };
    let mut words = command(docker, &["exec", how, &docker.container_name]);
    words.extend_from_slice(argv);
    words
}

/// What the container of one node is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub image: String,
    pub pull: bool,
    pub options: Vec<String>,
}

/// The node's part of the block: its role's, and what its type says instead.
pub fn container(docker: &Docker, role: Role, kind: Option<&TypeDocker>) -> Container {
    let (image, options) = match role {
        Role::Head => (&docker.head_image, &docker.head_run_options),
        Role::Worker => (&docker.worker_image, &docker.worker_run_options),
    };
    let own = kind.and_then(|kind| kind.image.clone());
    let more = kind.map(|kind| kind.run_options.clone()).unwrap_or_default();
    Container {
        image: own.unwrap_or_else(|| image.clone()),
        pull: kind.and_then(|kind| kind.pull_before_run).unwrap_or(docker.pull_before_run),
        options: if more.is_empty() { options.clone() } else { more },
    }
}

/// Where the node keeps a file mount for its container.
pub fn host_place(cluster: &str, remote: &str) -> String {
    let inside = match remote.strip_prefix('~') {
        Some(rest) => format!("home/{}", rest.trim_start_matches('/')),
        None => remote.trim_start_matches('/').to_string(),
    };
    format!("/tmp/ray_tmp_mount/{cluster}/{}", inside.trim_end_matches('/'))
}

/// What has to be known of a node before its container can be started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub free_memory: Option<u64>,
    /// The container program has NVIDIA's runtime, and there is a GPU.
    pub nvidia: bool,
    /// The image of the container that bears our name, and whether it runs.
    pub current: Option<(String, bool)>,
    /// The image's home folder.
    pub home: Option<String>,
}

/// The command that tells them. The image has to be there: after `pull`.
pub fn asking(docker: &Docker, container: &Container) -> Vec<String> {
    let engine = join(engine(docker));
    let (name, image) = (quote(&docker.container_name), quote(&container.image));
    let script = format!(
        "sed -n 's/^MemAvailable: *\\([0-9]*\\) kB$/memory \\1/p' /proc/meminfo; \
         {engine} info -f '{{{{.Runtimes}}}}' 2>/dev/null | grep -q nvidia && nvidia-smi >/dev/null 2>&1 && echo nvidia; \
         {engine} container inspect -f 'container {{{{.State.Running}}}} {{{{.Config.Image}}}}' {name} 2>/dev/null; \
         {engine} image inspect -f '{{{{range .Config.Env}}}}{{{{println \"env\" .}}}}{{{{end}}}}' {image} 2>/dev/null; true"
    );
    ["sh".into(), "-c".into(), script].into()
}

/// Reads the answer.
pub fn facts(said: &str) -> Facts {
    let mut facts = Facts::default();
    for line in said.lines() {
        match line.trim().split_once(' ') {
            Some(("memory", kilobytes)) => facts.free_memory = kilobytes.parse().ok().map(|kb: u64| kb * 1024),
            Some(("container", words)) => {
                facts.current = words.split_once(' ').map(|(runs, image)| (image.into(), runs == "true"));
            }
            Some(("env", setting)) => {
                if let Some(home) = setting.strip_prefix("HOME=") {
                    facts.home = Some(home.into());
                }
            }
            None if line.trim() == "nvidia" => facts.nvidia = true,
            _ => {}
        }
    }
    facts
}

/// The command that fetches the image: anew if the file says so, else only where it is missing.
pub fn pull(docker: &Docker, container: &Container) -> Vec<String> {
    let (engine, image) = (join(engine(docker)), quote(&container.image));
    let pull = format!("{engine} pull {image}");
    let script = match container.pull {
        true => pull,
        false => format!("{engine} image inspect {image} >/dev/null 2>&1 || {pull}"),
    };
    ["sh".into(), "-c".into(), script].into()
}

/// The commands that leave the node with its container running: none if it runs already; if it is of another image or stopped, it is
/// replaced.
pub fn container_start(
    docker: &Docker,
    container: &Container,
    cluster: &str,
    mounts: &[Mount],
    facts: &Facts,
) -> Vec<Vec<String>> {
    let same = |image: &str| {
        image.trim_start_matches("docker.io/library/").trim_start_matches("localhost/")
            == container.image.trim_start_matches("docker.io/library/").trim_start_matches("localhost/")
    };
    if facts.current.as_ref().is_some_and(|(image, runs)| *runs && same(image)) {
        return Vec::new();
    }
    let mut commands = Vec::new();
    if facts.current.is_some() {
        commands.push(container_stop(docker));
    }
    let places = mounts.iter().map(|mount| host_place(cluster, &mount.remote));
    let folders: Vec<String> =
        places.filter_map(|place| place.rsplit_once('/').map(|(folder, _)| folder.to_string())).collect();
    if !folders.is_empty() {
        commands.push(["mkdir".into(), "-p".into(), "--".into()].into_iter().chain(folders).collect());
    }
    commands.push(run(docker, container, cluster, mounts, facts));
    commands
}

fn run(docker: &Docker, container: &Container, cluster: &str, mounts: &[Mount], facts: &Facts) -> Vec<String> {
    let mut line = join(engine(docker));
    line.push_str(" run --rm -d -it --net=host");
    line.push_str(&format!(" --name {}", quote(&docker.container_name)));
    // Click, which Ray's own command uses, insists on a locale.
    line.push_str(" -e LC_ALL=C.UTF-8 -e LANG=C.UTF-8");
    let home = facts.home.as_deref().unwrap_or("/root");
    for mount in mounts {
        let inside = match mount.remote.strip_prefix('~') {
            Some(rest) => format!("{home}{rest}"),
            None => mount.remote.clone(),
        };
        let bind = format!("{}:{}", host_place(cluster, &mount.remote), inside.trim_end_matches('/'));
        line.push_str(&format!(" -v {}", quote(&bind)));
    }
    if let (true, Some(free)) = (docker.detect_shm_size && !given(container, "--shm-size"), facts.free_memory) {
        // As many digits as a float has are more than enough for bytes.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "above"
        )]
        let bytes = (free as f64 * SHARE_OF_MEMORY * MARGIN).min(MOST_SHARED) as u64;
        line.push_str(&format!(" --shm-size={bytes}b"));
    }
    if docker.detect_runtime && facts.nvidia && !given(container, "--runtime") {
        line.push_str(" --runtime=nvidia");
    }
    // As they are: people write `--ulimit nofile=65536:65536` as one, and variables of the node.
    for option in &container.options {
        line.push_str(&format!(" {option}"));
    }
    line.push_str(&format!(" {} bash", quote(&container.image)));
    ["sh".into(), "-c".into(), line].into()
}

fn given(container: &Container, option: &str) -> bool {
    container.options.iter().any(|given| given.contains(option))
}

/// The command that leaves no container behind; one that is not there is no fault. Killed, not asked: its first process is a shell that
/// ignores requests, so asking would only take the ten seconds until it is killed anyway.
pub fn container_stop(docker: &Docker) -> Vec<String> {
    let (engine, name) = (join(engine(docker)), quote(&docker.container_name));
    let script = format!(
        "for turn in 1 2 3 4 5 6 7 8 9 10; do {engine} container inspect {name} >/dev/null 2>&1 || exit 0; \
         {engine} kill {name} >/dev/null 2>&1; why=$({engine} rm -f {name} 2>&1 >/dev/null); sleep 0.2; done; \
         echo \"shoal: the container {name} stays: $why\" >&2; exit 1"
    );
    ["sh".into(), "-c".into(), script].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Docker {
        Docker {
            head_image: "ray:1".into(),
            worker_image: "ray:2".into(),
            container_name: "ray_container".into(),
            head_run_options: vec!["--ulimit nofile=65536:65536".into()],
            detect_runtime: true,
            detect_shm_size: true,
            use_podman: true,
            ..Docker::default()
        }
    }

    fn mount(remote: &str) -> Mount {
        Mount { remote: remote.into(), local: "/here".into() }
    }

    #[test]
    fn a_role_and_a_type_have_their_own() {
        let head = container(&block(), Role::Head, None);
        assert_eq!((head.image.as_str(), head.options.len(), head.pull), ("ray:1", 1, false));
        let kind =
            TypeDocker { image: Some("gpu:3".into()), run_options: vec!["-x".into()], pull_before_run: Some(true) };
        let worker = container(&block(), Role::Worker, Some(&kind));
        assert_eq!(worker, Container { image: "gpu:3".into(), pull: true, options: vec!["-x".into()] });
    }

    #[test]
    fn the_first_start_is_ray_s() {
        let facts =
            Facts { free_memory: Some(1_000_000_000), nvidia: true, home: Some("/home/ray".into()), current: None };
        let head = container(&block(), Role::Head, None);
        let commands = container_start(&block(), &head, "lab", &[mount("~/code"), mount("/data/")], &facts);
        assert_eq!(commands[0], ["mkdir", "-p", "--", "/tmp/ray_tmp_mount/lab/home", "/tmp/ray_tmp_mount/lab"]);
        let line = "podman run --rm -d -it --net=host --name ray_container -e LC_ALL=C.UTF-8 -e LANG=C.UTF-8 \
             -v /tmp/ray_tmp_mount/lab/home/code:/home/ray/code -v /tmp/ray_tmp_mount/lab/data:/data \
             --shm-size=330000000b --runtime=nvidia --ulimit nofile=65536:65536 ray:1 bash";
        assert_eq!(commands[1], ["sh", "-c", line]);
    }

    #[test]
    fn what_the_file_says_comes_before_what_is_found() {
        let mut docker = block();
        docker.head_run_options = vec!["--shm-size=1g".into(), "--runtime=runc".into()];
        let facts = Facts { free_memory: Some(1 << 30), nvidia: true, ..Facts::default() };
        let head = container(&docker, Role::Head, None);
        let line = container_start(&docker, &head, "lab", &[], &facts)[0].join(" ");
        assert!(
            line.contains("--shm-size=1g --runtime=runc ray:1") && line.matches("--shm-size").count() == 1,
            "{line}"
        );
    }

    #[test]
    fn a_container_is_kept_while_its_image_is_the_same() {
        let head = container(&block(), Role::Head, None);
        let start = |image: &str, runs| {
            let facts = Facts { current: Some((image.into(), runs)), ..Facts::default() };
            container_start(&block(), &head, "lab", &[], &facts).iter().map(|c| c[1].clone()).collect::<Vec<_>>()
        };
        assert!(start("ray:1", true).is_empty() && start("localhost/ray:1", true).is_empty());
        assert_eq!(start("ray:0", true), ["-c", "-c"]);
        assert_eq!(start("ray:1", false), ["-c", "-c"]);
    }

    #[test]
    fn answers_are_read() {
        let said = "memory 2048\nnvidia\ncontainer true ray:1\nenv PATH=/bin\nenv HOME=/home/ray\nenv \n";
        let facts = facts(said);
        assert_eq!(facts.free_memory, Some(2 << 20));
        assert!(facts.nvidia);
        assert_eq!(facts.current, Some(("ray:1".into(), true)));
        assert_eq!(facts.home.as_deref(), Some("/home/ray"));
        assert_eq!(super::facts("garbage\nmemory x\n"), Facts::default());
    }

    #[test]
    fn whichever_engine_is_there() {
        let docker = Docker { use_podman: false, ..block() };
        let words = in_container(&docker, &["ls".into()], false);
        assert_eq!(words[..2], ["sh", "-c"]);
        assert_eq!(words[3..], ["docker", "exec", "-i", "ray_container", "ls"]);
        assert!(!words[2].contains(['\'', '\\', '!', '\n']), "{}", words[2]);
    }
}
