//! Who has to agree before something is started or ended?

use crate::commands::run::NotBegun;
use std::io::{BufRead, IsTerminal, Write};

/// Asks at a terminal. Where there is none to ask at, only `-y` will do.
pub fn confirm(question: &str, yes: bool) -> Result<(), NotBegun> {
    if yes {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(NotBegun::Wrong(format!("{question}\n  there is no terminal to ask at; say yes with -y")));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let _ = stdin.lock().read_line(&mut answer);
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(NotBegun::Here("nothing was done".into())),
    }
}
