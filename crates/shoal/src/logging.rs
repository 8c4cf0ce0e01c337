//! Logs go to stderr, for people or as JSON. `SHOAL_LOG` chooses what is shown (default: info).

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

pub fn start(json: bool) {
    let filter = EnvFilter::try_from_env("SHOAL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // A second call (in tests) keeps the first logger.
    let _ = if json { builder.json().try_init() } else { builder.try_init() };
}
