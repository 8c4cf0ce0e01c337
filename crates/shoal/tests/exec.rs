//! `shoal exec` on test hosts: what arrives there, what comes back, and what is left.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use support::launching::{Case, Lab};
use support::on_nodes::{Terminal, cluster, cluster_of, fed, nobody};
use support::quoting::{PRINT, WORDS, listed};
use support::{LONG, until};

#[test]
fn one_node() {
    let Some(lab) = Lab::up("exec", 5) else { return };
    lab.run(&[
        ("quoting", quoting),
        ("codes", codes),
        ("input", input),
        ("environment", environment),
        ("noisy", noisy),
        ("login-that-ends", login_that_ends),
        ("nodes", nodes),
        ("interrupted", interrupted),
        ("deaf", deaf),
        ("killed", killed),
        ("killed-with-input", killed_with_input),
        ("reader-gone", reader_gone),
        ("left-behind", left_behind),
        ("terminal", terminal),
        ("terminal-dies", terminal_dies),
        ("forward", forward),
        ("json", json),
        ("multiplexers", multiplexers),
        ("wrong", wrong),
        ("guarded", guarded),
        ("proxy", proxy),
    ]);
}

#[test]
fn all_nodes() {
    let Some(lab) = Lab::up("execall", 4) else { return };
    lab.run(&[
        ("everywhere", everywhere),
        ("one-fails", one_fails),
        ("gathered", gathered),
        ("all-as-json", all_as_json),
        ("all-interrupted", all_interrupted),
    ]);
}

const EXEC: [&str; 2] = ["exec", "cluster.yaml"];

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&EXEC, args].concat()
}

/// Every word of the list, through ssh, two shells and `eval`.
fn quoting(case: &Case) {
    cluster(case, &[0], "");
    let words = [&["/usr/bin/python3", "-c", PRINT], &WORDS[..]].concat();
    let command =
        format!("export ODD={}; {}", shoal_core::quote::quote("a 'b' \"c\" $d\ne"), shoal_core::quote::join(words));
    let done = case.verb(&with(&[&command])).run().exits(0);
    assert_eq!(done.out, listed(&WORDS));
    let done = case.verb(&with(&["echo a # a comment"])).run().exits(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("a\n", ""));
    let done = case.verb(&with(&["for i in 1 2\ndo\necho $i!\ndone"])).run().exits(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("1!\n2!\n", ""));
}

fn codes(case: &Case) {
    cluster(case, &[0], "");
    for (command, code) in
        [("true", 0), ("exit 3", 3), ("kill -9 $BASHPID", 137), ("no-such-program", 127), ("false | true", 0)]
    {
        let done = case.verb(&with(&[command])).run().exits(code);
        assert_eq!(done.out, "", "{command}");
    }
    case.verb(&with(&["echo (("])).run().exits(2).says(&["syntax error"]);
}

/// Exactly the bytes, however many; and none where there are none.
fn input(case: &Case) {
    cluster(case, &[0], "");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let output = fed(case, &with(&["cat; echo end >&2"]), &bytes);
    assert!(output.status.success() && output.stdout == bytes && output.stderr == b"end\n", "{:?}", output.stderr);
    // And as many to somebody who takes his time.
    let mut slow = case.verb(&with(&["head -c 3000000 /dev/zero; exit 0"])).command;
    let mut child = slow.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("shoal");
    let (mut pipe, mut count) = (child.stdout.take().expect("stdout"), 0);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut buffer = vec![0; 1 << 20];
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        count += n;
    }
    assert!(child.wait().expect("wait").success() && count == 3_000_000, "{count} bytes");
    // A command that does not read all of it, and one that reads none.
    assert_eq!(fed(case, &with(&["head -c 3"]), b"abcdef\n").stdout, b"abc");
    assert_eq!(fed(case, &with(&["echo no; exit 4"]), &bytes).status.code(), Some(4));
    assert_eq!(case.verb(&with(&["cat; echo over"])).run().exits(0).out, "over\n");
}

/// What a person gets there, and nothing that nobody asked for.
fn environment(case: &Case) {
    case.lab.on(1, "printf 'case $- in\\n*i*) ;;\\n*) return;;\\nesac\\nexport AFTER=guard\\ngreet() { echo hello $1; }\\n' > /root/.bashrc; echo '. ~/.bashrc' > /root/.profile");
    cluster(case, &[1], "");
    let command = "greet you; echo $AFTER ${OMP_NUM_THREADS-unset} ${SHOAL_MARK-unset}; pwd";
    let done = case.verb(&with(&[command])).run().exits(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("hello you\nguard unset unset\n/root\n", ""));
    case.lab.on(1, "rm /root/.bashrc /root/.profile");
}

