//! Doing something that may hang (a dead network drive, a stuck driver) without hanging.

use shoal_core::checkup::facts::Item;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Something that is being done; its thread is left behind if it never ends.
pub struct Pending<T>(Receiver<T>, Instant, Duration);

/// Begins `work` in a thread of its own, so that several things are looked at in the time of one.
pub fn begin<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
    let (send, receive) = channel();
    std::thread::spawn(move || drop(send.send(work())));
    Pending(receive, Instant::now() + limit, limit)
}

impl<T> Pending<Item<T>> {
    pub fn end(self) -> Item<T> {
        let Pending(receive, deadline, limit) = self;
        let left = deadline.saturating_duration_since(Instant::now());
        receive.recv_timeout(left).unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs())))
    }
}

/// What a program said.
pub struct Said {
    pub code: Option<i32>,
    pub output: String,
    pub errors: String,
}

impl Said {
    /// Its last words.
    pub fn complaint(&self) -> String {
        let last = |text: &str| text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_string);
        let ended = || self.code.map_or_else(|| "it was killed".into(), |code| format!("it ended with code {code}"));
        last(&self.errors).or_else(|| last(&self.output)).unwrap_or_else(ended)
    }
}

/// Nobody needs more of what such a program says.
const ENOUGH: u64 = 256 << 10;

/// Runs a program; what it started is killed with it when it takes too long. `None`: there is no such program.
pub fn program(mut command: Command, limit: Duration) -> Item<Option<Said>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let (output, errors) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                kill(&mut child);
                return Err(format!("no answer within {} s", limit.as_secs()));
            }
            Err(e) => return Err(e.to_string()),
        }
    };
    // What it left behind may hold the pipes; its own words are in them by now.
    let text = |pipe: Receiver<String>| pipe.recv_timeout(Duration::from_millis(500)).unwrap_or_default();
    Ok(Some(Said { code: status.code(), output: text(output), errors: text(errors) }))
}

fn kill(child: &mut Child) {
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    // One that the kernel holds cannot be waited for; init will fetch it.
    let _ = child.try_wait();
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = Vec::new();
        let _ = pipe.by_ref().take(ENOUGH).read_to_end(&mut bytes);
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(line: &str, limit: Duration) -> Item<Option<Said>> {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        program(command, limit)
    }

    #[test]
    fn a_program_that_hangs_is_given_up() {
        let said = sh("echo a; echo b >&2; exit 3", Duration::from_secs(20)).ok().flatten();
        assert!(said.is_some_and(|s| s.code == Some(3) && s.output == "a\n" && s.complaint() == "b"));
        assert!(sh("sleep 1000", Duration::from_millis(50)).is_err_and(|why| why.contains("no answer")));
        // Its child holds the pipes: that must not matter.
        assert!(sh("sleep 1000 & echo $! ; kill $!", Duration::from_secs(20)).is_ok());
        assert!(program(Command::new("/no/such/program"), Duration::from_secs(1)).is_ok_and(|said| said.is_none()));
    }

    #[test]
    fn work_that_hangs_is_given_up() {
        assert_eq!(begin(Duration::from_secs(20), || Ok(1)).end(), Ok(1));
        let hangs = begin(Duration::ZERO, || -> Item<u32> { loop_forever() });
        assert!(hangs.end().is_err());
    }

    fn loop_forever() -> ! {
        loop {
            std::thread::park();
        }
    }
}
