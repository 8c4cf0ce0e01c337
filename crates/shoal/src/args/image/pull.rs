//! `shoal image pull`'s command line.

use super::{CODES, Common};
use clap::Args as ClapArgs;

/// Fetch an image from a registry, and give it a name of your own.
#[derive(Debug, ClapArgs)]
#[command(after_help = format!("{CODES}\n\n{EXAMPLES}"))]
pub struct Pull {
    /// HOST[:PORT]/PATH[:TAG], or with @DIGEST.
    #[arg(value_name = "IMAGE")]
    pub image: String,

    /// What to call it here, as well.
    #[arg(short, long, value_name = "NAME")]
    pub name: Option<String>,

    /// The tag of that name; `latest` unless NAME has one.
    #[arg(short, long, value_name = "TAG", requires = "name")]
    pub tag: Option<String>,

    #[command(flatten)]
    pub common: Common,
}

const EXAMPLES: &str = "\
Examples:
  shoal image pull registry.example.org/jamesher/l2r-base -n l2r-base
  shoal image build -n train --base l2r-base";
