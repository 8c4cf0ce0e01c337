//! What daemon and host say to each other, with the host played by the test.

mod queue_daemon;

use queue_daemon::*;
use shoal_core::queue::event::Pausable;
use shoal_core::queue::line::{FromHost, ToHost};
use shoal_core::queue::request::{Answer, Request, RunState};
use shoal_core::queue::work::Ending;
use shoal_core::queue::{RunId, Target};
use std::ops::ControlFlow;

struct Scene {
    _folder: tempfile::TempDir,
    host: FakeHost,
    how: How,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let host = FakeHost::new(folder.path());
    let how = How::at(&folder.path().join("q")).env("FAKE_AGENT", &host.path);
    Scene { _folder: folder, host, how }
}

#[test]
fn a_sweep_from_its_submission_to_its_results() {
    let scene = scene();
    let daemon = scene.how.start();
    let mut client = daemon.client();
    let Answer::Submitted { cells, new_cells, waiting, .. } = submit(&mut client, &sweep("mlp", 3)).unwrap() else {
        panic!()
    };
    assert_eq!((cells, new_cells, waiting), (3, 3, 3));
    let mut line = scene.host.accept();
    line.hello("boot", 2, vec![], vec![]);
    // Two CPUs, two runs; the third when one is over.
    let starts = line.starts_of(2);
    assert_eq!(starts[0].attempt, attempt("mlp", 0, 1));
    assert_eq!(starts[0].argv, ["/bin/true"]);
    assert_eq!(row(&mut client, "mlp").owner, client.user, "the kernel says whose it is");
    line.say(&FromHost::Metrics { attempt: attempt("mlp", 1, 1), metrics: vec![("loss".into(), "0.5".into())] });
    line.end(&attempt("mlp", 0, 1), Ending::Exited(0));
    assert_eq!(line.acknowledged(), [attempt("mlp", 0, 1)]);
    assert_eq!(line.starts()[0].attempt, attempt("mlp", 2, 1));
    // Told twice: acknowledged, counted once (QUEUE-2).
    line.end(&attempt("mlp", 0, 1), Ending::Exited(1));
    assert_eq!(line.acknowledged(), [attempt("mlp", 0, 1)]);
    assert_eq!(states(&mut client, "mlp"), [RunState::Finished, RunState::Running, RunState::Running]);
    assert_eq!(runs(&mut client, "mlp")[1].metrics, [("loss".to_string(), "0.5".to_string())]);
    line.end(&attempt("mlp", 1, 1), Ending::Exited(3));
    line.acknowledged();
    line.end(&attempt("mlp", 2, 1), Ending::Exited(0));
    line.acknowledged();
    let mut seen = Vec::new();
    client
        .stream(&Request::Wait { sweep: "mlp".into() }, |answer, _| {
            seen.push(answer);
            ControlFlow::Continue(())
        })
        .unwrap();
    let Some(Answer::Sweeps { sweeps }) = seen.last() else { panic!("{seen:?}") };
    assert_eq!((sweeps[0].finished, sweeps[0].failed), (2, 1));
    let all = runs(&mut client, "mlp");
    assert_eq!((all[1].state, all[1].ending.clone()), (RunState::Failed, Some(Ending::Exited(3))));
    assert_eq!((all[0].began, all[0].ended, all[0].hosts.len()), (Some(1_000), Some(3_500), 1));
    let ask = Request::Results { sweep: "mlp".into(), from: 0, limit: 10 };
    let Answer::Results { names, rows, total } = client.ask(&ask, &[]).unwrap().0 else { panic!() };
    assert_eq!((names, total, rows.len()), (vec!["x".to_string()], 2, 2));
    assert_eq!((rows[1].run.cell, rows[1].seconds, rows[1].metrics.len()), (2, 2.5, 1));
    // Only what failed.
    let target = Target::Sweep("mlp".into());
    let Answer::Counted { runs: 1 } = client.ask(&Request::Retry { target }, &[]).unwrap().0 else { panic!() };
    assert_eq!(line.starts()[0].attempt, attempt("mlp", 1, 2));
    assert!(daemon.end().success());
    assert!(line.is_closed());
}

