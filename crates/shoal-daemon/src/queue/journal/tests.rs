use super::*;
use shoal_core::queue::work::{Ended, Ending};
use shoal_core::queue::{Attempt, RunId};

fn attempt(cell: u32, rep: u32, number: u32) -> Attempt {
    Attempt { run: RunId { sweep: "mlp".into(), cell, rep }, number }
}

fn ended(attempt: Attempt, rank: u32, ending: Ending) -> Event {
    let ended = Ended {
        attempt,
        rank,
        ending,
        began: 1,
        ended: 2,
        cpu_ms: 3,
        peak_memory_bytes: 4,
        peak_gpu_bytes: 0,
        output_bytes: 5,
        metrics: vec![("loss".into(), "0.5".into())],
        tail: String::new(),
        results: None,
    };
    Event::Ended { at: 9, host: "here".into(), ended: Box::new(ended) }
}

fn all(journal: &Journal) -> Vec<Event> {
    let mut events = Vec::new();
    journal.replay(|event| events.push(event)).unwrap();
    events
}

#[test]
fn what_was_appended_is_there_again_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let events: Vec<Event> = (0..50).map(|at| Event::HostSilent { at, name: "ä\n'".into() }).collect();
    let mut journal = Journal::open(&path).unwrap();
    journal.append(&events[..20]).unwrap();
    journal.append(&[]).unwrap();
    journal.append(&events[20..]).unwrap();
    journal.probe().unwrap();
    drop(journal);
    assert_eq!(all(&Journal::open(&path).unwrap()), events);
}

#[test]
fn a_second_one_on_the_same_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let _first = Journal::open(&path).unwrap();
    let error = Journal::open(&path).err().expect("refused");
    assert!(matches!(error, JournalError::Busy { .. }), "{error}");
}

#[test]
fn ends_are_found_by_their_index() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    let events = [
        ended(attempt(1, 0, 1), 0, Ending::Exited(3)),
        ended(attempt(1, 0, 2), 0, Ending::Exited(0)),
        ended(attempt(0, 1, 1), 0, Ending::Exited(0)),
        ended(attempt(0, 0, 1), 0, Ending::Exited(0)),
        // Told twice: the first stands.
        ended(attempt(0, 0, 1), 0, Ending::Stopped),
    ];
    journal.append(&events).unwrap();
    let end = journal.end_of(&attempt(1, 0, 1), 0).unwrap().unwrap();
    assert_eq!((end.host.as_str(), &end.ended.ending), ("here", &Ending::Exited(3)));
    assert_eq!(journal.end_of(&attempt(0, 0, 1), 0).unwrap().unwrap().ended.ending, Ending::Exited(0));
    assert_eq!(journal.end_of(&attempt(7, 0, 1), 0).unwrap(), None);
    let page = journal.finished("mlp", 1, 0, 2).unwrap();
    let attempts: Vec<Attempt> = page.rows.into_iter().map(|row| row.ended.attempt).collect();
    assert_eq!((page.total, attempts), (3, vec![attempt(0, 0, 1), attempt(0, 1, 1)]));
    let page = journal.finished("mlp", 1, 2, 2).unwrap();
    assert_eq!(page.rows[0].ended.attempt, attempt(1, 0, 2));
    assert_eq!(journal.finished("other", 1, 0, 9).unwrap().total, 0);
    journal.append(&[Event::Forgotten { at: 1, name: "mlp".into() }]).unwrap();
    assert_eq!(journal.finished("mlp", 1, 0, 9).unwrap().total, 0);
}

#[test]
fn a_gang_has_succeeded_when_all_of_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&folder.path().join("j")).unwrap();
    let events = [
        ended(attempt(0, 0, 1), 0, Ending::Exited(0)),
        ended(attempt(0, 0, 1), 1, Ending::Exited(1)),
        ended(attempt(0, 0, 2), 1, Ending::Exited(0)),
        ended(attempt(0, 0, 2), 0, Ending::Exited(0)),
    ];
    journal.append(&events).unwrap();
    let page = journal.finished("mlp", 2, 0, 9).unwrap();
    assert_eq!((page.total, page.rows.len()), (1, 1));
    assert_eq!(page.rows[0].ended.attempt, attempt(0, 0, 2));
    assert_eq!(page.rows[0].ended.rank, 0, "whoever ended first");
}

#[test]
fn what_cannot_be_read_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good");
    Journal::open(&good).unwrap().append(&[Event::HostSilent { at: 1, name: "a".into() }]).unwrap();
    let with = |name: &str, change: &str| {
        let path = folder.path().join(name);
        std::fs::copy(&good, &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        path
    };
    let newer = with("newer", "UPDATE meta SET value = '99'");
    assert!(matches!(Journal::open(&newer).err(), Some(JournalError::Newer { found: 99, .. })));
    let newer = Journal::open(&with("event", "UPDATE events SET version = 99")).unwrap();
    assert!(matches!(newer.replay(|_| ()), Err(JournalError::Newer { found: 99, .. })));
    let broken = Journal::open(&with("broken", "UPDATE events SET json = '{'")).unwrap();
    let error = broken.replay(|_| ()).unwrap_err();
    assert!(error.to_string().contains("broken") && error.to_string().contains("event 1"), "{error}");
    let other = with("other", "DROP TABLE meta");
    assert!(matches!(Journal::open(&other).err(), Some(JournalError::Corrupt { .. })));

    let garbage = folder.path().join("garbage");
    std::fs::write(&garbage, b"what is this?".repeat(1000)).unwrap();
    let error = Journal::open(&garbage).err().expect("refused");
    assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("garbage") && error.hint().contains("move it away"), "{error}");
    assert_eq!(std::fs::read(&garbage).unwrap(), b"what is this?".repeat(1000));
}