fn noisy(case: &Case) {
    let noise = "echo Welcome to the lab; echo warning: quota >&2; printf unfinished";
    case.lab.on(2, &format!("echo '{noise}' > /root/.bashrc"));
    cluster(case, &[2], "");
    let done = case.verb(&with(&["echo exact; echo error >&2"])).run().exits(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("exact\n", "error\n"));
    case.lab.on(2, "rm /root/.bashrc");
}

/// Start-up files that end the shell: then it is said so, with what they said.
fn login_that_ends(case: &Case) {
    cluster(case, &[3], "");
    case.lab.on(3, "echo 'case $- in *i*) echo licence expired >&2; exit 9;; esac' > /root/.bash_profile");
    case.verb(&with(&["echo never"])).run().exits(255).looks_like("exec_login_ends");
    case.lab.on(3, "rm /root/.bash_profile");
}

fn nodes(case: &Case) {
    cluster(case, &[0, 1], "");
    let names: Vec<String> = case.lab.hosts().iter().map(|host| format!("{}\n", host.name)).collect();
    assert_eq!(case.verb(&with(&["hostname"])).run().exits(0).out, names[0]);
    let second = case.address(1);
    assert_eq!(case.verb(&with(&["--node", &second, "hostname"])).run().exits(0).out, names[1]);
    assert_eq!(case.verb(&with(&["--node-ip", &second, "hostname"])).run().exits(0).out, names[1]);
}

/// Ctrl-C: the whole group there hears it, and its own code comes back.
fn interrupted(case: &Case) {
    cluster(case, &[0], "");
    let command = case.marked("trap 'echo saved; exit 7' INT; sleep 300 & sleep 301; true");
    let run = case.verb(&with(&[&command])).start();
    case.running(1, "sleep 301");
    run.process.signal("INT");
    let done = run.end().exits(7);
    assert_eq!(done.out, "saved\n");
    let run = case.verb(&with(&[&case.marked("sleep 300; echo never")])).start();
    case.running(1, "sleep 300");
    run.process.signal("INT");
    assert_eq!(run.end().exits(130).out, "");
}

