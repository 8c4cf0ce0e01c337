//! The `docker` block of a cluster file with real containers: podman and runc on a test host, an image made of bash, busybox and their
//! libraries, since no registry is reached. What `shoal-core` renders is run as it is, over ssh.

mod support;

use shoal_core::cluster::docker::{asking, container, container_start, container_stop, facts, pull};
use shoal_core::cluster::{Docker, Mount, Role};
use shoal_core::quote::join;
use shoal_testkit::hosts::find_program;
use support::launching::{Case, Lab};
use support::on_nodes::{Terminal, cluster, fed};
use support::{LONG, until};

#[test]
fn in_containers() {
    if let Some(missing) = ["podman", "runc", "busybox"].iter().find(|name| find_program(name).is_none()) {
        return shoal_testkit::skip(format_args!("{missing} is not installed"));
    }
    let Some(lab) = Lab::up("pods", 1) else { return };
    lab.on(0, PREPARE);
    let case = lab.case("containers");
    life(&case);
    inside(&case);
    files(&case);
    let stopped = on(&case, &container_stop(&block("shoal-test:2")));
    assert_eq!(stopped, "");
    assert_eq!(on(&case, &["podman", "ps", "-aq"].map(Into::into)), "");
    // Of one that is not there as well.
    on(&case, &container_stop(&block("shoal-test:2")));
    case.verb(&["exec", "cluster.yaml", "true"]).run().exits(255).says(&["did not get into the container"]);
    brought_up(&case);
}

/// An image with a `HOME` of its own, and podman as it runs without systemd and the right to raise limits.
/// The hosts' /sys has no groups of processes; containers cannot do without.
const PREPARE: &str = r#"set -eu
mount -t tmpfs tmpfs /sys/fs/cgroup
for name in cpu cpuacct cpuset memory devices freezer blkio pids; do
  mkdir /sys/fs/cgroup/$name
  mount -t cgroup -o $name cgroup /sys/fs/cgroup/$name 2>/dev/null || rmdir /sys/fs/cgroup/$name
done
test -d /sys/fs/cgroup/devices || mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /root/fs/bin /root/fs/tmp /root/fs/home/ray /root/fs/proc /root/fs/dev /root/fs/etc /root/graph
cp "$(command -v busybox)" /root/fs/bin/busybox
for name in sh ls hostname ps sleep cat grep sed id test env mkdir tar mv rm chmod dirname basename; do ln -sf busybox /root/fs/bin/$name; done
for name in bash base64 dd; do
  cp "$(command -v $name)" /root/fs/bin/$name
  ldd "$(command -v $name)" | grep -o '/[^ ]*' | while read -r lib; do mkdir -p "/root/fs$(dirname "$lib")"; cp -L "$lib" "/root/fs$lib"; done
done
printf '[storage]\ndriver = "vfs"\ngraphroot = "/root/graph"\nrunroot = "/run/containers"\n' > /root/storage.conf
printf '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n' > /root/containers.conf
printf 'export CONTAINERS_STORAGE_CONF=/root/storage.conf CONTAINERS_CONF=/root/containers.conf\n' > /root/.bashrc
. /root/.bashrc
for tag in 1 2; do tar -C /root/fs -c . | podman import --change 'ENV HOME=/home/ray' --change 'ENV PATH=/bin' - shoal-test:$tag >/dev/null 2>&1; done
rm -r /root/fs"#;

fn block(image: &str) -> Docker {
    Docker {
        head_image: image.into(),
        worker_image: image.into(),
        container_name: "ray_container".into(),
        head_run_options: vec!["--env GIVEN=yes --env HERE=$HOME".into()],
        detect_runtime: true,
        detect_shm_size: true,
        use_podman: true,
        ..Docker::default()
    }
}

/// Runs a command on the node, as `up` would.
fn on(case: &Case, argv: &[String]) -> String {
    let line = join(argv);
    let output = case.lab.hosts().ssh(0).arg(&line).output().expect("ssh");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}\n{said}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_string()
}

