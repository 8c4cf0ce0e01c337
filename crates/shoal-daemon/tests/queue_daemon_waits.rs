//! A results folder that is not there stops nobody but its own sweep, and that not at once; nothing is lost and nothing runs twice, whoever is
//! killed meanwhile (QUEUE-2).

mod queue_daemon;

use queue_daemon::scene::{Scene, done, folders, names, scene, sh};
use queue_daemon::*;
use shoal_core::queue::Target;
use shoal_core::queue::request::{Answer, HostRow, Request, RunState, WhyRow};
use shoal_core::queue::work::Ending;
use shoal_daemon::queue::client::Client;
use shoal_testkit::{Again, Ledger};
use std::fs;
use std::time::{Duration, Instant};

fn host(client: &mut Client) -> HostRow {
    match client.ask(&Request::Hosts, &[]).unwrap().0 {
        Answer::Hosts { hosts } => hosts.into_iter().next().expect("a host"),
        other => panic!("{other:?}"),
    }
}

fn why(client: &mut Client, target: &str) -> WhyRow {
    let target: Target = target.parse().unwrap();
    match client.ask(&Request::Why { target }, &[]).unwrap().0 {
        Answer::Why { reasons } => reasons.into_iter().next().expect("a reason"),
        other => panic!("{other:?}"),
    }
}

/// No seat is held, though runs of it are not over.
fn all_wait(daemon: &Daemon, sweep: &str) {
    until("results that hold no seat", || {
        let mut client = daemon.client();
        let host = host(&mut client);
        (host.connected && host.running == 0 && row(&mut client, sweep).running > 0).then_some(())
    });
}

#[test]
fn results_without_a_place_keep_nobody_else_from_the_host() {
    let scene = scene();
    let ledger = Ledger::at(scene.path("ledger"));
    let (root, away) = (scene.path("results"), scene.path("away"));
    fs::create_dir(&root).unwrap();
    let mut daemon = scene.how.start();
    let cells = 60;
    let mut led = sh("led", cells, &ledger.around("echo $SHOAL_RUN > out.txt"));
    led.rules.results = Some(root.to_str().unwrap().into());
    fs::rename(&root, &away).unwrap();
    submit(&mut daemon.client(), &led).unwrap();
    // Its own sweep stops when enough of it waits; what was sent ahead by then is run.
    let reason = until("a reason", || {
        let mut client = daemon.client();
        let waiting = runs(&mut client, "led").into_iter().rev().find(|run| run.state == RunState::Waiting)?;
        let reason = why(&mut client, &waiting.run.to_string());
        (reason.code == "results_wait").then_some(reason)
    });
    assert!(reason.reason.contains("is not there on host"), "{reason:?}");
    all_wait(&daemon, "led");
    let row = queue_daemon::row(&mut daemon.client(), "led");
    assert!(row.running >= 16 && row.waiting > 0, "{row:?}");
    // Others go on.
    let other = |daemon: &Daemon, name: &str| {
        submit(&mut daemon.client(), &sh(name, 4, &ledger.around(":"))).unwrap();
        assert_eq!(done(daemon, name).finished, 4, "{}", daemon.log());
    };
    other(&daemon, "one");
    let run = runs(&mut daemon.client(), "led").into_iter().find(|run| run.state == RunState::Running).unwrap();
    assert!(run.trouble.is_some_and(|what| what.contains("is not there on host")), "ps says so");
    // Whoever comes next knows it from the journal, and from the host.
    let kill = |scene: &Scene, daemon: &Daemon, word: &str| {
        let before = scene.hellos(daemon);
        scene.signal(word, libc::SIGKILL);
        if word == "agent" {
            until("another agent", || (scene.hellos(daemon) > before).then_some(()));
        }
    };
    kill(&scene, &daemon, "agent");
    kill(&scene, &daemon, "queue-keeper");
    all_wait(&daemon, "led");
    daemon.kill();
    daemon = scene.how.start();
    all_wait(&daemon, "led");
    other(&daemon, "two");
    let attempts = runs(&mut daemon.client(), "led");
    assert!(attempts.iter().all(|run| run.attempt <= 1), "none was started again");
    fs::rename(&away, &root).unwrap();
    let row = done(&daemon, "led");
    assert_eq!((row.finished, row.failed), (u64::from(cells), 0), "{}", daemon.log());
    let wanted = names("led", cells).chain(names("one", 4)).chain(names("two", 4));
    ledger.check(wanted, Again::Never).unwrap_or_else(|why| panic!("{why}\n{}", daemon.log()));
    for (run, folder) in folders(&mut daemon.client(), "led") {
        assert_eq!(fs::read_to_string(folder.join("out.txt")).unwrap(), format!("{run}\n"));
    }
    assert_eq!(host(&mut daemon.client()).problem, None);
    scene.clear(daemon);
}

