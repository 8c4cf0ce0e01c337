//! Sweeps on a pool: a real control plane, pods that really run, and the queue as everywhere else (QUEUE-1, QUEUE-2).

mod support;

use shoal_testkit::kubernetes::NodeSpec;
use shoal_testkit::{Hosts, HostsSpec};
use std::collections::BTreeMap;
use std::path::Path;
use support::desk::read;
use support::pools::{LONG, Lab, SPACE, USUAL, lines};
use support::until;

#[test]
fn a_sweep_on_a_pool_gives_every_result_once() {
    let nodes = [NodeSpec::new("one"), NodeSpec::new("two")];
    let pool = format!("{{name: cloud, slots: 8, kubernetes: {{{USUAL}, nodes: [one, two]}}}}");
    let Some(mut lab) = Lab::new(nodes, None, &[&pool]) else { return };
    lab.serve();
    let script = "echo number $1 >>/mnt/ledger; echo hello from $1; echo $SHOAL_SEED >left; until [ -e /mnt/go ]; do sleep 0.1; done\n";
    lab.sweep("six", 6, script, &[]);
    lab.until_counts("six", "running", 6);
    let jobs = until(LONG, "all runs as indexes of Jobs", || {
        let jobs = lab.of_sweep("jobs", "six");
        let indexes: u64 = jobs.iter().filter_map(|job| job["spec"]["completions"].as_u64()).sum();
        (indexes == 6).then_some(jobs)
    });
    assert!(jobs.len() < 6, "every run has a Job of its own: {jobs:#?}");
    assert!(jobs.iter().all(|job| job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "shoal"));
    until(LONG, "the output of a live run", || {
        lab.desk.says(&["logs", "six:3.0"]).contains("hello from 3").then_some(())
    });
    lab.touch("go");
    lab.until_counts("six", "finished", 6);
    let numbers: Vec<String> = (0..6).map(|n| format!("number {n}")).collect();
    assert_eq!(lines(&lab.volume.join("ledger")), numbers);
    let rows = lab.results("six");
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert_eq!(read(&Path::new(row["folder"].as_str().expect("a folder")).join("left")), "0\n");
        assert_eq!(row["host"], "cloud");
    }
    lab.until_empty();

    // Ends are the queue's own: a code, a limit of memory, somebody who stops it.
    lab.sweep("fails", 1, "exit 3\n", &[]);
    lab.until_counts("fails", "failed", 1);
    assert!(lab.desk.says(&["ps", "fails"]).contains("exit code 3"));
    lab.sweep(
        "eats",
        1,
        "exec python3 -c 'x = bytearray(300 << 20); import time; time.sleep(60)'\n",
        &["--memory", "64M"],
    );
    lab.until_counts("eats", "failed", 1);
    assert!(lab.desk.says(&["ps", "eats"]).contains("out of memory"));
    lab.sweep("endless", 2, "echo up; exec sleep 600\n", &[]);
    until(LONG, "a pod that runs", || lab.desk.says(&["logs", "endless:1.0"]).contains("up").then_some(()));
    lab.desk.says(&["stop", "endless"]);
    lab.until_counts("endless", "stopped", 2);
    lab.until_empty();

    // Retries are the queue's, and so is a code that says: do not try again.
    lab.desk.file("tries.sh", "echo $1 >>/mnt/tries; case $1.$SHOAL_ATTEMPT in 0.*) exit 3;; 1.*|2.1) exit 4;; esac\n");
    let file = "name: tries\ngrid: {n: [0, 1, 2]}\ncommand: sh tries.sh {n}\nretries: 2\nfatal_codes: [3]\n";
    lab.desk.file("tries.yaml", file);
    lab.desk.says(&["sweep", "tries.yaml"]);
    lab.until_counts("tries", "failed", 2);
    lab.until_counts("tries", "finished", 1);
    assert_eq!(lines(&lab.volume.join("tries")), ["0", "1", "1", "1", "2", "2"]);

    // What no node takes is said, in the scheduler's words.
    lab.kubectl().text(&["cordon", "one"]);
    lab.kubectl().text(&["cordon", "two"]);
    lab.sweep("waits", 1, "true\n", &[]);
    lab.until_says(&["why", "waits"], "nodes are available");
    lab.kubectl().text(&["uncordon", "one"]);
    lab.until_counts("waits", "finished", 1);
    lab.until_empty();
}

