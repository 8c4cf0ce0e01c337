//! What of the submitting shell do runs find? On a queue of this machine alone, what decides which programs and libraries are found; elsewhere nothing:
//! paths of one machine mean nothing on others.

use super::connect::Queue;
use crate::commands::run::NotBegun;
use shoal_core::queue::sweep::Command;

/// Where programs, Python's packages and libraries are looked for.
const NAMES: [&str; 7] =
    ["PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME"];

pub fn from_here(queue: &mut Queue, command: &mut Command) -> Result<(), NotBegun> {
    let says_its_own = command.virtualenv.is_some() || !command.setup.is_empty() || command.requirements.is_some();
    if says_its_own || !is_alone(queue)? {
        return Ok(());
    }
    for name in NAMES {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        if let (Some(value), false) = (value, command.env.contains_key(name)) {
            command.env.insert(name.into(), value);
        }
    }
    Ok(())
}

/// Whether this machine is all the queue has, and nobody said what runs find there.
fn is_alone(queue: &mut Queue) -> Result<bool, NotBegun> {
    if !queue.is_local() {
        return Ok(false);
    }
    let hosts = queue.hosts()?;
    // What the fleet's file says of it is what people mean, not what this shell happens to have.
    if hosts.iter().any(|host| host.prepared) {
        return Ok(false);
    }
    Ok(hosts.iter().all(|host| host.name == shoal_daemon::proc::node_name() || host.name == "localhost"))
}
