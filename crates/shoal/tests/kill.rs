//! `kill -9` at random moments, with `on_death = fail`: everyone else ends soon, naming the dead one (GRAD-5, GANG-2).

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::dice::Dice;
use support::gang::Plan;
use support::{Gang, SOON, host, memory_modes};

/// Small tensors that travel at once; large ones that are announced, streamed and summed; both.
const LENS: [&[usize]; 3] = [&[1000, 17, 30_000], &[2_000_000, 700_001], &[40, 1_200_000, 5000, 400_000]];

/// Checks that all survivors blame `victim`, and only it.
fn all_blame(gang: &mut Gang, victim: &str, pid: u32, round: &str) {
    let (role, id) = match victim.strip_prefix("worker") {
        Some(id) => ("worker", id),
        None => victim.strip_prefix("server").map_or(("master", "0"), |id| ("server", id)),
    };
    let name = match role {
        "master" => format!("the master on {} died", host()),
        _ => format!("{role} {id} on {} (pid {pid}) died", host()),
    };
    let said = gang.said();
    for process in gang.everyone().filter(|p| p.name != victim) {
        assert_eq!(process.end(SOON), 1, "{round}: exit code of {}\n{said}", process.name);
        let blamed = if process.name.starts_with("worker") {
            let error = process.error();
            assert_eq!(error["fields"]["error"], "dead", "{round}: {}\n{said}", process.name);
            error["text"].as_str().unwrap_or_default().to_string()
        } else {
            process.stderr().lines().last().unwrap_or_default().to_string()
        };
        assert!(blamed.contains(&name), "{round}: {} blames `{blamed}` instead of `{name}`\n{said}", process.name);
    }
}

/// Several rounds of one victim in one kind of gang; prints how long the slowest survivor took.
fn rounds(test: &str, count: usize, servers: u32, victim: impl Fn(&mut Dice) -> String) {
    let mut dice = Dice::new(test);
    for memory in memory_modes() {
        let mut times: Vec<Duration> = Vec::new();
        for round in 0..count {
            let lens = LENS[round % LENS.len()];
            let work: Value = json!([{ "do": "train", "lens": lens }]);
            let plan = Plan::new(3, servers).on_death("fail").shared_memory(memory);
            let mut gang = plan.start(&work);
            gang.all_reach_step(1);
            let (victim, delay) = (victim(&mut dice), dice.below(60_000));
            std::thread::sleep(Duration::from_micros(delay));
            let (pid, killed) = (gang.named(&victim).pid(), Instant::now());
            gang.named(&victim).kill();
            let took = gang.all_end(killed, SOON);
            if took > Duration::from_secs(1) {
                let ends: Vec<_> =
                    gang.everyone().map(|p| (p.name.clone(), p.poll().map(|(_, at)| at - killed))).collect();
                eprintln!("slow: round {round}, {victim} after {delay} us, {lens:?}: {ends:?}");
            }
            times.push(took);
            all_blame(
                &mut gang,
                &victim,
                pid,
                &format!("{test} round {round} (kill {victim} after {delay} us, {lens:?})"),
            );
        }
        times.sort();
        eprintln!(
            "{test}, {servers} servers, shared memory {memory}: {count} kills; the last survivor ended after {:?} (median) to {:?} (worst)",
            times[times.len() / 2],
            times[times.len() - 1]
        );
    }
}

/// A worker that carries a shard.
#[test]
fn of_a_worker_without_servers() {
    rounds("worker, no servers", 15, 0, |dice| format!("worker{}", dice.below(3)));
}

/// A worker whose tensors the servers sum.
#[test]
fn of_a_worker_with_servers() {
    rounds("worker", 12, 2, |dice| format!("worker{}", dice.below(3)));
}

#[test]
fn of_a_server() {
    rounds("server", 12, 2, |dice| format!("server{}", dice.below(2)));
}

#[test]
fn of_the_master_without_servers() {
    rounds("master, no servers", 6, 0, |_| "master".into());
}

#[test]
fn of_the_master_with_servers() {
    rounds("master", 6, 2, |_| "master".into());
}
