//! The Python package, built from the checkout and installed into an environment.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `crates/shoal-py` in release mode and installs it into the environment of `python`. Cargo rebuilds only what changed, so this
/// is quick when nothing did.
pub fn ensure_installed(python: &Path) -> Result<()> {
    let wheel = build(python)?;
    let wheel = wheel.to_str().with_context(|| format!("{} is not UTF-8", wheel.display()))?;
    // The version stays the same between changes, hence the force; dependencies are the environment's business.
    let install = ["install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps", wheel];
    crate::venv::pip(python, &install)?;
    let mut import = Command::new(python);
    // Away from the checkout, so that what is imported is what was installed.
    import.current_dir("/").args(["-c", "import shoal, shoal._shoal; shoal.init"]);
    crate::cargo::run(&mut import, "import the Python package that was just installed")
}

fn build(python: &Path) -> Result<PathBuf> {
    // Always by the same interpreter: pyo3 is rebuilt when that changes, and the wheel (abi3) fits every other one.
    let builder = crate::venv::ensure("build", &["maturin"])?;
    // At the root, where maturin packs python/ as well: it silently leaves out sources that lie outside the folder of pyproject.toml.
    let root = crate::root();
    let project =
        [root.clone(), root.join("crates/shoal-py")].into_iter().find(|dir| dir.join("pyproject.toml").is_file());
    let project = project
        .context("cannot build the Python package: neither the root nor crates/shoal-py has a pyproject.toml")?;
    // A folder of its own for each environment: builds for two of them may run side by side.
    let environment = python.ancestors().nth(2).and_then(Path::file_name).unwrap_or("default".as_ref());
    let out = crate::cargo::target_dir()?.join("wheels").join(environment);
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    let mut maturin = crate::cargo::clean(&builder);
    maturin
        .current_dir(project)
        .args(["-m", "maturin", "build", "--release", "--compatibility", "linux", "--interpreter"])
        .arg(&builder)
        .arg("--out")
        .arg(&out);
    crate::cargo::run(&mut maturin, "build the Python package")?;
    let files = std::fs::read_dir(&out).with_context(|| format!("cannot list {}", out.display()))?;
    files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .with_context(|| format!("maturin left no wheel in {}", out.display()))
}
