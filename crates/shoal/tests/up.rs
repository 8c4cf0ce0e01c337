//! `shoal up`, `status` and `down` on test hosts over real ssh: what runs, what is skipped, what is left.

mod support;

use support::clusters::Lab;

/// Appends its name to `~/ran`, where the test looks.
fn ran(name: &str) -> String {
    format!("echo {name} >> ~/ran")
}

fn commands(list: &[String]) -> String {
    list.iter().map(|command| format!("  - {command:?}\n")).collect()
}

/// Set-up that only ends when all nodes are at it at the same time.
#[test]
fn from_nothing_to_up_and_down_again() {
    let Some(lab) = Lab::new("up", 4) else { return };
    let meeting = tempfile::Builder::new().prefix("shoal-test-").tempdir_in("/srv").expect("a folder all hosts see");
    let meet = format!(
        "touch {0}/$(uname -n); for i in $(seq 300); do [ $(ls {0} | wc -l) = 4 ] && exit 0; sleep 0.1; done; exit 9",
        meeting.path().display()
    );
    lab.write("proj/requirements.txt", "numpy\n");
    lab.write("data/one", "1\n");
    let mounts = format!("file_mounts:\n  ~/proj: {0}/proj\n  ~/data: {0}/data\n", lab.laptop.path().display());
    let file = |second: &str| {
        let setup = [meet.clone(), ran("first"), second.to_string(), ran("last")];
        let start = "nohup sleep 4321 >/dev/null 2>&1 & echo started $RAY_HEAD_IP >> ~/ran";
        lab.file(
            4,
            &format!(
                "{mounts}initialization_commands:\n  - {:?}\nsetup_commands:\n{}head_start_ray_commands:\n  - {start:?}\nworker_start_ray_commands:\n  - {start:?}\n",
                ran("init"),
                commands(&setup)
            ),
        );
    };
    file(&ran("second"));
    let head = lab.name(0).to_string();

    // What would be done is said, and nothing is done.
    lab.shoal(&["up", "lab.yaml", "--plan"]).exits(0);
    assert_eq!(lab.on(1, "ls -A ~/.cache/shoal"), "bin");
    lab.shoal(&["status", "lab.yaml"]).exits(1);

    // Nobody to ask: an error that says so.
    lab.shoal(&["up", "lab.yaml"]).exits(2).says("say yes with -y").looks_like("up_not_asked");

    lab.up(&["--redirect-command-output"]).exits(0).says("cluster lab is up: 4 nodes");
    for i in 0..4 {
        assert_eq!(lab.ran(i), format!("init first second last started {head}"), "host {i}");
        assert_eq!(lab.on(i, "cat ~/proj/requirements.txt ~/data/one"), "numpy\n1");
        assert_eq!(lab.on(i, "stat -c %a ~/.cache/shoal/clusters/lab/*/state.json"), "600");
    }
    lab.shoal(&["status", "lab.yaml"]).exits(0).looks_like("status_up");

    // Unchanged: it says what it skips, and why, and what runs goes on running.
    let out = lab.up(&[]).exits(0);
    let out = out.says("skips files ~/proj, files ~/data, init 1, setup 1, setup 2, setup 3, setup 4 (unchanged)");
    out.says("start 1 (unchanged, and what it started runs)");
    (0..4).for_each(|i| assert_eq!(lab.ran(i), "", "host {i}"));
    // What was started has ended on a worker: there it starts again. On the head: everywhere. And where somebody asks for it.
    lab.on(2, "pkill -x sleep");
    let status = lab.shoal(&["status", "lab.yaml"]).exits(4).text;
    assert!(status.contains("start 1 would run: what it started has ended"), "{status}");
    lab.up(&[]).exits(0).says("runs start 1 (what it started has ended)");
    assert_eq!((lab.ran(1), lab.ran(2)), (String::new(), format!("started {head}")));
    lab.on(0, "pkill -x sleep");
    lab.up(&[]).exits(0).says("runs start 1 (the head's start runs before it)");
    (0..4).for_each(|i| assert_eq!(lab.ran(i), format!("started {head}"), "host {i}"));
    lab.up(&["--restart"]).exits(0).says("runs start 1 (asked for)");
    (0..4).for_each(|i| assert_eq!(lab.ran(i), format!("started {head}"), "host {i}"));
    lab.up(&["--no-restart"]).exits(0).says("start 1 (--no-restart)");
    assert_eq!(lab.ran(2), "");

    // A mounted file that no command names.
    lab.write("data/one", "2\n");
    lab.up(&["--no-restart"]).exits(0).says("runs files ~/data (its files changed)");
    assert_eq!((lab.ran(3), lab.on(3, "cat ~/data/one")), (String::new(), "2".into()));

    // An edited command: from there on. Then one that names a mount, and the mount changes.
    file("echo second with ~/proj/requirements.txt >> ~/ran");
    let plan = lab.shoal(&["up", "lab.yaml", "--plan"]).exits(0);
    assert!(
        plan.text.contains("setup 3: echo second with ~/proj/requirements.txt >> ~/ran  (it changed)"),
        "{}",
        plan.text
    );
    assert!(plan.text.contains("setup 4: echo last >> ~/ran  (setup 3 runs before it)"), "{}", plan.text);
    lab.up(&["--no-restart"]).exits(0);
    assert_eq!(lab.ran(1), "second with /root/proj/requirements.txt last");
    lab.write("proj/requirements.txt", "torch\n");
    let out = lab.shoal(&["status", "lab.yaml", "--json"]).exits(1);
    assert_eq!(out.json()["nodes"][0]["state"], "behind");
    lab.up(&["--no-restart"])
        .exits(0)
        .says("runs files ~/proj, setup 3 (its files changed); setup 4 (setup 3 runs before it)");

    // Only start commands; and for programs.
    let out = lab.up(&["--restart-only", "--json"]).exits(0);
    assert_eq!(out.json()["event"], "over");
    assert_eq!(out.json()["nodes"][3]["state"], "up");
    assert_eq!(lab.shoal(&["get-head-ip", "lab.yaml"]).exits(0).text.trim(), head);
    assert_eq!(lab.shoal(&["get-worker-ips", "lab.yaml"]).exits(0).text.lines().count(), 3);

    // Down: what start commands left is ended, what is ours removed; mounted files stay.
    assert!(lab.on(0, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").contains("sleep 4321"));
    lab.down().exits(0).says("nothing is left");
    for i in 0..4 {
        lab.is_clean(i);
        assert_eq!(lab.on(i, "cat ~/data/one"), "2");
    }
    assert!(!lab.laptop.path().join(".local/state/shoal/clusters/lab").exists());
    assert!(lab.laptop.connections().is_empty(), "connections are left");
    lab.down().exits(0);
}

/// A plan for people, kept whole.
#[test]
fn a_plan_is_printed_and_nothing_else() {
    let Some(lab) = Lab::new("plan", 3) else { return };
    lab.file(3, "setup_commands: [echo one, echo two]\nhead_start_ray_commands: [ray stop, ray start --head]\n");
    let out = lab.shoal(&["up", "lab.yaml", "--plan"]).exits(0);
    assert_eq!(out.errors, "");
    out.looks_like("up_plan");
    let out = lab.shoal(&["up", "lab.yaml", "--plan", "--json"]).exits(0);
    assert_eq!(out.json()["plan"]["nodes"][1]["steps"][1]["decision"]["run"], "new");
}

/// Nodes may log in to each other, and get what the head has, while the cluster is up.
#[test]
fn nodes_reach_each_other_with_a_key_of_the_cluster() {
    let Some(lab) = Lab::new("mesh", 3) else { return };
    lab.file(
        3,
        "mesh_keys: true\ncluster_synced_files: [~/made, ~/not-there]\nsetup_commands: [cat ~/made/it >> ~/ran]\n",
    );
    lab.on(0, "mkdir ~/made; echo by the head > ~/made/it");
    lab.on(1, "printf 'Host old\\n  User me\\n' > ~/.ssh/config");
    lab.up(&[]).exits(0);
    assert_eq!(lab.ran(2), "by the head");
    let hop = format!("ssh -o BatchMode=yes {} ssh -o BatchMode=yes {} uname -n", lab.name(1), lab.name(2));
    assert_eq!(lab.on(0, &hop), lab.name(2));
    assert_eq!(lab.on(0, "stat -c %a ~/.ssh/shoal-lab"), "600");
    lab.up(&[]).exits(0).says("mesh");
    lab.down().exits(0).says("the cluster's key");
    assert_eq!(
        lab.on(1, "cat ~/.ssh/config; ls ~/.ssh; grep -c . ~/.ssh/authorized_keys"),
        "Host old\n  User me\nauthorized_keys\nconfig\nknown_hosts\n1"
    );
    // A file that was made for our lines alone goes with them.
    lab.on(2, "test ! -e ~/.ssh/config && test -s ~/.ssh/authorized_keys");
}

/// Workers go and the head stays, with what runs on it; a name, and fewer workers, from the command line.
#[test]
fn a_part_of_a_cluster() {
    let Some(lab) = Lab::new("part", 3) else { return };
    let start = "nohup sleep 4321 > /dev/null 2>&1 &";
    lab.file(3, &format!("setup_commands: [echo one >> ~/ran]\nhead_start_ray_commands: [{start:?}]\nworker_start_ray_commands: [{start:?}]\n"));
    lab.up(&[]).exits(0);
    let all: Vec<String> = (0..3).map(|i| lab.ran(i)).collect();
    assert_eq!(all, ["one", "one", "one"]);
    let down = |args: &[&str]| lab.shoal(&[&["down", "lab.yaml", "-y"], args].concat());
    // The file's workers are those that it wants at least.
    down(&["--keep-min-workers"]).exits(0).says("the others stay");
    lab.shoal(&["status", "lab.yaml"]).exits(0);
    down(&["--workers-only"]).exits(0).says("2 nodes down").says("the others stay");
    (1..3).for_each(|i| lab.is_clean(i));
    lab.on(0, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep 4321'");
    lab.shoal(&["status", "lab.yaml"]).exits(4);
    lab.up(&[]).exits(0);
    assert_eq!((lab.ran(0), lab.ran(1), lab.ran(2)), (String::new(), "one".into(), "one".into()));
    lab.down().exits(0).says("nothing is left");
    (0..3).for_each(|i| lab.is_clean(i));

    lab.up(&["-n", "other", "--min-workers", "1"]).exits(0).says("cluster other").says("2 nodes");
    assert_eq!((lab.ran(0), lab.ran(1), lab.ran(2)), ("one".into(), "one".into(), String::new()));
    lab.is_clean(2);
    lab.shoal(&["status", "lab.yaml", "-n", "other"]).exits(4);
    lab.shoal(&["down", "lab.yaml", "-y", "-n", "other"]).exits(0).says("nothing is left");
    (0..3).for_each(|i| lab.is_clean(i));
}

/// Each node by its own port, key and way, as the cluster file says it: behind one address, through another node.
#[test]
fn nodes_are_reached_as_the_file_says() {
    let Some(lab) = Lab::new("ways", 2) else { return };
    let daemon = "ssh-keygen -q -t ed25519 -N '' -f /root/hostkey; /usr/sbin/sshd -f /dev/null -h /root/hostkey -p 2022 -o ListenAddress=127.0.0.1 -o UsePAM=no -o StrictModes=no -o PasswordAuthentication=no";
    lab.on(1, daemon);
    let (head, gate) = (lab.hosts.host(0), lab.hosts.host(1));
    let key = lab.hosts.key();
    let (key, port) = (key.display(), head.ssh_port);
    // Of the configuration only what is not said in the file: the way through the gate has no key of its own there.
    let known = "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n";
    lab.write("ssh.conf", &format!("Host {}\n  IdentityFile {key}\nHost *\n{known}", gate.address));
    let file = |user: &str| {
        let inner = format!(
            "{{address: 127.0.0.1, port: 2022, user: {user}, key: {key}, jump: 'root@{}:{port}'}}",
            gate.address
        );
        let outer = format!("{{address: {}, port: {port}, user: root, key: {key}}}", head.address);
        lab.write("ways.yaml", &format!("cluster_name: ways\nprovider:\n  type: local\n  head_ip: {outer}\n  worker_ips: [{inner}]\nsetup_commands: [echo one >> ~/ran]\n"));
    };
    let shoal = |args: &[&str]| lab.run(lab.command(args).env("SHOAL_SSH_CONFIG", lab.laptop.path().join("ssh.conf")));
    file("root");
    shoal(&["up", "ways.yaml", "-y"]).exits(0);
    assert_eq!((lab.ran(0), lab.ran(1)), ("one".into(), "one".into()));
    let out = shoal(&["exec", "ways.yaml", "--all", "--gather", "uname -n"]).exits(0);
    assert!(out.text.contains(&head.name) && out.text.contains(&gate.name), "{}", out.text);
    lab.write("data/one", "1");
    shoal(&["rsync-up", "ways.yaml", "data/", "~/data", "-A"]).exits(0);
    for i in 0..2 {
        assert_eq!(lab.on(i, "cat ~/data/one"), "1");
    }
    shoal(&["down", "ways.yaml", "-y"]).exits(0);
    // Another user is what the file says too.
    file("nobody-of-that-name");
    shoal(&["up", "ways.yaml", "-y"]).exits(4).says("127.0.0.1");
}

/// What this machine has sent into the network of the hosts.
fn sent(lab: &Lab) -> u64 {
    let output = std::process::Command::new("ip").args(["-o", "address"]).output().expect("ip");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let gateway = format!(" {}/24 ", lab.hosts.gateway());
    let line = text.lines().find(|line| line.contains(&gateway)).unwrap_or_else(|| panic!("no{gateway}in\n{text}"));
    let device = line.split_whitespace().nth(1).expect("its name");
    let bytes = std::fs::read_to_string(format!("/sys/class/net/{device}/statistics/tx_bytes")).expect("its bytes");
    bytes.trim().parse().expect("a number")
}

/// Four nodes get it, and the line of whoever sends carries it once.
#[test]
fn the_senders_line_carries_files_once() {
    let Some(lab) = Lab::new("once", 4) else { return };
    lab.file(4, "");
    // Our program goes to each by itself.
    lab.up(&[]).exits(0);
    let bytes: Vec<u8> =
        (0..3u64 << 20).flat_map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (i << 29)).to_le_bytes()).collect();
    lab.write("data/large", "");
    std::fs::write(lab.laptop.path().join("data/large"), &bytes).expect("a file");
    let before = sent(&lab);
    let report = lab.shoal(&["rsync-up", "lab.yaml", "data/", "~/data", "-A", "--json"]).exits(0).json();
    let (sent, size) = (sent(&lab) - before, bytes.len() as u64);
    assert!((0..4).all(|i| report["nodes"][i]["way"] == "relay"), "{report}");
    eprintln!("sent {:.2} times the size", sent as f64 / size as f64);
    assert!(sent < 2 * size, "{sent} bytes for {size}: {report}");
}
