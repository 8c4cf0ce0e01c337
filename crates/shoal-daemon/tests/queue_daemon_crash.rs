//! kill -9: every acknowledged submission is there again, and nothing that was not asked for (QUEUE-1).

mod queue_daemon;

use queue_daemon::*;
use shoal_core::queue::request::{Answer, Request};
use shoal_core::queue::work::Ending;
use std::collections::BTreeSet;
use std::time::Duration;

fn rounds() -> u32 {
    shoal_testkit::rounds(30) as u32
}

fn names(daemon: &Daemon) -> BTreeSet<String> {
    match daemon.client().ask(&Request::Sweeps { all: true }, &[]).unwrap().0 {
        Answer::Sweeps { sweeps } => sweeps.into_iter().map(|row| row.name).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn acknowledged_submissions_survive_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let how = How::at(&folder.path().join("q")).env("FAKE_AGENT", "/nowhere");
    let (mut acknowledged, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..rounds() {
        let daemon = how.start();
        let there = names(&daemon);
        assert!(acknowledged.is_subset(&there), "lost: {:?}", acknowledged.difference(&there));
        assert!(there.is_subset(&asked), "made up: {:?}", there.difference(&asked));
        // Killed while it is being asked, at another point every time.
        let pid = daemon.child.id() as i32;
        let delay = Duration::from_micros(u64::from(round) * 7919 % 20_000);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(delay);
            // SAFETY: a process that this test started and has not reaped.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        });
        if let Ok(mut client) = daemon.try_client() {
            for k in 0.. {
                let name = format!("s{round}-{k}");
                asked.insert(name.clone());
                if submit(&mut client, &sweep(&name, 3)).is_err() {
                    break;
                }
                acknowledged.insert(name);
            }
        }
        killer.join().unwrap();
        drop(daemon);
    }
    let there = names(&how.start());
    assert!(acknowledged.is_subset(&there) && !acknowledged.is_empty());
    shoal_testkit::figures("daemon killed under submissions", rounds().into(), acknowledged.len(), "");
}

#[test]
fn ends_that_were_acknowledged_survive_kill_9_and_others_are_told_again() {
    let folder = tempfile::tempdir().unwrap();
    let host = FakeHost::new(folder.path());
    let how = How::at(&folder.path().join("q")).env("FAKE_AGENT", &host.path);
    let cells = rounds() * 4;
    submit(&mut how.start().client(), &sweep("mlp", cells)).unwrap();
    // What a host would have on its disk: what was started, and what ended and was not acknowledged.
    let (mut started, mut unheard, mut done) = (BTreeSet::new(), BTreeSet::new(), 0);
    for round in 0..rounds() * 4 {
        let daemon = how.start();
        let waiting: Vec<_> = unheard.iter().map(|of| ended(of, Ending::Exited(0))).collect();
        let alive: Vec<_> = started.difference(&unheard).cloned().collect();
        // The daemon before may have dialled once more just when it was killed.
        let mut line = loop {
            let mut line = host.accept();
            if line.try_hello("boot", 2, alive.clone(), waiting.clone()).is_ok() {
                break line;
            }
        };
        let pid = daemon.child.id() as i32;
        let delay = Duration::from_micros(2_000 + u64::from(round) * 7919 % 15_000);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(delay);
            // SAFETY: as above.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        });
        while let Ok(Some((word, _))) = shoal_daemon::queue::framing::read_message(&mut line.stream) {
            use shoal_core::queue::line::{FromHost, ToHost};
            match word {
                ToHost::Start { starts } => {
                    for start in starts {
                        assert!(started.insert(start.attempt.clone()), "{} was started twice", start.attempt);
                        assert_eq!(start.attempt.number, 1, "nothing failed, so nothing is tried again");
                        unheard.insert(start.attempt.clone());
                        let ended = vec![ended(&start.attempt, Ending::Exited(0))];
                        let _ = shoal_daemon::queue::framing::write_message(
                            &mut line.stream,
                            &FromHost::Ended { ended },
                            &[],
                        );
                    }
                }
                ToHost::Ended { attempts } => {
                    for of in attempts {
                        assert!(unheard.remove(&of));
                        done += 1;
                    }
                }
                _ => {}
            }
        }
        killer.join().unwrap();
        drop(daemon);
    }
    let daemon = how.start();
    let row = row(&mut daemon.client(), "mlp");
    assert_eq!(row.failed + row.stopped, 0);
    assert!(row.finished >= done, "{} acknowledged, {} kept", done, row.finished);
    assert!(row.finished <= started.len() as u64);
    assert!(done > 0);
}
