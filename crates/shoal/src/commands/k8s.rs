//! Many runs of one template in a Kubernetes namespace: which verb is it?

use super::run::NotBegun;
use super::{k8s_destroy, k8s_doctor, k8s_launch, k8s_status};
use crate::args::k8s::{Args, What};
use std::process::ExitCode;

/// The verb's whole name, and what came of it.
pub fn run(args: &Args) -> (&'static str, Result<ExitCode, NotBegun>) {
    match &args.what {
        What::Launch(args) => ("shoal k8s launch", k8s_launch::run(args)),
        What::Doctor(args) => ("shoal k8s doctor", k8s_doctor::run(args)),
        What::Status(args) => ("shoal k8s status", k8s_status::run(args)),
        What::Destroy(args) => ("shoal k8s destroy", k8s_destroy::run(args)),
    }
}
