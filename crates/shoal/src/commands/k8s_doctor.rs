//! Examines a cluster and says what was found.

use super::run::NotBegun;
use crate::args::k8s_doctor::Args;
use crate::exit::Exit;
use crate::k8s::files;
use crate::k8s::reach::{connect, not_begun};
use crate::say;
use serde_json::json;
use shoal_core::checkup::Level;
use shoal_core::kubernetes::checkup;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let namespace = args.common.namespace.as_deref();
    let read = args.template.as_deref().map(|file| files::template(file, namespace)).transpose()?;
    let template = read.as_ref().map(|read| &read.template);
    let namespace = namespace.map(String::from).or_else(|| template?.namespace.clone());
    let connection = connect(&args.common, namespace)?;
    let claims = template.into_iter().flat_map(|template| &template.mounts).filter_map(|mount| mount.claim.clone());
    let facts = connection.examine(&claims.collect::<Vec<_>>()).map_err(not_begun)?;
    let findings = checkup::judge(&facts, template);
    if args.json {
        say::line(json!({"server": facts.server, "namespace": facts.namespace, "findings": findings}));
    } else {
        say::out(checkup::text(&findings));
    }
    let red = findings.iter().any(|finding| finding.level == Level::Red);
    Ok(if red { Exit::RunFailed } else { Exit::Success }.into())
}
