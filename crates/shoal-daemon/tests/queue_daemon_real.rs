//! Daemon, agent, keeper and runs, all of them real, on this machine.

mod queue_daemon;

use queue_daemon::*;
use shoal_core::queue::request::{Answer, Request, RunState};
use shoal_core::queue::sweep::Sweep;
use shoal_core::queue::work::Ending;
use shoal_core::queue::{RunId, Target};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

struct Scene {
    folder: tempfile::TempDir,
    how: How,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let how = How::at(&folder.path().join("q")).env("SHOAL_HOST_DIR", folder.path().join("host"));
    Scene { how, folder }
}

fn sh(name: &str, cells: u32, script: &str) -> Sweep {
    let mut sweep = sweep(name, cells);
    sweep.command.argv = vec!["/bin/sh".into(), "-c".into(), script.into()];
    sweep
}

/// Agents and keepers of this test's host folder, by their environment.
fn processes(folder: &Path, word: &str) -> Vec<u32> {
    let mark = format!("SHOAL_HOST_DIR={}", folder.join("host").display());
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let has = |bytes: Vec<u8>, word: &str| bytes.split(|b| *b == 0).any(|v| v == word.as_bytes());
        has(read("environ"), &mark) && has(read("cmdline"), word)
    })
    .collect()
}

fn done(daemon: &Daemon, name: &str) -> shoal_core::queue::request::SweepRow {
    let mut last = None;
    let mut client = daemon.client();
    let waited = client.stream(&Request::Wait { sweep: name.into() }, |answer, _| {
        if let Answer::Sweeps { sweeps } = answer {
            last = sweeps.into_iter().next();
        }
        ControlFlow::Continue(())
    });
    waited.unwrap_or_else(|e| panic!("{e}; {}", daemon.log()));
    last.unwrap()
}

fn log_of(daemon: &Daemon, sweep: &str, cell: u32) -> String {
    let run = RunId { sweep: sweep.into(), cell, rep: 0 };
    let mut text = Vec::new();
    let read = daemon.client().stream(&Request::Logs { run, attempt: None, follow: true }, |_, body| {
        text.extend_from_slice(body);
        ControlFlow::Continue(())
    });
    read.unwrap_or_else(|e| panic!("{e}; {}", daemon.log()));
    String::from_utf8(text).unwrap()
}

/// Ends what this test's daemons left, and waits for it.
fn clear(scene: Scene, daemon: Daemon) {
    let _ = daemon.client().ask(&Request::Shutdown { stop_runs: true }, &[]);
    drop(daemon);
    for word in ["queue-keeper", "agent"] {
        for pid in processes(scene.folder.path(), word) {
            // SAFETY: it bears the mark of this test's own folder.
            unsafe { libc::kill(pid as i32, libc::SIGTERM) };
        }
    }
}

#[test]
fn runs_happen_with_output_exit_codes_and_results() {
    let scene = scene();
    let daemon = scene.how.start();
    let mut client = daemon.client();
    let script = "echo hello $SHOAL_CELL; echo '{{\"loss\": 0.5}}'; echo 1,2 > series.csv; exit $((SHOAL_CELL == 2))";
    submit(&mut client, &sh("mlp", 3, script)).unwrap();
    let row = done(&daemon, "mlp");
    assert_eq!((row.finished, row.failed), (2, 1), "{}", daemon.log());
    assert!(log_of(&daemon, "mlp", 1).starts_with("hello 1\n"));
    let all = runs(&mut client, "mlp");
    assert_eq!((all[2].state, all[2].ending.clone()), (RunState::Failed, Some(Ending::Exited(1))));
    let ask = Request::Results { sweep: "mlp".into(), from: 0, limit: 10 };
    let Answer::Results { rows, .. } = client.ask(&ask, &[]).unwrap().0 else { panic!() };
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row.metrics, [("loss".to_string(), "0.5".to_string())]);
        let folder = row.folder.expect("a folder of results");
        assert_eq!(std::fs::read_to_string(Path::new(&folder).join("series.csv")).unwrap(), "1,2\n");
        assert!(Path::new(&folder).starts_with(daemon.store.results()), "{folder}");
    }
    clear(scene, daemon);
}

