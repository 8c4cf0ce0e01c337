//! One connection of a client, request by request.

use super::{Caller, may, streams, taken};
use crate::queue::framing::{self, FramingError};
use crate::queue::mark;
use crate::queue::serve::message::Message;
use crate::queue::serve::shared::Shared;
use crate::queue::serve::turn::refused;
use crate::queue::trees::Incoming;
use crate::records::unix_ms;
use shoal_core::queue::line::JSON_LIMIT;
use shoal_core::queue::request::{Answer, REQUEST_VERSION, Request};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

const HELLO: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(600);
/// A client that does not read.
const WRITE: Duration = Duration::from_secs(30);
/// Until the loop has answered. Ending all runs takes as long as their grace.
const ANSWER: Duration = Duration::from_secs(120);
const LONG_ANSWER: Duration = Duration::from_secs(3600);
/// Of a request that is refused for its length, read so that the refusal is.
const DRAIN: u64 = 64 << 20;

pub struct Session<'a> {
    pub shared: &'a Arc<Shared>,
    pub stream: &'a UnixStream,
    pub caller: Caller,
    /// A tree that is being sent.
    tree: Option<Incoming>,
}

/// Until either side has enough.
pub fn serve(shared: &Arc<Shared>, stream: &UnixStream, caller: Caller) {
    let mut session = Session { shared, stream, caller, tree: None };
    let limits = stream.set_write_timeout(Some(WRITE)).and_then(|()| stream.set_read_timeout(Some(HELLO)));
    if limits.is_err() || !session.hello() || stream.set_read_timeout(Some(IDLE)).is_err() {
        return;
    }
    while let Some((request, body)) = session.next() {
        if !session.take(request, &body) {
            return;
        }
    }
}

