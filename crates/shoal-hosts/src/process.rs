//! A program that was started somewhere: its three pipes, and how it ended.

use std::io::{PipeReader, PipeWriter, Read};
use std::time::{Duration, Instant};

pub struct Process {
    pub to: PipeWriter,
    pub from: PipeReader,
    pub errors: PipeReader,
    pub end: Box<dyn End>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// By a signal, or with its connection.
    Cut,
}

/// Waiting for a program's end, however it was started.
pub trait End: Send {
    /// Its end, if it comes within `limit`.
    fn wait(&mut self, limit: Duration) -> Option<Exit>;
}

/// What a short command said.
#[derive(Debug, Clone)]
pub struct Said {
    pub exit: Exit,
    pub output: Vec<u8>,
    pub errors: String,
}

/// Nobody needs more of a short command's words; the rest is read and dropped.
const ENOUGH: u64 = 4 << 20;

impl Process {
    /// Gives the program `input`, takes all it says, and waits for its end. `None`: it took longer than `limit`.
    pub fn finish(self, input: Vec<u8>, limit: Duration) -> Option<Said> {
        let deadline = Instant::now() + limit;
        let Process { mut to, from, errors, mut end } = self;
        // Threads that outlive the limit end with the connection: all they hold are pipes.
        std::thread::spawn(move || {
            use std::io::Write;
            // A program that does not want its input closes the pipe; what it says then tells why.
            let _ = to.write_all(&input);
        });
        let (send, receive) = std::sync::mpsc::channel();
        let sender = send.clone();
        std::thread::spawn(move || drop(sender.send((true, read_some(from)))));
        std::thread::spawn(move || drop(send.send((false, read_some(errors)))));
        let mut said = Said { exit: Exit::Cut, output: Vec::new(), errors: String::new() };
        for _ in 0..2 {
            let left = deadline.saturating_duration_since(Instant::now());
            match receive.recv_timeout(left).ok()? {
                (true, bytes) => said.output = bytes,
                (false, bytes) => said.errors = String::from_utf8_lossy(&bytes).into_owned(),
            }
        }
        said.exit = end.wait(deadline.saturating_duration_since(Instant::now()))?;
        Some(said)
    }
}

fn read_some(mut pipe: PipeReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A pipe that breaks is at its end.
    let _ = pipe.by_ref().take(ENOUGH).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    bytes
}