#[test]
fn a_restarted_daemon_adopts_what_runs() {
    let scene = scene();
    let daemon = scene.how.start();
    let go = scene.folder.path().join("go");
    let script = format!("echo begun; while [ ! -e {} ]; do sleep 0.05; done; echo over", go.display());
    submit(&mut daemon.client(), &sh("long", 2, &script)).unwrap();
    until("the runs", || (row(&mut daemon.client(), "long").running == 2).then_some(()));
    until("their output", || log_tail(&daemon, "long").then_some(()));
    daemon.kill();
    let began = Instant::now();
    let daemon = scene.how.start();
    until("its host", || match daemon.client().ask(&Request::Hosts, &[]).unwrap().0 {
        Answer::Hosts { hosts } => hosts[0].connected.then_some(()),
        other => panic!("{other:?}"),
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(row(&mut daemon.client(), "long").running, 2);
    std::fs::write(&go, "").unwrap();
    let row = done(&daemon, "long");
    assert_eq!((row.finished, row.failed), (2, 0), "{}", daemon.log());
    assert_eq!(log_of(&daemon, "long", 0), "begun\nover\n");
    let attempts: Vec<u32> = runs(&mut daemon.client(), "long").iter().map(|row| row.attempt).collect();
    assert_eq!(attempts, [1, 1], "none was tried again");
    clear(scene, daemon);
}

fn log_tail(daemon: &Daemon, sweep: &str) -> bool {
    let run = RunId { sweep: sweep.into(), cell: 0, rep: 0 };
    let mut any = false;
    let _ = daemon.client().stream(&Request::Logs { run, attempt: None, follow: false }, |_, body| {
        any |= !body.is_empty();
        ControlFlow::Continue(())
    });
    any
}

#[test]
fn a_stop_ends_what_runs_and_what_waits() {
    let scene = scene();
    let daemon = scene.how.start();
    let mut client = daemon.client();
    submit(&mut client, &sh("long", 20, "sleep 1000")).unwrap();
    until("runs", || (row(&mut client, "long").running > 0).then_some(()));
    let target = Target::Sweep("long".into());
    assert!(matches!(client.ask(&Request::Stop { target, now: false }, &[]).unwrap().0, Answer::Counted { runs: 20 }));
    let row = done(&daemon, "long");
    assert_eq!(row.stopped, 20, "{}", daemon.log());
    clear(scene, daemon);
}

/// Each run appends a line to a ledger; killed daemons and agents must neither lose one nor run one twice.
#[test]
fn killed_daemons_and_agents_lose_nothing_and_double_nothing() {
    let rounds: u32 = std::env::var("SHOAL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let scene = scene();
    let ledger = scene.folder.path().join("ledger");
    let cells = rounds * 8;
    let script = format!(
        "sleep 0.0$((SHOAL_CELL % 5)); echo $SHOAL_RUN >> {0}; echo $SHOAL_RUN $SHOAL_ATTEMPT $$ >> {0}.attempts",
        ledger.display()
    );
    let mut daemon = scene.how.start();
    submit(&mut daemon.client(), &sh("led", cells, &script)).unwrap();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(u64::from(round) * 37 % 150 + 20));
        if round % 3 != 0 {
            for pid in processes(scene.folder.path(), "agent") {
                // SAFETY: an agent of this test's own folder.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            }
        }
        if round % 3 != 1 {
            daemon.kill();
            daemon = scene.how.start();
        }
    }
    let row = done(&daemon, "led");
    assert_eq!((row.finished, row.failed, row.stopped), (u64::from(cells), 0, 0), "{}", daemon.log());
    let mut count = BTreeMap::new();
    for line in std::fs::read_to_string(&ledger).unwrap().lines() {
        *count.entry(line.to_string()).or_insert(0) += 1;
    }
    assert_eq!(count.len() as u32, cells);
    let doubled: Vec<_> = count.iter().filter(|(_, n)| **n != 1).collect();
    let attempts = std::fs::read_to_string(format!("{}.attempts", ledger.display())).unwrap_or_default();
    let told =
        |(run, _): &(&String, &i32)| attempts.lines().filter(|line| line.starts_with(run.as_str())).collect::<Vec<_>>();
    assert!(doubled.is_empty(), "{doubled:?}: {:?}\n{}", doubled.iter().map(told).collect::<Vec<_>>(), daemon.log());
    clear(scene, daemon);
}
