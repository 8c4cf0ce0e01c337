//! What runs leave: numbers, results in their place, files aside; and the files they are given.

mod queue_host;

use queue_host::*;
use sha2::{Digest, Sha256};
use shoal_core::queue::line::{FromHost, ToHost};
use shoal_core::queue::work::{Ending, Publish, Start, Tree};
use std::fs;
use std::time::Duration;

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

#[test]
fn results_are_in_their_place_when_the_end_is_told() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let mut start = sh(
        3,
        "echo 1,2 > loss.csv; mkdir sub; echo x > sub/y; echo '{\"step\": 2, \"loss\": 0.5}' > metrics.jsonl; cat params.json",
    );
    start.files = vec![("params.json".into(), "{\"lr\": 1}\n".into())];
    start.beside = pairs(&[("param2val.yaml", "lr: 1\n")]);
    start.publish = place.results(3);
    let Publish::Folder(to) = start.publish.clone() else { panic!() };
    let ended = line.run(start);
    assert_eq!(ended.results.as_deref(), Some(to.as_str()));
    assert_eq!(ended.metrics, pairs(&[("lr", "1"), ("step", "2"), ("loss", "0.5")]));
    let to = std::path::Path::new(&to);
    let mut names: Vec<String> =
        fs::read_dir(to).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["loss.csv", "metrics.jsonl", "run.json", "sub"]);
    assert_eq!(fs::read_to_string(to.parent().unwrap().join("param2val.yaml")).unwrap(), "lr: 1\n");
    let run: serde_json::Value = serde_json::from_slice(&fs::read(to.join("run.json")).unwrap()).unwrap();
    assert_eq!(
        (run["run"].as_str(), run["host"].as_str(), run["seed"].as_u64()),
        (Some("s:3.0"), Some("here"), Some(7))
    );
    until("its folder to be removed", || (!place.store().join("work/s_3.0_1").exists()).then_some(()));
    // One that fails leaves nothing there, and everything aside.
    let mut start = sh(4, "echo half > loss.csv; exit 1");
    start.publish = place.results(4);
    assert_eq!(line.run(start).results, None);
    assert!(!place.base.join("results/s/runs/param_004").exists());
    assert_eq!(fs::read_to_string(place.store().join("attempts/s_4.0_1/loss.csv")).unwrap(), "half\n");
}

#[test]
fn results_go_to_a_daemon_that_takes_them_and_stay_if_it_never_will() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let ended = line.run(sh(0, "head -c 700000 /dev/zero > big; echo hi > small"));
    assert_eq!(ended.results.as_deref(), Some("s/runs/param_000/t_num0"));
    let tar = line.results[&(attempt(0, 1), 0)].clone();
    let mut archive = tar::Archive::new(&tar[..]);
    let mut names: Vec<String> =
        archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().to_str().unwrap().to_string()).collect();
    names.sort();
    assert_eq!(names, ["big", "run.json", "small"]);
    line.takes_results = false;
    line.start(vec![sh(1, "echo hi > small")]);
    line.wait("its results", |line| line.results.contains_key(&(attempt(1, 1), 0)).then_some(()));
    // The line breaks before the daemon has said anything: they come again.
    drop(line);
    let mut line = Line::open(&place);
    assert!(line.alive.contains(&attempt(1, 1)), "it is not over before its results are somewhere");
    line.takes_results = false;
    line.wait("its results", |line| line.results.contains_key(&(attempt(1, 1), 0)).then_some(()));
    line.say(&ToHost::Published { attempt: attempt(1, 1), problem: Some("no such run".into()), later: false, rank: 0 });
    let ended = line.end_of(&attempt(1, 1));
    assert!(matches!(&ended.ending, Ending::NotPublished { why } if why.contains("no such run")), "{ended:?}");
    assert_eq!(fs::read_to_string(place.store().join("attempts/s_1.0_1/small")).unwrap(), "hi\n");
}

