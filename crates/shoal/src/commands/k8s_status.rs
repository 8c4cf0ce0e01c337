//! How are the runs of a launch?

use super::run::NotBegun;
use crate::args::k8s_status::Args;
use crate::exit::Exit;
use crate::k8s::reach::{connect, not_begun};
use crate::k8s::{files, follow, table};
use crate::say;
use serde_json::json;
use shoal_core::kubernetes::rows;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the server may take for all of it.
const BOUND: Duration = Duration::from_secs(60);

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let common = &args.common;
    let (launch, namespace) =
        files::launch(args.template.as_deref(), common.name.as_deref(), common.namespace.as_deref())?;
    let connection = connect(common, namespace)?;
    let rows = follow::look(&connection, &launch, Instant::now() + BOUND).map_err(not_begun)?;
    let rows =
        rows.ok_or_else(|| NotBegun::CannotStart(format!("{} did not answer in {BOUND:?}", connection.server)))?;
    if args.json {
        say::line(json!({"launch": launch, "namespace": connection.namespace, "runs": rows::json(&rows)}));
    } else if !rows.is_empty() {
        say::out(table::of(&rows));
    }
    if rows.is_empty() {
        eprintln!("shoal k8s status: nothing of launch `{launch}` is in namespace `{}`", connection.namespace);
        return Ok(Exit::RunFailed.into());
    }
    rows::reasons(&rows).iter().for_each(|reason| eprintln!("{reason}"));
    eprintln!("{}", rows::count(&rows));
    Ok(Exit::Success.into())
}
