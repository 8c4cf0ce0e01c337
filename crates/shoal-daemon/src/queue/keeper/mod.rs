//! Who owns the runs of a host, whatever becomes of everybody else?
//!
//! One keeper per host and store. It starts runs, sees them to their ends, writes those down, and tells the agent when there is one;
//! daemon and agent may come and go. It has no say in what runs.
//!
//! | file | question |
//! |---|---|
//! | `words` | what agent and keeper say to each other |
//! | `folder` | where everything of a store is on a host |
//! | `keep` | the loop |
//! | `hear` | what is the keeper asked |
//! | `book` | whose turn is it (pure) |
//! | `begin`, `launch` | how a run begins; how its process is made |
//! | `run` | what is known of a run that lives |
//! | `guard` | who stands between a run that may have killed a keeper and this one |
//! | `stop` | how it is asked to end |
//! | `end`, `leftovers` | how it ends; what it left behind |
//! | `logs`, `packs` | where its output goes while it lives, and afterwards |
//! | `records`, `sync` | what is written down; when it is on disk |
//! | `recover` | what became of the runs of a keeper that is gone |
//! | `standing` | how it is found when its folder was removed |
//! | `daemon` | how a keeper comes to stand alone |
//! | `diary` | what is written down for people |

mod begin;
mod book;
mod daemon;
pub mod diary;
mod end;
pub mod folder;
pub mod guard;
mod hear;
mod keep;
mod launch;
mod leftovers;
mod line;
pub mod logs;
pub mod packs;
pub mod records;
mod recover;
mod run;
mod standing;
mod stop;
mod sync;
pub mod words;

pub use daemon::{connect, holder};

use crate::proc;
use diary::note;
use folder::Folder;
use keep::Keeper;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::ExitCode;

/// The variable that tells processes of runs from all others.
pub fn launch_mark() -> &'static str {
    launch::MARK
}

/// The hidden subcommand `shoal host queue-keeper --store ID`. Returns at once; the keeper goes on in a process of its own.
pub fn main(store: &str) -> ExitCode {
    let folder = match Folder::open(store) {
        Ok(folder) => folder,
        Err(why) => {
            note("queue-keeper", why);
            return ExitCode::FAILURE;
        }
    };
    match daemon::stand_alone(&folder) {
        Ok(daemon::Side::Parent) => ExitCode::SUCCESS,
        Ok(daemon::Side::Keeper) => run(folder),
        Err(e) => {
            note("queue-keeper", format!("{}: {e}", folder.root().display()));
            ExitCode::FAILURE
        }
    }
}

/// The same within this process, which has to have one thread; returns when there is nothing left to keep.
pub fn run(folder: Folder) -> ExitCode {
    let lock = match daemon::lock(&folder) {
        Ok(Some(lock)) => lock,
        // Another is there already, which serves as well.
        Ok(None) => return ExitCode::SUCCESS,
        Err(e) => {
            note("queue-keeper", format!("{}: {e}", folder.keeper_lock().display()));
            return ExitCode::FAILURE;
        }
    };
    // With the lock of a folder that was made again, one of the folder before may live.
    let named = match standing::take(&folder) {
        standing::Name::Ours(listener) => Some(listener),
        standing::Name::Taken => return ExitCode::SUCCESS,
        standing::Name::Unusable(why) => {
            note("queue-keeper", format!("cannot be found if its folder is removed: {why}"));
            None
        }
    };
    let socket = folder.root().join(folder.keeper_socket());
    let held = match open(folder, lock, named) {
        Ok(keeper) => keeper.keep(),
        Err(why) => {
            note("queue-keeper", why);
            return ExitCode::FAILURE;
        }
    };
    let _ = std::fs::remove_file(socket);
    drop(held);
    ExitCode::SUCCESS
}

fn open(folder: Folder, lock: File, named: Option<UnixListener>) -> Result<Keeper, String> {
    let said = |path: PathBuf| move |e: std::io::Error| format!("{}: {e}", path.display());
    let signals = daemon::signals().map_err(|e| format!("signals: {e}"))?;
    let lowered_oom_score = daemon::protect();
    let bytes = records::read(&folder.records()).map_err(said(folder.records()))?;
    let mut known = records::replay(&bytes).map_err(|version| {
        let at = folder.records();
        format!("{} was written by a newer program (version {version}); update shoal on this host", at.display())
    })?;
    if known.unreadable > 0 {
        note("queue-keeper", format!("{} lines of its records make no sense", known.unreadable));
    }
    let bound = std::env::var("SHOAL_PACKS_BOUND").ok().and_then(|v| v.parse().ok()).unwrap_or(packs::BOUND);
    let mut packs = packs::Packs::open(folder.packs(), bound).map_err(said(folder.packs()))?;
    recover::recover(&mut known, &folder.live(), &mut packs);
    let mark = daemon::random_mark();
    let first = records::Line::Keeper {
        version: records::RECORDS_VERSION,
        mark: mark.clone(),
        machine: proc::machine(),
        pid: std::process::id(),
    };
    let records =
        records::Records::begin(folder.records(), first, known.over.values()).map_err(said(folder.records()))?;
    let listener = daemon::listen(&folder).map_err(said(folder.root().join(folder.keeper_socket())))?;
    Ok(Keeper {
        launcher: launch::Launcher::new().map_err(|e| e.to_string())?,
        null: File::open("/dev/null").map_err(said("/dev/null".into()))?,
        children: leftovers::Children::open(&mark),
        logs: logs::Logs::new(folder.live(), known.last_log + 1),
        syncer: sync::Syncer::start().map_err(|e| e.to_string())?,
        mark,
        listener,
        named,
        lock,
        look_at: std::time::Instant::now() + standing::LOOK_EVERY,
        signals,
        book: book::Book::default(),
        live: HashMap::new(),
        over: std::mem::take(&mut known.over).into_iter().collect::<BTreeMap<_, _>>(),
        records,
        packs,
        untold: VecDeque::new(),
        added: 0,
        asked_to_sync: 0,
        synced: 0,
        lazy_since: None,
        retry_at: None,
        troubles: BTreeMap::new(),
        kills: None,
        line: None,
        idle_since: None,
        leaving: None,
        lowered_oom_score,
        folder,
    })
}