impl Session<'_> {
    fn hello(&mut self) -> bool {
        match self.next() {
            Some((Request::Hello { version: REQUEST_VERSION }, _)) => {
                let (store, user) = (self.shared.store_id.clone(), self.caller.user.clone());
                self.say(Answer::Hello { version: REQUEST_VERSION, store, user }, &[])
            }
            Some((Request::Hello { version }, _)) => {
                let why = format!("this shoal asks in version {version}; the daemon speaks {REQUEST_VERSION}");
                self.say(
                    refused(why, "use the same version on both sides; `shoal serve --stop` ends an old daemon"),
                    &[],
                );
                false
            }
            Some(_) => {
                self.say(refused("the first word was not hello", ""), &[]);
                false
            }
            None => false,
        }
    }

    /// The next request; nothing at the end, after silence, or if it cannot be understood.
    fn next(&mut self) -> Option<(Request, Vec<u8>)> {
        let mut stream = self.stream;
        match framing::read_message(&mut stream) {
            Ok(next) => next,
            Err(FramingError::TooLong { json, body }) => {
                let why = format!("a request of {} bytes; the limit is {JSON_LIMIT}", json.max(body));
                self.say(refused(why, "use axes instead of a list of configurations, or submit it in parts"), &[]);
                // To the end, or what it still says would throw away the answer.
                let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
                let _ = std::io::copy(&mut stream.take(DRAIN), &mut std::io::sink());
                None
            }
            Err(FramingError::Message(why)) => {
                self.say(
                    refused(format!("a request that cannot be understood: {why}"), "use one version of shoal"),
                    &[],
                );
                None
            }
            Err(FramingError::Cut | FramingError::Io(_)) => None,
        }
    }

    /// False when the connection is over.
    fn take(&mut self, request: Request, body: &[u8]) -> bool {
        let valid = self.tokens(|tokens| tokens.still(&self.caller, unix_ms()));
        if !valid {
            self.say(refused("not admitted", ""), &[]);
            return false;
        }
        if !may(self.caller.role, &request) {
            let why = format!("{} may not do this", self.caller.user);
            return self.say(refused(why, "an administrator can give another token: shoal token add"), &[]);
        }
        let answer = match request {
            Request::Logs { run, attempt, follow, rank } => return streams::logs(self, run, attempt, rank, follow),
            Request::Wait { sweep } => return streams::wait(self, &sweep),
            Request::Lacks { digests } => {
                let lacks = digests.into_iter().filter(|digest| !self.shared.trees.has(digest)).collect();
                Answer::Lacks { digests: lacks }
            }
            Request::Tree { digest, at, last } => self.tree(&digest, at, last, body),
            Request::AddToken { user, role, days } => {
                match self.tokens(|tokens| tokens.add(&user, role, days, unix_ms())) {
                    Ok(token) => Answer::Token { user, token },
                    Err(e) => refused(e.to_string(), ""),
                }
            }
            Request::RemoveToken { user } => match self.tokens(|tokens| tokens.remove(&user)) {
                Ok(true) => Answer::Done,
                Ok(false) => refused(format!("{user} has no token"), ""),
                Err(e) => refused(e.to_string(), ""),
            },
            Request::Tokens => Answer::Tokens { users: self.tokens(|tokens| tokens.list()) },
            Request::Hello { .. } => refused("hello was said already", ""),
            Request::Submit { mut sweep } => {
                // Here and not in the loop: a drive that hangs holds this client alone.
                sweep.rules.results = sweep.rules.results.take().or_else(|| self.shared.of_all.results.clone());
                let folder = sweep.rules.results.as_deref().map(Path::new);
                sweep.rules.results_mark = folder.and_then(mark::leave);
                let in_the_way = || taken::refusal(&sweep, &self.shared.store.results());
                match self.is_there(&sweep.name) {
                    Some(false) => in_the_way(),
                    _ => None,
                }
                .unwrap_or_else(|| self.ask(Request::Submit { sweep }))
            }
            request => self.ask(request),
        };
        self.say(answer, &[])
    }

    fn tokens<T>(&self, look: impl FnOnce(&mut super::Tokens) -> T) -> T {
        look(&mut self.shared.tokens.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Whether the queue has a sweep of this name; nothing if it does not say.
    fn is_there(&self, sweep: &str) -> Option<bool> {
        let (reply, answer) = sync_channel(1);
        self.shared.post(Message::Look { sweep: sweep.into(), reply }).then_some(())?;
        answer.recv_timeout(ANSWER).ok().map(|row| row.is_some())
    }

    /// The loop's answer.
    pub fn ask(&self, request: Request) -> Answer {
        let bound = if matches!(request, Request::Shutdown { .. }) { LONG_ANSWER } else { ANSWER };
        let (reply, answer) = sync_channel(1);
        let asked = Message::Asked { by: self.caller.clone(), request: Box::new(request), reply };
        if !self.shared.post(asked) {
            return refused("the daemon is ending", "ask again in a moment");
        }
        answer
            .recv_timeout(bound)
            .unwrap_or_else(|_| refused("the daemon ended, or is too busy to answer", "ask again"))
    }

    fn tree(&mut self, digest: &str, at: u64, last: bool, body: &[u8]) -> Answer {
        if at == 0 {
            self.tree = None;
            match self.shared.trees.receive(digest) {
                Ok(tree) => self.tree = Some(tree),
                Err(e) => return refused(e.to_string(), ""),
            }
        }
        let Some(mut tree) = self.tree.take().filter(|tree| tree.is_of(digest)) else {
            return refused("a piece of a tree came before its first", "");
        };
        let done = tree.piece(at, body).and_then(|()| {
            if last {
                return tree.finish();
            }
            self.tree = Some(tree);
            Ok(())
        });
        match done {
            Ok(()) => Answer::Done,
            Err(e) => refused(e.to_string(), ""),
        }
    }

    /// False when nobody listens any more. Rows that do not fit come with the next page.
    pub fn say(&self, mut answer: Answer, body: &[u8]) -> bool {
        let mut stream = self.stream;
        loop {
            match framing::write_message(&mut stream, &answer, body) {
                Ok(()) => return true,
                Err(FramingError::TooLong { .. }) if halve(&mut answer) => {}
                Err(FramingError::TooLong { json, .. }) => {
                    answer = refused(format!("the answer has {json} bytes; the limit is {JSON_LIMIT}"), "ask for less");
                }
                Err(_) => return false,
            }
        }
    }
}

/// Half as many rows; false if that is not possible.
fn halve(answer: &mut Answer) -> bool {
    fn half<T>(rows: &mut Vec<T>) -> bool {
        let more = rows.len() > 1;
        rows.truncate(rows.len() / 2);
        more
    }
    match answer {
        Answer::Runs { runs, .. } => half(runs),
        Answer::Results { rows, .. } => half(rows),
        Answer::Why { reasons } => half(reasons),
        Answer::Sweeps { sweeps } => half(sweeps),
        Answer::Hosts { hosts } => half(hosts),
        _ => false,
    }
}
