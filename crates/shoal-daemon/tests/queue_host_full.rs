//! A full disk: nothing is dropped, it is said, and all goes on when there is room again.

mod queue_host;

use queue_host::*;
use shoal_core::queue::line::FromHost;
use shoal_core::queue::work::Ending;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small drive of memory; unmounted with it.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, bytes: u64) -> Option<Small> {
        fs::create_dir_all(at).unwrap();
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(at).output();
        done.is_ok_and(|done| done.status.success()).then(|| Small(at.into()))
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write(&[0; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: the keeper's log is still open for a moment.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

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
    let Some(drive) = Small::mount(&base.path().join("host"), 1 << 20) else {
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
    drive.fill();
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
    let Some(drive) = Small::mount(&base.path().join("results"), 256 << 10) else {
        return shoal_testkit::skip("mounting a tmpfs is not allowed here");
    };
    let place = Place::at(base.path());
    let mut line = Line::open(&place);
    drive.fill();
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
