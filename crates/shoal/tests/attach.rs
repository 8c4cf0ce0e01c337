//! `shoal attach` on test hosts, in a real terminal.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use support::launching::{Case, Lab};
use support::on_nodes::{Terminal, cluster, cluster_of, nobody};
use support::{LONG, until};

#[test]
fn attaching() {
    let Some(lab) = Lab::up("attach", 2) else { return };
    lab.run(&[
        ("shell", shell),
        ("node", node),
        ("tmux", |case| multiplexed(case, "tmux")),
        ("screen", |case| multiplexed(case, "screen")),
        ("forward", forward),
        ("wrong", wrong),
        ("table", table),
    ]);
}

/// `up` in a terminal: a row a node, what they say last, and a failure told below it.
fn table(case: &Case) {
    let wait = "touch ~/table-at; echo working; until [ -e ~/table-go ]; do sleep 0.1; done";
    let fails = "test $(uname -n) = attach-0";
    cluster(case, &[0, 1], &format!("setup_commands: [{wait:?}, {fails:?}]\n"));
    let mut run = Terminal::start(case, &["up", "cluster.yaml", "-y"]);
    run.shows("1/2  setup 1");
    run.shows("working");
    for i in 0..2 {
        until(LONG, "the first command", || {
            (!case.lab.on(i, "ls /root/table-at 2>/dev/null || true").is_empty()).then_some(())
        });
        case.lab.on(i, "touch /root/table-go");
    }
    assert_eq!(run.ends(), 4, "{}", run.shown());
    let shown = run.shown();
    assert!(shown.contains("\u{1b}[") && shown.contains("setup 2: exit code 1"), "{shown}");
    assert!(shown.contains("1 of 2 nodes are up"), "{shown}");
    case.verb(&["down", "cluster.yaml", "-y"]).run().exits(0);
    (0..2).for_each(|i| drop(case.lab.on(i, "rm -f /root/table-*")));
}

fn shell(case: &Case) {
    cluster(case, &[0], "");
    let mut run = Terminal::start(case, &["attach", "cluster.yaml"]);
    run.types("echo on $(hostname) $((40 + 2)); tty\n");
    run.shows(&format!("on {} 42", case.lab.hosts().host(0).name));
    run.shows("/dev/pts/");
    run.types("exit 6\n");
    assert_eq!(run.ends(), 6, "{}", run.shown());
}

fn node(case: &Case) {
    cluster(case, &[0, 1], "");
    let mut run = Terminal::start(case, &["attach", "cluster.yaml", "--node", &case.address(1)]);
    run.types("echo on $(hostname) $((40 + 2))\n");
    run.shows(&format!("on {} 42", case.lab.hosts().host(1).name));
    run.types("exit\n");
    assert_eq!(run.ends(), 0);
}

/// Into what `exec` left there, out of it again, and back.
fn multiplexed(case: &Case, program: &str) {
    if shoal_testkit::hosts::find_program(program).is_none() {
        shoal_testkit::skip(format_args!("{program} is not installed"));
        return;
    }
    // Each on a host of its own: they share a folder for sockets.
    let host = usize::from(program == "screen");
    cluster(case, &[host], "");
    let option = format!("--{program}");
    case.verb(&["exec", "cluster.yaml", &option, "export X=kept; echo begun"]).run().exits(0);
    for turn in 0..2 {
        let mut run = Terminal::start(case, &["attach", "cluster.yaml", &option]);
        run.shows("begun");
        run.types(&format!("echo again{turn} $X\n"));
        run.shows(&format!("again{turn} kept"));
        run.dies();
        until(LONG, "the session to be alone", || {
            let list = case.lab.on(host, "HOME=/root tmux ls 2>/dev/null; HOME=/root screen -ls 2>/dev/null; true");
            (!list.contains("attached") && !list.contains("(Attached)")).then_some(())
        });
    }
    // A new one is another one.
    let mut run = Terminal::start(case, &["attach", "cluster.yaml", &option, "-N"]);
    run.shows("#");
    run.types("echo new${X}one\n");
    run.shows("newone");
    run.types("exit\n");
    run.ends();
    case.lab.on(host, "HOME=/root tmux kill-server 2>/dev/null; HOME=/root screen -X quit 2>/dev/null; true");
}

fn forward(case: &Case) {
    cluster(case, &[0], "");
    let local = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let ports = format!("{local}:7799");
    let mut run = Terminal::start(case, &["attach", "cluster.yaml", "-p", &ports]);
    run.types("/usr/bin/python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 7799)); print('u' + 'p'); c, _ = s.accept(); c.sendall(c.recv(9))\"\n");
    run.shows("up");
    let mut stream = TcpStream::connect(("127.0.0.1", local)).expect("the forward");
    stream.write_all(b"bytes").expect("bytes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("bytes");
    assert_eq!(answer, "bytes");
    // ssh stays as long as somebody uses the port.
    drop(stream);
    run.types("exit\n");
    run.ends();
}

fn wrong(case: &Case) {
    cluster(case, &[0], "");
    case.verb(&["attach", "cluster.yaml"]).run().exits(2).looks_like("attach_no_terminal");
    case.verb(&["attach", "cluster.yaml", "-N"]).run().exits(2).looks_like("attach_new_what");
    cluster_of(case, &[nobody(case)], "");
    let mut run = Terminal::start(case, &["attach", "cluster.yaml"]);
    run.shows("hint: is it switched on");
    assert_eq!(run.ends(), 255);
}