/// Both leave something at the same time, and the second is in its place first.
#[test]
fn processes_of_a_gang_on_one_host_send_their_results_each_for_itself() {
    let place = Place::new();
    let mut line = Line::open(&place);
    line.takes_results = false;
    let starts = (0..2).map(|rank| Start { rank, ..sh(0, &format!("echo {rank} > mine")) });
    line.start(starts.collect());
    let both = |line: &mut Line| (line.results.len() == 2).then_some(());
    line.wait("results of both", both);
    for (rank, mine) in [(0, "0\n"), (1, "1\n")] {
        line.wait("all of it", |line| {
            let mut archive = tar::Archive::new(&line.results[&(attempt(0, 1), rank)][..]);
            let mut file =
                archive.entries().ok()?.flatten().find(|e| e.path().is_ok_and(|path| path.ends_with("mine")))?;
            let mut text = String::new();
            std::io::Read::read_to_string(&mut file, &mut text).ok()?;
            assert_eq!(text, mine);
            Some(())
        });
    }
    for rank in [1, 0] {
        assert!(!line.ended.contains_key(&(attempt(0, 1), rank)), "not over before its own results are somewhere");
        line.say(&ToHost::Published { attempt: attempt(0, 1), problem: None, later: false, rank });
        line.wait("its end", |line| line.ended.get(&(attempt(0, 1), rank)).cloned());
    }
}

#[test]
fn a_shared_folder_that_is_away_is_waited_for() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let (here, away) = (place.base.join("results"), place.base.join("away"));
    fs::rename(&here, &away).unwrap();
    let mut start = sh(0, "echo hi > result");
    start.publish = place.results(0);
    line.start(vec![start]);
    let said = line.wait("trouble", |line| {
        line.seen.iter().find_map(|(m, _)| match m {
            FromHost::Trouble { what, over: false, .. } => Some(what.clone()),
            _ => None,
        })
    });
    assert!(said.contains("results wait on this host") && said.contains("is not there"), "{said}");
    assert!(line.ended.is_empty(), "it is not over before its results are somewhere");
    // Others go on.
    assert_eq!(line.run(argv(1, &["true"])).ending, Ending::Exited(0));
    assert!(!here.exists(), "a folder that is not there is not made");
    fs::rename(&away, &here).unwrap();
    let ended = line.end_of(&attempt(0, 1));
    assert_eq!(ended.ending, Ending::Exited(0));
    assert_eq!(fs::read_to_string(here.join("s/runs/param_000/t_num0/result")).unwrap(), "hi\n");
    line.wait("no more trouble", |line| {
        line.seen.iter().any(|(m, _)| matches!(m, FromHost::Trouble { over: true, .. })).then_some(())
    });
}

#[test]
fn trees_come_once_and_many_runs_share_them() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in [("src/a.py", "print('from a tree')\n"), ("b.txt", "bee\n")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    let tar = builder.into_inner().unwrap();
    let digest: String = Sha256::digest(&tar).iter().map(|b| format!("{b:02x}")).collect();
    let packed = zstd::encode_all(&tar[..], 1).unwrap();
    let start = |cell: u32, line: &str| {
        let mut start = sh(cell, line);
        start.trees = vec![
            Tree { digest: digest.clone(), at: String::new() },
            Tree { digest: digest.clone(), at: "data".into() },
        ];
        start
    };
    let mut second = start(1, "cat b.txt; touch b.txt src/new 2>/dev/null; ls src data/src");
    second.after = Some(attempt(0, 1));
    line.start(vec![start(0, "python3 src/a.py; cat data/b.txt"), second]);
    line.wait("being asked for the tree", |line| {
        line.seen.iter().any(|(m, _)| *m == FromHost::NeedTree { digest: digest.clone() }).then_some(())
    });
    // Something else comes first; it is asked for again.
    line.say_with(
        &ToHost::Tree { digest: digest.clone(), at: 0, last: true },
        &zstd::encode_all(&b"no tar"[..], 1).unwrap(),
    );
    line.wait("being asked again", |line| {
        let asked = line.seen.iter().filter(|(m, _)| matches!(m, FromHost::NeedTree { .. })).count();
        (asked == 2).then_some(())
    });
    assert!(line.ended.is_empty());
    let (one, two) = packed.split_at(packed.len() / 2);
    line.say_with(&ToHost::Tree { digest: digest.clone(), at: 0, last: false }, one);
    line.say_with(&ToHost::Tree { digest: digest.clone(), at: one.len() as u64, last: true }, two);
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(0));
    assert_eq!(line.log(1, &attempt(0, 1), 0, false).unwrap(), b"from a tree\nbee\n");
    let ended = line.end_of(&attempt(1, 1));
    assert_eq!((ended.ending, ended.results), (Ending::Exited(0), None), "links are no results");
    assert!(line.log(2, &attempt(1, 1), 0, false).unwrap().starts_with(b"bee\n"));
    drop(line);
    let mut line = Line::open(&place);
    assert_eq!(line.run(start(2, "cat b.txt")).ending, Ending::Exited(0));
    assert!(!line.seen.iter().any(|(m, _)| matches!(m, FromHost::NeedTree { .. })), "it is here");
}

