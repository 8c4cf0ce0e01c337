//! Our own program on a host: this machine's file here, its copy elsewhere, delivered when it is missing.

use shoal_core::fleet::{Fleet, Host, Reach};
use shoal_hosts::ssh::deliver::{self, Parcel};
use shoal_hosts::ssh::{Connection, Settings, Trouble};
use shoal_hosts::{Process, local};
use std::time::Duration;

/// How long it may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(20);
/// Connections to a host beyond the first, where it allows few sessions for each.
const MOST_CONNECTIONS: u32 = 16;

/// Why there is nobody to talk to, and what could be done about it.
pub struct Broken {
    pub what: String,
    pub hint: String,
}

impl From<shoal_hosts::ssh::Failure> for Broken {
    fn from(failure: shoal_hosts::ssh::Failure) -> Broken {
        Broken { what: failure.what, hint: failure.hint }
    }
}

pub fn broken(what: impl Into<String>, hint: impl Into<String>) -> Broken {
    Broken { what: what.into(), hint: hint.into() }
}

pub fn with(said: &str) -> String {
    // The last line says what came of it all.
    said.trim().lines().last().map_or_else(String::new, |line| format!("; it said: {line}"))
}

/// Starts the line over the first connection that has a session to spare.
pub fn connect(fleet: &Fleet, ssh: &Settings, host: &Host, line: &str) -> Result<(Connection, Process), Broken> {
    let mut n = 0;
    loop {
        let connection = Connection::open_nth(fleet, host, ssh, n)?;
        match connection.start(line) {
            Ok(process) => return Ok((connection, process)),
            Err(full) if full.trouble == Trouble::TooManySessions && n < MOST_CONNECTIONS => n += 1,
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// Starts `shoal WORDS` there; put there first if it is missing. Its first byte must come soon. Words must be plain.
pub fn start(fleet: &Fleet, ssh: &Settings, parcel: &Parcel, host: &Host, words: &str) -> Result<Process, Broken> {
    if host.reach == Reach::Local {
        let mut command = std::process::Command::new(&parcel.path);
        command.args(words.split(' '));
        // Ctrl-C at our terminal is for us: the other program hears of it from us, in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        return local::start(command)
            .map_err(|e| broken(format!("{} cannot be run: {e}", parcel.path.display()), "reinstall shoal"));
    }
    let line = parcel.line(words);
    let (connection, mut first) = connect(fleet, ssh, host, &line)?;
    // There: its first byte comes soon. Missing, or not what was delivered: it ends without one.
    if is_speaking(&first) {
        return Ok(first);
    }
    if first.end.wait(FIRST_WORD).is_none() {
        let what = format!("no word from shoal there within {} s", FIRST_WORD.as_secs());
        return Err(broken(what, "is the host overloaded?"));
    }
    deliver::deliver(&connection, &host.name, parcel)?;
    Ok(connection.start_next(&line)?)
}

/// Whether the program's stdout has something to read; false at its end.
fn is_speaking(process: &Process) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&process.from, PollFlags::IN)];
    let limit = Timespec { tv_sec: FIRST_WORD.as_secs() as i64, tv_nsec: 0 };
    poll(&mut fds, Some(&limit)).is_ok_and(|n| n > 0) && fds[0].revents().contains(PollFlags::IN)
}
