//! `shoal get-head-ip`'s command line.

use super::cluster::Common;
use clap::Args as ClapArgs;

/// Print the address of the head.
///
/// Use it in scripts that go on from here: `ssh $(shoal get-head-ip cluster.yaml)`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes:\n  0  printed\n  1  there is none, or its provider cannot be asked\n  2  the command line or the file is wrong"
)]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,
}
