//! Bad days of a queue on one machine: daemon and agent are killed at random points, the folder for results goes and comes back, drives fill
//! up. Every acknowledged submission is there, no run is lost, none runs twice, results are complete or absent (QUEUE-1, QUEUE-2).
//!
//! `SHOAL_ROUNDS` says how often; a few times by default.

mod queue_daemon;

use queue_daemon::scene::{done, folders, names, scene, sh};
use queue_daemon::*;
use shoal_core::queue::Target;
use shoal_core::queue::request::{Answer, Filter, Request, ResultRow, RunRow, RunState};
use shoal_core::queue::sweep::Sweep;
use shoal_daemon::queue::client::Client;
use shoal_testkit::{Again, Dice, Drive, Ledger, figures, rounds, spread};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn pause(dice: &mut Dice, from: u64, to: u64) {
    std::thread::sleep(Duration::from_millis(from + dice.below(to - from)));
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Daemon,
    Agent,
    Both,
}

/// Kills and goes on, while runs come and go and one lives through all of it.
fn killed(victim: Victim, kind: &str, seed: u64) {
    let (rounds, mut dice) = (rounds(8), Dice::new(seed));
    let scene = scene();
    let ledger = Ledger::at(scene.path("ledger"));
    let cells = rounds as u32 * 8;
    let go = scene.path("go");
    let mut daemon = scene.how.start();
    let mut long = sh("long", 1, &ledger.around(&format!("while [ ! -e {} ]; do sleep 0.1; done", go.display())));
    long.wants.cpus_milli = 10;
    submit(&mut daemon.client(), &long).unwrap();
    let middle = "sleep 0.0$((SHOAL_CELL % 7)); [ $((SHOAL_CELL % 3)) = 0 ] || echo $SHOAL_RUN > out.txt";
    submit(&mut daemon.client(), &sh("led", cells, &ledger.around(middle))).unwrap();
    let (mut adopted, mut acknowledged) = (Vec::new(), BTreeSet::new());
    for round in 0..rounds {
        pause(&mut dice, 0, 200);
        let before = scene.hellos(&daemon);
        let began = Instant::now();
        if victim != Victim::Daemon {
            scene.signal("agent", libc::SIGKILL);
        }
        if victim != Victim::Agent {
            daemon.kill();
            daemon = scene.how.start();
            // Submissions at every round: they are as durable as anything else.
            let name = format!("more{round}");
            if submit(&mut daemon.client(), &sh(&name, 1, &ledger.around(":"))).is_ok() {
                acknowledged.insert(name);
            }
        }
        // Mostly until all is as before; now and then the next blow comes sooner.
        if dice.below(4) > 0 {
            until("the host to be there again", || (scene.hellos(&daemon) > before).then_some(()));
            adopted.push(began.elapsed());
            assert_eq!(states(&mut daemon.client(), "long").len(), 1);
        }
    }
    let row = done(&daemon, "led");
    assert_eq!((row.finished, row.failed, row.stopped), (u64::from(cells), 0, 0), "{}", daemon.log());
    fs::write(&go, "").unwrap();
    assert_eq!(done(&daemon, "long").finished, 1, "{}", daemon.log());
    acknowledged.iter().for_each(|name| assert_eq!(done(&daemon, name).finished, 1));
    let more: Vec<String> = acknowledged.iter().map(|name| format!("{name}:0.0")).collect();
    let wanted = names("led", cells).chain(["long:0.0".to_string()]).chain(more);
    let count = ledger.check(wanted, Again::Never).unwrap_or_else(|why| panic!("{why}\n{}", daemon.log()));
    let mut client = daemon.client();
    for row in runs_of(&mut client, "led") {
        let folder = row.folder.as_deref().map(Path::new);
        let left = folder.map(|folder| fs::read_to_string(folder.join("out.txt")).unwrap());
        let wanted = (row.run.cell % 3 != 0).then(|| format!("{}\n", row.run));
        assert_eq!(left, wanted, "{}: complete or absent", row.run);
    }
    figures(kind, rounds, count.runs, &spread("adopted", adopted));
    scene.clear(daemon);
}

