//! `shoal get-worker-ips`'s command line.

use super::cluster::Common;
use clap::Args as ClapArgs;

/// Print the address of each worker, one a line.
///
/// Use it in scripts that go on from here: `for ip in $(shoal get-worker-ips cluster.yaml); do ping -c1 $ip; done`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes:\n  0  printed\n  1  its provider cannot be asked\n  2  the command line or the file is wrong"
)]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,
}