/// Trees and environments that nobody has used for long go, the others stay; a live run's in any case.
#[test]
fn what_nobody_has_used_for_long_goes_and_what_lives_stays() {
    let mut place = Place::new();
    place.env.push(("SHOAL_TREES_BOUND".into(), "0".into()));
    let tree = |letter: &str| place.store().join("trees").join(letter.repeat(64));
    let env = place.store().join("envs").join("e".repeat(32));
    let age = |path: &std::path::Path, seconds: u64| {
        let then = std::time::SystemTime::now() - Duration::from_secs(seconds);
        fs::File::open(path).unwrap().set_times(fs::FileTimes::new().set_modified(then)).unwrap();
    };
    for (path, seconds) in [(tree("a"), 5000), (tree("b"), 60), (tree("c"), 5000), (env.clone(), 40 * 24 * 3600)] {
        fs::create_dir_all(path.join("deep")).unwrap();
        fs::write(path.join("deep/file"), vec![1; 10_000]).unwrap();
        age(&path, seconds);
    }
    fs::write(env.with_extension("lock"), "").unwrap();
    let mut line = Line::open(&place);
    until("the old ones to be gone", || (!tree("a").exists() && !tree("c").exists() && !env.exists()).then_some(()));
    assert!(tree("b").exists(), "used a minute ago");
    assert!(!env.with_extension("lock").exists());
    let mut start = sh(0, "cat deep/file | wc -c; sleep 1000");
    start.trees = vec![Tree { digest: "b".repeat(64), at: String::new() }];
    line.start(vec![start]);
    line.wait_alive(&attempt(0, 1));
    // Another agent knows from the run itself what it needs.
    age(&tree("b"), 90 * 24 * 3600);
    fs::create_dir_all(tree("d")).unwrap();
    age(&tree("d"), 5000);
    drop(line);
    let mut line = Line::open(&place);
    until("another old one to be gone", || (!tree("d").exists()).then_some(()));
    assert!(tree("b").exists(), "a live run has it");
    line.say(&ToHost::Stop { attempt: attempt(0, 1), checkpoint_first: false, grace_seconds: 0 });
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Stopped);
}

#[test]
fn an_environment_of_a_lock_file_is_made_once_and_its_failure_is_told() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let mut starts = Vec::new();
    for cell in 0..3 {
        let mut start = argv(cell, &["python", "-c", "import sys; print(sys.prefix)"]);
        // Nothing to install: no network is needed.
        start.requirements = Some("# nothing\n".into());
        starts.push(start);
    }
    line.start(starts);
    // Nobody waits for it who does not need it.
    assert_eq!(line.run(argv(10, &["true"])).ending, Ending::Exited(0));
    for cell in 0..3 {
        assert_eq!(line.end_of(&attempt(cell, 1)).ending, Ending::Exited(0));
    }
    let prefix = String::from_utf8(line.log(1, &attempt(0, 1), 0, false).unwrap()).unwrap();
    assert!(prefix.starts_with(place.store().join("envs").to_str().unwrap()), "{prefix}");
    let mut start = argv(4, &["python", "-c", ""]);
    start.requirements = Some("--no-index\nno-such-package-at-all==1\n".into());
    let ended = line.run(start);
    let Ending::NotStarted { why } = ended.ending else { panic!("{ended:?}") };
    assert!(why.contains("its environment could not be made") && why.contains("no-such-package-at-all"), "{why}");
}

