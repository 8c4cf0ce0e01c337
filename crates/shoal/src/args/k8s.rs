//! `shoal k8s`'s command line: what its verbs have in common.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// Many runs of one template in a Kubernetes namespace.
///
/// Use it where you have a YAML file that starts a worker, and want it once per seed, on the GPUs you choose.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, Subcommand)]
pub enum What {
    Launch(Box<super::k8s_launch::Args>),
    Doctor(super::k8s_doctor::Args),
    Status(super::k8s_status::Args),
    Destroy(super::k8s_destroy::Args),
}

/// Which cluster, and which launch.
#[derive(Debug, ClapArgs)]
pub struct Common {
    /// The launch's name, if it is not the template's.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// The namespace. Without it: the template's, then the context's.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// The context of the kubeconfig. Without it: the current one.
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,

    /// The kubeconfig. Without it: KUBECONFIG, then ~/.kube/config, then the account of the pod that this runs in.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}
