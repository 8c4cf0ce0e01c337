//! Which objects would a sweep be on a pool? What `--dry-run` prints: the first wave, as the pool's slots and GPUs let it in.

use shoal_core::fleet::pool::{Pool, node_of};
use shoal_core::kubernetes::emit;
use shoal_core::kubernetes::pool::ask::{Ask, group};
use shoal_core::kubernetes::pool::job::{self, Place};
use shoal_core::queue::event::Seat;
use shoal_core::queue::host::Held;
use shoal_core::queue::sweep::Sweep;
use shoal_core::queue::{Attempt, RunId, cells, render};

pub fn yaml(sweep: &Sweep, pool: &Pool, user: u32, group_of: u32) -> Result<String, String> {
    let folder = super::folder(pool)?.join("STORE");
    let folder = folder.to_string_lossy();
    let owner = job::owner("STORE", &pool.name);
    let place = Place { pool, owner: &owner, folder: &folder, user, group: group_of };
    let runs = cells::total(sweep).saturating_mul(sweep.reps.into());
    let seats = seats(sweep.wants.gpus_milli, pool)?;
    let at = |n: u64| RunId {
        sweep: sweep.name.clone(),
        cell: (n / u64::from(sweep.reps.max(1))) as u32,
        rep: (n % u64::from(sweep.reps.max(1))) as u32,
    };
    let first = (0..runs).zip(&seats);
    let asks = first.map(|(n, devices)| {
        let attempt = Attempt { run: at(n), number: 1 };
        let seat = Seat { host: pool.name.clone(), devices: devices.clone(), meet: None };
        let start = render::start(sweep, &attempt, std::slice::from_ref(&seat), 0, None, true, "/", 0)?;
        let name = format!("{}_{}.{}_1", sweep.name, attempt.run.cell, attempt.run.rep);
        Ok(Ask::of(&start, &name))
    });
    let asks: Vec<Ask> = asks.collect::<Result<_, String>>()?;
    let objects: Vec<_> = group(&asks).iter().map(|batch| job::of(&place, batch)).collect();
    let later = runs - asks.len() as u64;
    let mut text = format!("# {}: {} of {runs} runs at once on the pool {}", sweep.name, asks.len(), pool.name);
    text.push_str(&if later == 0 { ".\n".to_string() } else { format!(", {later} more as these end.\n") });
    text.push_str(&emit::documents(&objects));
    Ok(text)
}

/// What each run of the first wave holds: every GPU gets one before any gets a second.
fn seats(milli: u32, pool: &Pool) -> Result<Vec<Vec<Held>>, String> {
    let slots = pool.slots as usize;
    if milli == 0 {
        return Ok(vec![Vec::new(); slots]);
    }
    let devices = pool.devices();
    if devices.is_empty() {
        return Err(format!("the sweep asks for GPUs, and the pool {} has none; add `gpus:` to it", pool.name));
    }
    let of = |milli: u32, uuid: &String| Held { uuid: uuid.clone(), milli };
    if milli > 1000 {
        // Whole ones of one node, as the queue picks them.
        let count = milli.div_ceil(1000) as usize;
        let nodes = devices.chunk_by(|one, next| node_of(one) == node_of(next));
        let whole = nodes.flat_map(|node| node.chunks_exact(count));
        let held: Vec<Vec<Held>> =
            whole.map(|some| some.iter().map(|uuid| of(1000, uuid)).collect()).take(slots).collect();
        if held.is_empty() {
            return Err(format!(
                "the sweep asks for {count} GPUs a run, and no node of the pool {} has as many",
                pool.name
            ));
        }
        return Ok(held);
    }
    if let Some(why) = pool.is_too_small(milli) {
        return Err(why);
    }
    let rounds = (0..1000 / milli).flat_map(|_| devices.iter().map(|uuid| vec![of(milli, uuid)]));
    Ok(rounds.take(slots).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_of_one_run_are_of_one_node() {
        const POOL: &str = r#"{"name":"p","slots":9,"kubernetes":{"image":"i","volumes":[],"nodes":["n1","n2"],"gpus":{"share":"pinned","count":3,"runs":1,"resource":"r"}}}"#;
        let pool: Pool = serde_json::from_str(POOL).expect("a pool");
        let names = |milli: u32| -> Result<Vec<String>, String> {
            let word = |held: &Vec<Held>| held.iter().map(|held| held.uuid.as_str()).collect::<Vec<_>>().join(" ");
            Ok(seats(milli, &pool)?.iter().map(word).collect())
        };
        assert_eq!(names(2000).expect("seats"), ["n1/0 n1/1", "n2/0 n2/1"]);
        assert_eq!(names(1500).expect("seats"), ["n1/0 n1/1", "n2/0 n2/1"]);
        assert_eq!(names(1000).expect("seats").len(), 6);
        assert!(names(4000).expect_err("too many").contains("asks for 4 GPUs"));
    }
}
