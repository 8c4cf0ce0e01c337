//! Which Python do tests run that need frameworks and the package (its wheel, for the sake of `shoal.pth`), and what does it read?
//!
//! `SHOAL_TEST_TENSORFLOW` names the interpreter of a virtual environment that has both.

use std::path::{Path, PathBuf};
use std::process::Command;

const PYTHON: &str = "SHOAL_TEST_TENSORFLOW";

/// The interpreter; without one the test is skipped.
pub fn or_skip() -> Option<PathBuf> {
    let python = std::env::var_os(PYTHON).map(PathBuf::from);
    if python.is_none() {
        shoal_testkit::skip(format_args!("{PYTHON} names no interpreter of an environment with frameworks and shoal"));
    }
    python
}

/// Its virtual environment.
pub fn virtualenv(python: &Path) -> PathBuf {
    python.ancestors().nth(2).expect("an environment").to_path_buf()
}

/// The folders that an interpreter reads from, which hosts may hide.
pub fn needed_by(python: &Path) -> Vec<PathBuf> {
    let script = "import os, sys; print(*{sys.prefix, sys.base_prefix, *filter(os.path.isdir, sys.path)}, sep='\\n')";
    let output = Command::new(python).args(["-c", script]).output().expect("the interpreter");
    assert!(output.status.success(), "{}: {}", python.display(), String::from_utf8_lossy(&output.stderr));
    let mut folders: Vec<PathBuf> = String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect();
    folders.sort();
    // A folder brings everything below it.
    let all = folders.clone();
    folders.retain(|folder| !all.iter().any(|other| other != folder && folder.starts_with(other)));
    folders
}
