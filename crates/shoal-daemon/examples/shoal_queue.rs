//! The queue's daemon as a program of its own, for tests: `serve`, and `host agent`, which is a real agent, or, with `FAKE_AGENT`, a pipe to the
//! socket of a test that plays one.

use shoal_daemon::queue::places::Store;
use shoal_daemon::queue::serve::{self, NoReach, Options, this_machine};
use shoal_daemon::queue::{agent, keeper};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", rest @ ..] => serve(rest),
        ["host", "agent", "--store", store] => match std::env::var_os("FAKE_AGENT") {
            Some(socket) => play(Path::new(&socket)),
            None => agent::main(agent::Args::new(store)),
        },
        ["host", "queue-keeper", "--store", store] => keeper::main(store),
        ["host", "guard", "--", ..] => keeper::guard::main(std::env::args_os().skip(4).collect()),
        _ => ExitCode::from(2),
    }
}

fn serve(words: &[&str]) -> ExitCode {
    let value = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
    let Some(store) = value("--store") else { return ExitCode::from(2) };
    let mut options = Options::new(Store::at(Path::new(store)));
    options.auto = words.contains(&"--auto");
    options.listen = value("--listen").map(str::to_string).into_iter().collect();
    if let Some(idle) = std::env::var("IDLE_MS").ok().and_then(|text| text.parse().ok()) {
        options.idle = Duration::from_millis(idle);
    }
    if let Some(seconds) = value("--lost-after").and_then(|text| text.parse().ok()) {
        let mut host = this_machine();
        host.name = "fake".into();
        host.lost_after_seconds = seconds;
        options.hosts = vec![host];
    }
    match serve::main(options, NoReach) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Bytes both ways, until either side ends.
fn play(socket: &Path) -> ExitCode {
    let Ok(stream) = UnixStream::connect(socket) else { return ExitCode::FAILURE };
    let Ok(mut up) = stream.try_clone() else { return ExitCode::FAILURE };
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut up);
        let _ = up.shutdown(std::net::Shutdown::Write);
    });
    let (mut down, mut out, mut buffer) = (stream, std::io::stdout(), vec![0; 64 << 10]);
    while let Ok(length @ 1..) = down.read(&mut buffer) {
        if out.write_all(&buffer[..length]).and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}
