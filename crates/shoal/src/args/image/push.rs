//! `shoal image push`'s command line.

use super::{CODES, Common};
use clap::Args as ClapArgs;

/// Send an image to a registry. What the registry has already is not sent again.
///
/// Logins are those of `docker login` and `podman login`: $REGISTRY_AUTH_FILE, containers/auth.json below $XDG_RUNTIME_DIR and ~/.config,
/// ~/.docker/config.json. Prints the image's name there with its digest, as a pod's `image:` takes it.
#[derive(Debug, ClapArgs)]
#[command(after_help = format!("{CODES}\n\n{EXAMPLES}"))]
pub struct Push {
    /// HOST[:PORT][/PATH], to which the image's name is added; or the whole name that it shall have there.
    #[arg(value_name = "REGISTRY")]
    pub registry: String,

    /// The image; without this the one that was last built from this folder.
    #[arg(short, long, value_name = "NAME")]
    pub name: Option<String>,

    /// Its tag.
    #[arg(short, long, value_name = "TAG")]
    pub tag: Option<String>,

    #[command(flatten)]
    pub common: Common,
}

const EXAMPLES: &str = "\
Examples:
  shoal image push registry.example.org/jamesher
  shoal image push registry.example.org/jamesher -n l2r-node -t 3
  shoal image push localhost:5000 --dry-run";
