//! Under `on_death = continue` a new process takes the place of a dead worker at a step boundary (GRAD-3, GRAD-5, GANG-2).

mod support;

use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};
use support::gang::{self, Plan};
use support::{Gang, LONG, Process, SOON, TOKEN, host};

fn work(steps: u64) -> Value {
    json!([{ "do": "train_on", "len": 300_000, "steps": steps, "pause_ms": 5 }, { "do": "shutdown" }])
}

fn steps_of(process: &Process) -> Vec<Value> {
    process.events().into_iter().filter(|e| e["event"] == "step").collect()
}

/// All who completed a step have the same weights after it.
fn check_same(gang: &Gang) {
    let first = steps_of(&gang.workers[0]);
    for worker in &gang.workers[1..] {
        for line in steps_of(worker) {
            let same = first.iter().find(|l| l["step"] == line["step"]);
            assert!(same.is_none_or(|l| l["hash"] == line["hash"]), "{} {line} {same:?} (GRAD-3)", worker.name);
        }
    }
}

/// Starts a process in place of worker `id` and waits until it is in.
fn replace(gang: &mut Gang, id: u32, env: &[(&str, &str)], steps: u64) -> Value {
    gang.add_worker(id, &work(steps), env);
    let newcomer = gang.workers.last_mut().expect("just started");
    newcomer.event("its place", LONG, |e| e["event"] == "joined")
}

/// Killed, replaced, and killed again as the newcomer; the lowest rank too, from which the weights came before.
#[test]
fn a_dead_workers_place_is_taken_and_the_sums_are_over_all_again() {
    for victim in [2, 0] {
        let steps = 600;
        let mut gang = Plan::new(3, 2).on_death("continue").start(&work(steps));
        gang.all_reach_step(3);
        for round in 0..2 {
            let killed = if round == 0 { victim } else { gang.workers.len() - 1 };
            gang.workers[killed].kill();
            gang.master.says(&format!("worker {victim} on {} (pid {}) died", host(), gang.workers[killed].pid()), LONG);
            // By number, or by leaving the choice to the master.
            let env: &[(&str, &str)] = if round == 0 { &[] } else { &[("SHOAL_CLIENT_ID", "-1")] };
            let joined = replace(&mut gang, victim as u32, env, steps);
            assert_eq!((&joined["rank"], &joined["late"]), (&json!(victim), &json!(true)));
            let newcomer = gang.workers.last_mut().expect("it is there");
            let line = newcomer.event("a step", LONG, |e| e["event"] == "step");
            assert_eq!(line["ends"], json!(["111", "111"]), "all three are in the sum: {line}");
            let pid = newcomer.pid();
            let status = gang.status();
            let row = status["nodes"].as_array().into_iter().flatten().find(|n| n["pid"] == pid).cloned();
            assert_eq!(row.expect("in the table")["state"], "alive");
            gang.master.says(&format!("worker {victim} on {} (pid {pid}) has joined", host()), SOON);
            gang.servers[0].says(&format!("worker {victim} on {} (pid {pid}) has joined", host()), SOON);
        }
        gang.all_end(Instant::now(), LONG);
        let said = gang.said();
        let dead = [format!("worker{victim}"), "worker3".into()];
        for process in gang.everyone() {
            let expected = if dead.contains(&process.name) { -1 } else { 0 };
            assert_eq!(process.end(SOON), expected, "{}\n{said}", process.name);
        }
        check_same(&gang);
        let survivors: Vec<usize> = (0..5).filter(|w| *w != victim && *w != 3).collect();
        let last = |w: &usize| steps_of(&gang.workers[*w]).pop().expect("steps");
        let lines: Vec<Value> = survivors.iter().map(last).collect();
        assert!(lines.iter().all(|l| *l == lines[0] && l["step"] == steps && l["ends"][0] == "111"), "{lines:?}");
        let let_in = gang.workers[survivors[0]].events().into_iter().filter(|e| e["event"] == "let in");
        for line in let_in {
            assert_eq!((&line["ranks"], &line["members"]), (&json!([victim]), &json!([0, 1, 2])));
            assert_eq!(line["root"], json!(u8::from(victim == 0)), "whom the weights come from");
        }
    }
}

