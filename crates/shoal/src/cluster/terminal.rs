//! How does a command run on a node in this terminal? The system's ssh takes it over: window sizes, escapes and raw keys are its trade.

use crate::launch::program::{Broken, broken};
use shoal_core::fleet::{Fleet, Host, Reach};
use shoal_hosts::ssh::options::{self, Forward};
use shoal_hosts::ssh::{Connection, Settings, guard};
use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

/// Whether somebody sits there: both to type and to read.
pub fn is_here() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The program that gives this terminal to the line on the host; without a line, to a login shell. The connection is open when this comes
/// back, unless it has to be one of its own.
pub fn command(
    fleet: &Fleet,
    host: &Host,
    ssh: &Settings,
    line: Option<&str>,
    forwards: &[Forward],
) -> Result<Command, Broken> {
    if host.reach == Reach::Local {
        let mut command = Command::new("bash");
        match line {
            Some(line) => command.args(["-c", line]),
            None => command.args(["--login", "-i"]),
        };
        return Ok(command);
    }
    let args = if forwards.is_empty() {
        options::shared(Connection::open(fleet, host, ssh)?.control(), true)
    } else {
        let refused = |refusal: guard::Refusal| broken(refusal.to_string(), guard::HINT);
        guard::check(fleet, host, ssh.config.as_deref()).map_err(refused)?;
        options::alone(fleet, host, ssh.config.as_deref(), true, forwards)
    };
    let mut command = Command::new("ssh");
    command.args(args).args(line);
    Ok(command)
}

/// Becomes that program: if it dies, so does the session, and nobody stands in between. Comes back only if that failed.
pub fn become_it(mut command: Command) -> Broken {
    let why = command.exec();
    broken(format!("{} cannot be run: {why}", command.get_program().display()), "is the OpenSSH client installed?")
}

/// Runs it to its end and gives its exit code, for those who have something to do afterwards.
pub fn wait_for_it(mut command: Command) -> Result<u8, Broken> {
    // The keys of an interrupt go to the node as they are; ours to heed are only those from elsewhere, and ssh gets them too.
    let status = command.status().map_err(|why| {
        broken(format!("{} cannot be run: {why}", command.get_program().display()), "is the OpenSSH client installed?")
    })?;
    let by_signal = || status.signal().map(|signal| 128 + signal);
    let code = status.code().or_else(by_signal).unwrap_or(255);
    Ok(u8::try_from(code).unwrap_or(255))
}
