//! What runs find, and how they end, on a real host: agent and keeper as processes of their own.

mod queue_host;

use queue_host::*;
use shoal_core::queue::line::{FromHost, ToHost};
use shoal_core::queue::work::{Ending, RUN_DIR_MARK};
use std::fs;

#[test]
fn codes_signals_and_what_cannot_be_started() {
    let place = Place::new();
    let mut line = Line::open(&place);
    assert_eq!(line.run(argv(0, &["/bin/true"])).ending, Ending::Exited(0));
    let ended = line.run(sh(1, "echo out; echo err >&2; exit 3"));
    assert_eq!((ended.ending, ended.tail.as_str(), ended.output_bytes), (Ending::Exited(3), "out\nerr\n", 8));
    assert!(ended.began <= ended.ended);
    assert_eq!(line.run(sh(2, "kill -SEGV $$")).ending, Ending::Signaled(libc::SIGSEGV));
    assert_eq!(line.run(sh(3, "kill -KILL $$")).ending, Ending::Signaled(libc::SIGKILL));
    let why = |ending: Ending| match ending {
        Ending::NotStarted { why } => why,
        other => panic!("{other:?}"),
    };
    let missing = why(line.run(argv(4, &["pyhton3", "x"])).ending);
    assert!(missing.contains("there is no program `pyhton3` in PATH of host here"), "{missing}");
    assert!(missing.contains("did you mean `python3`?"), "{missing}");
    assert!(why(line.run(argv(5, &[])).ending).contains("the command is empty"));
    let mut start = argv(6, &["true"]);
    start.folder = Some("/no/such/folder".into());
    assert!(why(line.run(start).ending).contains("/no/such/folder is not on host here"));
    let mut start = argv(7, &["true"]);
    start.virtualenv = Some("/no/venv".into());
    assert!(why(line.run(start).ending).contains("/no/venv is no virtualenv"));
    let mut start = argv(8, &["true"]);
    start.setup = vec!["true".into(), "echo said; (exit 4)".into()];
    let ended = line.run(start);
    assert_eq!(why(ended.ending), "setup line 2, `echo said; (exit 4)`, failed (exited with code 4)");
    assert_eq!(ended.tail, "said\n");
    let mut start = argv(9, &["true"]);
    start.argv[0] = "/etc/passwd".into();
    assert!(why(line.run(start).ending).contains("is not executable"));
    let mut start = argv(10, &["true"]);
    start.env.push(("A".into(), "a\0b".into()));
    assert!(why(line.run(start).ending).contains("`A` cannot be set"));
    let long = "x".repeat(300_000);
    assert!(why(line.run(argv(11, &["true", &long])).ending).contains("too long"));
}

#[test]
fn a_run_finds_its_folder_its_files_and_its_variables() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let show =
        "echo \"[$1]\"; pwd; echo $SHOAL_RUN; cat params.json; echo $SHOAL_PARAMS $SHOAL_METRICS $PYTHONUNBUFFERED $A";
    let mut start = argv(0, &["sh", "-c", show, "sh", "--out={}"]);
    start.argv[4] = format!("--out={RUN_DIR_MARK}/x");
    start.files = vec![("params.json".into(), "{\"lr\":1}\n".into())];
    start.setup = vec!["A=setup; export A".into()];
    let attempt = start.attempt.clone();
    let ended = line.run(start);
    assert_eq!(ended.ending, Ending::Exited(0));
    assert_eq!(ended.results, None, "it left nothing of its own");
    let room = place.store().join("work/s_0.0_1");
    let room = room.to_str().unwrap();
    let said = String::from_utf8(line.log(1, &attempt, 0, false).unwrap()).unwrap();
    let expected =
        format!("[--out={room}/x]\n{room}\ns:0.0\n{{\"lr\":1}}\n{room}/params.json {room}/metrics.jsonl 1 setup\n");
    assert_eq!(said, expected);
    assert!(!std::path::Path::new(room).exists());
    let venv = tempfile::tempdir().unwrap();
    fs::create_dir(venv.path().join("bin")).unwrap();
    let python = venv.path().join("bin/python");
    fs::write(&python, "#!/bin/sh\necho mine $VIRTUAL_ENV ${PYTHONHOME-unset}\n").unwrap();
    fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut start = argv(1, &["python"]);
    start.virtualenv = Some(venv.path().to_str().unwrap().into());
    start.folder = Some("/".into());
    let attempt = start.attempt.clone();
    assert_eq!(line.run(start).ending, Ending::Exited(0));
    let said = line.log(2, &attempt, 5, false).unwrap();
    assert_eq!(String::from_utf8(said).unwrap(), format!("{} unset\n", venv.path().display()));
}

