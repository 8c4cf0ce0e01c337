//! Results that have no place: who waits holds no seat, a folder that was made anew is taken, and nobody loses what was left (QUEUE-2).

mod queue_host;

use queue_host::*;
use shoal_core::queue::line::{FromHost, ToHost};
use shoal_core::queue::work::{Ending, Start};
use shoal_daemon::queue::mark;
use std::fs;
use std::path::Path;

/// Leaves a file for a folder with a mark.
fn marked(place: &Place, cell: u32, mark: &Option<String>) -> Start {
    let mut start = sh(cell, "echo hi > result");
    start.publish = place.results(cell);
    start.results_mark = mark.clone();
    start
}

fn waits(line: &Line, cell: u32) -> bool {
    let is = |(m, _): &(FromHost, Vec<u8>)| matches!(m, FromHost::ResultsWait { waiting } if waiting.contains(&(attempt(cell, 1), 0)));
    line.seen.iter().any(is)
}

#[test]
fn whoever_waits_for_a_place_says_that_it_holds_no_seat_and_says_it_again() {
    let place = Place::new();
    let (here, away) = (place.base.join("results"), place.base.join("away"));
    fs::rename(&here, &away).unwrap();
    let mut line = Line::open(&place);
    line.start(vec![marked(&place, 0, &None)]);
    line.wait("its word", |line| waits(line, 0).then_some(()));
    assert!(line.ended.is_empty(), "and it is not over");
    line.kill_agent();
    let mut line = Line::open(&place);
    assert_eq!(line.alive, [attempt(0, 1)]);
    line.wait("its word again", |line| waits(line, 0).then_some(()));
    // Told to start once more it is not.
    line.start(vec![marked(&place, 0, &None)]);
    fs::rename(&away, &here).unwrap();
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(0));
    assert_eq!(fs::read_to_string(here.join("s/runs/param_000/t_num0/result")).unwrap(), "hi\n");
}

#[test]
fn a_folder_that_its_owner_made_anew_is_taken() {
    let place = Place::new();
    let here = place.base.join("results");
    let mark = mark::leave(&here);
    assert!(mark.is_some());
    let mut line = Line::open(&place);
    let go = place.base.join("go");
    let mut start = marked(&place, 0, &mark);
    start.argv[2] = format!("while [ ! -e {} ]; do sleep 0.01; done; echo hi > result", go.display());
    line.start(vec![start]);
    line.wait_alive(&attempt(0, 1));
    let seen = place.store().join("marks").join(mark.as_deref().unwrap());
    until("the mark to be seen", || seen.exists().then_some(()));
    fs::remove_dir_all(&here).unwrap();
    fs::write(&go, "").unwrap();
    let said = line.trouble("is not there on host here");
    let hint = format!("make it again: `mkdir {}`.", here.display());
    assert!(said.contains(&hint), "{said}");
    fs::create_dir(&here).unwrap();
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(0));
    assert!(mark::is_on(&here, mark.as_deref().unwrap()), "it is known from now on");
    // And again, with the mark of somebody else in it.
    fs::remove_dir_all(&here).unwrap();
    fs::create_dir(&here).unwrap();
    assert_ne!(mark::leave(&here), mark);
    assert_eq!(line.run(marked(&place, 1, &mark)).ending, Ending::Exited(0));
}

#[test]
fn what_somebody_calls_the_right_folder_is_taken_and_a_stop_says_where_the_output_is() {
    let place = Place::new();
    let here = place.base.join("results");
    // Nobody on this host has ever seen it.
    let mark = Some("0123456789abcdef".to_string());
    let mut line = Line::open(&place);
    line.start(vec![marked(&place, 0, &mark), marked(&place, 1, &mark)]);
    let said = line.trouble("is not the one that was there at submit");
    line.wait("both", |line| (waits(line, 0) && waits(line, 1)).then_some(()));
    assert!(!here.join("s").exists(), "nothing is put there");
    line.say(&ToHost::Stop { attempt: attempt(1, 1), checkpoint_first: true, grace_seconds: 0 });
    line.say(&ToHost::Stop { attempt: attempt(0, 1), checkpoint_first: false, grace_seconds: 0 });
    let ended = line.end_of(&attempt(0, 1));
    let Ending::NotPublished { why } = &ended.ending else { panic!("{ended:?}") };
    let kept = place.store().join("attempts/s_0.0_1");
    assert!(why.contains(kept.to_str().unwrap()) && why.contains("on host here"), "{why}");
    assert_eq!(fs::read_to_string(kept.join("result")).unwrap(), "hi\n");
    // What it says to do is all there is to do.
    let command = said.split('`').nth(1).unwrap();
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    assert_eq!(line.end_of(&attempt(1, 1)).ending, Ending::Exited(0), "its desk's owner was not disturbed by it");
    assert_eq!(fs::read_to_string(here.join("s/runs/param_001/t_num0/result")).unwrap(), "hi\n");
}