/// Started as the file says, kept while it is the same, replaced when its image changes.
fn life(case: &Case) {
    let mounts = [Mount { remote: "~/data".into(), local: "/unused".into() }];
    case.lab.on(0, "mkdir -p /tmp/ray_tmp_mount/lab/home/data; echo mounted > /tmp/ray_tmp_mount/lab/home/data/file");
    let start = |image: &str| {
        let docker = block(image);
        let head = container(&docker, Role::Head, None);
        on(case, &pull(&docker, &head));
        let known = facts(&on(case, &asking(&docker, &head)));
        assert_eq!(known.home.as_deref(), Some("/home/ray"));
        assert!(known.free_memory.is_some());
        let commands = container_start(&docker, &head, "lab", &mounts, &known);
        commands.iter().for_each(|command| drop(on(case, command)));
        commands.len()
    };
    let id = || on(case, &["podman", "ps", "-q", "--filter", "name=ray_container"].map(Into::into));
    assert_eq!(start("shoal-test:1"), 2);
    let first = id();
    assert_eq!(start("shoal-test:1"), 0);
    assert_eq!(id(), first);
    assert_eq!(start("shoal-test:2"), 3);
    assert_ne!(id(), first);
}

/// By `up`, with files and set-up in it; the machine starts anew, and even `--restart-only` leaves a container in which both are.
fn brought_up(case: &Case) {
    case.file("code/a", "a file\n");
    let block =
        "docker: {image: 'shoal-test:2', container_name: ray_container, use_podman: true, pull_before_run: false}\n";
    let setup = "setup_commands: ['cat ~/code/a > /made', 'echo more >> /made']\n";
    let start = "head_start_ray_commands: ['cat /made > /started']\n";
    cluster(case, &[0], &format!("{block}file_mounts: {{'~/code': code}}\n{setup}{start}"));
    let up = |flags: &[&str]| case.verb(&[&["up", "cluster.yaml", "-y"], flags].concat()).run();
    let inside = |line: &str| case.verb(&["exec", "cluster.yaml", line]).run().exits(0).out;
    up(&[]).exits(0);
    assert_eq!(inside("cat /started"), "a file\nmore\n");
    for flag in ["--restart-only", "--no-restart"] {
        // The container is gone, and what was in /tmp with it.
        case.lab.on(0, ". /root/.bashrc; podman rm -f ray_container; rm -rf /tmp/ray_tmp_mount/lab/home/code");
        up(&[flag]).exits(0);
        assert_eq!(inside("cat ~/code/a /started"), "a file\na file\nmore\n", "{flag}");
    }
    up(&["--no-restart"]).exits(0).says(&["setup 1, setup 2 (unchanged)", "start 1 (--no-restart)"]);
    case.verb(&["down", "cluster.yaml", "-y"]).run().exits(0).says(&["removed", "container ray_container"]);
    assert_eq!(on(case, &["podman", "ps", "-aq"].map(Into::into)), "");
}

/// `exec`, `submit` and `attach` go into the container; signals and the client's death do too.
fn inside(case: &Case) {
    cluster(case, &[0], "docker: {image: 'shoal-test:2', container_name: ray_container, use_podman: true}\n");
    let exec = ["exec", "cluster.yaml"];
    let run = |args: &[&str]| case.verb(&[&exec, args].concat()).run();
    let command =
        "cat ~/data/file; echo \"it's\" $HOME $GIVEN $HERE; test -x /usr/bin/python3 || echo another world; exit 3";
    let done = run(&[command]).exits(3);
    assert_eq!(done.out, "mounted\nit's /home/ray yes /root\nanother world\n");
    // Past it: by the flag, and for the container program itself.
    assert_eq!(run(&["--run-env", "host", "echo $HOME"]).exits(0).out, "/root\n");
    assert!(run(&["podman ps"]).exits(0).out.contains("ray_container"));
    assert_eq!(fed(case, &[&exec[..], &["cat"]].concat(), b"a\0b").stdout, b"a\0b");

    let started = case.verb(&[&exec[..], &[&case.marked("sleep 300; echo never")]].concat()).start();
    case.running(1, "sleep 300");
    started.process.signal("INT");
    started.end().exits(130);
    let mut started = case.verb(&[&exec[..], &[&case.marked("sleep 300; echo never")]].concat()).start();
    case.running(1, "sleep 300");
    started.process.kill();
    case.nothing_is_left();

    let mut shell = Terminal::start(case, &["attach", "cluster.yaml"]);
    shell.types("echo home is $HOME\n");
    shell.shows("home is /home/ray");
    shell.types("exit 4\n");
    assert_eq!(shell.ends(), 4, "{}", shell.shown());
    until(LONG, "the container to be idle", || {
        (!on(case, &["podman", "exec", "ray_container", "ps"].map(Into::into)).contains("bash --login")).then_some(())
    });
}