#[test]
fn a_chain_runs_in_order_one_at_a_time_and_a_stopped_link_is_skipped() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let ledger = place.base.join("ledger");
    let write = |k: u32| format!("echo b{k} >> {0}; sleep 0.02; echo e{k} >> {0}", ledger.display());
    let mut starts =
        vec![sh(0, &format!("while [ ! -e {}/go ]; do sleep 0.01; done; {}", place.base.display(), write(0)))];
    for k in 1..20 {
        let mut start = if k == 7 { argv(k, &["no-such-program"]) } else { sh(k, &write(k)) };
        start.after = Some(attempt(k - 1, 1));
        starts.push(start);
    }
    line.start(starts.clone());
    line.wait_alive(&attempt(0, 1));
    // Not begun: ended at once, while the one before still runs.
    line.say(&ToHost::Stop { attempt: attempt(3, 1), checkpoint_first: false, grace_seconds: 1 });
    assert_eq!(line.end_of(&attempt(3, 1)).ending, Ending::Stopped);
    assert!(!line.ended.contains_key(&(attempt(0, 1), 0)));
    fs::write(place.base.join("go"), "").unwrap();
    for k in 0..20 {
        let ending = line.end_of(&attempt(k, 1)).ending;
        match k {
            3 => assert_eq!(ending, Ending::Stopped),
            7 => assert!(matches!(ending, Ending::NotStarted { .. })),
            _ => assert_eq!(ending, Ending::Exited(0)),
        }
    }
    let expected: String = (0..20).filter(|k| ![3, 7].contains(k)).map(|k| format!("b{k}\ne{k}\n")).collect();
    assert_eq!(fs::read_to_string(&ledger).unwrap(), expected);
    // Acknowledged; the same again would be another order, which the daemon never gives.
    let before = line.ended.len();
    line.acknowledges = false;
    let again = sh(30, "echo once >> ledger2");
    line.start(vec![again.clone(), again.clone()]);
    let first = line.end_of(&attempt(30, 1));
    line.start(vec![again]);
    line.wait("being told again", |line| {
        let told =
            line.seen.iter().filter(|(m, _)| matches!(m, FromHost::Ended { ended } if ended.contains(&first))).count();
        (told >= 2).then_some(())
    });
    assert_eq!(line.ended.len(), before + 1);
}

#[test]
fn everything_a_run_started_is_gone_before_its_end_is_told() {
    let place = Place::new();
    let mut line = Line::open(&place);
    // In its group, out of its session, and one that ignores to be asked.
    let script = "sleep 1000 & setsid sleep 1000 & (trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done') & sleep 0.1; exit 5";
    let mut start = sh(0, script);
    start.grace_seconds = 1;
    assert_eq!(line.run(start).ending, Ending::Exited(5));
    assert_eq!(place.left(), Vec::<u32>::new());
    // Others are left alone meanwhile.
    line.start(vec![sh(1, "sleep 1000 & setsid sleep 1000 & wait"), sh(2, "setsid sleep 1000 & sleep 0.1")]);
    assert_eq!(line.end_of(&attempt(2, 1)).ending, Ending::Exited(0));
    assert_eq!(place.left().len(), 3, "the shell and its two");
    line.say(&ToHost::Stop { attempt: attempt(1, 1), checkpoint_first: false, grace_seconds: 5 });
    assert_eq!(line.end_of(&attempt(1, 1)).ending, Ending::Stopped);
    assert_eq!(place.left(), Vec::<u32>::new());
}

#[test]
fn time_limits_stops_and_checkpoints() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let mut start = sh(0, "sleep 1000");
    start.time_limit_seconds = Some(1);
    assert_eq!(line.run(start).ending, Ending::TimeLimit);
    let mut start = sh(1, "trap '' TERM; while :; do sleep 0.1; done");
    (start.time_limit_seconds, start.grace_seconds) = (Some(1), 1);
    let ended = line.run(start);
    assert_eq!(ended.ending, Ending::TimeLimit);
    assert!(ended.ended - ended.began >= 1900, "the grace was given");
    // SIGUSR1 comes first; the program writes its checkpoint and ends by itself.
    let script = "trap 'echo saved > ckpt; exit 0' USR1; echo ready; while :; do sleep 0.05; done";
    line.start(vec![sh(2, script)]);
    line.wait_alive(&attempt(2, 1));
    line.say(&ToHost::Log { ask: 1, attempt: attempt(2, 1), from: 0, follow: true, rank: 0 });
    line.wait("ready", |line| line.seen.iter().any(|(_, body)| body.as_slice() == b"ready\n").then_some(()));
    line.say(&ToHost::Stop { attempt: attempt(2, 1), checkpoint_first: true, grace_seconds: 20 });
    let ended = line.end_of(&attempt(2, 1));
    assert_eq!(ended.ending, Ending::Stopped);
    assert!(ended.results.is_none());
    assert!(line.log_end(1).unwrap().starts_with(b"ready\n"));
    assert_eq!(fs::read_to_string(place.store().join("attempts/s_2.0_1/ckpt")).unwrap(), "saved\n");
    // One that does not know the signal ends by it; one that ignores all is killed after the grace.
    let stubborn = "trap '' USR1 TERM; echo ready; while :; do sleep 0.05; done";
    line.start(vec![sh(3, "sleep 1000"), sh(4, stubborn)]);
    line.wait_alive(&attempt(3, 1));
    line.wait_alive(&attempt(4, 1));
    for k in [3, 4] {
        line.say(&ToHost::Stop { attempt: attempt(k, 1), checkpoint_first: true, grace_seconds: 1 });
    }
    assert_eq!(line.end_of(&attempt(3, 1)).ending, Ending::Stopped);
    assert_eq!(line.end_of(&attempt(4, 1)).ending, Ending::Stopped);
}

