//! How does the agent of a host that nobody logs in to get to the daemon? It is told a queue and has a token.

use crate::exit::Exit;
use shoal_daemon::queue::agent::call;
use shoal_daemon::queue::client::Remote;
use std::process::ExitCode;

/// Where the token is: argv is for everybody to read (SEC-2).
const TOKEN: &str = "SHOAL_QUEUE_TOKEN";

pub fn main(queue: &str) -> ExitCode {
    let token = std::env::var(TOKEN).unwrap_or_default();
    if token.is_empty() {
        let hint = "`shoal token add HOST --role host`, where the queue is, makes one";
        eprintln!("shoal host agent: {TOKEN} is not set\n  hint: {hint}");
        return Exit::Usage.into();
    }
    match Remote::parse(queue, token.trim()) {
        Ok(remote) => call::main(&remote),
        Err(e) => {
            eprintln!("shoal host agent: {e}");
            Exit::Usage.into()
        }
    }
}
