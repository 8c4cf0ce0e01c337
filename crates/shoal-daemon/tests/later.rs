//! What later invocations on the host find: records, logs, and detached runs to follow and stop.

mod common;

use common::*;
use shoal_core::rank::Rank;
use shoal_daemon::protocol::{FromWarden, ToWarden};
use shoal_daemon::records::{self, State};
use shoal_daemon::{Ending, How};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const TOKEN: &str = "sEcReT-5f2a9c";

#[test]
fn secrets_are_in_no_argv_and_in_no_record() {
    // SEC-2
    let mut launcher = Launcher::new("secret");
    let mut job = rank(0, sh("echo ready; sleep 1000"));
    job.env.insert("SHOAL_TOKEN".into(), TOKEN.into());
    job.prepare.setup = vec![format!("export KEY={TOKEN}")];
    let mut direct = rank(1, argv(&["sh", "-c", "test -n \"$SHOAL_TOKEN\" && echo ready; sleep 1000"]));
    direct.env.insert("SHOAL_TOKEN".into(), TOKEN.into());
    launcher.start(vec![job, direct]);
    launcher.wait_output(W0, "ready");
    launcher.wait_output(Rank::Worker(1), "ready");
    for pid in marked(&launcher.run) {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&cmdline).contains(TOKEN), "{pid}");
    }
    let runs = records::run(&launcher.state(), &launcher.run);
    assert_eq!(runs[0].job.as_ref().unwrap().ranks[1].env["SHOAL_TOKEN"], "");
    for entry in std::fs::read_dir(&runs[0].folder).unwrap().flatten() {
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{entry:?}");
        if !entry.file_name().to_string_lossy().starts_with("run") {
            assert!(!std::fs::read_to_string(entry.path()).unwrap().contains(TOKEN), "{entry:?}");
        }
    }
    assert_eq!(std::fs::metadata(&runs[0].folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(launcher.log(W0)).unwrap().permissions().mode() & 0o077, 0);
    launcher.send(&ToWarden::Kill);
    launcher.bye();
}

#[test]
fn records_tell_who_lives_and_how_it_ended() {
    let mut launcher = Launcher::new("records");
    launcher.start(vec![rank(0, sh("echo ready; sleep 1000")), rank(1, sh("exit 3"))]);
    let child = launcher.started();
    assert_eq!(launcher.ended().0, Ending::Exited(3));
    launcher.wait_output(W0, "ready");
    let find = |k: u32, l: &Launcher| records::list(&l.state())[0].ranks[k as usize].clone();
    assert_eq!(find(0, &launcher).state(), State::Alive);
    assert!([find(0, &launcher), find(1, &launcher)].iter().any(|r| r.child.unwrap().pid == child));
    assert_eq!(find(1, &launcher).state(), State::Ended(Ending::Exited(3)));
    let stopped = records::stop(&launcher.state(), &launcher.run, Some(W0), Duration::from_secs(5)).unwrap();
    assert!(stopped[0].was_alive);
    assert_eq!(launcher.ended().0, Ending::Stopped(How::Signaled(libc::SIGTERM)));
    launcher.bye();
    assert!(!records::list(&launcher.state())[0].is_alive());
    let mut out = Vec::new();
    records::tail(&launcher.state(), &launcher.run, W0, 2, true, &mut out).unwrap();
    assert_eq!(out, b"ady\n");
}

#[test]
fn a_recycled_pid_is_left_alone() {
    let mut launcher = Launcher::new("recycled");
    launcher.start(vec![rank(0, argv(&["true"]))]);
    launcher.bye();
    let run = &records::run(&launcher.state(), &launcher.run)[0];
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let mut record = run.ranks[0].clone();
    (record.ending, record.ended_ms) = (None, None);
    record.keeper.pid = bystander.id();
    records::save_rank(&run.folder, &record).unwrap();
    let stopped = records::stop(&launcher.state(), &launcher.run, None, Duration::ZERO).unwrap();
    assert_eq!((stopped[0].was_alive, &stopped[0].state), (false, &State::Lost));
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_detached_run_goes_on_is_followed_and_stopped() {
    let mut launcher = Launcher::with("detached", &["--detachable"]);
    assert_ne!(launcher.hello.pid, launcher.warden.id(), "somebody stays in front");
    let line = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 0";
    let mut job = launcher.job(vec![rank(0, sh(line)), rank(1, sh("echo here; sleep 1000"))]);
    job.detached = true;
    launcher.send(&ToWarden::Start(job));
    launcher.started();
    launcher.started();
    launcher.send(&ToWarden::Detach);
    launcher.wait("detached", |m| (*m == FromWarden::Detached).then_some(()));
    // What ssh waits for: the process it started, and the end of its stdout.
    assert!(until("the front's end", || launcher.warden.try_wait().unwrap()).success());
    let more = launcher.messages.recv_timeout(BOUND);
    assert!(more.is_err(), "{more:?}");
    launcher.stdin = None;
    let (root, run) = (launcher.state(), launcher.run.clone());
    assert!(records::run(&root, &run)[0].is_alive());
    let follow = std::thread::spawn({
        let (root, run) = (root.clone(), run.clone());
        move || {
            let mut out = Vec::new();
            records::tail(&root, &run, W0, 0, true, &mut out).map(|_| out).unwrap()
        }
    });
    std::fs::write(launcher.home.path().join("go"), "").unwrap();
    assert_eq!(follow.join().unwrap(), b"one\ntwo\n");
    let stopped = records::stop(&root, &run, None, Duration::from_secs(5)).unwrap();
    assert_eq!(stopped.iter().map(|s| s.was_alive).collect::<Vec<_>>(), [false, true]);
    launcher.nobody_left();
}

#[test]
fn a_detached_gang_outlives_its_warden_but_not_its_first_failure() {
    let mut launcher = Launcher::with("detfail", &["--detachable"]);
    let mut job =
        launcher.job(vec![rank(0, sh("while [ ! -e go ]; do sleep 0.05; done; exit 9")), rank(1, sh("sleep 1000"))]);
    job.detached = true;
    launcher.send(&ToWarden::Start(job));
    launcher.started();
    launcher.started();
    // Without a word: the connection broke.
    launcher.stdin = None;
    until("the front's end", || launcher.warden.try_wait().unwrap());
    let (root, run) = (launcher.state(), launcher.run.clone());
    std::fs::write(launcher.home.path().join("go"), "").unwrap();
    launcher.nobody_left();
    let ranks = &records::run(&root, &run)[0].ranks;
    assert_eq!(ranks[0].ending, Some(Ending::Exited(9)));
    assert!(matches!(ranks[1].ending, Some(Ending::Stopped(_))), "{:?}", ranks[1].ending);

    let mut launcher = Launcher::with("detwarden", &["--detachable"]);
    let mut job = launcher.job(vec![rank(0, sh("while [ ! -e go ]; do sleep 0.05; done; echo done"))]);
    job.detached = true;
    launcher.send(&ToWarden::Start(job));
    launcher.started();
    kill(launcher.hello.pid, libc::SIGKILL);
    until("the warden's end", || (!exists(launcher.hello.pid)).then_some(()));
    std::fs::write(launcher.home.path().join("go"), "").unwrap();
    let mut out = Vec::new();
    records::tail(&launcher.state(), &launcher.run, W0, 0, true, &mut out).unwrap();
    assert_eq!(out, b"done\n");
    launcher.nobody_left();
}
