//! A test that cannot run says so and counts as skipped, or as failed where nothing may be skipped.

use std::io::Write;

/// What a skipped test prints before its reason; `cargo xtask test` counts these lines.
pub const SKIPPED: &str = "skipped: ";

/// Call it and return from the test.
///
/// # Panics
/// With `CI=true`: there, everything a test needs is meant to be installed, and a skip would hide that it is not.
pub fn skip(reason: impl std::fmt::Display) {
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "cannot run, and with CI=true nothing may be skipped: {reason}"
    );
    // Not `eprintln!`: the test harness swallows what a passing test prints with the macros.
    let _ = writeln!(std::io::stderr(), "{SKIPPED}{reason}");
}
