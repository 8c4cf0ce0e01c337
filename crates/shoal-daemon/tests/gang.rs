//! GANG-1: whoever dies, nobody of the gang is left.

mod common;

use common::*;
use shoal_core::rank::Rank;
use shoal_daemon::Ending;
use shoal_daemon::protocol::{FromWarden, ToWarden};
use std::io::Write;

/// A rank with a child, and a daemon (double fork and setsid) that ignores SIGTERM.
const FAMILY: &str = r#"
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("daemon", os.getpid(), flush=True)
        time.sleep(1000)
    os._exit(0)
os.wait()
if os.fork() == 0:
    time.sleep(1000)
print("ready", flush=True)
if len(sys.argv) > 1:
    # Not before the daemon ignores what ends it.
    time.sleep(0.2)
    sys.exit(int(sys.argv[1]))
time.sleep(1000)
"#;

fn family(k: u32) -> shoal_core::job::RankJob {
    rank(k, argv(&["python3", "-c", FAMILY]))
}

fn with_families(test: &str, args: &[&str]) -> Launcher {
    let mut launcher = Launcher::with(test, args);
    launcher.start(vec![family(0), family(1)]);
    for k in [0, 1] {
        launcher.wait_output(Rank::Worker(k), "ready");
        launcher.wait_output(Rank::Worker(k), "daemon");
    }
    // Warden, two keepers, and three of each family.
    assert!(marked(&launcher.run).len() >= 9, "{:?}", marked(&launcher.run));
    launcher
}

const PATIENT: &[&str] = &["--silence-ms", "60000"];

fn keepers(launcher: &Launcher) -> Vec<u32> {
    shoal_daemon::records::run(&launcher.state(), &launcher.run)
        .iter()
        .flat_map(|r| r.ranks.iter().map(|k| k.keeper.pid))
        .collect()
}

#[test]
fn daemons_of_a_rank_end_with_it() {
    let mut launcher = Launcher::new("daemons");
    launcher.start(vec![rank(0, argv(&["python3", "-c", FAMILY, "6"]))]);
    assert_eq!(launcher.ended().0, Ending::Exited(6));
    launcher.bye();
}

#[test]
fn stop_ends_families_too() {
    let mut launcher = with_families("stopfam", PATIENT);
    launcher.send(&ToWarden::Stop { grace_ms: 200 });
    launcher.bye();
}

#[test]
fn the_launcher_closes() {
    let mut launcher = with_families("closes", PATIENT);
    launcher.stdin = None;
    launcher.nobody_left();
}

#[test]
fn the_launcher_is_silent() {
    let mut launcher = with_families("silent", &["--silence-ms", "1500"]);
    launcher.nobody_left();
}

