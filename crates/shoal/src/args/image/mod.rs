//! `shoal image`'s command line.

pub mod bake;
pub mod build;
pub mod pull;
pub mod push;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// Make images: of containers, or of a cluster's head.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, Subcommand)]
pub enum What {
    Build(build::Build),
    Push(push::Push),
    Pull(pull::Pull),
    Bake(bake::Bake),
}

/// What build, push and pull have in common.
#[derive(Debug, ClapArgs)]
pub struct Common {
    /// Which engine does it. Without this the first of docker, podman and buildah that is here and works.
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,

    /// Speak plain http, or accept any certificate. Registries on this machine's loopback need no such word.
    #[arg(long)]
    pub insecure: bool,

    /// Print what would be done and do nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Print the outcome as one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Engine {
    Docker,
    Podman,
    Buildah,
}

impl From<Engine> for shoal_core::image::Engine {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Docker => Self::Docker,
            Engine::Podman => Self::Podman,
            Engine::Buildah => Self::Buildah,
        }
    }
}

const CODES: &str = "\
Exit codes:
  0    it is done
  1    the engine failed; the last lines on stderr say why
  2    the command line, a name or the Dockerfile is wrong
  3    no engine is here, or none works";