#[test]
fn who_named_a_place_finds_all_that_finished_there() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let start = |cell: u32, script: &str, always: bool| {
        let mut start = sh(cell, script);
        start.publish = place.results(cell);
        start.beside = vec![("param2val.yaml".into(), "lr: 1\n".into())];
        start.always = always;
        start
    };
    let folder = |cell: u32| place.base.join(format!("results/s/runs/param_{cell:03}/t_num0"));
    for (cell, script) in [(0, ":"), (1, "echo '{\"loss\": 0.5}'")] {
        let ended = line.run(start(cell, script, true));
        assert_eq!(ended.results.as_deref(), folder(cell).to_str());
        let run: serde_json::Value = serde_json::from_slice(&fs::read(folder(cell).join("run.json")).unwrap()).unwrap();
        assert_eq!((run["run"].as_str(), run["seed"].as_u64()), (Some(format!("s:{cell}.0").as_str()), Some(7)));
        assert_eq!(fs::read_dir(folder(cell)).unwrap().count(), 1);
        assert!(folder(cell).with_file_name("param2val.yaml").exists());
    }
    assert_eq!(line.run(start(2, "exit 1", true)).results, None);
    assert_eq!(line.run(start(3, ":", false)).results, None);
    assert!(!folder(2).parent().unwrap().exists() && !folder(3).parent().unwrap().exists());
    let work = place.store().join("work");
    until("their folders to be gone", || (fs::read_dir(&work).unwrap().count() == 0).then_some(()));
}

#[test]
fn folders_of_the_host_that_somebody_removed_are_made_again() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let mut start = sh(0, "echo first; echo hi > result");
    start.publish = place.results(0);
    assert_eq!(line.run(start).ending, Ending::Exited(0));
    for folder in ["work", "trees", "attempts", "packs", "live"] {
        fs::remove_dir_all(place.store().join(folder)).unwrap();
    }
    let mut start = sh(1, "echo second; echo hi > result");
    start.publish = place.results(1);
    assert_eq!(line.run(start).ending, Ending::Exited(0));
    assert_eq!(line.log(1, &attempt(1, 1), 0, false).unwrap(), b"second\n");
    assert!(Path::new(&place.base).join("results/s/runs/param_001/t_num0/result").exists());
    let ended = line.run(sh(2, "echo third; echo half > result; exit 3"));
    assert_eq!((ended.ending, ended.tail.as_str()), (Ending::Exited(3), "third\n"));
    assert_eq!(fs::read_to_string(place.store().join("attempts/s_2.0_1/result")).unwrap(), "half\n");
    // A tree comes again, and a live log can be followed.
    let tar = {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        header.set_mode(0o644);
        builder.append_data(&mut header, "b.txt", &b"bee\n"[..]).unwrap();
        builder.into_inner().unwrap()
    };
    use sha2::Digest;
    let digest: String = sha2::Sha256::digest(&tar).iter().map(|b| format!("{b:02x}")).collect();
    let packed = zstd::encode_all(&tar[..], 1).unwrap();
    for cell in 3..5 {
        let mut start = sh(cell, "cat b.txt");
        start.trees = vec![shoal_core::queue::work::Tree { digest: digest.clone(), at: String::new() }];
        line.start(vec![start]);
        line.wait("being asked for the tree", |line| {
            let asked = |(m, _): &&(FromHost, Vec<u8>)| matches!(m, FromHost::NeedTree { .. });
            (line.seen.iter().filter(asked).count() as u32 == cell - 2).then_some(())
        });
        line.say_with(&ToHost::Tree { digest: digest.clone(), at: 0, last: true }, &packed);
        assert_eq!(line.end_of(&attempt(cell, 1)).ending, Ending::Exited(0));
        assert_eq!(line.log(u64::from(cell), &attempt(cell, 1), 0, true).unwrap(), b"bee\n");
        assert!(
            std::process::Command::new("rm").arg("-rf").arg(place.store().join("trees")).status().unwrap().success()
        );
    }
}

#[test]
fn told_that_nothing_follows_the_keeper_goes_and_otherwise_it_stays() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let keeper = place.keeper().unwrap();
    line.start(vec![sh(0, "sleep 1000")]);
    line.wait_alive(&attempt(0, 1));
    line.say(&ToHost::Rest);
    drop(line);
    let mut line = Line::open(&place);
    assert_eq!((place.keeper(), line.alive.len()), (Some(keeper), 1), "something lives");
    line.say(&ToHost::Rest);
    line.say(&ToHost::Stop { attempt: attempt(0, 1), checkpoint_first: false, grace_seconds: 0 });
    line.end_of(&attempt(0, 1));
    // A run that comes all the same is run.
    assert_eq!(line.run(argv(1, &["true"])).ending, Ending::Exited(0));
    drop(line);
    let mut line = Line::open(&place);
    assert_eq!(place.keeper(), Some(keeper), "another agent came before it had waited long enough");
    // Behind the answer to it, all ends are acknowledged.
    line.say(&ToHost::Rest);
    line.say(&ToHost::Ping);
    line.wait("its answer", |line| line.seen.iter().any(|(m, _)| *m == FromHost::Pong).then_some(()));
    drop(line);
    // Without that word it stays for a minute.
    let end = std::time::Instant::now() + BOUND / 2;
    while exists(keeper) {
        assert!(std::time::Instant::now() < end, "the keeper stays");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