#[test]
fn pings_keep_it_alive() {
    let mut launcher = Launcher::with("pings", &["--silence-ms", "800"]);
    launcher.start(vec![rank(0, sh("sleep 2; exit 4"))]);
    let mut ending = None;
    while ending.is_none() {
        // Between the rank's end and our hearing of it, the warden may be gone.
        let _ = launcher.stdin.as_mut().unwrap().write_all(&shoal_daemon::protocol::encode_to_warden(&ToWarden::Ping));
        launcher.wait("pong", |m| {
            if let FromWarden::Ended { ending: e, .. } = m {
                ending = Some(e.clone());
            }
            (*m == FromWarden::Pong || ending.is_some()).then_some(())
        });
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(ending, Some(Ending::Exited(4)));
}

#[test]
fn the_warden_gets_sigterm() {
    let mut launcher = with_families("wterm", PATIENT);
    kill(launcher.hello.pid, libc::SIGTERM);
    launcher.bye();
}

#[test]
fn the_warden_is_killed() {
    let mut launcher = with_families("wkill", PATIENT);
    kill(launcher.hello.pid, libc::SIGKILL);
    launcher.nobody_left();
}

#[test]
fn a_keeper_is_killed() {
    let mut launcher = with_families("kkill", PATIENT);
    let pid = keepers(&launcher)[0];
    kill(pid, libc::SIGKILL);
    let (ending, bytes, _) = launcher.ended();
    let Ending::Lost { why } = &ending else { panic!("{ending:?}") };
    assert!(why.contains("worker0") && why.contains(&pid.to_string()) && why.contains("SIGKILL"), "{why}");
    // The other rank is the launcher's to decide about, and still there.
    assert!(exists(keepers(&launcher)[1]));
    let record = &shoal_daemon::records::run(&launcher.state(), &launcher.run)[0].ranks[0];
    assert_eq!(record.ending.as_ref(), Some(&ending));
    launcher.send(&ToWarden::Kill);
    launcher.bye();
    assert_eq!(launcher.output[&W0].len() as u64, bytes);
}

#[test]
fn all_keepers_are_killed() {
    let mut launcher = with_families("kkills", PATIENT);
    for pid in keepers(&launcher) {
        kill(pid, libc::SIGKILL);
    }
    for _ in 0..2 {
        assert!(matches!(launcher.ended().0, Ending::Lost { .. }));
    }
    launcher.bye();
}

#[test]
fn the_rank_is_killed_from_outside() {
    let mut launcher = Launcher::new("rkill");
    launcher.start(vec![family(0)]);
    let pid = launcher.started();
    launcher.wait_output(W0, "ready");
    kill(pid, libc::SIGKILL);
    assert_eq!(launcher.ended().0, Ending::Signaled(libc::SIGKILL));
    launcher.bye();
}

#[test]
fn garbage_ends_everything_and_is_said() {
    for (name, garbage) in
        [("gtext", &b"GET / HTTP/1.1\r\n\r\n"[..]), ("gjson", b"\x05\0\0\0J{\"x\""), ("gkind", b"\x02\0\0\0zz")]
    {
        let mut launcher = with_families(name, PATIENT);
        launcher.stdin.as_mut().unwrap().write_all(garbage).unwrap();
        launcher.wait("trouble", |m| matches!(m, FromWarden::Trouble { rank: None, .. }).then_some(()));
        launcher.nobody_left();
        assert_eq!(until("end", || launcher.warden.try_wait().unwrap()).code(), Some(2));
    }
}

#[test]
fn a_job_of_another_version_or_a_second_one_is_refused() {
    let mut launcher = Launcher::new("version");
    let mut job = launcher.job(vec![rank(0, argv(&["true"]))]);
    job.version += 1;
    launcher.send(&ToWarden::Start(job));
    let what =
        launcher.wait("refusal", |m| if let FromWarden::Trouble { what, .. } = m { Some(what.clone()) } else { None });
    assert!(what.contains("version"), "{what}");
    launcher.nobody_left();
    let mut launcher = with_families("second", PATIENT);
    launcher.start(vec![family(0)]);
    launcher.wait("refusal", |m| matches!(m, FromWarden::Trouble { .. }).then_some(()));
    launcher.nobody_left();
}

#[test]
fn two_wardens_hold_different_ports() {
    let (one, two) = (Launcher::with("ports1", &["--ports", "20"]), Launcher::with("ports2", &["--ports", "20"]));
    let all: std::collections::HashSet<u16> = one.hello.ports.iter().chain(&two.hello.ports).copied().collect();
    assert_eq!(all.len(), 40);
}

#[test]
fn a_rank_listens_on_its_port() {
    let mut launcher = Launcher::with("listen", &["--ports", "1"]);
    let python = "import socket,sys; s=socket.create_server(('0.0.0.0', int(sys.argv[1]))); print('listens')";
    let port = launcher.hello.ports[0].to_string();
    launcher.start(vec![rank(0, argv(&["python3", "-c", python, &port]))]);
    assert_eq!(launcher.ended().0, Ending::Exited(0));
    launcher.bye();
}