/// `rsync-up` and `rsync-down` mean the container's paths, as in Ray: below a mount they lie on the node, elsewhere they go in and out by tar.
fn files(case: &Case) {
    case.file("mounted/new", "new\n");
    case.file("src/a.py", "a\n");
    case.file("src/deep/b.py", "b\n");
    case.file("src/junk.pyc", "junk\n");
    let block = "docker: {image: 'shoal-test:2', container_name: ray_container, use_podman: true}\n";
    cluster(case, &[0], &format!("{block}file_mounts: {{'~/data': mounted}}\n"));
    let sent = |args: &[&str]| case.verb(&[&["rsync-up", "cluster.yaml"], args].concat()).run();
    let inside = |line: &str| case.verb(&["exec", "cluster.yaml", line]).run().exits(0).out;
    // The file's mounts, which the container has from the node; what else is there stays.
    sent(&[]).exits(0);
    assert_eq!(inside("cat ~/data/file ~/data/new"), "mounted\nnew\n");
    // A place of the container's own.
    sent(&["src", "~/work", "--exclude", "*.pyc"]).exits(0);
    assert_eq!(inside("cd ~/work/src && cat a.py deep/b.py && ls -A"), "a\nb\na.py\ndeep\n");
    assert_eq!(inside("ls -d /home/ray/work/src"), "/home/ray/work/src\n");
    // Again, without what is gone here: it stays there, as rsync leaves it, and nothing comes back that was removed there.
    inside("rm ~/work/src/a.py");
    std::fs::remove_file(case.folder.join("src/a.py")).expect("a file");
    case.file("src/deep/b.py", "better\n");
    sent(&["src/", "~/work/src", "--exclude", "*.pyc"]).exits(0);
    assert_eq!(inside("cd ~/work/src && cat deep/b.py && ls"), "better\ndeep\n");
    // One file, into a folder and under a name.
    sent(&["src/deep/b.py", "/opt/"]).exits(0);
    sent(&["src/deep/b.py", "/opt/c.py"]).exits(0);
    assert_eq!(inside("cat /opt/b.py /opt/c.py"), "better\nbetter\n");
    sent(&["src", "/opt", "--delete"]).exits(2).says(&["below none of the file_mounts"]);

    let fetched = |args: &[&str]| case.verb(&[&["rsync-down", "cluster.yaml"], args].concat()).run();
    inside("mkdir -p /opt/out/sub && echo result > /opt/out/sub/r && echo new > ~/data/made");
    fetched(&["/opt/out", "got"]).exits(0);
    fetched(&["~/data/made", "made"]).exits(0);
    assert_eq!(std::fs::read_to_string(case.folder.join("got/out/sub/r")).expect("it came"), "result\n");
    assert_eq!(std::fs::read_to_string(case.folder.join("made")).expect("it came"), "new\n");
    fetched(&["/opt/nothing", "got"]).exits(1).says(&["nothing"]);
    assert_eq!(
        on(case, &["sh", "-c", "ls /tmp/ray_tmp_mount/lab/.taken"].map(Into::into)),
        "",
        "nothing stays on the way"
    );
}
