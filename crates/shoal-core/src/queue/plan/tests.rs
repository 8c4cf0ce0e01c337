use super::simulator::Simulator;
use super::*;
use crate::queue::Target;
use crate::queue::event::{Event, Pausable};
use crate::queue::host::HostPolicy;
use crate::queue::sweep::Sweep;
use crate::queue::testing::{BAD, Bench, OK, axis, desk, facts, grid, policy, starts, sweep};
use crate::queue::work::Ending;
use proptest::prelude::*;

fn wanting(name: &str, owner: &str, cells: u32, change: impl FnOnce(&mut Sweep)) -> Sweep {
    let mut it = sweep(name, owner, cells, 1);
    change(&mut it);
    it
}

fn gpus(name: &str, cells: u32, milli: u32, memory_gib: Option<u64>) -> Sweep {
    wanting(name, "ann", cells, |it| {
        it.wants.gpus_milli = milli;
        it.wants.gpu_memory_bytes = memory_gib.map(|gib| gib << 30);
    })
}

fn devices(actions: &[Action]) -> Vec<String> {
    let one = |action: &Action| match action {
        Action::Start { places, .. } => {
            let held = places.iter().flat_map(|seat| &seat.devices);
            Some(held.map(|held| format!("{}={}", held.uuid, held.milli)).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    actions.iter().filter_map(one).collect()
}

fn hosts_of(actions: &[Action]) -> Vec<String> {
    starts(actions).into_iter().map(|(_, host)| host).collect()
}

#[test]
fn hosts_take_what_they_have_room_for() {
    let mut bench = Bench::with(&[("a", 2), ("b", 4)]);
    bench.host(HostPolicy { slots: Some(1), ..policy("c") }, facts(16, 0));
    bench.submit(wanting("s", "ann", 20, |it| it.wants.cpus_milli = 1500));
    let mut hosts = hosts_of(&bench.go());
    hosts.sort();
    assert_eq!(hosts, ["a", "b", "b", "c"]);
    assert_eq!(bench.go(), [], "what is assigned is not assigned again");
}

#[test]
fn memory_and_names_of_hosts_are_heeded() {
    let mut bench = Bench::with(&[("a", 8), ("b", 8)]);
    bench.host(HostPolicy { groups: vec!["gpu".into()], memory_bytes: Some(8 << 30), ..policy("c") }, facts(8, 0));
    bench.submit(wanting("s", "ann", 9, |it| {
        it.wants.memory_bytes = Some(3 << 30);
        it.wants.on = vec!["gpu".into()];
    }));
    bench.submit(wanting("t", "ann", 1, |it| it.wants.on = vec!["b".into()]));
    assert_eq!(hosts_of(&bench.go()), ["c", "c", "b"]);
}

#[test]
fn parts_of_a_device_are_packed_and_whole_ones_stay_whole() {
    let mut bench = Bench::new();
    bench.host(policy("a"), facts(32, 3));
    bench.submit(gpus("s", 5, 300, Some(1)));
    let got = devices(&bench.go());
    assert_eq!(got, ["GPU-0=300", "GPU-0=300", "GPU-0=300", "GPU-1=300", "GPU-1=300"]);
    bench.submit(gpus("t", 2, 1000, Some(1)));
    assert_eq!(devices(&bench.go()), ["GPU-2=1000"]);
    bench.submit(gpus("u", 1, 400, Some(1)));
    assert_eq!(devices(&bench.go()), ["GPU-1=400"], "beside the one that waits for a whole device");
}

#[test]
fn more_than_one_device_is_whole_devices() {
    let mut bench = Bench::new();
    bench.host(policy("a"), facts(32, 4));
    bench.submit(gpus("s", 3, 1500, Some(1)));
    assert_eq!(devices(&bench.go()), ["GPU-0=1000 GPU-1=1000", "GPU-2=1000 GPU-3=1000"]);
}

#[test]
fn devices_that_others_use_are_not_free() {
    let mut bench = Bench::new();
    let mut it = facts(32, 3);
    it.gpus[0].foreign_processes = 1;
    it.gpus[1].foreign_bytes = 2 << 30;
    bench.host(policy("a"), it.clone());
    bench.submit(gpus("s", 9, 500, Some(1)));
    assert_eq!(devices(&bench.go()), ["GPU-2=500", "GPU-2=500"]);
    it.gpus[0].foreign_processes = 0;
    bench.seen("a", it);
    assert_eq!(devices(&bench.go()), ["GPU-0=500", "GPU-0=500"]);
}

#[test]
fn declared_memory_bounds_what_shares_a_device() {
    let mut bench = Bench::new();
    bench.host(policy("a"), facts(32, 1));
    bench.submit(gpus("s", 9, 100, Some(6)));
    assert_eq!(bench.go().len(), 2, "16 GiB hold two of 6");
    bench.submit(gpus("t", 1, 100, Some(20)));
    assert_eq!(bench.go().len(), 0);
}

#[test]
fn memory_is_learned_from_the_first_that_finishes() {
    let mut bench = Bench::new();
    bench.host(policy("a"), facts(32, 2));
    bench.submit(gpus("s", 20, 100, None));
    assert_eq!(devices(&bench.go()), ["GPU-0=100", "GPU-1=100"], "each alone");
    bench.submit(gpus("t", 1, 100, Some(1)));
    assert_eq!(bench.go(), [], "nobody beside them");
    bench.end_rank("s:0.0#1", "a", 0, OK, 4 << 30);
    // 4 GiB and headroom: three on a device, and one is there already; then there is room for the other as well.
    assert_eq!(devices(&bench.go()).len(), 3 + 2 + 1);
}

#[test]
fn somebodys_desk_is_used_when_they_are_away_and_left_when_they_come_back() {
    let mut bench = Bench::new();
    let mut at = facts(2, 0);
    at.idle_seconds = Some(899);
    bench.host(desk("a", "bob"), at.clone());
    bench.submit(sweep("s", "ann", 4, 1));
    bench.submit(sweep("own", "bob", 1, 1));
    assert_eq!(bench.started(), [("own:0.0#1".into(), "a".into())], "theirs may start any time");
    at.idle_seconds = Some(900);
    bench.seen("a", at.clone());
    assert_eq!(bench.started(), [("s:0.0#1".into(), "a".into())]);
    at.idle_seconds = Some(0);
    bench.seen("a", at.clone());
    let actions = bench.go();
    assert!(
        matches!(&actions[..], [Action::Stop { attempt, checkpoint_first: true, why }]
            if attempt.run.sweep == "s" && why.contains("bob is back")),
        "{actions:?}"
    );
    assert_eq!(bench.go(), []);
    bench.end("s:0.0#1", "a", Ending::Stopped);
    let row = bench.queue.sweep_row("s", 0).unwrap();
    assert_eq!((row.waiting, row.stopped, row.failed), (4, 0, 0), "it waits again");
    at.idle_seconds = None;
    bench.seen("a", at);
    assert_eq!(bench.started(), [("s:0.0#2".into(), "a".into())], "nobody is logged in");
}

#[test]
fn priority_goes_first_and_users_take_turns() {
    let mut bench = Bench::with(&[("a", 6)]);
    bench.submit(sweep("ann1", "ann", 9, 1));
    bench.submit(sweep("ann2", "ann", 9, 1));
    bench.submit(sweep("bob1", "bob", 2, 1));
    bench.submit(wanting("top", "bob", 1, |it| it.rules.priority = 1));
    let names: Vec<String> = bench.started().into_iter().map(|(attempt, _)| attempt).collect();
    let ours = |owner: &str| names.iter().filter(|name| name.starts_with(owner)).count();
    assert_eq!(names[0], "top:0.0#1");
    assert_eq!((ours("ann1"), ours("ann2"), ours("bob1")), (3, 0, 2));
}

#[test]
fn whoever_used_less_of_late_goes_first() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("ann", "ann", 100, 1));
    bench.go();
    bench.now += 3_600_000;
    bench.submit(sweep("bob", "bob", 100, 1));
    let mut bobs = 0;
    for _ in 0..10 {
        bench.end(&format!("ann:{}.0#1", bobs * 2), "a", OK);
        bench.end(&format!("ann:{}.0#1", bobs * 2 + 1), "a", OK);
        let started = bench.started();
        if !started.iter().all(|(attempt, _)| attempt.starts_with("bob")) {
            break;
        }
        bobs += 1;
        for (attempt, host) in started {
            bench.end(&attempt, &host, OK);
        }
    }
    assert!(bobs >= 1, "two slots for an hour against nothing");
}

#[test]
fn two_users_share_alike_whatever_their_runs_take() {
    let mut bench = Bench::with(&[("a", 4)]);
    bench.submit(sweep("ann", "ann", 10_000, 1));
    bench.submit(sweep("bob", "bob", 10_000, 1));
    let begin = bench.now;
    let mut live: Vec<(u64, String)> = Vec::new();
    let mut used = [0u64; 2];
    while bench.now < begin + 4 * 3_600_000 {
        let now = bench.now;
        live.extend(bench.started().into_iter().map(|(attempt, _)| {
            let takes = if attempt.starts_with("ann") { 10_000 } else { 130_000 };
            used[usize::from(attempt.starts_with("bob"))] += takes;
            (now + takes, attempt)
        }));
        assert_eq!(live.len(), 4, "no slot is idle");
        live.sort();
        let (end, attempt) = live.remove(0);
        bench.now = end;
        bench.end(&attempt, "a", OK);
    }
    let ratio = used[0] as f64 / used[1] as f64;
    assert!((0.85..1.15).contains(&ratio), "{used:?}");
}

#[test]
fn a_quota_is_a_bound() {
    let mut bench = Bench::with(&[("a", 6)]);
    bench.apply(Event::QuotaSet { at: 0, user: "ann".into(), slots: Some(2) });
    bench.submit(sweep("s", "ann", 9, 1));
    bench.submit(sweep("t", "bob", 1, 1));
    assert_eq!(bench.go().len(), 3);
    bench.end("s:0.0#1", "a", OK);
    assert_eq!(bench.started(), [("s:2.0#1".into(), "a".into())]);
    bench.apply(Event::QuotaSet { at: 0, user: "ann".into(), slots: None });
    assert_eq!(bench.go().len(), 3);
}

#[test]
fn hosts_that_are_paused_drained_silent_or_full_get_nothing() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    bench.host(policy("e"), crate::queue::host::HostFacts { free_disk_bytes: 1 << 20, ..facts(1, 0) });
    bench.apply(Event::HostAdded { at: 0, policy: policy("never") });
    bench.apply(Event::Paused { at: 0, by: "x".into(), what: Pausable::Host("a".into()) });
    bench.apply(Event::HostDrained { at: 0, name: "b".into(), why: "repair".into() });
    bench.apply(Event::HostSilent { at: 0, name: "c".into() });
    bench.submit(sweep("s", "ann", 9, 1));
    assert_eq!(hosts_of(&bench.go()), ["d"]);
    bench.apply(Event::Resumed { at: 0, by: "x".into(), what: Pausable::Host("a".into()) });
    bench.apply(Event::Resumed { at: 0, by: "x".into(), what: Pausable::Host("b".into()) });
    bench.seen("c", facts(1, 0));
    assert_eq!(hosts_of(&bench.go()), ["a", "b", "c"]);
}

