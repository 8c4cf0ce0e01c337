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