fn runs_of(client: &mut Client, sweep: &str) -> Vec<ResultRow> {
    let mut all = Vec::new();
    loop {
        let ask = Request::Results { sweep: sweep.into(), from: all.len() as u32, limit: 1000 };
        let Answer::Results { rows, total, .. } = client.ask(&ask, &[]).unwrap().0 else { panic!("no results") };
        let none = rows.is_empty();
        all.extend(rows);
        if none || all.len() as u64 >= total {
            return all;
        }
    }
}

#[test]
fn daemons_are_killed() {
    killed(Victim::Daemon, "daemon killed", 1);
}

#[test]
fn agents_are_killed() {
    killed(Victim::Agent, "agent killed", 2);
}

#[test]
fn daemons_and_agents_are_killed_together() {
    killed(Victim::Both, "daemon and agent killed", 3);
}

/// All results of a sweep whose runs write their names, and nothing half beside them.
fn check_results(daemon: &Daemon, root: &Path, sweep: &str, cells: u32) {
    let folders = folders(&mut daemon.client(), sweep);
    assert_eq!(folders.len() as u32, cells);
    for (run, folder) in &folders {
        assert!(folder.starts_with(root), "{}", folder.display());
        let text = fs::read_to_string(folder.join("out.txt")).unwrap_or_else(|e| panic!("{run}: {e}"));
        assert!(text.starts_with(run.as_str()) && text.len() > 20_000, "{run}: {} bytes", text.len());
    }
    let mut found = 0;
    for cell in fs::read_dir(root.join(sweep).join("runs")).unwrap() {
        for entry in fs::read_dir(cell.unwrap().path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(name == "param2val.yaml" || !name.starts_with('.'), "{name} was left behind");
            found += u32::from(name != "param2val.yaml");
        }
    }
    assert_eq!(found, cells, "each once");
}

/// Its name, and so much that a drive can be full in the midst of it. What a program does when its own writing fails is its own affair: this one
/// tries again.
const WRITE: &str = "sleep 0.0$((SHOAL_CELL % 5)); \
    until (echo $SHOAL_RUN && head -c 20000 /dev/zero) > out.txt; do sleep 0.05; done";

fn with_results(name: &str, cells: u32, script: &str, root: &Path) -> Sweep {
    let mut sweep = sh(name, cells, script);
    sweep.rules.results = Some(root.to_str().unwrap().into());
    sweep
}

#[test]
fn the_folder_for_results_goes_and_comes_back() {
    let (rounds, mut dice) = (rounds(5), Dice::new(4));
    let scene = scene();
    let (disk, shared) = (scene.path("disk"), scene.path("shared"));
    // Without its drive the mount point has an empty folder of the same name.
    for folder in [&disk, &shared] {
        fs::create_dir_all(folder.join("lab")).unwrap();
    }
    let drive = Drive::bound(&disk, &shared);
    if drive.is_none() {
        shoal_testkit::skip("nothing can be mounted here: the folder is only renamed");
    }
    let root = shared.join("lab");
    let ledger = Ledger::at(scene.path("ledger"));
    let cells = rounds as u32 * 6;
    let daemon = scene.how.start();
    submit(&mut daemon.client(), &with_results("led", cells, &ledger.around(WRITE), &root)).unwrap();
    let mut said = false;
    for round in 0..rounds {
        pause(&mut dice, 0, 150);
        match &drive {
            Some(drive) if round % 2 == 0 => {
                drive.unmount();
                said |= says_so(&daemon, &mut dice, "is not the one that was there at submit");
                assert!(drive.mount());
            }
            _ => {
                let away = shared.join("away");
                fs::rename(&root, &away).unwrap();
                said |= says_so(&daemon, &mut dice, "is not there on host");
                fs::rename(&away, &root).unwrap();
            }
        }
    }
    let row = done(&daemon, "led");
    assert_eq!((row.finished, row.failed), (u64::from(cells), 0), "{}", daemon.log());
    assert!(said, "somebody should have said that the folder is away\n{}", daemon.log());
    let count = ledger.check(names("led", cells), Again::Never).unwrap_or_else(|why| panic!("{why}\n{}", daemon.log()));
    check_results(&daemon, &root, "led", cells);
    if let Some(drive) = drive {
        drive.unmount();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "nothing lies under the mount point");
        assert!(drive.mount());
    }
    figures("results folder gone", rounds, count.runs, "");
    scene.clear(daemon);
}

