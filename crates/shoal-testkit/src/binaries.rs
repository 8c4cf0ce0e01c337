//! Where the programs under test are, for tests of other crates than the one that builds them.

use std::path::PathBuf;

/// The built program `name`: in `$SHOAL_BIN_DIR`, which `cargo xtask test` sets, or else beside the running test.
///
/// # Panics
/// When it has not been built; the message says how to.
pub fn binary(name: &str) -> PathBuf {
    let folder = std::env::var_os("SHOAL_BIN_DIR").map(PathBuf::from).or_else(|| {
        // target/debug/deps/TEST-HASH
        Some(std::env::current_exe().ok()?.parent()?.parent()?.to_path_buf())
    });
    let file = folder.unwrap_or_default().join(name);
    assert!(file.is_file(), "{} has not been built; `cargo build --workspace --bins` builds it", file.display());
    file
}
