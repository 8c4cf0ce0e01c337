//! Daemon, agent, keeper and runs, all of them real, on this machine.

mod queue_daemon;

use queue_daemon::scene::{done, scene, sh};
use queue_daemon::*;
use shoal_core::queue::request::{Answer, Request, RunState};
use shoal_core::queue::work::Ending;
use shoal_core::queue::{RunId, Target};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

fn log_of(daemon: &Daemon, sweep: &str, cell: u32) -> String {
    let run = RunId { sweep: sweep.into(), cell, rep: 0 };
    let mut text = Vec::new();
    let read = daemon.client().stream(&Request::Logs { run, attempt: None, follow: true, rank: 0 }, |_, body| {
        text.extend_from_slice(body);
        ControlFlow::Continue(())
    });
    read.unwrap_or_else(|e| panic!("{e}; {}", daemon.log()));
    String::from_utf8(text).unwrap()
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
    scene.clear(daemon);
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
    scene.clear(daemon);
}

fn log_tail(daemon: &Daemon, sweep: &str) -> bool {
    let run = RunId { sweep: sweep.into(), cell: 0, rep: 0 };
    let mut any = false;
    let _ = daemon.client().stream(&Request::Logs { run, attempt: None, follow: false, rank: 0 }, |_, body| {
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
    assert!(matches!(
        client.ask(&Request::Stop { target, now: false, grace_seconds: None }, &[]).unwrap().0,
        Answer::Counted { runs: 20 }
    ));
    let row = done(&daemon, "long");
    assert_eq!(row.stopped, 20, "{}", daemon.log());
    scene.clear(daemon);
}
