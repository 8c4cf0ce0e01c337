//! A full disk: nothing is dropped, it is said, and all goes on when there is room again.

mod queue_host;

use queue_host::*;
use sha2::{Digest, Sha256};
use shoal_core::queue::line::{FromHost, ToHost};
use shoal_core::queue::work::{Ending, Tree};
use shoal_testkit::Drive;
use std::fs;

fn trouble(line: &mut Line, over: bool) -> String {
    line.wait("trouble", |line| {
        line.seen.iter().find_map(|(m, _)| match m {
            FromHost::Trouble { what, over: is, .. } if *is == over => Some(what.clone()),
            _ => None,
        })
    })
}

#[test]
fn ends_are_kept_and_starts_wait_until_there_is_room() {
    let base = tempfile::tempdir().unwrap();
    let Some(drive) = Drive::small(&base.path().join("host"), 1 << 20) else {
        return shoal_testkit::skip("mounting a tmpfs is not allowed here");
    };
    let place = Place::at(base.path());
    let mut line = Line::open(&place);
    let go = base.path().join("go");
    let wait = format!("echo printed; while [ ! -e {} ]; do sleep 0.05; done; exit 6", go.display());
    // So many that their ends take more than the page that is there.
    const MANY: u32 = 40;
    line.start((0..MANY).map(|cell| sh(cell, &wait)).collect());
    (0..MANY).for_each(|cell| line.wait_alive(&attempt(cell, 1)));
    drive.fill().unwrap();
    fs::write(&go, "").unwrap();
    let what = trouble(&mut line, false);
    assert!(what.contains("No space left on device"), "{what}");
    assert!(line.ended.len() < MANY as usize, "not told before it is on disk");
    let long = "x".repeat(50_000);
    line.start(vec![argv(MANY, &["true", &long])]);
    // An agent that comes now is told of it too.
    let known = line.ended.clone();
    drop(line);
    let mut line = Line::open(&place);
    line.start(vec![argv(MANY, &["true", &long])]);
    trouble(&mut line, false);
    drive.free();
    for cell in 0..MANY {
        let ended = match known.get(&(attempt(cell, 1), 0)) {
            Some(ended) => ended.clone(),
            None => line.end_of(&attempt(cell, 1)),
        };
        assert_eq!((ended.ending, ended.tail.as_str()), (Ending::Exited(6), "printed\n"));
    }
    assert_eq!(line.end_of(&attempt(MANY, 1)).ending, Ending::Exited(0));
    trouble(&mut line, true);
    assert_eq!(line.log(1, &attempt(0, 1), 0, false).unwrap(), b"printed\n");
    drop(line);
    drop(place);
}

#[test]
fn results_wait_for_a_drive_that_is_full() {
    let base = tempfile::tempdir().unwrap();
    let Some(drive) = Drive::small(&base.path().join("results"), 256 << 10) else {
        return shoal_testkit::skip("mounting a tmpfs is not allowed here");
    };
    let place = Place::at(base.path());
    let mut line = Line::open(&place);
    drive.fill().unwrap();
    let mut start = sh(0, "head -c 100000 /dev/zero > result");
    start.publish = place.results(0);
    line.start(vec![start]);
    let what = trouble(&mut line, false);
    assert!(what.contains("results wait on this host"), "{what}");
    let folder = base.path().join("results/s/runs/param_000");
    assert!(!folder.join("t_num0").exists() && line.ended.is_empty());
    drive.free();
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(0));
    assert_eq!(fs::metadata(folder.join("t_num0/result")).unwrap().len(), 100_000);
    trouble(&mut line, true);
}

/// Trying is in vain until somebody allows it: it is said with host and place, tried rarely, and at once by a new agent.
#[test]
fn results_wait_where_they_are_forbidden() {
    let base = tempfile::tempdir().unwrap();
    let Some(drive) = Drive::small(&base.path().join("results"), 1 << 20) else {
        return shoal_testkit::skip("mounting a tmpfs is not allowed here");
    };
    let place = Place::at(base.path());
    let mut line = Line::open(&place);
    assert!(drive.read_only(true));
    let mut start = sh(0, "echo hi > result");
    start.publish = place.results(0);
    line.start(vec![start]);
    let what = trouble(&mut line, false);
    let kept = place.store().join("work/s_0.0_1");
    for part in ["results wait on this host", "Read-only file system", "host here", kept.to_str().unwrap()] {
        assert!(what.contains(part), "no `{part}` in {what}");
    }
    let whose = line.seen.iter().find_map(|(m, _)| match m {
        FromHost::Trouble { attempt, .. } => attempt.clone(),
        _ => None,
    });
    assert_eq!(whose, Some(attempt(0, 1)), "of the run");
    assert_eq!(fs::read_to_string(kept.join("result")).unwrap(), "hi\n", "they are where it says");
    // A line that is opened anew hears of it again.
    drop(line);
    let mut line = Line::open(&place);
    assert_eq!(trouble(&mut line, false), what);
    assert!(drive.read_only(false));
    drop(line);
    let mut line = Line::open(&place);
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(0));
    assert_eq!(fs::read_to_string(base.path().join("results/s/runs/param_000/t_num0/result")).unwrap(), "hi\n");
}

/// Files that find no room are no broken files: their runs wait, and are asked for again.
#[test]
fn runs_wait_for_room_for_their_files() {
    let base = tempfile::tempdir().unwrap();
    let Some(drive) = Drive::small(&base.path().join("host"), 1 << 20) else {
        return shoal_testkit::skip("mounting a tmpfs is not allowed here");
    };
    let place = Place::at(base.path());
    let mut line = Line::open(&place);
    let mut builder = tar::Builder::new(Vec::new());
    let content: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, "data", &content[..]).unwrap();
    let tar = builder.into_inner().unwrap();
    let digest: String = Sha256::digest(&tar).iter().map(|b| format!("{b:02x}")).collect();
    let packed = zstd::encode_all(&tar[..], 1).unwrap();
    let mut start = sh(0, "test -s data");
    start.trees = vec![Tree { digest: digest.clone(), at: String::new() }];
    drive.fill().unwrap();
    line.start(vec![start]);
    let asked = |line: &Line| line.seen.iter().filter(|(m, _)| matches!(m, FromHost::NeedTree { .. })).count();
    let send = |line: &mut Line| {
        let pieces: Vec<&[u8]> = packed.chunks(50_000).collect();
        for (k, piece) in pieces.iter().enumerate() {
            let (at, last) = (k as u64 * 50_000, k + 1 == pieces.len());
            line.say_with(&ToHost::Tree { digest: digest.clone(), at, last }, piece);
        }
    };
    line.wait("being asked", |line| (asked(line) == 1).then_some(()));
    send(&mut line);
    line.trouble("runs wait for room");
    assert!(line.ended.is_empty(), "{:?}", line.ended);
    drive.free();
    line.wait("being asked again", |line| (asked(line) == 2).then_some(()));
    send(&mut line);
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(0));
}
