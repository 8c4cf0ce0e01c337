//! How does the keeper hear and tell its agent, without ever waiting for it?

use super::words::{FromKeeper, ToKeeper};
use crate::queue::framing;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// An agent that takes nothing for this long a list is none.
const OUT_LIMIT: usize = 64 << 20;
const READ: usize = 256 << 10;

pub struct Line {
    pub stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// It has said hello: it is told what happens.
    pub greeted: bool,
    pub broken: bool,
}

impl Line {
    pub fn new(stream: UnixStream) -> std::io::Result<Line> {
        stream.set_nonblocking(true)?;
        Ok(Line { stream, input: Vec::new(), output: Vec::new(), sent: 0, greeted: false, broken: false })
    }

    pub fn wants_to_write(&self) -> bool {
        self.sent < self.output.len()
    }

    pub fn say(&mut self, message: &FromKeeper) {
        match framing::encode(message, &[]) {
            Ok(bytes) => self.output.extend_from_slice(&bytes),
            Err(_) => self.broken = true,
        }
        self.broken |= self.output.len() - self.sent > OUT_LIMIT;
    }

    /// Sends what can be sent at once.
    pub fn push(&mut self) {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => self.broken = true,
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.broken = true,
            }
            if self.broken {
                return;
            }
        }
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        } else if self.sent > READ {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// What has come. After an end or an error, the line is broken.
    pub fn pull(&mut self) -> Vec<ToKeeper> {
        let mut messages = Vec::new();
        loop {
            let have = self.input.len();
            self.input.resize(have + READ, 0);
            let read = self.stream.read(&mut self.input[have..]);
            self.input.truncate(have + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => self.broken = true,
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.broken = true,
            }
            let more = read_full(&self.input, have);
            self.split(&mut messages);
            if self.broken || !more {
                break;
            }
        }
        messages
    }

    fn split(&mut self, messages: &mut Vec<ToKeeper>) {
        let mut at = 0;
        loop {
            match framing::decode(&self.input[at..]) {
                Ok(Some((message, _, took))) => {
                    messages.push(message);
                    at += took;
                }
                Ok(None) => break,
                Err(_) => {
                    self.broken = true;
                    break;
                }
            }
        }
        self.input.drain(..at);
    }
}

/// Whether the read filled all the room it had: then there may be more.
fn read_full(input: &[u8], have: usize) -> bool {
    input.len() == have + READ
}
