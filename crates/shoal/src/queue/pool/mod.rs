//! How does the queue have runs done by a Kubernetes cluster? By an agent of this machine whose folder lies on the pool's volume, and a thread of it
//! that speaks with the cluster.
//!
//! | file | question |
//! |---|---|
//! | `disk` | what do runs ask for, and what was decided, on the volume |
//! | `cluster` | what has the server of this pool, whatever happens to the line |
//! | `steward` | what is to be done now |
//! | `refusals` | what has the server refused, and when is it asked again |
//! | `shut` | which nodes take nothing |
//! | `settle` | is a run over, and how |
//! | `volume` | is it the volume that the pool had before |
//! | `dry_run` | which objects would a sweep be |

pub(crate) mod cluster;
mod disk;
pub mod dry_run;
mod refusals;
pub(crate) mod settle;
mod shut;
mod steward;
mod volume;

use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::pool::PODS;
use shoal_core::queue::host::HostPolicy;
use shoal_daemon::queue::agent::{self, pods};
use shoal_hosts::{Process, local};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The folder on the volume that everything of a pool's agents is below.
pub fn folder(pool: &Pool) -> Result<PathBuf, String> {
    let (_, here) = pool.carrier().ok_or_else(|| format!("the pool {} has no volume that is seen here", pool.name))?;
    Ok(PathBuf::from(here).join(".shoal").join(&pool.name))
}

/// Starts the agent of a pool; the line is its stdin and stdout. `kept`: the store's folder, which remembers its pools' volumes.
pub fn start(policy: &HostPolicy, text: &str, store: &str, kept: Option<&Path>) -> Result<Process, String> {
    let unread = |e: serde_json::Error| format!("what the pool {} is cannot be read: {e}", policy.name);
    let pool: Pool = serde_json::from_str(text).map_err(unread)?;
    let folder = folder(&pool)?;
    let above = folder.parent().and_then(|shoal| shoal.parent()).unwrap_or(&folder);
    if !above.is_dir() {
        let here = above.display();
        return Err(format!("{here} is not there; is the volume of the pool {} mounted on this machine?", pool.name));
    }
    if let Some(kept) = kept {
        volume::is_the_same(&folder, &kept.join("pools").join(&pool.name))?;
    }
    let program = std::env::current_exe().map_err(|e| format!("this program is not to be found: {e}"))?;
    let mut command = Command::new(program);
    command.args(["host", "agent", "--store", store, "--pool", text]).current_dir("/").env("SHOAL_HOST_DIR", folder);
    local::start(command).map_err(|e| format!("the agent of the pool {} cannot be started: {e}", pool.name))
}

/// `shoal host agent --store ID --pool JSON`.
pub fn agent(store: &str, text: &str) -> ExitCode {
    let pool: Pool = match serde_json::from_str(text) {
        Ok(pool) => pool,
        Err(e) => {
            eprintln!("shoal: --pool is no pool: {e}");
            return ExitCode::FAILURE;
        }
    };
    let (of_pool, of_store) = (pool.clone(), store.to_string());
    let shut = pods::Shut::default();
    let of_pods = shut.clone();
    let beside = move |root: PathBuf, tell| steward::run(of_pool, &of_store, &root, &of_pods, &tell);
    let mut args = agent::Args::new(store);
    args.pods = Some(pods::Pods { pool, shut, beside: Box::new(beside) });
    agent::main(args)
}