/// A stop with another grace than the sweep's, longer or shorter, reaches the host as it was said.
#[test]
fn a_stop_has_the_grace_that_was_asked_for() {
    let scene = scene();
    let daemon = scene.how.start();
    let mut client = daemon.client();
    submit(&mut client, &sweep("mlp", 4)).unwrap();
    let mut line = scene.host.accept();
    line.hello("boot", 4, vec![], vec![]);
    line.starts_of(4);
    let own = sweep("mlp", 4).rules.grace_seconds;
    for (cell, now, asked, told) in
        [(0, false, None, own), (1, false, Some(3600), 3600), (2, false, Some(1), 1), (3, true, None, 0)]
    {
        let target = Target::Run(RunId { sweep: "mlp".into(), cell, rep: 0 });
        client.ask(&Request::Stop { target, now, grace_seconds: asked }, &[]).unwrap();
        let heard = line.hear();
        let is = matches!(&heard, ToHost::Stop { attempt: it, grace_seconds, .. }
            if *it == attempt("mlp", cell, 1) && *grace_seconds == told);
        assert!(is, "{cell}: {heard:?}");
        // Said once more for those that were told to end before.
        if told != own {
            assert_eq!(line.hear(), heard);
        }
    }
}

#[test]
fn after_a_restart_the_host_is_compared_with_the_journal() {
    let scene = scene();
    let daemon = scene.how.start();
    let mut client = daemon.client();
    submit(&mut client, &sweep("mlp", 5)).unwrap();
    let mut line = scene.host.accept();
    line.hello("boot", 5, vec![], vec![]);
    let starts = line.starts_of(5);
    let of = |cell: u32| attempt("mlp", cell, 1);
    // Asked to end, and the host says nothing of it any more when it is back.
    let stop = |cell: u32| Request::Stop {
        target: Target::Run(RunId { sweep: "mlp".into(), cell, rep: 0 }),
        now: false,
        grace_seconds: None,
    };
    client.ask(&stop(3), &[]).unwrap();
    assert!(matches!(line.hear(), ToHost::Stop { attempt, .. } if attempt == of(3)));
    client.ask(&stop(4), &[]).unwrap();
    assert!(matches!(line.hear(), ToHost::Stop { attempt, .. } if attempt == of(4)));
    daemon.kill();
    let daemon = scene.how.start();
    let mut client = daemon.client();
    assert_eq!(row(&mut client, "mlp").running, 5, "the journal knows them");
    let mut line = scene.host.accept();
    // 0 lives, 1 has ended, 2 is not known there, 3 neither, 4 lives still; and one lives that nobody knows.
    line.hello("boot", 5, vec![of(0), of(4), attempt("other", 0, 1)], vec![ended(&of(1), Ending::Exited(0))]);
    assert_eq!(line.acknowledged(), [of(1)]);
    let again = line.starts();
    assert_eq!(again, [starts[2].clone()], "the same words as the first time");
    let mut stops = Vec::new();
    while stops.len() < 2 {
        match line.hear() {
            ToHost::Stop { attempt, .. } => stops.push(attempt),
            other => panic!("{other:?}"),
        }
    }
    stops.sort();
    assert_eq!(stops, [of(4), attempt("other", 0, 1)]);
    line.end(&attempt("other", 0, 1), Ending::Stopped);
    assert_eq!(line.acknowledged(), [attempt("other", 0, 1)]);
    let expected = [RunState::Running, RunState::Finished, RunState::Running, RunState::Stopped, RunState::Running];
    until("the one that never began", || (states(&mut client, "mlp") == expected).then_some(()));
    // Not acknowledged because the line broke: told again on the next, taken in once.
    drop(line);
    let mut line = scene.host.accept();
    line.hello(
        "boot",
        5,
        vec![of(0), of(2)],
        vec![ended(&of(4), Ending::Signaled(15)), ended(&of(1), Ending::Exited(0))],
    );
    let mut acknowledged = line.acknowledged();
    acknowledged.sort();
    assert_eq!(acknowledged, [of(1), of(4)]);
    let expected = [RunState::Running, RunState::Finished, RunState::Running, RunState::Stopped, RunState::Stopped];
    assert_eq!(states(&mut client, "mlp"), expected);
}

#[test]
fn a_host_that_was_booted_anew_has_lost_what_it_ran() {
    let scene = scene();
    let daemon = scene.how.start();
    let mut client = daemon.client();
    submit(&mut client, &sweep("mlp", 2)).unwrap();
    let mut line = scene.host.accept();
    line.hello("first boot", 2, vec![], vec![]);
    line.starts_of(2);
    drop(line);
    let mut line = scene.host.accept();
    // One had ended before, and that is on its disk.
    line.hello("second boot", 2, vec![], vec![ended(&attempt("mlp", 0, 1), Ending::Exited(0))]);
    assert_eq!(line.acknowledged(), [attempt("mlp", 0, 1)]);
    assert_eq!(line.starts()[0].attempt, attempt("mlp", 1, 2), "free of charge");
    assert_eq!(states(&mut client, "mlp"), [RunState::Finished, RunState::Running]);
}

