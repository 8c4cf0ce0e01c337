//! The master's decisions as plain values: who is refused and why, who is forgotten, when it is over (GANG-2).

use shoal_sync::control::{Common, FromMaster, Register};
use shoal_sync::error::{Role, SyncError};
use shoal_sync::master::table::{Effect, Table};
use shoal_sync::settings::OnDeath;

fn worker(id: u32, num_workers: u32, block_size: usize) -> Register {
    Register {
        role: Role::Worker,
        id: Some(id),
        host: format!("host{id}"),
        pid: 100 + id,
        address: None,
        port: 9,
        memory_domain: None,
        meeting: None,
        num_workers,
        common: Some(Common { block_size, deterministic: false, on_death: OnDeath::Fail }),
        version: "0.1.0".into(),
    }
}

fn refusal(effects: &[Effect]) -> Option<&SyncError> {
    effects.iter().find_map(|e| match e {
        Effect::Send(_, FromMaster::Refused { error }) => Some(error),
        _ => None,
    })
}

#[test]
fn a_refusal_is_logged_and_those_who_wait_hear_of_it() {
    let mut table = Table::new(1, Some(2), 0);
    assert!(refusal(&table.register(1, worker(0, 2, 4096), "a")).is_none());
    let effects = table.register(2, worker(1, 2, 8192), "b");
    let why = refusal(&effects).expect("refused").to_string();
    assert!(why.contains("block_size") && why.contains("host0") && why.contains("host1"), "{why}");
    assert!(effects.iter().any(|e| matches!(e, Effect::Warn(text) if text.contains("block_size"))), "{effects:?}");
    let told = effects.iter().any(|e| {
        matches!(e, Effect::Send(1, FromMaster::Gathering { missing })
        if missing.contains("worker 1") && missing.contains("block_size"))
    });
    assert!(told, "{effects:?}");
}

#[test]
fn a_departed_workers_word_is_forgotten_and_a_present_ones_is_named() {
    let mut table = Table::new(1, None, 0);
    table.register(1, worker(0, 5, 4096), "a");
    let why = refusal(&table.register(2, worker(1, 2, 4096), "b")).expect("refused").to_string();
    assert!(why.contains("5 workers (as worker 0 on host0"), "{why}");
    table.lost(1, "left");
    assert!(refusal(&table.register(3, worker(0, 2, 8192), "a")).is_none());
    assert!(refusal(&table.register(4, worker(1, 2, 8192), "b")).is_none());
    assert!(table.complete);
}

#[test]
fn a_master_that_all_have_left_knows_why() {
    let mut table = Table::new(1, Some(2), 0);
    assert!(table.abandoned().is_none(), "nobody has come yet: it waits");
    table.register(1, worker(0, 2, 4096), "a");
    table.register(2, worker(0, 2, 4096), "b");
    assert!(table.abandoned().is_none(), "worker 0 still waits");
    table.lost(1, "left");
    let why = table.abandoned().expect("all have left").to_string();
    assert!(why.contains("taken by worker 0 on host0"), "{why}");
}

/// Says for whom each worker waits, twice, twenty seconds apart; whether the table calls it a deadlock.
fn is_deadlock(waits: &[(&str, &[u32])]) -> bool {
    let mut table = Table::new(1, Some(waits.len() as u32), 0);
    for id in 0..waits.len() as u32 {
        table.register(u64::from(id), worker(id, waits.len() as u32, 4096), "a");
    }
    let mut found = false;
    for now in [100, 120] {
        for (id, (key, missing)) in waits.iter().enumerate() {
            if !key.is_empty() {
                let effects = table.blocked(id as u64, (*key).into(), missing.to_vec(), now);
                let ends =
                    |e: &Effect| matches!(e, Effect::Send(_, FromMaster::Abort { error: SyncError::Deadlock { .. } }));
                found |= effects.iter().any(ends);
            }
        }
    }
    found
}

#[test]
fn circles_of_waits_are_found_and_slow_workers_are_not_taken_for_one() {
    assert!(is_deadlock(&[("a", &[1]), ("b", &[0])]));
    assert!(!is_deadlock(&[("a", &[1]), ("", &[])]), "worker 1 computes");
    assert!(!is_deadlock(&[("a", &[1]), ("a", &[])]), "all bytes are under way");
    // Workers 0 and 1 are one team, for which 0 speaks; so 1 waits for 0, and 0 for those of the other team.
    assert!(is_deadlock(&[("a", &[2, 3]), ("a", &[0]), ("a", &[3]), ("b", &[0, 1])]));
    assert!(!is_deadlock(&[("a", &[2, 3]), ("a", &[0]), ("a", &[3]), ("", &[])]), "worker 3 computes");
    assert!(!is_deadlock(&[("a", &[]), ("a", &[0]), ("b", &[]), ("b", &[2])]), "two keys on a slow link");
}

/// A run of three workers and one server that goes on without its dead, under way; links 1 to 3 are the workers', 4 the server's.
fn under_way() -> Table {
    let mut table = Table::new(1, Some(3), 1);
    for id in 0..3 {
        table.register(1 + u64::from(id), Register { pid: 100 + id, ..carries_on(Some(id)) }, "a");
    }
    table.register(4, Register { role: Role::Server, id: Some(0), common: None, ..worker(0, 0, 4096) }, "a");
    assert!(table.complete);
    table
}

fn carries_on(id: Option<u32>) -> Register {
    let common = Some(Common { block_size: 4096, deterministic: false, on_death: OnDeath::Continue });
    Register { id, common, pid: 200, ..worker(id.unwrap_or(9), 0, 4096) }
}