#[test]
fn a_gang_starts_whole_or_not_at_all() {
    let mut bench = Bench::with(&[("a", 2), ("b", 3)]);
    bench.submit(wanting("busy", "ann", 1, |it| it.wants.on = vec!["a".into()]));
    bench.go();
    bench.submit(wanting("gang", "ann", 1, |it| it.wants.ranks = 5));
    assert_eq!(bench.go(), []);
    bench.end("busy:0.0#1", "a", OK);
    assert_eq!(bench.started(), [("gang:0.0#1".into(), "b b b a a".into())]);
}

/// Runs of `small` for as long as the gang waits; says after how many of them it started.
fn waits(takes_ms: u64, limit: Option<u64>) -> Option<u64> {
    let mut bench = Bench::with(&[("a", 2), ("b", 2)]);
    let mut small = sweep("small", "bob", 5_000, 1);
    small.rules.time_limit_seconds = limit;
    bench.submit(small);
    let mut live: Vec<(u64, String, String)> = Vec::new();
    let mut ended = 0;
    let mut submitted = false;
    for _ in 0..2_000 {
        for (attempt, host) in bench.started() {
            if attempt.starts_with("gang") {
                return Some(ended);
            }
            // No two take equally long.
            live.push((bench.now + takes_ms + ended % 7 * takes_ms / 3, attempt, host));
        }
        live.sort();
        let (end, attempt, host) = live.remove(0);
        bench.now = bench.now.max(end);
        bench.end(&attempt, &host, OK);
        ended += 1;
        if ended == 20 && !submitted {
            submitted = true;
            bench.submit(wanting("gang", "ann", 1, |it| it.wants.ranks = 4));
        }
    }
    None
}