#[test]
fn output_comes_from_the_host_with_a_bound_on_what_is_under_way() {
    let scene = scene();
    let daemon = scene.how.start();
    let mut client = daemon.client();
    submit(&mut client, &sweep("mlp", 1)).unwrap();
    let run = RunId { sweep: "mlp".into(), cell: 0, rep: 0 };
    let logs = Request::Logs { run: run.clone(), attempt: None, follow: false, rank: 0 };
    assert!(why_refused(client.ask(&logs, &[]).map(|(a, _)| a)).contains("has not started yet"));
    let mut line = scene.host.accept();
    line.hello("boot", 1, vec![], vec![]);
    let of = line.starts()[0].attempt.clone();
    // A reader that takes nothing until all has been offered: the rest is asked for again, and nothing is missing.
    let piece = vec![b'x'; 1 << 20];
    let total = 64 * piece.len() as u64;
    let feed = std::thread::spawn(move || {
        let mut asks = 0;
        let mut sent_all = false;
        while !sent_all {
            let ToHost::Log { ask, from, attempt, .. } = line.hear() else { continue };
            assert_eq!(attempt, of);
            asks += 1;
            let mut at = from;
            while at < total {
                let end = at + piece.len() as u64 >= total;
                line.say_with(
                    &FromHost::Log { ask, from: at, end },
                    &piece[..(piece.len()).min((total - at) as usize)],
                );
                at += piece.len() as u64;
            }
            // Whether the daemon took the last piece shows in whether it asks again.
            line.say(&FromHost::Pong);
            line.stream.set_read_timeout(Some(std::time::Duration::from_secs(3))).unwrap();
            sent_all = loop {
                match shoal_daemon::queue::framing::read_message::<ToHost>(&mut line.stream) {
                    Ok(Some((ToHost::CancelLog { .. } | ToHost::Ping, _))) => {}
                    Ok(Some((ToHost::Log { ask, from, .. }, _))) => {
                        let mut at = from;
                        while at < total {
                            let end = at + piece.len() as u64 >= total;
                            line.say_with(&FromHost::Log { ask, from: at, end }, &piece);
                            at += piece.len() as u64;
                        }
                        asks += 1;
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(_) => break true,
                }
            };
        }
        (asks, line)
    });
    let mut length = 0u64;
    client
        .stream(&logs, |answer, body| {
            assert!(matches!(answer, Answer::Log { attempt: 1 }), "{answer:?}");
            length += body.len() as u64;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(length, total);
    let (asks, mut line) = feed.join().unwrap();
    assert!(asks >= 1);
    // The host goes away: said, with the last lines of what failed.
    line.stream.set_read_timeout(Some(BOUND)).unwrap();
    line.end(&attempt("mlp", 0, 1), Ending::Exited(1));
    line.acknowledged();
    client.ask(&Request::Pause { what: Pausable::Sweep("mlp".into()) }, &[]).unwrap();
    drop(line);
    until("the host's absence", || match client.ask(&Request::Hosts, &[]).unwrap().0 {
        Answer::Hosts { hosts } => (!hosts[0].connected).then_some(()),
        other => panic!("{other:?}"),
    });
    let mut tail = Vec::new();
    let ended = client.stream(&logs, |_, body| {
        tail.extend_from_slice(body);
        ControlFlow::Continue(())
    });
    let why = why_refused(ended.map(|()| Answer::Done));
    assert!(why.contains("is away"), "{why}");
    assert_eq!(tail, b"the last line\n");
}

#[test]
fn a_silent_host_is_lost_after_as_long_as_its_policy_bears_and_its_word_counts_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let host = FakeHost::new(folder.path());
    let how = How::at(&folder.path().join("q")).env("FAKE_AGENT", &host.path).arg(&["--lost-after", "1"]);
    let daemon = how.start();
    let mut client = daemon.client();
    submit(&mut client, &sweep("mlp", 1)).unwrap();
    let mut line = host.accept();
    line.hello("boot", 1, vec![], vec![]);
    line.starts();
    drop(line);
    // Dialled again, but it does not say hello.
    let _mute = host.accept();
    until("the loss", || (row(&mut client, "mlp").waiting == 1).then_some(()));
    drop(_mute);
    let mut line = host.accept();
    line.hello("boot", 1, vec![attempt("mlp", 0, 1)], vec![]);
    let mut heard = vec![line.hear(), line.hear()];
    heard.sort_by_key(|word| matches!(word, ToHost::Stop { .. }));
    assert!(matches!(&heard[0], ToHost::Start { starts } if starts[0].attempt == attempt("mlp", 0, 2)), "{heard:?}");
    assert!(matches!(&heard[1], ToHost::Stop { attempt: of, .. } if *of == attempt("mlp", 0, 1)), "{heard:?}");
    line.end(&attempt("mlp", 0, 1), Ending::Exited(0));
    line.acknowledged();
    assert_eq!(states(&mut client, "mlp"), [RunState::Running]);
}
