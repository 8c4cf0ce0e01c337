//! Which cluster is meant, and what does it mean that it cannot be reached?

use crate::args::k8s::Common;
use crate::commands::run::NotBegun;
use shoal_core::kubernetes::names;
use shoal_hosts::kubernetes::{Connection, Failure, Trouble, Wanted};

pub fn connect(common: &Common, namespace: Option<String>) -> Result<Connection, NotBegun> {
    let wanted = Wanted { kubeconfig: common.kubeconfig.clone(), context: common.context.clone(), namespace };
    Connection::open(&wanted).map_err(not_begun)
}

pub fn not_begun(failure: Failure) -> NotBegun {
    match failure.trouble {
        Trouble::Invalid | Trouble::Conflict => NotBegun::Wrong(failure.to_string()),
        _ => NotBegun::CannotStart(failure.to_string()),
    }
}

/// Everything that any launch has made.
pub fn ours() -> String {
    format!("{}={}", names::MANAGED_BY, names::MANAGER)
}

/// Everything of one launch.
pub fn of_launch(launch: &str) -> String {
    format!("{},{}={launch}", ours(), names::LAUNCH)
}