fn sent(effects: &[Effect], to: u64) -> Vec<&FromMaster> {
    effects
        .iter()
        .filter_map(|e| if let Effect::Send(link, m) = e { (*link == to).then_some(m) } else { None })
        .collect()
}

fn state_of(table: &Table, pid: u32) -> Vec<String> {
    let status = shoal_sync::master::status::json(table, 0);
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().filter(|n| n["pid"] == pid).map(|n| n["state"].as_str().unwrap_or("?").to_string()).collect()
}

#[test]
fn a_newcomer_takes_a_dead_workers_place() {
    let mut table = under_way();
    let dead = table.lost(2, "killed");
    assert!(matches!(sent(&dead, 1)[..], [FromMaster::Dead { node: 1, incarnation: 0, .. }]), "{dead:?}");
    let effects = table.register(10, carries_on(None), "b");
    let [FromMaster::Welcome { id: 1 }, FromMaster::Complete(roster)] = sent(&effects, 10)[..] else {
        panic!("{effects:?}")
    };
    let late = roster.late.as_ref().expect("marked late");
    assert_eq!((late.incarnation, roster.workers[1].who.pid, roster.workers.len()), (1, 200, 3));
    assert!(sent(&effects, 1).is_empty(), "nobody hears of it before it is at all doors");

    let effects = table.at_the_door(10);
    for link in [1, 3] {
        assert!(matches!(sent(&effects, link)[..], [FromMaster::Joining(n)] if n.node == 1 && n.incarnation == 1));
    }
    assert!(table.at_the_door(10).is_empty(), "said once");
    assert_eq!(state_of(&table, 200), ["joining"]);

    table.admitted(1, 7);
    assert_eq!(state_of(&table, 200), ["joining"], "that was another");
    table.admitted(1, 1);
    table.admitted(1, 1);
    assert_eq!(state_of(&table, 200), ["alive"]);
    let dead = table.lost(10, "killed too");
    assert!(matches!(sent(&dead, 3)[..], [FromMaster::Dead { node: 1, incarnation: 1, .. }]), "{dead:?}");
    let again = table.register(11, carries_on(Some(1)), "b");
    assert!(matches!(sent(&again, 11)[..], [FromMaster::Welcome { id: 1 }, FromMaster::Complete(r)]
        if r.late.as_ref().is_some_and(|l| l.incarnation == 2)));
}

#[test]
fn a_newcomer_that_does_not_fit_is_told_why() {
    let why = |table: &mut Table, node: Register| {
        refusal(&table.register(20, node, "b")).map(ToString::to_string).unwrap_or_default()
    };
    let mut table = under_way();
    assert!(why(&mut table, carries_on(None)).contains("no worker's place is free"));
    assert!(why(&mut table, carries_on(Some(1))).contains("taken by worker 1"));
    table.finish(1);
    table.lost(2, "killed");
    assert!(why(&mut table, carries_on(Some(0))).contains("has finished"));
    assert!(why(&mut table, carries_on(Some(3))).contains("one too many"));
    assert!(why(&mut table, Register { num_workers: 9, ..carries_on(Some(1)) }).contains("3 workers"));
    let differs = Common { block_size: 8192, deterministic: false, on_death: OnDeath::Continue };
    assert!(why(&mut table, Register { common: Some(differs), ..carries_on(Some(1)) }).contains("block_size"));
    assert!(why(&mut table, Register { host: "h".repeat(300), ..carries_on(Some(1)) }).contains("host"));
    let server = Register { role: Role::Server, id: Some(1), ..carries_on(None) };
    assert!(why(&mut table, server).contains("under way"));
    assert!(refusal(&table.register(21, carries_on(Some(1)), "b")).is_none());
    assert!(why(&mut table, carries_on(Some(1))).contains("taken by worker 1 on host1 (pid 200)"));
    assert!(why(&mut table, carries_on(None)).contains("no worker's place is free"));

    // Where a death ends the run, nobody's place is ever free.
    let mut table = Table::new(1, Some(2), 0);
    table.register(1, worker(0, 2, 4096), "a");
    table.register(2, worker(1, 2, 4096), "a");
    assert!(why(&mut table, Register { id: None, ..worker(0, 2, 4096) }).contains("complete and under way"));
}

/// GRAD-5: it can neither end the run nor keep it going, and hears of its end.
#[test]
fn a_newcomer_has_no_part_in_the_run_before_it_is_in() {
    let mut table = under_way();
    table.lost(2, "killed");
    table.register(10, carries_on(None), "b");
    table.at_the_door(10);
    let effects = table.abort(10, SyncError::ShutDown);
    assert!(table.failure.is_none(), "{:?}", table.failure);
    assert!(matches!(sent(&effects, 1)[..], [FromMaster::Dead { node: 1, incarnation: 1, .. }]), "{effects:?}");
    assert!(table.joining.is_empty() && state_of(&table, 200).is_empty());
    assert!(table.abort(10, SyncError::ShutDown).is_empty() && table.failure.is_none(), "it has left");

    table.register(11, carries_on(None), "b");
    table.finish(1);
    let effects = table.finish(3);
    assert!(matches!(sent(&effects, 11)[..], [FromMaster::Refused { error }] if error.to_string().contains("admit()")));
    assert!(table.over() && table.joining.is_empty() && table.failure.is_none());
    let late = refusal(&table.register(12, carries_on(None), "b")).expect("refused").to_string();
    assert!(late.contains("nobody could let it in"), "{late}");

    // A failure reaches it too.
    let mut table = under_way();
    table.lost(2, "killed");
    table.register(10, carries_on(None), "b");
    let effects = table.lost(4, "the server is gone");
    assert!(matches!(sent(&effects, 10)[..], [FromMaster::Dead { node: 3, .. }]), "{effects:?}");
}