/// One that does not listen is asked harder each time.
fn deaf(case: &Case) {
    cluster(case, &[0], "");
    let run = case.verb(&with(&[&case.marked("trap '' INT TERM; echo up; while :; do sleep 0.1; done")])).start();
    until(LONG, "the command to be up", || run.process.stdout().contains("up").then_some(()));
    for _ in 0..3 {
        run.process.signal("INT");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    run.end().exits(137);
}

/// The client dies without a word (GANG-1).
fn killed(case: &Case) {
    cluster(case, &[0], "");
    let mut run = case.verb(&with(&[&case.marked("sleep 300 & sleep 301")])).start();
    case.running(1, "sleep 301");
    run.process.kill();
    case.nothing_is_left();
}

/// The same when its stdin is the command's, which does not read it.
fn killed_with_input(case: &Case) {
    cluster(case, &[4], "");
    let mut command = case.verb(&with(&[&case.marked("sleep 300 & sleep 301")])).command;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("shoal");
    let mut stdin = child.stdin.take().expect("stdin");
    std::thread::spawn(move || while stdin.write_all(&[b'x'; 65536]).is_ok() {});
    case.running(1, "sleep 301");
    lifeline(case, 4);
    child.kill().expect("kill");
    child.wait().expect("wait");
    case.nothing_is_left();
    // And Ctrl-C, by the same way.
    let mut command = case.verb(&with(&[&case.marked("sleep 300; echo never")])).command;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("shoal");
    case.running(1, "sleep 300");
    lifeline(case, 4);
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    assert_eq!(child.wait().expect("wait").code(), Some(130));
    case.nothing_is_left();
}

/// Waits for the second session.
fn lifeline(case: &Case, host: usize) {
    until(LONG, "the second session", || {
        case.lab.on(host, "ps -eo args=").contains("exec 2>/dev/null; pid=").then_some(())
    });
}

/// `| head -1`.
fn reader_gone(case: &Case) {
    cluster(case, &[0], "");
    let mut command = case.verb(&with(&[&case.marked("while :; do echo y; done")])).command;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("shoal");
    let mut first = [0; 2];
    child.stdout.take().expect("stdout").read_exact(&mut first).expect("a line");
    let status = until(LONG, "its end", || child.try_wait().expect("wait"));
    assert!(!status.success());
    case.nothing_is_left();
}

/// What a command leaves on purpose stays, and is not waited for.
fn left_behind(case: &Case) {
    cluster(case, &[0], "");
    case.verb(&with(&["nohup sleep 30 >/dev/null 2>&1 & echo $! > /tmp/left"])).start().process.end(LONG);
    case.lab.on(0, "kill $(cat /tmp/left)");
    // One that holds the output.
    let mut run = case.verb(&with(&["sleep 60 & echo $! > /tmp/left; echo begun"])).start();
    assert_eq!(run.process.end(LONG), 0, "{}", run.process.said());
    assert_eq!((run.process.stdout().as_str(), run.process.stderr().as_str()), ("begun\n", ""));
    case.lab.on(0, "kill $(cat /tmp/left)");
}

/// A terminal gets a terminal: its size, its keys, its end.
fn terminal(case: &Case) {
    cluster(case, &[0], "");
    let command = case.marked("test -t 0 && test -t 1 && echo a terminal; read -r line; echo got $line; exit 5");
    let mut run = Terminal::start(case, &with(&[&command]));
    run.shows("a terminal");
    run.types("words\n");
    run.shows("got words");
    assert_eq!(run.ends(), 5, "{}", run.shown());
    assert!(!run.shown().contains("onnection"), "{}", run.shown());
    let mut run = Terminal::start(case, &with(&[&case.marked("echo up; sleep 300; echo never")]));
    run.shows("up");
    case.running(1, "sleep 300");
    run.types("\u{3}");
    assert_eq!(run.ends(), 130, "{}", run.shown());
    case.nothing_is_left();
}

fn terminal_dies(case: &Case) {
    cluster(case, &[0], "");
    let mut run = Terminal::start(case, &with(&[&case.marked("echo up; sleep 300; echo never")]));
    case.running(1, "sleep 300");
    run.dies();
    case.nothing_is_left();
}

/// Bytes really pass, and the port is free again afterwards.
fn forward(case: &Case) {
    cluster(case, &[0], "");
    let local = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let serve = "import socket\ns = socket.create_server(('127.0.0.1', 7788)); print('up', flush=True)\nc, _ = s.accept(); c.sendall(c.recv(100)[::-1])";
    let command = case.marked(&format!("/usr/bin/python3 -c {}", shoal_core::quote::quote(serve)));
    let run = case.verb(&with(&["-p", &format!("{local}:7788"), &command])).start();
    until(LONG, "the server", || run.process.stdout().contains("up").then_some(()));
    let mut stream = TcpStream::connect(("127.0.0.1", local)).expect("the forward");
    stream.write_all(b"olleh").expect("bytes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("bytes");
    assert_eq!(answer, "hello");
    run.end().exits(0);
    let held = TcpListener::bind(("127.0.0.1", local)).expect("the port is free");
    // A port that somebody has.
    case.verb(&with(&["-p", &format!("{local}:7788"), "true"]))
        .run()
        .exits(255)
        .says(&["a port of this machine is taken", "hint"]);
    drop(held);
}

fn json(case: &Case) {
    cluster(case, &[0], "");
    let done = case.verb(&with(&["--json", "echo out; echo err >&2; exit 3"])).run().exits(3);
    let said: serde_json::Value = serde_json::from_str(&done.out).expect("json");
    assert_eq!((said["exit_code"].as_u64(), said["version"].as_u64()), (Some(3), Some(1)));
    assert_eq!((said["stdout"].as_str(), said["stderr"].as_str()), (Some("out\n"), Some("err\n")));
}

/// Sessions that were asked for stay, run the command as it is, and can be seen.
fn multiplexers(case: &Case) {
    cluster(case, &[0], "");
    for (option, program, list) in [("--tmux", "tmux", "tmux ls"), ("--screen", "screen", "screen -ls")] {
        if shoal_testkit::hosts::find_program(program).is_none() {
            shoal_testkit::skip(format_args!("{program} is not installed"));
            continue;
        }
        let file = format!("/root/{program}.out");
        let command = format!("cd; echo \"it's $((6 * 7))\" > {file}; test -t 0 && echo terminal >> {file}");
        let done = case.verb(&with(&[option, &command])).run().exits(0);
        assert_eq!(done.out, "");
        assert!(done.err.contains(&format!("shoal attach cluster.yaml {option}")), "{}", done.err);
        until(LONG, "what it wrote", || {
            (case.lab.on(0, &format!("cat {file} 2>/dev/null || true")) == "it's 42\nterminal").then_some(())
        });
        // The shell that stays.
        case.lab.on(0, &format!("HOME=/root {list} || true"));
        case.lab.on(0, "HOME=/root tmux kill-server 2>/dev/null; HOME=/root screen -X quit 2>/dev/null; true");
    }
}

/// What one can get wrong.
fn wrong(case: &Case) {
    cluster(case, &[0, 1], "");
    case.verb(&with(&["--node", &nobody(case), "true"])).run().exits(2).looks_like("exec_no_such_node");
    case.verb(&with(&["--run-env", "docker", "true"])).run().exits(2).looks_like("exec_no_container");
    cluster_of(case, &[nobody(case)], "");
    case.verb(&with(&["true"])).run().exits(255).looks_like("exec_host_down");
    case.verb(&["exec", "missing.yaml", "true"]).run().exits(2).looks_like("exec_no_file");
}

/// Nothing outside of the list is dialled, whatever the file says: neither directly nor with forwards, nor for a terminal.
fn guarded(case: &Case) {
    cluster_of(case, &[case.address(0), "192.0.2.77".into()], "");
    let network = format!("{}/24", case.lab.hosts().gateway());
    let args = with(&["--all", "echo reached"]);
    let done = case.verb(&args).env("SHOAL_DIAL_ONLY", &network).run().exits(255);
    assert_eq!(done.out.matches("reached").count(), 1, "{}", done.out);
    done.says(&["SHOAL_DIAL_ONLY does not allow to dial 192.0.2.77"]);
    cluster_of(case, &["192.0.2.77".into()], "");
    case.verb(&with(&["true"])).env("SHOAL_DIAL_ONLY", &network).run().exits(255).looks_like("exec_guarded");
    let forward = with(&["-p", "47115", "true"]);
    case.verb(&forward).env("SHOAL_DIAL_ONLY", &network).run().exits(255).says(&["does not allow to dial"]);
}

/// `ssh_proxy_command` of the file is the way.
fn proxy(case: &Case) {
    let config = case.lab.hosts().ssh_config();
    let through = format!("ssh -F {} -W %h:%p {}", config.display(), case.address(1));
    cluster(case, &[0], &format!("auth: {{ssh_user: root, ssh_proxy_command: '{through}'}}\n"));
    let done = case.verb(&with(&["echo $SSH_CONNECTION"])).run().exits(0);
    assert!(done.out.starts_with(&format!("{} ", case.address(1))), "it came from {}", done.out);
    let network = format!("{}/24", case.lab.hosts().gateway());
    let guarded = case.verb(&with(&["true"])).env("SHOAL_DIAL_ONLY", &network);
    guarded.run().exits(255).says(&["does not allow proxy commands"]);
}

fn everywhere(case: &Case) {
    cluster(case, &[0, 1, 2, 3], "");
    let done = case.verb(&with(&["--all", "hostname; echo to-stderr >&2"])).run().exits(0);
    for i in 0..4 {
        let line = format!("{} | {}\n", case.address(i), case.lab.hosts().host(i).name);
        assert!(done.out.contains(&line), "no {line} in {}", done.out);
    }
    assert_eq!(done.err.matches("| to-stderr\n").count(), 4, "{}", done.err);
    assert!(done.err.contains("all 4 nodes ended well"), "{}", done.err);
}

/// One fails and one is not there: the others finish, the table says it, and the first failure's code is the whole's.
fn one_fails(case: &Case) {
    let addresses = [case.address(0), case.address(1), nobody(case), case.address(2)];
    cluster_of(case, &addresses, "");
    let command = format!("test $(hostname) != {} || exit 3; echo fine", case.lab.hosts().host(1).name);
    let done = case.verb(&with(&["--all", "--gather", &command])).run().exits(3);
    assert_eq!(done.out.matches("fine\n").count(), 2, "{}", done.out);
    let times: Vec<&str> = done.err.lines().filter(|line| line.contains(" s")).collect();
    assert!(times.len() >= 4, "{}", done.err);
    done.says(&["2 of 4 nodes failed", "No route to host", "  hint: is it switched on"]);
}

fn gathered(case: &Case) {
    cluster(case, &[0, 1], "");
    let done = case.verb(&with(&["--all", "--gather", "printf no-newline-at-the-end; echo"])).run().exits(0);
    let wanted =
        format!("== {}\nno-newline-at-the-end\n== {}\nno-newline-at-the-end\n", case.address(0), case.address(1));
    assert_eq!(done.out, wanted);
}

fn all_as_json(case: &Case) {
    cluster(case, &[0, 1], "");
    let second = case.lab.hosts().host(1).name.clone();
    let done =
        case.verb(&with(&["--all", "--json", &format!("hostname; test $(hostname) != {second}")])).run().exits(1);
    let said: serde_json::Value = serde_json::from_str(&done.out).expect("json");
    let codes: Vec<u64> =
        said["nodes"].as_array().expect("nodes").iter().filter_map(|n| n["exit_code"].as_u64()).collect();
    assert_eq!(codes, [0, 1]);
    assert_eq!(said["nodes"][1]["stdout"], format!("{second}\n"));
    assert_eq!(done.err, "");
}

fn all_interrupted(case: &Case) {
    cluster(case, &[0, 1, 2], "");
    let run = case.verb(&with(&["--all", &case.marked("sleep 300")])).start();
    case.running(3, "sleep 300");
    run.process.signal("INT");
    run.end().exits(130).says(&["3 of 3 nodes failed"]);
}
