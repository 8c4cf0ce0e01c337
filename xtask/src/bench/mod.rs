//! `cargo xtask bench NAME`: side-by-side measurements.

#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<()> {
    Ok(())
}
