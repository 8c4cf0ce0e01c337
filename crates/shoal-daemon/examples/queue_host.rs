//! The queue's processes of a host by themselves, for tests: `queue_host host agent --store ID`, `queue_host host queue-keeper --store ID`.

use shoal_daemon::queue::{agent, keeper};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["host", "agent", "--store", store] => agent::main(agent::Args::new(store)),
        ["host", "queue-keeper", "--store", store] => keeper::main(store),
        ["host", "guard", "--", ..] => keeper::guard::main(std::env::args_os().skip(4).collect()),
        _ => {
            eprintln!("queue_host host (agent | queue-keeper) --store ID");
            ExitCode::from(2)
        }
    }
}