#[test]
fn small_ones_do_not_starve_a_gang() {
    for (takes, limit) in [(10_000, None), (10_000, Some(3_600)), (60_000, Some(1))] {
        let after = waits(takes, limit).expect("it starts at last");
        assert!(after < 20 + 40, "after {after} small ones");
    }
}

#[test]
fn small_ones_go_ahead_where_they_do_no_harm() {
    let mut bench = Bench::with(&[("a", 2), ("b", 1)]);
    // The long one holds a half of a for an hour.
    bench.submit(wanting("long", "ann", 1, |it| {
        it.rules.time_limit_seconds = Some(3_600);
        it.wants.on = vec!["a".into()];
    }));
    bench.go();
    bench.submit(wanting("pair", "ann", 1, |it| {
        it.wants.cpus_milli = 2_000;
        it.rules.priority = 1;
    }));
    assert_eq!(bench.go(), []);
    let with = |name: &str, seconds: Option<u64>| wanting(name, "bob", 1, |it| it.rules.time_limit_seconds = seconds);
    bench.submit(with("unknown", None));
    assert_eq!(hosts_of(&bench.go()), ["b"], "where the pair will not go");
    bench.submit(with("late", Some(7_200)));
    assert_eq!(bench.go(), []);
    bench.submit(with("quick", Some(600)));
    assert_eq!(bench.started(), [("quick:0.0#1".into(), "a".into())], "over before the long one");
}

