//! `cargo xtask ci`: what CI runs, on this machine. The same as `test`, and nothing may be skipped.

pub fn run() -> anyhow::Result<()> {
    crate::test::run(crate::test::Args::strict())
}
