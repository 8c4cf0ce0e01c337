//! `shoal submit` on test hosts: the script arrives whole, runs with exactly its arguments, and its code comes back.

mod support;

use support::launching::{Case, Lab};
use support::on_nodes::{cluster, fed};
use support::quoting::{WORDS, listed};
use support::{LONG, until};

#[test]
fn submitting() {
    let Some(lab) = Lab::up("submit", 1) else { return };
    // What nodes call python is for nodes to say.
    lab.on(0, "mkdir -p /root/bin; ln -s /usr/bin/python3 /root/bin/python; echo 'PATH=~/bin:$PATH' > /root/.bashrc; echo '. ~/.bashrc' > /root/.profile");
    lab.run(&[
        ("arguments", arguments),
        ("legacy", legacy),
        ("input", input),
        ("large", large),
        ("detached", detached),
        ("wrong", wrong),
    ]);
}

fn arguments(case: &Case) {
    cluster(case, &[0], "");
    case.file("it's a script.py", "import sys; print(sys.argv[1:]); sys.exit(4)");
    let args = [&["submit", "cluster.yaml", "it's a script.py", "--"], &WORDS[..]].concat();
    let done = case.verb(&args).run().exits(4);
    assert!(listed(&WORDS).starts_with(done.out.trim_end()) && !done.out.is_empty(), "{}", done.out);
    assert_eq!(case.lab.on(0, "ls -A /root | grep 'script.*arriving' || true"), "");
}

/// One text for the shell there, as Ray had it first.
fn legacy(case: &Case) {
    cluster(case, &[0], "");
    case.file("legacy.py", "import sys; print(sys.argv[1:])");
    let done =
        case.verb(&["submit", "cluster.yaml", "legacy.py", "--args", "--lr 0.1 'two words' $((6*7))"]).run().exits(0);
    assert_eq!(done.out, "['--lr', '0.1', 'two words', '42']\n");
    let done = case.verb(&["submit", "cluster.yaml", "legacy.py", "a", "--b=c"]).run().exits(0);
    assert_eq!(done.out, "['a', '--b=c']\n");
}

fn input(case: &Case) {
    cluster(case, &[0], "");
    case.file("upper.py", "import sys; print(sys.stdin.read().upper())");
    let output = fed(case, &["submit", "cluster.yaml", "upper.py"], b"quiet");
    assert_eq!(output.stdout, b"QUIET\n");
}

fn large(case: &Case) {
    cluster(case, &[0], "");
    let text = format!("print(len(open(__file__).read()))\n# {}", "x".repeat(2_000_000));
    case.file("large.py", &text);
    let done = case.verb(&["submit", "cluster.yaml", "large.py"]).run().exits(0);
    assert_eq!(done.out.trim(), text.len().to_string());
}

fn detached(case: &Case) {
    cluster(case, &[0], "");
    case.file("later.py", "open('/root/later.out', 'w').write('done')");
    let done = case.verb(&["submit", "cluster.yaml", "--tmux", "later.py"]).run().exits(0);
    assert!(done.err.contains("shoal attach cluster.yaml --tmux"), "{}", done.err);
    until(LONG, "what it wrote", || {
        (case.lab.on(0, "cat /root/later.out 2>/dev/null || true") == "done").then_some(())
    });
    case.lab.on(0, "HOME=/root tmux kill-server");
}

fn wrong(case: &Case) {
    cluster(case, &[0], "");
    case.verb(&["submit", "cluster.yaml", "missing.py"]).run().exits(2).looks_like("submit_no_script");
    case.verb(&["submit", "cluster.yaml", "."]).run().exits(2);
    let python = "import sys; sys.exit('it failed')";
    case.file("fails.py", python);
    case.verb(&["submit", "cluster.yaml", "fails.py"]).run().exits(1).says(&["it failed"]);
}
