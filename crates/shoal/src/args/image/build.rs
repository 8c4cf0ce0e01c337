//! `shoal image build`'s command line.

use super::{CODES, Common};
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Make a container image of a project, in layers such that an edit of the code sends the code alone.
///
/// With a Dockerfile (-d, or one in the folder), the engine does what it says. Without one, a Dockerfile is made: the base image, then what the lock file or
/// requirements.txt names, then the code without what .gitignore and .dockerignore leave out. --dry-run prints it.
#[derive(Debug, ClapArgs)]
#[command(after_help = format!("{CODES}\n\n{EXAMPLES}"))]
pub struct Build {
    /// What to call the image.
    #[arg(short, long, value_name = "NAME")]
    pub name: String,

    /// Its tag; `latest` unless NAME has one.
    #[arg(short, long, value_name = "TAG")]
    pub tag: Option<String>,

    /// The Dockerfile, seen from here or from FOLDER.
    #[arg(short, long, value_name = "FILE", conflicts_with = "base")]
    pub dockerfile: Option<PathBuf>,

    /// The image to build on. A Dockerfile is made then, even if the folder has one.
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,

    /// The project.
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,

    #[command(flatten)]
    pub common: Common,
}

const EXAMPLES: &str = "\
Examples:
  shoal image build -n l2r-node -d Dockerfile-l2r-node
  shoal image build -n train -t 3 --base l2r-base
  shoal image build -n train --dry-run";