fn measured(bench: &mut Bench, runs: u32, ms: u64) {
    for _ in 0..runs {
        let started = bench.started();
        bench.now += ms;
        for (attempt, host) in started {
            bench.end(&attempt, &host, OK);
        }
    }
}

#[test]
fn short_runs_stand_in_line_behind_each_other() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 1_000, 1));
    measured(&mut bench, 2, 50);
    let actions = bench.go();
    assert_eq!(actions.len(), 2 + 2 * 10, "half a second of 50 ms each");
    assert_eq!(bench.go(), []);
    let row = bench.queue.sweep_row("s", bench.now).unwrap();
    assert_eq!((row.running, row.finished, row.waiting), (2, 4, 994));
    assert_eq!(bench.queue.host_rows()[0].running, 2, "those in line hold nothing");
    let (first, after) = match (&actions[0], &actions[2]) {
        (Action::Start { attempt, after: None, .. }, Action::Start { after: Some(after), .. }) => (attempt, after),
        other => panic!("{other:?}"),
    };
    assert_eq!(first, after);
    let line = bench.queue.assigned_on("a");
    assert_eq!(line.len(), 22);
    for (attempt, _) in &line {
        let live = bench.queue.live(attempt).unwrap();
        let place = |one: &crate::queue::Attempt| line.iter().position(|(other, _)| other == one);
        assert!(live.after.is_none_or(|after| place(&after) < place(attempt)));
    }
    // One in the middle is stopped: the one behind it moves up, and nobody holds a seat too many.
    let Action::Start { attempt: second, .. } = &actions[2] else { panic!() };
    bench.apply(Event::StopAsked { at: 0, by: "ann".into(), target: Target::Run(second.run.clone()) });
    bench.go();
    bench.end(&second.to_string(), "a", Ending::Stopped);
    assert_eq!(bench.queue.host_rows()[0].running, 2);
    let Action::Start { attempt: third, .. } = &actions[3] else { panic!() };
    assert_eq!(bench.queue.live(third).and_then(|live| live.after), Some(first.clone()));
    bench.end(&first.to_string(), "a", OK);
    assert_eq!(bench.queue.live(third).and_then(|live| live.after), None);
    assert_eq!(bench.queue.host_rows()[0].running, 2);
}

#[test]
fn nobody_stands_in_line_where_others_wait() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 1_000, 1));
    measured(&mut bench, 2, 50);
    bench.submit(wanting("t", "bob", 10, |it| it.rules.priority = 1));
    let all = bench.started();
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|(attempt, _)| attempt.starts_with("t:")));
}

#[test]
fn the_last_ones_are_shared_out() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 16, 1));
    measured(&mut bench, 2, 1);
    assert_eq!(bench.go().len(), 12);
    let depths: Vec<u32> =
        bench.queue.live.values().map(|live| live.line.behind).filter(|behind| *behind > 0).collect();
    assert_eq!(depths, [5, 5]);
}

