//! One line to a host, from its first word to its end.

use super::Outbox;
use super::trees::TreeSender;
use crate::queue::framing::{self, FramingError};
use crate::queue::serve::message::{Message, Up};
use crate::queue::serve::reach::LineStream;
use crate::queue::serve::results::{Inbound, NotTaken};
use crate::queue::serve::shared::Shared;
use shoal_core::queue::line::{FromHost, LINE_VERSION, ToHost};
use std::io::{BufReader, Read, Write};
use std::sync::Arc;

/// How a line was.
pub struct Over {
    /// Why it ended.
    pub why: String,
    /// Whether the host said hello on it.
    pub was_up: bool,
}

/// Until it ends. `started`: the agent was started for this line, and what a login printed may come before its words.
pub fn talk(shared: &Arc<Shared>, host: &str, stream: LineStream, started: bool) -> Over {
    let LineStream { to, from, cut } = stream;
    let outbox = Arc::new(Outbox::new(cut));
    let Some(line) = shared.lines.register(&outbox) else {
        outbox.close("lines are held");
        return Over { why: "lines are held".into(), was_up: false };
    };
    outbox.tell(&ToHost::Hello { version: LINE_VERSION, store: shared.store_id.clone(), host: host.into() });
    let writer = {
        let outbox = outbox.clone();
        let name = format!("to {host}");
        std::thread::Builder::new().name(name).stack_size(256 << 10).spawn(move || write(&outbox, to))
    };
    if let Err(e) = writer {
        outbox.close(&format!("no thread could be started: {e}"));
    }
    let mut talk = Talk { shared, host, line, outbox: &outbox, up: false, trees: None, inbound: Inbound::default() };
    let heard = talk.read(BufReader::with_capacity(64 << 10, from), started);
    let why = match heard {
        // What we closed for is the better reason.
        _ if outbox.closed().is_some() => outbox.closed().unwrap_or_default(),
        Ok(()) => "the agent ended the line".to_string(),
        Err(e) => e.to_string(),
    };
    outbox.close(&why);
    shared.lines.forget(line);
    shared.logs.forget(line);
    if talk.up {
        shared.post(Message::Down { host: host.into(), line, why: why.clone() });
    }
    Over { why, was_up: talk.up }
}

fn write(outbox: &Outbox, mut to: Box<dyn Write + Send>) {
    while let Some(bytes) = outbox.next() {
        if let Err(e) = to.write_all(&bytes).and_then(|()| to.flush()) {
            return outbox.close(&format!("the line is broken: {e}"));
        }
    }
}

struct Talk<'a> {
    shared: &'a Arc<Shared>,
    host: &'a str,
    line: u64,
    outbox: &'a Arc<Outbox>,
    up: bool,
    trees: Option<TreeSender>,
    inbound: Inbound,
}

impl Talk<'_> {
    fn read(&mut self, mut from: impl Read, started: bool) -> Result<(), FramingError> {
        if started {
            framing::read_preamble(&mut from)?;
            self.outbox.hear();
        }
        let Some((FromHost::Hello { version, facts, alive, ended, owed, .. }, _)) = framing::read_message(&mut from)?
        else {
            return Err(FramingError::Message("the agent's first word was not hello".into()));
        };
        if version != LINE_VERSION {
            let why =
                format!("its agent speaks version {version}, this daemon {LINE_VERSION}; use one version of shoal");
            return Err(FramingError::Message(why));
        }
        self.outbox.hear();
        self.up = true;
        let (host, outbox) = (self.host.to_string(), self.outbox.clone());
        self.shared.post(Message::Up(Box::new(Up { host, line: self.line, outbox, facts, alive, ended, owed })));
        while let Some((message, body)) = framing::read_message::<FromHost>(&mut from)? {
            self.outbox.hear();
            if self.outbox.closed().is_some() || !self.take(message, body) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What carries bytes is done here; what changes the queue goes to the loop.
    fn take(&mut self, message: FromHost, body: Vec<u8>) -> bool {
        match message {
            FromHost::Pong => true,
            FromHost::Log { ask, from, end } => {
                if !self.shared.logs.piece(ask, from, end, body) {
                    self.outbox.tell(&ToHost::CancelLog { ask });
                }
                true
            }
            FromHost::NoLog { ask, why } => {
                self.shared.logs.none(ask, why);
                true
            }
            FromHost::NeedTree { digest } => {
                let (shared, outbox) = (self.shared, self.outbox);
                self.trees.get_or_insert_with(|| TreeSender::start(shared, outbox)).want(digest);
                true
            }
            FromHost::Result { attempt, at, last, rank } => {
                let whose = (attempt.clone(), rank);
                let taken = self.inbound.piece(self.shared, self.host, self.outbox, whose, at, last, &body);
                // The host keeps them, whatever it is, and sends them again.
                match taken {
                    Ok(()) => {}
                    Err(NotTaken::Later(why)) => {
                        self.outbox.tell(&ToHost::Published { attempt, problem: Some(why), later: true, rank });
                    }
                    Err(NotTaken::Odd(why)) => self.outbox.close(&why),
                    Err(NotTaken::Full(e)) => {
                        let why = format!("results of runs on {} cannot be kept: {e}", self.host);
                        self.outbox.close(&why);
                        self.shared.post(Message::Full { why });
                    }
                }
                true
            }
            FromHost::Hello { .. } => {
                self.outbox.close("it said hello twice");
                false
            }
            message => self.shared.post(Message::Said { host: self.host.into(), line: self.line, message }),
        }
    }
}
