//! Which variables does a run find beside those of the host's login?
//!
//! The agent adds what depends on its folder: `SHOAL_RUN_DIR`, `SHOAL_PARAMS`, `SHOAL_METRICS`.

use super::text::word;
use super::words::Person;
use crate::queue::Attempt;
use crate::queue::event::{Meet, Seat};
use crate::queue::host::Held;
use crate::queue::plan::meet::port;
use crate::queue::sweep::Value;
use crate::variables::{LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, RANK, RUN, WORLD_SIZE};

/// A whole device, in thousandths.
const WHOLE: u32 = 1000;

/// Variables that a sweep cannot set: they say who the run is and what it holds.
pub fn is_ours(name: &str) -> bool {
    const DEVICES: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];
    const GANG: [&str; 6] = [RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT];
    name.starts_with("SHOAL_") || DEVICES.contains(&name) || GANG.contains(&name)
}

/// The variable that carries a parameter. Different parameters may ask for the same one; reading a sweep refuses that.
pub fn parameter_variable(name: &str) -> String {
    format!("SHOAL_PARAM_{}", name.replace(['-', '.'], "_"))
}

pub fn env(person: &Person, seats: &[Seat], rank: u32, seat: &Seat) -> Vec<(String, String)> {
    let (sweep, attempt) = (person.sweep, person.attempt);
    let mut env = Env(sweep.command.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect());
    let run = &attempt.run;
    env.set(RUN, run.to_string());
    env.set("SHOAL_SWEEP", run.sweep.clone());
    env.set("SHOAL_CELL", run.cell.to_string());
    env.set("SHOAL_REP", run.rep.to_string());
    env.set("SHOAL_ATTEMPT", attempt.number.to_string());
    env.set("SHOAL_SEED", person.seed().to_string());
    if sweep.command.pass.env {
        for (name, value) in person.config.iter().filter(|(_, value)| **value != Value::Null) {
            env.set(&parameter_variable(name), word(value));
        }
    }
    devices(&mut env, &seat.devices, sweep.wants.gpu_memory_bytes);
    if seats.len() > 1 {
        gang(&mut env, attempt, seats, rank);
    }
    env.0
}

struct Env(Vec<(String, String)>);

impl Env {
    fn set(&mut self, name: &str, value: String) {
        self.0.push((name.into(), value));
    }

    /// What the sweep itself says counts.
    fn suggest(&mut self, name: &str, value: &str) {
        if !self.0.iter().any(|(known, _)| known == name) {
            self.set(name, value.into());
        }
    }
}

/// A run sees the devices it holds and no others; one that asked for none sees none, since those there are promised to others (PLAN-2).
/// By UUID: numbers change their meaning with the order, with MPS and in containers.
fn devices(env: &mut Env, held: &[Held], memory: Option<u64>) {
    let uuids: Vec<&str> = held.iter().map(|held| held.uuid.as_str()).collect();
    let uuids = uuids.join(",");
    env.set("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into());
    env.set("NVIDIA_VISIBLE_DEVICES", if held.is_empty() { "void".into() } else { uuids.clone() });
    env.set("CUDA_VISIBLE_DEVICES", uuids);
    let Some(least) = held.iter().map(|held| held.milli).min() else { return };
    if let Some(bytes) = memory {
        env.set("SHOAL_GPU_MEMORY", bytes.to_string());
    }
    if least < WHOLE {
        let fraction = thousandths(least);
        // Left alone, both take nearly all memory of a device when they start, and the others on it fail.
        env.suggest("XLA_PYTHON_CLIENT_MEM_FRACTION", &fraction);
        env.suggest("TF_FORCE_GPU_ALLOW_GROWTH", "true");
        env.set("SHOAL_GPU_FRACTION", fraction);
    }
}

/// 250 is `0.25`.
fn thousandths(milli: u32) -> String {
    let text = format!("{}.{:03}", milli / WHOLE, milli % WHOLE);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The names that torchrun gives. Each process sees its own devices only, so it is the first on its host whoever else is there.
fn gang(env: &mut Env, attempt: &Attempt, seats: &[Seat], rank: u32) {
    let world = seats.len().to_string();
    let (address, port) = match &seats[0].meet {
        Some(Meet { address, port }) => (address.as_str(), *port),
        // Assigned by a daemon that did not think of it yet.
        None if seats.iter().all(|seat| seat.host == seats[0].host) => ("127.0.0.1", port(attempt)),
        None => (seats[0].host.as_str(), port(attempt)),
    };
    for name in ["SHOAL_RANK", RANK] {
        env.set(name, rank.to_string());
    }
    for name in ["SHOAL_WORLD_SIZE", WORLD_SIZE] {
        env.set(name, world.clone());
    }
    env.set(LOCAL_RANK, "0".into());
    env.set(LOCAL_WORLD_SIZE, "1".into());
    env.set(MASTER_ADDR, address.into());
    env.set(MASTER_PORT, port.to_string());
}
