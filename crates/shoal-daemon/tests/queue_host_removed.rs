//! Somebody removes what the queue has on a host, while runs live there: none runs twice, and none counts as finished without what it left
//! (QUEUE-2).

mod queue_host;

use queue_host::*;
use shoal_core::queue::line::ToHost;
use shoal_core::queue::work::Ending;
use std::fs;

#[test]
fn a_keeper_whose_folder_was_removed_is_found_by_the_next_agent() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let ledger = place.base.join("ledger");
    let run = format!("echo began >> {}; exec sleep 1000", ledger.display());
    line.start(vec![sh(0, &run)]);
    line.wait_alive(&attempt(0, 1));
    let keeper = place.keeper().unwrap();
    line.kill_agent();
    fs::remove_dir_all(place.store()).unwrap();
    let mut line = Line::open(&place);
    assert!(line.alive.contains(&attempt(0, 1)), "{:?}", line.alive);
    until("the lock to be held again", || (place.keeper() == Some(keeper)).then_some(()));
    // A daemon that knows of it tells it again; others run beside it, and leave what they leave.
    line.start(vec![sh(0, &run)]);
    let mut other = sh(1, "echo hi > result");
    other.publish = place.results(1);
    assert_eq!(line.run(other).ending, Ending::Exited(0));
    assert_eq!(fs::read_to_string(&ledger).unwrap(), "began\n");
    // Its records are there again: whoever comes after a keeper that was killed, too, knows what it had.
    kill(keeper, libc::SIGKILL);
    let ended = line.end_of(&attempt(0, 1));
    assert!(
        matches!(&ended.ending, Ending::Lost { why, felled: true } if why.contains("keeper of its host was killed")),
        "{ended:?}"
    );
    assert_eq!(place.left(), Vec::<u32>::new());
}

#[test]
fn a_run_whose_folder_was_removed_has_not_finished() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let go = place.base.join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let mut with_results = sh(0, &format!("echo half > result; {wait}"));
    with_results.publish = place.results(0);
    line.start(vec![with_results, sh(1, &wait)]);
    (0..2).for_each(|cell| line.wait_alive(&attempt(cell, 1)));
    fs::remove_dir_all(place.store().join("work")).unwrap();
    fs::write(&go, "").unwrap();
    for cell in 0..2 {
        let ended = line.end_of(&attempt(cell, 1));
        let Ending::Lost { why, felled: false } = &ended.ending else { panic!("{ended:?}") };
        assert!(
            why.contains("was removed before its results were taken") && !ended.ending.is_of_the_program(),
            "{why}"
        );
        assert_eq!(ended.results, None);
    }
    line.say(&ToHost::Ping);
    assert_eq!(line.run(argv(2, &["true"])).ending, Ending::Exited(0));
    let work = place.store().join("work");
    until("folders of acknowledged ends to be gone", || (fs::read_dir(&work).unwrap().count() == 0).then_some(()));
}
