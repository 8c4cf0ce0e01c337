//! A process that stops for a while is slow, not dead: nobody is killed for it, and those who wait say for whom (GRAD-5).

mod support;

use serde_json::json;
use std::time::{Duration, Instant};
use support::gang::Plan;
use support::{LONG, host, memory_modes};

/// A worker is stopped for longer than any bound there is on silence (7 s) and on circles of waits (10 s). Before that it had said
/// that it waits for `a`; `a` comes while it is stopped and cannot say so, which is no deadlock.
#[test]
fn a_stopped_worker_is_waited_for_by_name() {
    let mut gangs: Vec<_> = memory_modes()
        .into_iter()
        .flat_map(|m| [(m, 0), (m, 1)])
        .map(|(memory, servers)| {
            // With a server, `a` can be summed without the stopped worker, which has sent its part.
            let len = if servers == 0 { 400_000 } else { 1000 };
            let push = |key: &str| json!({ "do": "push", "key": key, "len": len });
            let end = json!({ "do": "shutdown" });
            let mut gang = Plan::new(2, servers).shared_memory(memory).start_without_workers();
            gang.add_worker(
                0,
                &json!([{ "do": "barrier" }, { "do": "sleep", "ms": 4000 }, push("a"), push("b"), end]),
                &[],
            );
            gang.add_worker(1, &json!([{ "do": "barrier" }, push("a"), push("b"), end]), &[]);
            // Through memory, `a` can be summed in any case.
            (gang, if servers == 0 && !memory { "a" } else { "b" })
        })
        .collect();
    for (gang, _) in &mut gangs {
        let waits = gang.workers[1].event("wait", LONG, |e| e["for"] == json!([0]));
        assert_eq!(waits["key"], "a");
        gang.workers[1].signal("STOP");
    }
    let stopped = Instant::now();
    for (gang, key) in &mut gangs {
        let named = gang.workers[0].event("wait", LONG, |e| e["key"] == *key && e["for"] == json!([1]));
        eprintln!("named after {} s of waiting", named["s"]);
        let line = gang.workers[0].says("waiting for worker 1", LONG);
        assert!(line.contains(&host()), "{line}");
        let status = gang.status();
        assert_eq!(status["nodes"][0]["waits_for_key"], *key, "{status}");
        assert_eq!(status["nodes"][0]["waits_for_workers"], json!([1]), "{status}");
    }
    std::thread::sleep(Duration::from_secs(17).saturating_sub(stopped.elapsed()));
    for (gang, _) in &mut gangs {
        gang.workers[1].signal("CONT");
        gang.ends_well();
    }
}

/// Servers and the master may pause too.
#[test]
fn stopped_servers_and_masters_are_waited_for() {
    let work = json!([{ "do": "train", "lens": [100, 1_000_000], "steps": 60, "pause_ms": 20 }, { "do": "shutdown" }]);
    let mut gangs: Vec<_> = ["server1", "master"].into_iter().map(|v| (v, Plan::new(2, 2).start(&work))).collect();
    for (victim, gang) in &mut gangs {
        gang.all_reach_step(2);
        gang.named(victim).signal("STOP");
    }
    // Longer than the seven seconds after which a silent host counts as gone: this host is not silent.
    std::thread::sleep(Duration::from_millis(8500));
    for (victim, gang) in &mut gangs {
        gang.named(victim).signal("CONT");
    }
    for (_, gang) in &mut gangs {
        gang.ends_well();
    }
}

/// A stop while the nodes still connect to each other only delays the start.
#[test]
fn a_stop_during_start_up_delays_it() {
    let mut gang = Plan::new(3, 0).start_without_workers();
    let work = json!([{ "do": "train", "lens": [1000], "steps": 3 }, { "do": "shutdown" }]);
    gang.add_worker(0, &work, &[]);
    gang.master.says("worker 0 on", LONG);
    gang.workers[0].signal("STOP");
    gang.add_worker(1, &work, &[]);
    gang.add_worker(2, &work, &[]);
    gang.master.says("complete: 3 workers", LONG);
    // Longer than the five seconds that a stranger has to prove itself.
    std::thread::sleep(Duration::from_millis(6500));
    gang.workers[0].signal("CONT");
    gang.ends_well();
}
