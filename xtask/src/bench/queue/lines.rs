//! How do GNU parallel and xargs get as many commands? By lines on their stdin. They keep nothing: the floor.

use super::SLOTS;
use std::process::Command;

pub fn xargs(runs: usize) -> Command {
    shell(format!("seq {runs} | xargs -P {SLOTS} -n 1 /bin/true"))
}

/// It wants to be cited, and says so in its output unless it is told that it will be.
pub fn parallel(runs: usize) -> Command {
    shell(format!("seq {runs} | parallel --will-cite -j {SLOTS} /bin/true"))
}

fn shell(line: String) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &line]);
    command
}