/// Long enough for a run to find out, now and then; whether host and run said so by then.
fn says_so(daemon: &Daemon, dice: &mut Dice, what: &str) -> bool {
    if dice.below(3) > 0 {
        pause(dice, 0, 300);
        return false;
    }
    let mut client = daemon.client();
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end && row(&mut client, "led").running + row(&mut client, "led").waiting > 0 {
        let Answer::Hosts { hosts } = client.ask(&Request::Hosts, &[]).unwrap().0 else { panic!("no hosts") };
        let runs = running(&mut client, "led");
        let run = runs.iter().find(|run| run.trouble.as_ref().is_some_and(|trouble| trouble.contains(what)));
        if let Some(run) = run
            && hosts.iter().any(|host| host.problem.as_ref().is_some_and(|problem| problem.contains(what)))
        {
            let target = Target::Run(run.run.clone());
            let Answer::Why { reasons } = client.ask(&Request::Why { target }, &[]).unwrap().0 else {
                panic!("no why")
            };
            assert!(reasons[0].reason.contains(what) && reasons[0].code == "in_trouble", "{reasons:?}");
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn running(client: &mut Client, sweep: &str) -> Vec<RunRow> {
    let target = Some(Target::Sweep(sweep.into()));
    let filter = Filter { target, states: vec![RunState::Running], ..Filter::default() };
    match client.ask(&Request::Runs { filter, from: 0, limit: 1000 }, &[]).unwrap().0 {
        Answer::Runs { runs, .. } => runs,
        other => panic!("{other:?}"),
    }
}

#[test]
fn drives_fill_up() {
    const MIB: u64 = 1 << 20;
    let (rounds, mut dice) = (rounds(6), Dice::new(5));
    let scene = scene();
    let ledger = Ledger::at(scene.path("ledger"));
    let cells = rounds as u32 * 6;
    let small = |name: &str, bytes: u64| Drive::small(&scene.path(name), bytes);
    // More than the least that a host has to have, and room for all of the results.
    let room = 16 * MIB + u64::from(cells) * 64 * 1024;
    let drives = (small("q", 48 * MIB), small("host", 80 * MIB), small("results", room));
    let (Some(store), Some(host), Some(results)) = drives else {
        return shoal_testkit::skip("mounting a tmpfs is not allowed here");
    };
    let drives = [&store, &host, &results];
    let root = scene.path("results");
    let daemon = scene.how.start();
    submit(&mut daemon.client(), &with_results("led", cells, &ledger.around(WRITE), &root)).unwrap();
    let (mut acknowledged, mut refused) = (BTreeSet::new(), 0);
    for round in 0..rounds {
        pause(&mut dice, 0, 100);
        let drive = drives[dice.below(3) as usize];
        drive.fill().unwrap();
        pause(&mut dice, 20, 400);
        // One that fits in what is left of a page may be taken, and then it stays.
        let name = format!("more{round}");
        match submit(&mut daemon.client(), &sh(&name, 1, &ledger.around(":"))) {
            Ok(_) => drop(acknowledged.insert(name)),
            Err(_) => refused += 1,
        }
        drive.free();
    }
    let row = done(&daemon, "led");
    assert_eq!((row.finished, row.failed), (u64::from(cells), 0), "{}", daemon.log());
    acknowledged.iter().for_each(|name| assert_eq!(done(&daemon, name).finished, 1, "{name}"));
    let more: Vec<String> = acknowledged.iter().map(|name| format!("{name}:0.0")).collect();
    let wanted = names("led", cells).chain(more);
    let count = ledger.check(wanted, Again::Never).unwrap_or_else(|why| panic!("{why}\n{}", daemon.log()));
    check_results(&daemon, &root, "led", cells);
    daemon.kill();
    let daemon = scene.how.start();
    assert_eq!(row_count(&daemon), acknowledged.len() + 1, "what was acknowledged, and nothing else");
    figures("disk full", rounds, count.runs, &format!(" | submissions refused {refused}"));
    scene.clear(daemon);
}

fn row_count(daemon: &Daemon) -> usize {
    match daemon.client().ask(&Request::Sweeps { all: true }, &[]).unwrap().0 {
        Answer::Sweeps { sweeps } => sweeps.len(),
        other => panic!("{other:?}"),
    }
}