#[test]
fn a_line_behind_a_long_run_is_taken_back() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    bench.submit(sweep("s", "ann", 100, 1));
    measured(&mut bench, 2, 100);
    bench.go();
    bench.now += 2_000;
    let actions = bench.go();
    assert_eq!(actions.len(), 10, "{actions:?}");
    for action in &actions {
        let Action::Stop { attempt, .. } = action else { panic!("{action:?}") };
        let host = bench.queue.live(attempt).unwrap().places[0].host.clone();
        bench.end(&attempt.to_string(), &host, Ending::Stopped);
    }
    let row = bench.queue.sweep_row("s", bench.now).unwrap();
    assert_eq!((row.running, row.waiting, row.failed + row.stopped), (2, 94, 0));
}

#[test]
fn a_failed_run_is_tried_elsewhere() {
    let mut bench = Bench::with(&[("a", 4), ("b", 1)]);
    bench.submit(wanting("s", "ann", 1, |it| it.rules.retries = 1));
    assert_eq!(hosts_of(&bench.go()), ["a"], "the emptiest");
    bench.end("s:0.0#1", "a", BAD);
    assert_eq!(hosts_of(&bench.go()), ["b"]);
}

#[test]
fn common_failures_drain_nobody() {
    let mut bench = Bench::with(&[("a", 2), ("b", 2)]);
    bench.submit(sweep("s", "ann", 2_000, 1));
    // Whole regions of a grid fail, wherever they run.
    for _ in 0..600 {
        let actions = bench.go();
        assert!(!actions.iter().any(|action| matches!(action, Action::Drain { .. })));
        for (attempt, host) in starts(&actions) {
            let cell: u32 = attempt[2..].split('.').next().unwrap().parse().unwrap();
            bench.end(&attempt, &host, if (cell / 40).is_multiple_of(2) { OK } else { BAD });
            bench.now += 60_000;
        }
    }
    assert_eq!(bench.queue.sweep_row("s", 0).unwrap().finished, 1_000);
}

#[test]
fn a_host_that_starts_no_program_is_drained() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    let gone = || Ending::NotStarted { why: "no such file".into() };
    for name in ["s", "t", "u"] {
        bench.submit(wanting(name, "ann", 2, |it| it.rules.retries = 1));
    }
    let mut drained = None;
    for _ in 0..20 {
        let actions = bench.go();
        drained = drained.or(actions.iter().find_map(|action| match action {
            Action::Drain { host, why } => Some((host.clone(), why.clone())),
            _ => None,
        }));
        for (attempt, host) in starts(&actions) {
            bench.now += 1_000;
            bench.end(&attempt, &host, if host == "a" { gone() } else { OK });
        }
    }
    assert_eq!(drained.map(|(host, _)| host), Some("a".into()));
}

#[test]
fn many_that_wait_cost_nothing_when_there_is_no_room() {
    let mut bench = Bench::with(&[("a", 2), ("b", 2), ("c", 2), ("d", 2)]);
    let mut it = sweep("s", "ann", 1, 1);
    it.parts = vec![grid(vec![axis("x", 0..1000), axis("y", 0..1000)])];
    bench.submit(it);
    assert_eq!(bench.go().len(), 8);
    // As many as would take minutes if the runs that wait were looked at.
    for _ in 0..10_000 {
        assert_eq!(bench.plan(), []);
    }
}