/// GRAD-5: a newcomer's wait has an end, by its own patience or with the run, and says what it waited for.
#[test]
fn nobody_lets_it_in() {
    // These never call admit().
    let train = json!([{ "do": "train", "lens": [1000], "steps": 400, "pause_ms": 10 }, { "do": "shutdown" }]);
    let mut gang = Plan::new(3, 1).on_death("continue").start(&train);
    gang.all_reach_step(2);
    gang.workers[1].kill();
    gang.master.says("died", LONG);
    let env = [gang.plan.env.clone(), vec![("SHOAL_CONNECT_TIMEOUT".into(), "1".into())]].concat();
    let mut short = gang::worker("short", gang.folder.path(), &gang.address, 1, &work(5), &env);
    short.says("waiting to be let in", LONG);
    let status = gang.status();
    let row = status["nodes"].as_array().into_iter().flatten().find(|n| n["state"] == "joining").cloned();
    assert_eq!(row.expect("in the table")["pid"], short.pid());
    assert_eq!(short.end(LONG), 1);
    let text = short.error()["text"].to_string();
    assert!(text.contains("waited 1 s") && text.contains("admit()"), "{text}");
    gang.master.says("left before it was let in", SOON);

    // Killed while it waits, it leaves nothing behind.
    let mut killed = gang::worker("killed", gang.folder.path(), &gang.address, 1, &work(5), &gang.plan.env);
    killed.says("waiting to be let in", LONG);
    killed.kill();
    std::thread::sleep(Duration::from_millis(50));

    let mut patient = gang::worker("patient", gang.folder.path(), &gang.address, 1, &work(5), &gang.plan.env);
    patient.says("waiting to be let in", LONG);
    let ended = gang.all_end(Instant::now(), LONG);
    assert_eq!(patient.end(SOON), 1);
    let text = patient.error()["text"].to_string();
    assert!(text.contains("finished or died"), "{ended:?} {text}");
    let said = gang.said();
    for name in ["master", "server0", "worker0", "worker2"] {
        assert_eq!(gang.named(name).end(SOON), 0, "{name}\n{said}");
    }
}

/// A server's death ends the run by name, for those who wait at its door too.
#[test]
fn a_lost_server_is_named_to_a_newcomer() {
    let train = json!([{ "do": "train", "lens": [1000], "pause_ms": 10 }]);
    let mut gang = Plan::new(2, 2).on_death("continue").start(&train);
    gang.all_reach_step(2);
    gang.workers[1].kill();
    gang.master.says("died", LONG);
    gang.add_worker(1, &work(5), &[]);
    gang.workers[2].says("waiting to be let in", LONG);
    gang.servers[1].kill();
    gang.all_end(Instant::now(), SOON);
    for worker in [0, 2] {
        let text = gang.workers[worker].error()["text"].to_string();
        assert!(text.contains("server 1 on"), "{text}");
    }
}

/// admit() with something under way is the caller's mistake, and costs nobody anything.
#[test]
fn a_boundary_needs_an_idle_worker() {
    let work = json!([{ "do": "admit_early" }, { "do": "shutdown" }]);
    let mut gang = Plan::new(2, 1).on_death("continue").start(&work);
    gang.ends_well();
    let refused = gang.workers[0].events().into_iter().find(|e| e["event"] == "refused").expect("a refusal");
    assert!(refused["text"].to_string().contains("wait for it before admit()"), "{refused}");
    for worker in &gang.workers {
        let let_in = worker.events().into_iter().find(|e| e["event"] == "let in").expect("a boundary");
        assert_eq!(let_in["ranks"], json!([]));
    }
}

/// SEC-1: a server's door stays open, but only to those who know the token, and a crowd of others only delays.
#[test]
fn strangers_at_the_door_are_turned_away() {
    let mut gang = Plan::new(2, 1).on_death("continue").start(&work(400));
    gang.all_reach_step(2);
    gang.workers[1].kill();
    gang.master.says("died", LONG);
    let status = gang.status();
    let server = status["nodes"].as_array().into_iter().flatten().find(|n| n["role"] == "server").cloned();
    let address = server.expect("a server")["address"].as_str().expect("an address").to_string();
    let dial = || std::net::TcpStream::connect(&address).expect("it listens");
    let silent: Vec<_> = (0..70).map(|_| dial()).collect();
    gang.servers[0].says("too many connections", LONG);
    drop(silent);
    dial().write_all(b"GET / HTTP/1.0\r\n\r\n                              ").expect("written");
    gang.servers[0].says("does not speak this protocol", LONG);
    let guess = shoal_sync::handshake::dial(&mut dial(), "a guess", "the server").expect_err("refused");
    assert!(guess.to_string().contains("token"), "{guess}");
    // Proven, but of another run.
    let mut proven = dial();
    shoal_sync::handshake::dial(&mut proven, TOKEN, "the server").expect("proven");
    proven.write_all(&[0u8; 16]).expect("written");
    gang.servers[0].says("another run", LONG);
    let joined = replace(&mut gang, 1, &[], 400);
    assert_eq!(joined["late"], true);
    gang.all_end(Instant::now(), LONG);
    assert_eq!((gang.workers[0].end(SOON), gang.workers[2].end(SOON)), (0, 0));
    check_same(&gang);
}
