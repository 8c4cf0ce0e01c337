//! Workers that disagree: all end with one error that names both ranks, the key and both values (GANG-2, GRAD-5).

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::gang::Plan;
use support::{Gang, LONG, SOON, host, memory_modes};

/// Waits for the end and checks that every process gives an error that holds all of `parts`. Two shards may each have found it and
/// name the two workers in another order.
fn all_say(gang: &mut Gang, since: Instant, bound: Duration, parts: &[String]) {
    let took = gang.all_end(since, bound);
    let said = gang.said();
    eprintln!("{took:?}: {}", gang.workers[0].error()["text"]);
    for process in gang.everyone() {
        assert_eq!(process.end(SOON), 1, "{}\n{said}", process.name);
        let text =
            if process.name.starts_with("worker") { process.error()["text"].to_string() } else { process.stderr() };
        for part in parts {
            assert!(text.contains(part), "{}: `{text}` does not say `{part}`\n{said}", process.name);
        }
    }
}

/// Three workers, of which the last differs in one field.
fn differ(servers: u32, memory: bool, usual: &Value, odd: &Value, parts: &[&str]) {
    let mut gang = Plan::new(3, servers).shared_memory(memory).start_without_workers();
    let life =
        |push: &Value| json!([{ "do": "barrier" }, { "do": "push", "key": "first" }, push, { "do": "shutdown" }]);
    let pids: Vec<u32> = (0..3)
        .map(|id| {
            gang.add_worker(id, &life(if id == 2 { odd } else { usual }), &[]);
            gang.workers[id as usize].pid()
        })
        .collect();
    for worker in &mut gang.workers {
        worker.event("barrier", LONG, |e| e["did"] == "barrier" || e["event"] == "error");
    }
    let mut parts: Vec<String> = parts.iter().map(|p| (*p).to_string()).collect();
    parts.push(format!("worker 2 on {} (pid {})", host(), pids[2]));
    all_say(&mut gang, Instant::now(), SOON, &parts);
    let other = gang.workers[0].error();
    let ids = [other["fields"]["a"]["id"].as_u64(), other["fields"]["b"]["id"].as_u64()];
    assert!(ids.contains(&Some(2)) && ids[0] != ids[1], "{other}");
}

/// Sizes above and below what is sent at once, so that each way of noticing is taken.
#[test]
fn in_shape_type_or_operation() {
    for (servers, memory) in memory_modes().into_iter().flat_map(|m| [(0, m), (2, m)]) {
        for len in [1000, 700_000] {
            let usual = json!({ "do": "push", "key": "fc1", "len": len });
            let with = |name: &str, value: Value| {
                let mut odd = usual.clone();
                odd[name] = value;
                odd
            };
            let (a, b) = (format!("[{len}]"), format!("[{}]", len + 5));
            differ(servers, memory, &usual, &with("len", json!(len + 5)), &["`fc1`", "shape", &a, &b]);
            differ(servers, memory, &usual, &with("dtype", json!("f64")), &["`fc1`", "dtype", "has f32", "has f64"]);
            differ(servers, memory, &usual, &with("op", json!("mean")), &["`fc1`", "operation", "sum", "mean"]);
        }
    }
}

/// Worker 0 waits for `a`, worker 1 for `b`: found after about ten seconds, with and without servers at once.
#[test]
fn in_the_key_they_wait_for() {
    let mut gangs: Vec<_> = [0, 1]
        .into_iter()
        .map(|servers| {
            let mut gang = Plan::new(2, servers).start_without_workers();
            for (id, key) in [(0, "a"), (1, "b")] {
                gang.add_worker(
                    id,
                    &json!([{ "do": "barrier" }, { "do": "push", "key": key }, { "do": "shutdown" }]),
                    &[],
                );
            }
            gang
        })
        .collect();
    for gang in &mut gangs {
        for worker in &mut gang.workers {
            worker.event("barrier", LONG, |e| e["did"] == "barrier");
        }
    }
    let since = Instant::now();
    for gang in &mut gangs {
        let parts: Vec<String> = [(0, "a"), (1, "b")]
            .iter()
            .map(|(id, key)| format!("worker {id} on {} (pid {}) waits for `{key}`", host(), gang.workers[*id].pid()))
            .collect();
        all_say(gang, since, Duration::from_secs(25), &parts);
        assert!(since.elapsed() > Duration::from_secs(8), "a slow worker is no deadlock");
        assert_eq!(gang.workers[1].error()["fields"]["error"], "deadlock");
    }
}

/// Settings that the bytes depend on are compared when a worker registers; the first is untouched.
#[test]
fn in_settings() {
    for (name, first, second) in [("block_size", "65536", "131072"), ("on_death", "fail", "continue")] {
        let variable = format!("SHOAL_{}", name.to_uppercase());
        let mut gang = Plan::new(2, 0).start_without_workers();
        let work = json!([{ "do": "push" }, { "do": "shutdown" }]);
        gang.add_worker(0, &work, &[(&variable, first)]);
        gang.master.says("worker 0 on", LONG);
        gang.add_worker(1, &work, &[(&variable, second)]);
        assert_eq!(gang.workers[1].end(LONG), 1);
        let text = gang.workers[1].error()["text"].to_string();
        let (a, b) = (gang.workers[0].pid(), gang.workers[1].pid());
        for part in [
            format!("{name} is {second} on worker 1 on {} (pid {b})", host()),
            format!("{first} on worker 0 on {} (pid {a})", host()),
        ] {
            assert!(text.contains(&part), "`{text}` does not say `{part}`");
        }
        gang.add_worker(1, &work, &[(&variable, first)]);
        gang.workers.remove(1);
        gang.ends_well();
    }
}
