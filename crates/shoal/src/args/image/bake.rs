//! `shoal image bake`'s command line.

use crate::args::cluster::Common;
use clap::Args as ClapArgs;

/// Make an AMI of a cluster's head, under a name that node_config can give as its ImageId.
///
/// Use it once the head has everything installed: nodes that start from the image need no set-up. The head is rebooted for it, so that no file
/// is half written; --no-reboot leaves it running. It takes some minutes. The image stays when the cluster goes: `shoal down` says so.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Bake {
    #[command(flatten)]
    pub cluster: Common,

    /// The image's name: 3 to 128 letters, digits, spaces and ()[]./-'@_. No other image of the account may have it.
    #[arg(long, value_name = "NAME")]
    pub name: String,

    /// Do not reboot the head. Files that are being written may be torn in the image.
    #[arg(long)]
    pub no_reboot: bool,

    /// Print the image's id and name as one JSON object.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0    the image is there and can be used
  1    it is not; the last lines on stderr say why
  2    the command line or the cluster file is wrong

Examples:
  shoal image bake initial-cluster.yaml --name paper-2026
  shoal up cluster-template.yaml --set 'AMI ID=paper-2026'";
