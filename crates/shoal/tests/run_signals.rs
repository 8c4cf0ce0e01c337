//! Stopping `shoal run`: politely, at once, and without a word. Nothing is left in any case (GANG-1).

mod support;

use std::time::{Duration, Instant};
use support::LONG;
use support::launching::{Case, Lab, parent};

const SLEEP: [&str; 6] = ["-f", "fleet.yaml", "--", "sh", "-c", "echo up; exec sleep 300"];
/// Ends in order when asked to, and says so.
const POLITE: &str = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done";
const DEAF: &str = "trap '' TERM INT HUP; echo up; while :; do sleep 0.1; done";

#[test]
fn stopping() {
    let Some(lab) = Lab::up("stop", 3) else { return };
    lab.run(&[
        ("once", once),
        ("twice", twice),
        ("three-times", three_times),
        ("terminated", |case| {
            let run = running(case, &SLEEP, "sleep 300");
            run.process.signal("TERM");
            run.end().exits(130);
        }),
        ("hung-up", |case| {
            let run = running(case, &SLEEP, "sleep 300");
            run.process.signal("HUP");
            run.end().exits(130);
        }),
        ("killed", killed),
        ("while-connecting", while_connecting),
        ("suspended", suspended),
        ("reader-that-pauses", reader_that_pauses),
        ("detached", detached),
    ]);
    lab.is_clean();
}

fn running<'c>(case: &'c Case, args: &[&str], what: &str) -> support::launching::Running<'c> {
    case.fleet(&[0, 1], "");
    let run = case.shoal(args).start();
    case.running(2, what);
    run
}

/// Waits until both workers have printed that they are up: their traps are set.
fn deaf<'c>(case: &'c Case, script: &str, grace: &str) -> support::launching::Running<'c> {
    case.fleet(&[0, 1], "");
    let run = case.shoal(&["-f", "fleet.yaml", "-v", "--grace", grace, "--", "sh", "-c", script]).start();
    run.is_up(2);
    run
}

/// Ranks get time to end well; what they say then is kept.
fn once(case: &Case) {
    let run = deaf(case, POLITE, "60");
    run.process.signal("INT");
    let done = run.end().exits(130);
    assert!(case.log("logs", "worker0").ends_with("saved\n"), "{}", case.log("logs", "worker0"));
    assert!(done.took < Duration::from_secs(45), "{:?}", done.took);
    let done = done.says(&["stopping"]);
    assert_eq!(done.out.matches("| saved").count(), 2, "{}", done.out);
}

/// Those that do not care have no time after the second.
fn twice(case: &Case) {
    let run = deaf(case, DEAF, "60");
    let since = Instant::now();
    run.process.signal("INT");
    run.process.says("once more", LONG);
    run.process.signal("INT");
    let done = run.end().exits(130);
    assert!(since.elapsed() < Duration::from_secs(45), "{:?}", since.elapsed());
    done.says(&["killing"]);
}

/// Whoever presses it a third time does not wait for anybody.
fn three_times(case: &Case) {
    let run = deaf(case, DEAF, "60");
    run.process.signal("INT");
    run.process.says("once more", LONG);
    run.process.signal("INT");
    run.process.signal("INT");
    run.end().exits(130);
}

/// The launcher has no chance to say anything.
fn killed(case: &Case) {
    let mut run = deaf(case, DEAF, "2");
    run.process.kill();
    assert_eq!(run.process.end(LONG), -1);
    case.nothing_is_left();
}

/// Before all hosts have answered.
fn while_connecting(case: &Case) {
    case.lab.on(2, "echo 'while [ ! -e /root/go ]; do sleep 0.1; done' > /root/.bashrc");
    case.fleet(&[0, 2], "");
    let run = case.shoal(&SLEEP).start();
    support::until(LONG, "a login that takes its time", || {
        case.lab.on(2, "ps -eo args=").contains("exec ~/.cache").then_some(())
    });
    let since = Instant::now();
    run.process.signal("INT");
    let done = run.end().exits(130);
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    done.looks_like("interrupted_while_connecting");
    // Only now does the login get to our program, which finds nobody there and goes.
    case.lab.on(2, "touch /root/go");
}

/// The launcher leaves and the ranks stay, until somebody ends them there.
fn detached(case: &Case) {
    case.fleet(&[0, 1], "");
    let mut run = case.shoal(&[&["--detach"], &SLEEP[..]].concat()).start();
    assert_eq!(run.process.end(LONG), 0, "{}", run.process.said());
    assert_eq!(run.process.stdout().trim().len(), 20, "{}", run.process.said());
    case.running(2, "sleep 300");
    let keepers: Vec<u32> = case.ranks().into_iter().map(|(pid, _)| parent(pid)).collect();
    assert_eq!(keepers.len(), 3, "two workers and the master");
    for keeper in keepers {
        // It may be gone already: a failure of one ends the others of its host.
        let _ = std::process::Command::new("kill").args(["-TERM", &keeper.to_string()]).status();
    }
    case.nothing_is_left();
}

/// Ctrl-Z at the terminal, or a laptop that sleeps: hosts give the launcher up, and it does not blame them when it wakes.
fn suspended(case: &Case) {
    case.fleet(&[0, 1], "");
    let run = case.shoal(&SLEEP).start();
    case.running(2, "sleep 300");
    run.process.signal("STOP");
    // Long enough for the hosts; they end the ranks without a word from us.
    support::until(LONG, "the hosts to give the launcher up", || {
        case.ranks().iter().all(|(_, line)| !line.starts_with("sleep 300")).then_some(())
    });
    run.process.signal("CONT");
    let done = run.end().says(&["this launcher stood still for"]);
    assert_ne!(done.code, 0);
    assert!(!done.err.contains("is it up, and is its network?"), "{}", done.err);
    case.nothing_is_left();
}

/// Output goes to a pager that nobody scrolls for longer than silence would be suffered: neither side takes the other for dead.
fn reader_that_pauses(case: &Case) {
    case.fleet(&[0, 1], "");
    // Much more than a pipe holds.
    let mut launch = case.shoal(&["-f", "fleet.yaml", "-v", "--", "sh", "-c", "seq 100000"]);
    let mut paused = std::process::Command::new("bash");
    let words = std::iter::once(launch.command.get_program()).chain(launch.command.get_args());
    paused.args(["-c", "set -o pipefail; \"$@\" | { sleep 8; cat; }", "bash"]).args(words);
    paused.current_dir(&case.folder);
    for (key, value) in launch.command.get_envs() {
        value.map(|value| paused.env(key, value));
    }
    launch.command = paused;
    let done = launch.run().exits(0);
    assert_eq!(done.out.lines().filter(|line| line.ends_with("| 100000")).count(), 2);
}