fn play(seed: u64, steps: u32) -> Simulator {
    let mut sim = Simulator::new(seed);
    sim.add(policy("a"), facts(2, 0));
    sim.add(HostPolicy { slots: Some(3), ..policy("b") }, facts(4, 2));
    sim.add(HostPolicy { lost_after_seconds: 5, ..desk("c", "bob") }, facts(3, 1));
    sim.takes = [("short", (4, 0)), ("flaky", (800, 20)), ("gpu", (500, 3)), ("gang", (900, 5))]
        .map(|(name, takes)| (name.to_string(), takes))
        .into();
    let size = |sim: &mut Simulator| 1 + sim.dice.below(12) as u32;
    let mut all = vec![
        wanting("short", "ann", 150, |_| {}),
        wanting("flaky", "bob", 12, |it| it.rules.retries = 2),
        gpus("gpu", 8, 300, None),
        wanting("gang", "bob", 3, |it| it.wants.ranks = 3),
    ];
    for it in &mut all {
        it.rules.stop_after_failures = 0;
        it.reps = 1 + sim.dice.below(3) as u32;
        sim.submit(it);
    }
    for _ in 0..steps {
        let host = ["a", "b", "c"][sim.dice.below(3) as usize];
        let which = sim.dice.below(all.len() as u64) as usize;
        let name = all[which].name.clone();
        match sim.dice.below(24) {
            0 => sim.vanish(host),
            1 | 2 => {
                let booted = sim.dice.one_in(3);
                sim.come_back(host, booted);
            }
            3 => {
                let idle = sim.dice.below(2) * 1_000;
                sim.change_facts("c", |facts| facts.idle_seconds = Some(idle));
            }
            4 => {
                let foreign = sim.dice.below(2) as u32;
                sim.change_facts("b", |facts| facts.gpus[0].foreign_processes = foreign);
            }
            5 => {
                let cell = sim.dice.below(10) as u32;
                let stop = sim.dice.one_in(2);
                sim.ask(Target::Cell(name, cell), stop);
            }
            6 => {
                let pause = sim.dice.one_in(2);
                let what = if sim.dice.one_in(2) { Pausable::Sweep(name) } else { Pausable::Host(host.into()) };
                sim.pause(what, pause);
            }
            7 => {
                all[which].reps = (all[which].reps + 1).min(4);
                let more = size(&mut sim);
                all[which].parts = vec![grid(vec![axis("x", 5..5 + i64::from(more))])];
                all[which].rules.priority = sim.dice.below(3) as i32;
                sim.submit(&all[which].clone());
            }
            8 => {
                let slots = [None, Some(0), Some(1), Some(4)][sim.dice.below(4) as usize];
                sim.quota("bob", slots);
            }
            _ => {
                let ms = [1, 3, 20, 100, 700, 6_000][sim.dice.below(6) as usize];
                sim.pass(ms);
            }
        }
    }
    // Then all is well again, and everything that can end does.
    for name in ["a", "b", "c"] {
        sim.come_back(name, false);
        sim.pause(Pausable::Host(name.into()), false);
    }
    sim.change_facts("b", |facts| facts.gpus[0].foreign_processes = 0);
    sim.change_facts("c", |facts| facts.idle_seconds = None);
    sim.quota("bob", None);
    for it in &all {
        sim.pause(Pausable::Sweep(it.name.clone()), false);
    }
    for _ in 0..20_000 {
        if sim.is_quiet() && sim.queue.waiting_total() == 0 {
            break;
        }
        let ms = 1 + sim.dice.below(400);
        sim.pass(ms);
    }
    sim
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_every_run_is_recorded_once_and_nothing_is_overfull(seed in any::<u64>(), steps in 0u32..250) {
        let sim = play(seed, steps);
        for row in sim.queue.sweep_rows(sim.now) {
            prop_assert_eq!((row.waiting, row.running), (0, 0), "{} is not over: {:?}", row.name, row);
            let runs = u64::from(row.cells) * u64::from(row.reps);
            prop_assert_eq!(row.finished + row.failed + row.stopped, runs);
            let recorded = sim.finished.keys().filter(|run| run.sweep == row.name).count() as u64;
            prop_assert_eq!(recorded, row.finished, "{}", row.name);
        }
        prop_assert!(sim.finished.values().all(|times| *times == 1), "a run is recorded once (QUEUE-2)");
        for host in sim.queue.host_rows() {
            prop_assert_eq!(host.running, 0);
        }
        // The same events, the same state; also when they come out of a journal (CORE-2).
        let mut again = Queue::new();
        for event in &sim.journal {
            let text = serde_json::to_string(event).unwrap();
            again.apply(&serde_json::from_str(&text).unwrap());
        }
        prop_assert_eq!(&again, &sim.queue);
    }

    #[test]
    fn no_order_of_events_is_too_odd(seed in any::<u64>()) {
        let sim = play(seed, 40);
        let mut dice = Simulator::new(seed).dice;
        let mut queue = Queue::new();
        let mut events = sim.journal.clone();
        for _ in 0..events.len() * 2 {
            let at = dice.below(events.len() as u64) as usize;
            let other = dice.below(events.len() as u64) as usize;
            events.swap(at, other);
        }
        for event in &events {
            queue.apply(event);
        }
        plan(&queue, sim.now);
    }
}

#[test]
fn lines_are_used_in_play() {
    let most = (0..8).map(|seed| play(seed, 100).most_in_line).max();
    assert!(most > Some(8), "{most:?}");
}
