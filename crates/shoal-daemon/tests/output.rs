//! What a rank writes arrives to the last byte, in the log and at the launcher.

mod common;

use common::*;
use shoal_core::rank::Rank;
use shoal_daemon::Ending;
use shoal_daemon::protocol::{FromWarden, ToWarden};

/// Random bytes of a size, the same for one seed, written in pieces of odd sizes; then it exits at once.
const RANDOM: &str = r#"
import os, random, sys
r = random.Random(int(sys.argv[1])); n = int(sys.argv[2]); out = r.randbytes(n); i = 0
while i < n:
    k = r.randrange(1, 200000)
    i += os.write(1 + r.randrange(2), out[i:i + k])
os._exit(7)
"#;

fn expected(seed: u32, size: usize) -> Vec<u8> {
    let python =
        "import random, sys; sys.stdout.buffer.write(random.Random(int(sys.argv[1])).randbytes(int(sys.argv[2])))";
    let out = std::process::Command::new("python3")
        .args(["-c", python, &seed.to_string(), &size.to_string()])
        .output()
        .unwrap();
    assert_eq!(out.stdout.len(), size);
    out.stdout
}

#[test]
fn ten_megabytes_of_random_bytes_from_each_of_three() {
    let size = 10 << 20;
    let mut launcher = Launcher::new("random");
    let ranks = (0..3).map(|k| rank(k, argv(&["python3", "-c", RANDOM, &k.to_string(), &size.to_string()]))).collect();
    launcher.start(ranks);
    for _ in 0..3 {
        let (ending, bytes, _) = launcher.ended();
        assert_eq!((ending, bytes), (Ending::Exited(7), size as u64));
    }
    launcher.bye();
    for k in 0..3 {
        let wanted = expected(k, size);
        assert!(launcher.output[&Rank::Worker(k)] == wanted, "worker{k} at the launcher");
        assert!(std::fs::read(launcher.log(Rank::Worker(k))).unwrap() == wanted, "worker{k} in its log");
    }
}

#[test]
fn a_partial_last_line_and_what_helpers_still_write() {
    let mut launcher = Launcher::new("partial");
    launcher.start(vec![rank(0, sh("echo one; printf two; (sleep 0.2; printf three) & exit 1"))]);
    let (ending, bytes, tail) = launcher.ended();
    assert_eq!((ending, bytes, tail.as_str()), (Ending::Exited(1), 12, "one\ntwothree"));
    launcher.bye();
    assert_eq!(launcher.text(W0), "one\ntwothree");
    let times = std::fs::read_to_string(launcher.home.path().join("logs/worker0.log.times")).unwrap();
    let first: Vec<&str> = times.lines().next().unwrap().split(' ').collect();
    assert_eq!(first[0], "0");
    assert!(first[1].parse::<u64>().unwrap() > 1_600_000_000_000);
}

#[test]
fn an_old_log_is_appended_to() {
    let mut launcher = Launcher::new("append");
    std::fs::create_dir(launcher.home.path().join("logs")).unwrap();
    std::fs::write(launcher.log(W0), "before\n").unwrap();
    launcher.start(vec![rank(0, sh("echo now"))]);
    assert_eq!(launcher.ended().1, 4);
    launcher.bye();
    assert_eq!(launcher.text(W0), "now\n");
    assert_eq!(std::fs::read_to_string(launcher.log(W0)).unwrap(), "before\nnow\n");
}

/// A file system of a megabyte, unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let done = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "shoal-test"])
            .arg(folder.path())
            .status();
        done.is_ok_and(|s| s.success()).then_some(Small(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_loses_nothing_on_the_way_to_the_launcher() {
    let Some(small) = Small::mount() else {
        return shoal_testkit::skip("a small file system cannot be mounted here");
    };
    let size = 5 << 20;
    let mut launcher = Launcher::new("full");
    let mut job = rank(0, argv(&["python3", "-c", RANDOM, "9", &size.to_string()]));
    job.log = small.0.path().join("l/worker0.log").to_str().unwrap().into();
    launcher.start(vec![job]);
    let (ending, bytes, _) = launcher.ended();
    assert_eq!((ending, bytes), (Ending::Exited(7), size as u64));
    launcher.bye();
    let troubles: Vec<_> = launcher.seen.iter().filter(|m| matches!(m, FromWarden::Trouble { .. })).collect();
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(format!("{troubles:?}").contains("No space left on device"), "{troubles:?}");
    let wanted = expected(9, size);
    assert!(launcher.output[&W0] == wanted);
    let log = std::fs::read(small.0.path().join("l/worker0.log")).unwrap();
    assert!(!log.is_empty() && wanted.starts_with(&log), "the log has the beginning, {} bytes", log.len());
}

#[test]
fn logs_that_cannot_be_written_or_opened() {
    for (name, log) in [("devfull", "/dev/full"), ("nolog", "/proc/no/such/log")] {
        let mut launcher = Launcher::new(name);
        let mut job = rank(0, sh("echo one; echo two; exit 2"));
        job.log = log.into();
        launcher.start(vec![job]);
        let (ending, bytes, tail) = launcher.ended();
        assert_eq!((ending, bytes, tail.as_str()), (Ending::Exited(2), 8, "one\ntwo\n"), "{name}");
        launcher.bye();
        assert_eq!(launcher.text(W0), "one\ntwo\n", "{name}");
        assert!(launcher.seen.iter().any(|m| matches!(m, FromWarden::Trouble { rank: Some(W0), .. })), "{name}");
    }
}

#[test]
fn a_slow_launcher_holds_up_nobody() {
    // Reads nothing until the rank is known to be over from its record.
    let home = tempfile::tempdir().unwrap();
    let run = run_id("slow");
    let size = 8 << 20;
    let mut warden = std::process::Command::new(program())
        .args(["warden", "--silence-ms", "60000"])
        .env("HOME", home.path())
        .env("XDG_STATE_HOME", home.path())
        .env("SHOAL_RUN", &run)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let job = shoal_core::job::HostJob {
        version: shoal_core::job::JOB_VERSION,
        run: run.clone(),
        host: "h".into(),
        detached: false,
        grace_ms: 100,
        ranks: vec![rank(0, argv(&["python3", "-c", RANDOM, "3", &size.to_string()]))],
        gang: None,
    };
    let mut stdin = warden.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &shoal_daemon::protocol::encode_to_warden(&ToWarden::Start(job))).unwrap();
    let root = home.path().join("shoal/runs");
    until("the rank's end", || {
        shoal_daemon::records::run(&root, &run).first().and_then(|r| r.ranks.first()?.ending.clone())
    });
    let mut stdout = warden.stdout.take().unwrap();
    shoal_daemon::protocol::read_preamble(&mut stdout).unwrap();
    let (mut body, mut got) = (Vec::new(), Vec::new());
    let mut last = None;
    while let Some(message) = shoal_daemon::protocol::read_from_warden(&mut stdout, &mut body).unwrap() {
        if let FromWarden::Output { bytes, .. } = &message {
            got.extend_from_slice(bytes);
        }
        last = Some(message);
    }
    assert_eq!(last, Some(FromWarden::Bye));
    assert!(got == expected(3, size));
    warden.wait().unwrap();
}