/// A GPU is seen by no more runs than the pool says, whoever counts: the queue itself, or a device plugin with slices or MPS (PLAN-2).
#[test]
fn gpus_are_shared_by_no_more_than_was_asked() {
    let shared = ("example.org/gpu.shared".to_string(), 2);
    let mut node = NodeSpec::new("one").gpus(4);
    node.resources.push(shared);
    let pool = |name: &str, gpus: &str| {
        format!("{{name: {name}, slots: 8, kubernetes: {{{USUAL}, nodes: [one], gpus: {{share: {name}, {gpus}}}}}}}")
    };
    let pools = [
        pool("pinned", "count: 2, runs: 2"),
        pool("slices", "count: 1, runs: 2"),
        pool("mps", "count: 1, runs: 2, resource: example.org/gpu.shared"),
    ];
    let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
    let Some(mut lab) = Lab::new([node], None, &pools) else { return };
    lab.serve();
    let kinds =
        [("pinned", 4, None), ("slices", 2, Some("nvidia.com/gpu")), ("mps", 2, Some("example.org/gpu.shared"))];
    for (name, _, _) in kinds {
        let script = format!(
            "echo + $NVIDIA_VISIBLE_DEVICES. $CUDA_VISIBLE_DEVICES >>/mnt/{name}; until [ -e /mnt/go ]; do sleep 0.1; done; sleep 0.3; echo - $NVIDIA_VISIBLE_DEVICES. >>/mnt/{name}\n"
        );
        lab.sweep(name, 7, &script, &["--gpus", "0.5", "--on", name]);
    }
    for (name, at_once, resource) in kinds {
        // As many as may, and nobody else while they are there.
        lab.until_lines(name, at_once);
        for pod in lab.of_sweep("pods", name) {
            let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
            match resource {
                Some(resource) => assert_eq!(limits[resource], "1", "{pod:#}"),
                None => assert!(limits.is_null(), "{pod:#}"),
            }
        }
    }
    lab.touch("go");
    for (name, at_once, _) in kinds {
        lab.until_counts(name, "finished", 7);
        let text = read(&lab.volume.join(name));
        let (mut live, mut most): (BTreeMap<&str, usize>, usize) = (BTreeMap::new(), 0);
        for line in text.lines() {
            let mut words = line.split(' ');
            let (sign, gpu) = (words.next(), words.next().expect("a GPU"));
            let here = live.entry(gpu).or_default();
            match sign {
                Some("+") => *here += 1,
                _ => *here -= 1,
            }
            most = most.max(*here);
        }
        assert_eq!((live.len() * 2, most), (at_once, 2), "{name}:\n{text}");
        if name == "pinned" {
            // Each knows its GPU by the node's number, and counts from 0 in its container.
            assert!(text.contains("+ 0. 0\n") && text.contains("+ 1. 0\n"), "{text}");
        }
    }
    lab.sweep("small", 1, "true\n", &["--gpus", "0.25", "--on", "pinned"]);
    lab.until_counts("small", "failed", 1);
    assert!(lab.desk.says(&["ps", "small", "--json"]).contains("ask for 0.5 or more"));
    lab.until_empty();
}

#[test]
fn hosts_and_a_pool_share_a_sweep_while_the_api_server_is_killed() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("pool", 4)) else { return };
    let nodes = [NodeSpec::new("one"), NodeSpec::new("two")];
    let half = |name: &str, slots: u32| format!("{name}: {{slots: {slots}, cpus: {slots}}}");
    let pool = format!("{{name: cloud, slots: {HALF}, kubernetes: {{{USUAL}}}}}");
    let Some(mut lab) = Lab::new(nodes, Some(&hosts), &[&pool]) else { return };
    let mut fleet = read(&lab.desk.work().join("lab.yaml"));
    let slots: Vec<String> = hosts.iter().map(|host| half(&host.name, HALF / 4)).collect();
    fleet.push_str(&format!("queue:\n  hosts: {{{}}}\n", slots.join(", ")));
    lab.desk.file("lab.yaml", &fleet);
    lab.serve();
    const RUNS: u32 = 200;
    const HALF: u32 = RUNS / 2;
    // All start at once: half of them here, half of them there. Pods wait for the server to be away, hosts do not see the volume.
    let script = "if [ -d /mnt/.shoal ]; then echo $1 >>/mnt/ledger; until [ -e /mnt/go ]; do sleep 1; done; fi; echo $1 >left\n";
    lab.sweep("mixed", RUNS, script, &[]);
    lab.until_lines("ledger", HALF as usize);
    lab.plane.kill_api_server();
    lab.touch("go");
    // Pods end meanwhile, and the volume says so.
    until(LONG, "something to finish without the server", || {
        (lab.row("mixed")["finished"].as_u64() > Some(HALF.into())).then_some(())
    });
    lab.plane.start_api_server().expect("the server");
    lab.until_counts("mixed", "finished", RUNS);
    let rows = lab.results("mixed");
    let mut left: Vec<u32> = rows
        .iter()
        .map(|row| {
            read(&Path::new(row["folder"].as_str().expect("a folder")).join("left")).trim().parse().expect("a number")
        })
        .collect();
    left.sort_unstable();
    assert_eq!(left, (0..RUNS).collect::<Vec<_>>());
    let on_the_pool = rows.iter().filter(|row| row["host"] == "cloud").count();
    assert_eq!(on_the_pool, HALF as usize);
    let mut began = lines(&lab.volume.join("ledger"));
    began.dedup();
    assert_eq!((began.len(), lines(&lab.volume.join("ledger")).len()), (on_the_pool, on_the_pool));
    let left = lab.kubectl().text(&["get", "jobs", "--namespace", SPACE, "--output=name"]);
    println!("left before the queue has cleared away: {left:?}");
    lab.until_empty();
}
