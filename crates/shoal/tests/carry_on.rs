//! `on_death = continue`: the step completes with the survivors, and so does every later one (GRAD-3, GRAD-5, GANG-2).

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::dice::Dice;
use support::gang::Plan;
use support::{Gang, LONG, SOON, host, memory_modes};

/// Long enough to be killed in; every result is checked.
fn work(steps: u64) -> Value {
    json!([{ "do": "train", "lens": [1000, 500_000, 77], "steps": steps, "pause_ms": 5, "check": true }, { "do": "shutdown" }])
}

/// The mean of the ranks' parts over these ranks (see `worker::value`).
fn mean_of(ranks: &[u32]) -> f64 {
    ranks.iter().map(|r| f64::from(1u32 << (2 * r))).sum::<f64>() / ranks.len() as f64
}

/// All survivors got the same bytes at every step, and means over all, then (within one step, chunk by chunk) over fewer.
fn check_results(gang: &Gang, survivors: &[u32], memberships: &[&[u32]], steps: u64) {
    let means: Vec<f64> = memberships.iter().map(|m| mean_of(m)).collect();
    let series: Vec<Vec<Value>> = survivors
        .iter()
        .map(|w| gang.workers[*w as usize].events().into_iter().filter(|e| e["event"] == "step").collect())
        .collect();
    let mut stage = 0;
    for step in 0..steps as usize {
        let lines: Vec<&Value> = series.iter().map(|s| &s[step]).collect();
        assert!(lines.iter().all(|l| l["hash"] == lines[0]["hash"]), "step {step} differs: {lines:?} (GRAD-3)");
        let found: Vec<usize> = lines[0]["means"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|m| {
                let m = m.as_f64().unwrap_or(f64::NAN);
                let known = means.iter().position(|k| (k - m).abs() < 1e-3);
                known.unwrap_or_else(|| panic!("step {step}: {m} is no mean over a membership: {means:?}"))
            })
            .collect();
        assert!(found.iter().all(|f| *f >= stage), "step {step}: the dead came back: {:?}", lines[0]);
        stage = *found.iter().max().unwrap_or(&stage);
    }
    let last = &series[0][steps as usize - 1]["means"];
    let want = means[means.len() - 1];
    let exact = |m: &Value| m.as_f64().is_some_and(|m| (m - want).abs() < 1e-3);
    assert!(exact(&last[0]) && exact(&last[1]), "the last step is over the survivors: {last}, not {want}");
}

/// A worker dies at a random moment; the others train to the end.
#[test]
fn the_survivors_of_a_worker_train_on() {
    let mut dice = Dice::new("carry on");
    for memory in memory_modes() {
        for round in 0..5 {
            let steps = 20;
            let mut gang = Plan::new(3, 2).on_death("continue").shared_memory(memory).start(&work(steps));
            gang.all_reach_step(2);
            let victim = dice.below(3) as u32;
            std::thread::sleep(Duration::from_micros(dice.below(40_000)));
            gang.workers[victim as usize].kill();
            let killed = Instant::now();
            gang.all_end(killed, LONG);
            let survivors: Vec<u32> = (0..3).filter(|w| *w != victim).collect();
            let said = gang.said();
            for process in gang.everyone() {
                let expected = if process.name == format!("worker{victim}") { -1 } else { 0 };
                assert_eq!(process.end(SOON), expected, "round {round}: {}\n{said}", process.name);
            }
            check_results(&gang, &survivors, &[&[0, 1, 2], &survivors], steps);
            assert!(gang.master.stderr().contains(&format!("worker {victim} on {}", host())), "{said}");
        }
    }
}

/// Two die, one after the other, the second without a master to tell of it.
#[test]
fn without_a_master_deaths_are_still_seen() {
    let steps = 40;
    let mut gang = Plan::new(4, 2).on_death("continue").start(&work(steps));
    gang.all_reach_step(2);
    gang.workers[3].kill();
    for worker in [0, 1, 2] {
        let now = gang.workers[worker].events().len() as u64;
        gang.workers[worker].reaches_step(now + 3);
    }
    gang.master.kill();
    std::thread::sleep(Duration::from_millis(50));
    gang.workers[1].kill();
    gang.all_end(Instant::now(), LONG);
    let said = gang.said();
    for name in ["worker0", "worker2", "server0", "server1"] {
        assert_eq!(gang.named(name).end(SOON), 0, "{name}\n{said}");
    }
    check_results(&gang, &[0, 2], &[&[0, 1, 2, 3], &[0, 1, 2], &[0, 2]], steps);
}

/// The master is not needed for sums: with servers or without, all workers finish.
#[test]
fn the_masters_death_stops_nobody() {
    for servers in [0, 2] {
        let steps = 25;
        let mut gang = Plan::new(2, servers).on_death("continue").start(&work(steps));
        gang.all_reach_step(2);
        gang.master.kill();
        gang.all_end(Instant::now(), LONG);
        let said = gang.said();
        for process in gang.everyone().filter(|p| p.name != "master") {
            assert_eq!(process.end(SOON), 0, "{}\n{said}", process.name);
        }
        check_results(&gang, &[0, 1], &[&[0, 1]], steps);
    }
}

/// What a shard held cannot be had again: its death ends the run by name, whatever the policy.
#[test]
fn a_lost_shard_ends_the_run() {
    for (servers, victim) in [(2, "server1"), (0, "worker1")] {
        let mut gang = Plan::new(3, servers).on_death("continue").start(&work(10_000));
        gang.all_reach_step(2);
        let (pid, killed) = (gang.named(victim).pid(), Instant::now());
        gang.named(victim).kill();
        let took = gang.all_end(killed, SOON);
        eprintln!("{victim} killed: the last survivor ended after {took:?}");
        let name = format!("{} 1 on {} (pid {pid}) died", victim.trim_end_matches('1'), host());
        let said = gang.said();
        for process in gang.everyone().filter(|p| p.name != victim) {
            assert_eq!(process.end(SOON), 1, "{}\n{said}", process.name);
            let blamed =
                if process.name.starts_with("worker") { process.error()["text"].to_string() } else { process.stderr() };
            assert!(blamed.contains(&name), "{} says {blamed}, not {name}\n{said}", process.name);
        }
    }
}

/// A broadcast or gather cannot do without its giver: that ends by name too, for everyone.
#[test]
fn a_gather_needs_all() {
    let mut gang = Plan::new(3, 1).on_death("continue").start_without_workers();
    let work =
        json!([{ "do": "barrier" }, { "do": "gather" }, { "do": "gather", "key": "never" }, { "do": "shutdown" }]);
    gang.add_worker(0, &work, &[]);
    gang.add_worker(1, &work, &[]);
    gang.add_worker(2, &json!([{ "do": "barrier" }, { "do": "gather" }, { "do": "sleep", "ms": 60_000 }]), &[]);
    for worker in &mut gang.workers {
        let gathered = worker.event("gather", LONG, |e| e["event"] == "gathered");
        assert_eq!(gathered["rows"], json!([0.0, 1.0, 2.0]));
    }
    let (pid, killed) = (gang.workers[2].pid(), Instant::now());
    gang.workers[2].kill();
    gang.all_end(killed, SOON);
    for worker in &gang.workers[..2] {
        let text = worker.error()["text"].to_string();
        assert!(text.contains(&format!("worker 2 on {} (pid {pid}) died", host())) && text.contains("never"), "{text}");
    }
}
