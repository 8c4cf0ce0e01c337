//! The journal of every version that was released loads, and gives the queue that it gave then (CORE-2, WIRE-1). Samples are kept as SQL in
//! `tests/journals/`, with the queue that they make beside them; that of the present version has to be what is written now.

mod queue_daemon;

use queue_daemon::{attempt, ended, facts, sweep};
use shoal_core::queue::event::{EVENT_VERSION, Event, Pausable, Seat};
use shoal_core::queue::host::{Held, HostPolicy};
use shoal_core::queue::request::Filter;
use shoal_core::queue::state::Queue;
use shoal_core::queue::work::Ending;
use shoal_core::queue::{RunId, Target};
use shoal_daemon::queue::journal::{Journal, SCHEMA};
use std::fs;
use std::path::{Path, PathBuf};

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals")
}

/// Everything that can happen, once.
fn everything() -> Vec<Event> {
    let host = |name: &str| HostPolicy {
        name: name.into(),
        groups: vec!["gpu".into()],
        slots: Some(2),
        cpus: None,
        memory_bytes: None,
        owner: None,
        lost_after_seconds: 600,
        reach: None,
        address: None,
        jumped: false,
        environment: None,
    };
    let seen = |name: &str| Event::HostSeen { at: 11, name: name.into(), facts: Box::new(facts("boot", 4)) };
    let devices = || vec![Held { uuid: "GPU-1".into(), milli: 250 }];
    let seat = |host: &str| Seat { host: host.into(), devices: devices(), meet: None };
    let assigned = |cell, host: &str, after| Event::Assigned {
        at: 20,
        attempt: attempt("mlp", cell, 1),
        places: vec![seat(host)],
        after,
    };
    let end = |cell, host: &str, ending| Event::Ended {
        at: 30,
        host: host.into(),
        ended: Box::new(ended(&attempt("mlp", cell, 1), ending)),
    };
    let mut more = sweep("mlp", 2);
    more.reps = 2;
    let run = |cell| Target::Run(RunId { sweep: "mlp".into(), cell, rep: 0 });
    vec![
        Event::HostAdded { at: 10, policy: host("a") },
        Event::HostAdded { at: 10, policy: host("b") },
        seen("a"),
        seen("b"),
        Event::Submitted { at: 12, sweep: Box::new(sweep("mlp", 8)) },
        Event::Submitted { at: 12, sweep: Box::new(sweep("old", 1)) },
        Event::ToppedUp { at: 13, name: "mlp".into(), new: Vec::new(), reps: 2, like: Box::new(more) },
        Event::QuotaSet { at: 14, user: "ann".into(), slots: Some(7) },
        assigned(0, "a", None),
        assigned(1, "a", Some(attempt("mlp", 0, 1))),
        assigned(2, "b", None),
        assigned(3, "a", None),
        Event::Began { at: 21, attempt: attempt("mlp", 0, 1) },
        Event::ResultsWait { at: 22, host: "a".into(), attempt: attempt("mlp", 0, 1), rank: 0 },
        end(0, "a", Ending::Exited(0)),
        end(1, "a", Ending::Exited(3)),
        Event::StopAsked { at: 31, by: "ann".into(), target: run(3) },
        Event::Stopping { at: 31, attempt: attempt("mlp", 3, 1), checkpoint_first: false, why: "ann asked".into() },
        end(3, "a", Ending::Stopped),
        Event::HostSilent { at: 40, name: "b".into() },
        Event::HostLost { at: 41, name: "b".into(), why: "silent".into() },
        Event::Retried { at: 42, by: "ann".into(), target: run(1) },
        Event::Paused { at: 43, by: "ann".into(), what: Pausable::Sweep("mlp".into()) },
        Event::Resumed { at: 44, by: "ann".into(), what: Pausable::Sweep("mlp".into()) },
        Event::Paused { at: 45, by: "ann".into(), what: Pausable::Host("a".into()) },
        Event::HostDrained { at: 46, name: "a".into(), why: "it fails everything".into() },
        Event::HostRemoved { at: 47, name: "b".into() },
        Event::Forgotten { at: 48, name: "old".into() },
    ]
}

fn queue_of(journal: &Journal) -> String {
    let mut queue = Queue::new();
    journal.replay(|event| queue.apply(&event)).unwrap();
    let runs = queue.run_rows(&Filter::default(), 0, 1000);
    let shown = serde_json::json!({
        "sweeps": queue.sweep_rows(100), "hosts": queue.host_rows(), "runs": runs.0,
    });
    format!("{shown:#}\n")
}

/// The whole file as SQL.
fn dump(path: &Path) -> String {
    let db = rusqlite::Connection::open(path).unwrap();
    let mut text = String::new();
    let mut tables = db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").unwrap();
    for sql in tables.query_map([], |row| row.get::<_, String>(0)).unwrap() {
        text += &format!("{};\n", sql.unwrap());
    }
    for (table, columns, order) in [
        ("meta", &["key", "value"][..], "key"),
        ("events", &["seq", "version", "json"], "seq"),
        ("ended", &["sweep", "cell", "rep", "number", "rank", "success", "seq"], "seq"),
    ] {
        let values: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
        let select = format!("SELECT {} FROM {table} ORDER BY {order}", values.join(" || ', ' || "));
        let mut rows = db.prepare(&select).unwrap();
        for row in rows.query_map([], |row| row.get::<_, String>(0)).unwrap() {
            text += &format!("INSERT INTO {table} ({}) VALUES ({});\n", columns.join(", "), row.unwrap());
        }
    }
    text
}

#[test]
fn the_present_version_has_a_sample() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let mut journal = Journal::open(&path).unwrap();
    journal.append(&everything()).unwrap();
    let queue = queue_of(&journal);
    drop(journal);
    let name = format!("{SCHEMA}-{EVENT_VERSION}");
    let [sql, json] = ["sql", "json"].map(|ending| kept().join(format!("{name}.{ending}")));
    if !sql.exists() {
        fs::create_dir_all(kept()).unwrap();
        fs::write(&sql, dump(&path)).unwrap();
        fs::write(&json, queue).unwrap();
        panic!("{} was not there and has been written: look at it, and keep it", sql.display());
    }
    assert_eq!(
        dump(&path),
        fs::read_to_string(&sql).unwrap(),
        "the journal is written otherwise than its version says: a new version needs a new number (WIRE-1)"
    );
}

#[test]
fn every_kept_journal_loads_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(kept()).unwrap().flatten().filter(|e| e.path().extension().is_some_and(|x| x == "sql")) {
        let path = folder.path().join(format!("{count}.sqlite"));
        let sql = fs::read_to_string(entry.path()).unwrap();
        rusqlite::Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        let wanted = fs::read_to_string(entry.path().with_extension("json")).unwrap();
        assert_eq!(queue_of(&journal), wanted, "{}", entry.path().display());
        journal.append(&[Event::HostSilent { at: 200, name: "a".into() }]).unwrap();
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert_ne!(queue_of(&journal), wanted, "it goes on");
        assert_eq!(journal.finished("mlp", 1, 0, 9).unwrap().total, 1, "ends are found");
        count += 1;
    }
    assert!(count > 0, "no sample is kept");
}