#[test]
fn a_run_that_takes_more_memory_than_it_may_is_ended() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let mut start = argv(0, &["python3", "-c", "import time; x = b'x' * (300 << 20); time.sleep(1000)"]);
    start.memory_bytes = Some(100 << 20);
    let ended = line.run(start);
    assert_eq!(ended.ending, Ending::OutOfMemory);
    // How far it came by then is its own affair: it may be ended while it still grows.
    assert!(ended.peak_memory_bytes > 100 << 20 && ended.cpu_ms > 0, "{ended:?}");
}

#[test]
fn logs_are_read_while_they_grow_and_afterwards() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let go = place.base.join("go");
    let script = format!("echo one; while [ ! -e {} ]; do sleep 0.01; done; echo two", go.display());
    line.start(vec![sh(0, &script)]);
    line.wait_alive(&attempt(0, 1));
    assert_eq!(line.log(1, &attempt(0, 1), 0, false).unwrap(), b"one\n", "what is there so far");
    line.say(&ToHost::Log { ask: 2, attempt: attempt(0, 1), from: 2, follow: true, rank: 0 });
    line.wait("the first piece", |line| line.seen.iter().any(|(_, body)| body.as_slice() == b"e\n").then_some(()));
    fs::write(&go, "").unwrap();
    assert_eq!(line.log_end(2).unwrap(), b"e\ntwo\n");
    line.end_of(&attempt(0, 1));
    assert_eq!(line.log(3, &attempt(0, 1), 4, true).unwrap(), b"two\n");
    // More than a piece, more than a pack takes at once, and none at all.
    line.run(sh(1, "head -c 3000000 /dev/zero | tr '\\0' x"));
    let long = line.log(4, &attempt(1, 1), 0, false).unwrap();
    assert!(long.len() == 3_000_000 && long.iter().all(|b| *b == b'x'));
    line.run(argv(2, &["true"]));
    assert!(line.log(5, &attempt(2, 1), 0, false).unwrap_err().contains("it printed nothing"));
    // One that is cancelled says no more.
    line.start(vec![sh(3, "while :; do echo again; sleep 0.01; done")]);
    line.wait_alive(&attempt(3, 1));
    line.say(&ToHost::Log { ask: 6, attempt: attempt(3, 1), from: 0, follow: true, rank: 0 });
    line.wait("output", |line| line.seen.iter().any(|(m, _)| matches!(m, FromHost::Log { ask: 6, .. })).then_some(()));
    line.say(&ToHost::CancelLog { ask: 6 });
    line.say(&ToHost::Stop { attempt: attempt(3, 1), checkpoint_first: false, grace_seconds: 1 });
    line.end_of(&attempt(3, 1));
    // Another agent finds them all again.
    drop(line);
    let mut line = Line::open(&place);
    assert_eq!(line.log(1, &attempt(0, 1), 0, false).unwrap(), b"one\ntwo\n");
    let files: Vec<_> = fs::read_dir(place.store().join("packs")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(files.len(), 2, "one for all the short ones, one for the long one: {files:?}");
}

/// What is taken back ends if it waits; what has begun, or is over, goes on as if nothing had been said (QUEUE-2).
#[test]
fn only_what_has_not_begun_is_taken_back() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let go = place.base.join("go");
    let mut next = sh(1, "echo never");
    next.after = Some(attempt(0, 1));
    line.start(vec![sh(0, &format!("while [ ! -e {} ]; do sleep 0.01; done", go.display())), next]);
    line.wait_alive(&attempt(0, 1));
    for cell in [0, 1] {
        line.say(&ToHost::TakeBack { attempt: attempt(cell, 1) });
    }
    assert_eq!(line.end_of(&attempt(1, 1)).ending, Ending::Stopped);
    std::fs::write(&go, "").unwrap();
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(0));
}
