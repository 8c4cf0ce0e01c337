//! What does an engine say while it works, and at the end? All of it goes to stderr as it comes; the last of it is kept, to be explained.

use shoal_core::image::{Engine, Reference};
use shoal_core::quote::join;
use std::io::{ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Writes what the engine is to read.
pub type Feed = Box<dyn FnOnce(&mut dyn Write) -> Result<(), String> + Send>;

pub struct Ran {
    pub ok: bool,
    /// The last of stdout.
    pub output: String,
    /// The last of both.
    pub said: String,
}

/// So much of what was said is kept: its last words are in it.
const KEPT: usize = 64 << 10;
/// Whoever watches is told after so long without a word from the engine. It may take hours over a slow line: Ctrl-C is the bound.
const SILENCE: Duration = Duration::from_secs(60);
/// How soon its end is seen, if something it left behind keeps the pipes open.
const LOOK: Duration = Duration::from_millis(200);

enum News {
    Out(Vec<u8>),
    Err(Vec<u8>),
    /// Its input could not be written to the end. It is held open: an engine takes a tar that ends early for a whole one.
    Unfed(String, ChildStdin),
}

pub fn run(argv: &[String], feed: Option<Feed>) -> Result<Ran, String> {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if feed.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|e| format!("{} does not start: {e}", argv[0]))?;
    let (send, news) = channel();
    forward(child.stdout.take(), &send, News::Out);
    forward(child.stderr.take(), &send, News::Err);
    if let (Some(feed), Some(stdin)) = (feed, child.stdin.take()) {
        let send = send.clone();
        std::thread::spawn(move || give(feed, stdin, &send));
    }
    drop(send);
    let (mut output, mut said) = (Vec::new(), Vec::new());
    let mut heard = Instant::now();
    loop {
        match news.recv_timeout(LOOK) {
            Ok(News::Unfed(why, held)) => {
                end(&mut child);
                drop(held);
                return Err(why);
            }
            Ok(News::Out(bytes)) => {
                keep(&mut output, &bytes);
                pass_on(&mut said, &bytes);
                heard = Instant::now();
            }
            Ok(News::Err(bytes)) => {
                pass_on(&mut said, &bytes);
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if child.try_wait().is_ok_and(|status| status.is_some()) => break,
            Err(RecvTimeoutError::Timeout) if heard.elapsed() >= SILENCE => {
                eprintln!("still waiting for `{}`: a minute without a word; Ctrl-C ends it", join(argv));
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    let status = child.wait().map_err(|e| format!("{} was lost: {e}", argv[0]))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { ok: status.success(), output: text(output), said: text(said) })
}

/// An image's id, if the engine has it.
pub fn id(engine: Engine, image: &Reference) -> Option<String> {
    let argv = engine.id(image);
    let output = Command::new(&argv[0]).args(&argv[1..]).stdin(Stdio::null()).output().ok()?;
    let id = String::from_utf8_lossy(&output.stdout).trim().to_string();
    (output.status.success() && !id.is_empty()).then_some(id)
}

fn forward(pipe: Option<impl Read + Send + 'static>, send: &Sender<News>, news: fn(Vec<u8>) -> News) {
    let send = send.clone();
    std::thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = vec![0; 8 << 10];
        while let Ok(n @ 1..) = pipe.read(&mut bytes) {
            if send.send(news(bytes[..n].to_vec())).is_err() {
                return;
            }
        }
    });
}

fn give(feed: Feed, stdin: ChildStdin, send: &Sender<News>) {
    let mut pipe = Pipe { stdin, is_closed: false };
    if let Err(why) = feed(&mut pipe)
        // An engine that reads no further has its reasons, and says them.
        && !pipe.is_closed
    {
        let _ = send.send(News::Unfed(why, pipe.stdin));
    }
}

struct Pipe {
    stdin: ChildStdin,
    is_closed: bool,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.stdin.write(bytes);
        self.is_closed |= written.as_ref().is_err_and(|e| e.kind() == ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stdin.flush()
    }
}

fn keep(all: &mut Vec<u8>, bytes: &[u8]) {
    all.extend_from_slice(bytes);
    // Seldom, so that it costs little.
    if all.len() > 2 * KEPT {
        all.drain(..all.len() - KEPT);
    }
}

fn pass_on(said: &mut Vec<u8>, bytes: &[u8]) {
    keep(said, bytes);
    // A reader that went away does not end the work.
    let _ = std::io::stderr().write_all(bytes);
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(line: &str, feed: Option<Feed>) -> Result<Ran, String> {
        run(&["sh", "-c", line].map(String::from), feed)
    }

    #[test]
    fn what_it_said_is_kept_apart() {
        let ran = sh("echo out; echo err >&2; exit 3", None).expect("it runs");
        assert!(!ran.ok && ran.output == "out\n" && ran.said.contains("err\n") && ran.said.contains("out\n"));
        assert!(run(&["/no/such/engine".into()], None).is_err_and(|why| why.contains("does not start")));
        // What it leaves behind holds the pipes: that must not matter.
        let ran = sh("sleep 1000 & echo $!", None).expect("it runs");
        let pid: i32 = ran.output.trim().parse().expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it was there");
    }

    #[test]
    fn half_of_a_source_is_no_source() {
        let whole: Feed = Box::new(|to| to.write_all(b"all").map_err(|e| e.to_string()));
        assert!(sh("cat", Some(whole)).is_ok_and(|ran| ran.ok && ran.output == "all"));
        // The engine never sees the end of what could not be read to its end.
        let half: Feed =
            Box::new(|to| to.write_all(b"half").map_err(|e| e.to_string()).and(Err("a file went away".into())));
        assert_eq!(sh("cat; echo ended", Some(half)).err().as_deref(), Some("a file went away"));
        // It reads nothing: its own words count.
        let much: Feed = Box::new(|to| to.write_all(&vec![0; 1 << 20]).map_err(|e| e.to_string()));
        assert!(sh("exec <&-; echo why >&2; exit 1", Some(much)).is_ok_and(|ran| !ran.ok && ran.said == "why\n"));
    }

    #[test]
    fn the_last_words_are_in_what_is_kept() {
        let mut all = Vec::new();
        for k in 0..100_000u32 {
            keep(&mut all, format!("{k}\n").as_bytes());
        }
        assert!(all.len() <= 2 * KEPT && all.ends_with(b"99999\n"));
    }
}
