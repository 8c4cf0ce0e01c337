//! `shoal attach RUN` on a pool: in the pod of a run, by the id that `shoal logs` takes; and what `kubectl logs` says of it.

mod support;

use shoal_testkit::kubernetes::NodeSpec;
use shoal_testkit::{Hosts, HostsSpec};
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use support::desk::text;
use support::pools::{LONG, Lab, SPACE, USUAL};
use support::until;

/// `shoal attach ARGS` with this as its stdin.
fn attach(lab: &Lab, args: &[&str], typed: &str) -> Output {
    let mut command = lab.desk.shoal(&[&["attach"], args].concat());
    command.env("KUBECONFIG", &lab.kubeconfig).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("shoal runs");
    let mut stdin = child.stdin.take().expect("stdin");
    let typed = typed.to_string();
    // A command that has failed does not read it.
    std::thread::spawn(move || drop(stdin.write_all(typed.as_bytes())));
    let output = child.wait_with_output().expect("its output");
    eprintln!("$ shoal attach {args:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    output
}

#[track_caller]
fn refused(lab: &Lab, args: &[&str], code: i32, says: &[&str]) {
    let output = attach(lab, args, "");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    for words in says {
        assert!(text(&output.stderr).contains(words), "no `{words}` in what {args:?} said:\n{}", text(&output.stderr));
    }
}

#[test]
fn somebody_gets_into_the_pod_of_a_run() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("within", 1)) else { return };
    let pool = format!("{{name: cloud, slots: 2, kubernetes: {{{USUAL}}}}}");
    let Some(mut lab) = Lab::new([NodeSpec::new("one")], Some(&hosts), &[&pool]) else { return };
    lab.serve();
    let script = "echo mine $1 >note; echo hello from $1; until [ -e /mnt/go ]; do sleep 0.2; done\n";
    lab.sweep("three", 3, script, &["--on", "cloud", "--env", "COLOUR=deep blue"]);
    lab.until_counts("three", "running", 2);
    let host = hosts.iter().next().expect("a host").name.clone();
    lab.sweep("there", 1, "exec sleep 600\n", &["--on", &host]);
    lab.until_counts("there", "running", 1);
    for run in ["three:0.0", "three:1.0"] {
        until(LONG, "output", || lab.desk.says(&["logs", run]).contains("hello").then_some(()));
    }

    // Where its program is, with its variables; three streams, each for itself, and the code.
    let ask = "cat note; echo $COLOUR; cat; echo wrong >&2; exit 7";
    let output = attach(&lab, &["three:1.0", "--", "sh", "-c", ask], "typed\nwords");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "mine 1\ndeep blue\ntyped\nwords");
    assert_eq!(text(&output.stderr), "wrong\n");
    // Without a command it is a shell that reads its input.
    let output = attach(&lab, &["three:0"], "cat note; tty >/dev/null || echo no terminal; exit 3\n");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), "mine 0\nno terminal\n"));
    in_a_terminal(&lab);

    let pods = lab.of_sweep("pods", "three");
    let names: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    until(LONG, "what they print in the logs of their pods", || {
        let logs: String = names.iter().map(|pod| lab.kubectl().text(&["logs", pod, "--namespace", SPACE])).collect();
        let mut lines: Vec<&str> = logs.lines().collect();
        lines.sort_unstable();
        (lines == ["hello from 0", "hello from 1"]).then_some(())
    });

    refused(&lab, &["three:2.0"], 3, &["three:2.0 does not run yet: it is waiting", "`shoal why three:2.0`"]);
    refused(&lab, &["three:3.0"], 2, &["three has no configuration 3"]);
    refused(&lab, &["four:0.0"], 2, &["no sweep four in the queue"]);
    refused(&lab, &["three"], 2, &["three is a sweep of many runs"]);
    refused(&lab, &["three:0", "--rank", "worker1"], 2, &["no worker1"]);
    refused(&lab, &["three:0", "--pool", "cloud"], 2, &["a run says itself where it is"]);
    refused(&lab, &["there:0.0"], 2, &[&format!("there:0.0 runs on {host}, which is a host and no pool"), "ssh"]);
    refused(&lab, &["lab.yaml", "--", "true"], 2, &["--rank and commands are for runs"]);
    refused(&lab, &["three:0", "--", "/no/such/program"], 127, &[]);

    // Its run goes on as if nobody had been there.
    lab.touch("go");
    lab.until_counts("three", "finished", 3);
    refused(&lab, &["three:1.0"], 3, &["three:1.0 does not run any more: it is finished", "`shoal logs three:1.0`"]);
    lab.desk.says(&["stop", "there"]);
    lab.until_empty();
}

/// As if somebody sat there.
fn in_a_terminal(lab: &Lab) {
    let line = format!("{} attach three:0.0", env!("CARGO_BIN_EXE_shoal"));
    let usual = lab.desk.shoal(&[]);
    let mut script = Command::new("timeout");
    script.args(["--kill-after=5", "240", "script", "-qefc", &line, "/dev/null"]).current_dir(lab.desk.work());
    script.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.env("KUBECONFIG", &lab.kubeconfig).env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().expect("script");
    let (mut out, mut keys) = (child.stdout.take().expect("stdout"), child.stdin.take().expect("stdin"));
    let shown = Arc::new(Mutex::new(Vec::new()));
    let keep = shown.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = out.read(&mut bytes) {
            keep.lock().expect("no panic").extend_from_slice(&bytes[..n]);
        }
    });
    keys.write_all(b"cat note; echo $COLOUR $TERM $((40 + 2)); tty; exit 6\n").expect("keys");
    let end = Instant::now() + LONG;
    loop {
        let text = String::from_utf8_lossy(&shown.lock().expect("no panic")).into_owned();
        if ["mine 0", "deep blue xterm 42", "/dev/pts/"].iter().all(|words| text.contains(words)) {
            break;
        }
        assert!(Instant::now() < end, "it shows:\n{text}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(6));
}
