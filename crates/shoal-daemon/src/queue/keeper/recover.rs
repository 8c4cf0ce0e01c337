//! What became of the runs of a keeper that is gone? They are ended, and known as lost: how they would have ended nobody can tell any
//! more, since only a parent hears that (QUEUE-2: nothing of an attempt is left when it is said to be over).

use super::diary::note;
use super::launch::MARK;
use super::leftovers;
use super::logs::{self, Log};
use super::packs::Packs;
use super::records::{Known, Open};
use super::words::Over;
use crate::proc::{self, Stat};
use crate::records::unix_ms;
use crate::sweep::{STEP, Sweep, Swept};
use shoal_core::queue::work::Ending;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_secs(2);

/// Ends what is left of earlier keepers, and says how their runs ended. `live` is the folder of logs.
pub fn recover(known: &mut Known, live: &Path, packs: &mut Packs) {
    let here = proc::machine();
    let same_boot = known.machine.as_ref().is_none_or(|was| was.boot == here.boot);
    if same_boot {
        end_all(known);
    }
    let why = match same_boot {
        true => "the keeper of its host was killed; what it ran was ended",
        false => "its host was restarted",
    };
    for (name, open) in std::mem::take(&mut known.open) {
        let output = put_away(&name, &open, live, packs);
        let now = unix_ms();
        let over = Over {
            name: name.clone(),
            note: open.begins.note,
            ending: Ending::Lost { why: why.into(), felled: same_boot },
            began: open.begins.at,
            ended: now.max(open.begins.at),
            cpu_ms: 0,
            peak_memory_bytes: 0,
            output,
        };
        known.over.insert(name, over);
    }
    remove_logs(live);
}

fn end_all(known: &Known) {
    let began = Instant::now();
    let mut sweep = Sweep::new(began, Duration::ZERO, GRACE);
    loop {
        let left = left_of(known);
        match sweep.step(Instant::now(), &left) {
            Swept::Going => std::thread::sleep(STEP),
            Swept::Clean => return,
            Swept::Stuck(pids) => {
                note(
                    "queue-keeper",
                    format!("processes {pids:?} of an earlier keeper do not end, not even by SIGKILL"),
                );
                return;
            }
        }
    }
}

/// Whoever bears the mark of an earlier keeper, is the first process of one of its runs or of its session, or is below one of these.
fn left_of(known: &Known) -> Vec<Stat> {
    let marks: Vec<String> = known.marks.iter().map(|mark| format!("{MARK}={mark}/")).collect();
    let all = proc::scan();
    let me = std::process::id();
    let is_leader = |stat: &Stat| {
        let started = stat.process.start;
        known.open.values().any(|open| {
            open.is.is_some_and(|(pid, until)| {
                pid == stat.process.pid && (open.begins.from..=until + 1).contains(&started)
            })
        })
    };
    let is_ours = |stat: &Stat| {
        stat.process.pid != me
            && !stat.is_zombie()
            && (is_leader(stat) || marks.iter().any(|mark| leftovers::marked(stat.process.pid, mark).is_some()))
    };
    let roots: Vec<Stat> = all.iter().filter(|stat| is_ours(stat)).copied().collect();
    let mut seen: HashSet<u32> = roots.iter().map(|s| s.process.pid).collect();
    let mut left = roots.clone();
    for root in roots {
        for stat in proc::descendants(&all, root.process.pid, &HashSet::new()) {
            if stat.process.pid != me && seen.insert(stat.process.pid) {
                left.push(stat);
            }
        }
    }
    left
}

fn put_away(name: &str, open: &Open, live: &Path, packs: &mut Packs) -> Option<super::words::Place> {
    let path = logs::path(live, open.begins.log);
    let log = Log { number: open.begins.log, file: File::open(&path).ok()? };
    let len = log.bytes();
    if len == 0 {
        return None;
    }
    match packs.add(name, &log, &path, len) {
        Ok(taken) => Some(taken.place),
        Err(e) => {
            note("queue-keeper", format!("the output of {name} could not be kept: {e}"));
            None
        }
    }
}

/// Whatever is left in the folder of live logs is of nobody now.
fn remove_logs(live: &Path) {
    let entries = fs::read_dir(live).into_iter().flatten().flatten();
    for entry in entries.filter(|e| e.path().extension().is_some_and(|ext| ext == "log")) {
        if let Err(e) = fs::remove_file(entry.path())
            && e.kind() != io::ErrorKind::NotFound
        {
            note("queue-keeper", format!("{}: {e}", entry.path().display()));
        }
    }
}