#[test]
fn the_queues_own_folder_for_results_is_made_again() {
    let scene = scene();
    let daemon = scene.how.start();
    for name in ["one", "two"] {
        fs::remove_dir_all(daemon.store.results()).unwrap();
        submit(&mut daemon.client(), &sh(name, 3, "echo $SHOAL_RUN > out.txt")).unwrap();
        assert_eq!(done(&daemon, name).finished, 3, "{}", daemon.log());
        for (run, folder) in folders(&mut daemon.client(), name) {
            assert_eq!(fs::read_to_string(folder.join("out.txt")).unwrap(), format!("{run}\n"));
        }
    }
    scene.clear(daemon);
}

#[test]
fn a_stop_says_where_the_output_is() {
    let scene = scene();
    let root = scene.path("results");
    let daemon = scene.how.start();
    let mut led = sh("led", 1, "echo hi > out.txt");
    led.rules.results = Some(root.to_str().unwrap().into());
    submit(&mut daemon.client(), &led).unwrap();
    all_wait(&daemon, "led");
    let target = Target::Sweep("led".into());
    daemon.client().ask(&Request::Stop { target, now: false, grace_seconds: None }, &[]).unwrap();
    assert_eq!(done(&daemon, "led").stopped, 1, "{}", daemon.log());
    let mut client = daemon.client();
    let run = runs(&mut client, "led").remove(0);
    let Some(Ending::NotPublished { why: said }) = &run.ending else { panic!("{run:?}") };
    let at = said.split("they are in ").nth(1).and_then(|rest| rest.split(" on host").next()).unwrap();
    assert_eq!(fs::read_to_string(std::path::Path::new(at).join("out.txt")).unwrap(), "hi\n");
    assert!(run.trouble.as_ref().is_some_and(|trouble| trouble.contains(at)), "ps says so: {run:?}");
    assert!(why(&mut client, "led:0.0").reason.contains(at), "why says so");
    scene.clear(daemon);
}

/// What a host forgot whose program was over is lost and tried again under another number; it is never told to start once more.
#[test]
fn a_host_that_lost_what_waited_is_not_told_to_run_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let fake = FakeHost::new(folder.path());
    let daemon = How::at(&folder.path().join("q")).env("FAKE_AGENT", &fake.path).start();
    let mut line = fake.accept();
    line.hello("boot", 1, Vec::new(), Vec::new());
    submit(&mut daemon.client(), &sweep("led", 1)).unwrap();
    let first = attempt("led", 0, 1);
    assert_eq!(line.starts_of(1)[0].attempt, first);
    line.say(&shoal_core::queue::line::FromHost::ResultsWait { waiting: vec![(first.clone(), 0)] });
    all_wait(&daemon, "led");
    drop(line);
    let mut line = fake.accept();
    line.hello("boot", 1, Vec::new(), Vec::new());
    assert_eq!(line.starts_of(1)[0].attempt, attempt("led", 0, 2), "{}", daemon.log());
}

#[test]
fn a_daemon_that_ends_with_its_runs_leaves_no_keeper() {
    let scene = scene();
    let daemon = scene.how.start();
    submit(&mut daemon.client(), &sh("long", 2, "sleep 1000")).unwrap();
    until("runs", || (row(&mut daemon.client(), "long").running > 0).then_some(()));
    assert!(!scene.processes("queue-keeper").is_empty());
    daemon.client().ask(&Request::Shutdown { stop_runs: true }, &[]).unwrap();
    // One that nobody told stays for a minute.
    let end = Instant::now() + BOUND / 2;
    while !scene.processes("queue-keeper").is_empty() || !scene.processes("agent").is_empty() {
        assert!(Instant::now() < end, "somebody stays\n{}", daemon.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    let packs = fs::read_dir(scene.path("host")).unwrap().flatten().next().expect("its folder stays").path();
    assert!(packs.join("records").exists());
}