/// An event file as TensorFlow writes it: a version, then scalars.
fn event_file(scalars: &[(u8, &str, f32)]) -> Vec<u8> {
    fn crc(bytes: &[u8]) -> u32 {
        let mut crc = !0u32;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            }
        }
        (!crc).rotate_right(15).wrapping_add(0xa282_ead8)
    }
    let record = |data: &[u8]| {
        let len = (data.len() as u64).to_le_bytes();
        [&len[..], &crc(&len).to_le_bytes(), data, &crc(data).to_le_bytes()].concat()
    };
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat();
    let mut file = record(&field(3, b"brain.Event:2"));
    for (step, tag, value) in scalars {
        let value = [field(1, tag.as_bytes()), vec![0x15], value.to_le_bytes().to_vec()].concat();
        file.extend(record(&[&[0x10, *step][..], &field(5, &field(1, &value))].concat()));
    }
    file
}

#[test]
fn numbers_of_live_runs_are_told_and_those_of_tensorboard_too() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let events = place.base.join("events");
    fs::write(&events, event_file(&[(1, "loss", 0.5), (2, "acc", 0.25), (2, "loss", 0.125)])).unwrap();
    let go = place.base.join("go");
    let script = format!(
        "mkdir logs; cp {} logs/events.out.tfevents.1.h; echo '{{\"epoch\": 1}}'; while [ ! -e {} ]; do sleep 0.01; done; echo '{{\"epoch\": 2}}'",
        events.display(),
        go.display()
    );
    line.start(vec![sh(0, &script)]);
    let live = line.wait("numbers of a live run", |line| {
        line.seen.iter().find_map(|(m, _)| match m {
            FromHost::Metrics { metrics, .. } if metrics.len() >= 4 => Some(metrics.clone()),
            _ => None,
        })
    });
    assert_eq!(live, pairs(&[("epoch", "1"), ("loss", "0.125"), ("step", "2"), ("acc", "0.25")]));
    fs::write(&go, "").unwrap();
    let ended = line.end_of(&attempt(0, 1));
    assert_eq!(ended.metrics, pairs(&[("epoch", "2"), ("loss", "0.125"), ("step", "2"), ("acc", "0.25")]));
}

#[test]
fn asked_to_leave_nothing_is_left() {
    let place = Place::new();
    let mut line = Line::open(&place);
    line.start(vec![sh(0, "sleep 1000 & setsid sleep 1000 & sleep 1000")]);
    line.wait_alive(&attempt(0, 1));
    let keeper = place.keeper().unwrap();
    line.say(&ToHost::Leave { stop_runs: true });
    line.wait("its leaving", |line| line.seen.iter().any(|(m, _)| *m == FromHost::Left).then_some(()));
    assert_eq!(line.ended[&(attempt(0, 1), 0)].ending, Ending::Stopped);
    until("the keeper to be gone", || (!exists(keeper)).then_some(()));
    until("the folder to be gone", || (!place.store().exists()).then_some(()));
    while line.next(Duration::from_secs(1)).is_some() {}
}

#[test]
fn results_that_the_daemon_cannot_take_now_are_sent_again() {
    let place = Place::new();
    let mut line = Line::open(&place);
    line.takes_results = false;
    line.start(vec![sh(0, "echo hi > small")]);
    let sent = |line: &Line| line.seen.iter().filter(|(m, _)| matches!(m, FromHost::Result { last: true, .. })).count();
    for times in 1..=2 {
        line.wait("its results", |line| (sent(line) == times).then_some(()));
        let problem = Some("the drive is away".into());
        line.say(&ToHost::Published { attempt: attempt(0, 1), problem, later: true, rank: 0 });
    }
    line.trouble("the drive is away");
    line.wait("its results", |line| (sent(line) == 3).then_some(()));
    assert!(line.ended.is_empty());
    line.say(&ToHost::Published { attempt: attempt(0, 1), problem: None, later: false, rank: 0 });
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(0));
}

/// Also while the agent lives; no run has to end anew.
#[test]
fn folders_of_runs_that_failed_are_bounded() {
    let mut place = Place::new();
    place.env.push(("SHOAL_ATTEMPTS_BOUND".into(), "250000".into()));
    let mut line = Line::open(&place);
    for cell in 0..4 {
        line.run(sh(cell, "head -c 100000 /dev/zero > big; exit 1"));
    }
    let left = || (0..4).filter(|cell| place.store().join(format!("attempts/s_{cell}.0_1")).exists()).count();
    until("the older ones to be gone", || (left() == 2).then_some(()));
    assert!(place.store().join("attempts/s_3.0_1/big").exists(), "the newest stay");
}
