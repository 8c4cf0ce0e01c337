//! What is there now, and what changes, whatever happens to the line?
//!
//! One task a selection lists once and then watches from there. A line that ends or breaks is taken up again where it was; when the server no
//! longer knows that far back (410), the list is taken anew. Nothing is asked for in a loop while nothing happens.

use super::connection::Connection;
use super::explain::{Failure, Trouble, explain};
use super::request::{self, Selection};
use super::resource::Resource;
use futures_util::StreamExt;
use kube::Client;
use kube::api::{WatchEvent, WatchParams};
use kube::core::Request;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

/// How long the server keeps one watch open, and how much longer a silent line is believed in.
const OPEN_S: u32 = 60;
const SILENCE: Duration = Duration::from_secs(75);
/// Changes that nobody has looked at yet.
const QUEUE: usize = 256;
/// Pauses between tries to reach a server that is away.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Followed {
    pub resource: Resource,
    pub which: Selection,
    /// It may be forbidden to us; then there is just nothing of it.
    pub optional: bool,
}

/// What is known of each selection, by the objects' ids.
#[derive(Debug, Default)]
pub struct View {
    of: Vec<BTreeMap<String, Arc<Value>>>,
    /// All lists have come: what is not here is not there.
    pub complete: bool,
    /// The server is away at the moment, and what is known may be old.
    pub away: Option<Failure>,
    /// The same for each selection: each has a line of its own, and one that is back says nothing of the others.
    away_of: Vec<Option<Failure>>,
    listed: Vec<bool>,
}

impl View {
    fn new(selections: usize) -> View {
        View {
            of: vec![BTreeMap::new(); selections],
            away_of: vec![None; selections],
            listed: vec![false; selections],
            ..View::default()
        }
    }

    /// What is known after a change of a selection; an error ends it all.
    fn take(&mut self, at: usize, change: Change, optional: bool) -> Result<(), Failure> {
        self.away_of[at] = None;
        match change {
            Change::Failed(failure) if optional && failure.trouble == Trouble::Forbidden => {
                self.of[at].clear();
                self.listed[at] = true;
            }
            Change::Failed(failure) => return Err(failure),
            Change::Away(failure) => self.away_of[at] = Some(failure),
            // Where nothing has happened meanwhile, nothing else will ever tell that the line is well again.
            Change::Resumed => {}
            Change::Listed(objects) => {
                self.of[at] = objects.into_iter().map(|object| (id(&object), Arc::new(object))).collect();
                self.listed[at] = true;
            }
            Change::Put(object) => drop(self.of[at].insert(id(&object), Arc::new(object))),
            Change::Gone(object) => drop(self.of[at].remove(&id(&object))),
        }
        self.complete = self.listed.iter().all(|listed| *listed);
        self.away = self.away_of.iter().flatten().next().cloned();
        Ok(())
    }

    pub fn of(&self, selection: usize) -> impl Iterator<Item = &Value> {
        self.of[selection].values().map(AsRef::as_ref)
    }

    /// The same, for those who keep them: of hundreds of objects few have changed since the last look.
    pub fn kept(&self, selection: usize) -> impl Iterator<Item = &Arc<Value>> {
        self.of.get(selection).into_iter().flat_map(BTreeMap::values)
    }
}

/// What somebody who looks makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    GoOn,
    Done,
    /// Done, if it is still so after this time.
    DoneAfter(Duration),
}

enum Change {
    Listed(Vec<Value>),
    Put(Value),
    Gone(Value),
    Away(Failure),
    /// It answers again, and tells from here on what changes.
    Resumed,
    Failed(Failure),
}

impl Connection {
    /// Calls `look` with what is there, first when all lists have come (or cannot, the server being away) and then after every change, until
    /// it is done or time is over: then `false`.
    pub fn follow(
        &self,
        what: &[Followed],
        end: std::time::Instant,
        mut look: impl FnMut(&View) -> Look,
    ) -> Result<bool, Failure> {
        self.block_on(self.following(what, end.into(), &mut look))
    }

    async fn following(
        &self,
        what: &[Followed],
        end: Instant,
        look: &mut impl FnMut(&View) -> Look,
    ) -> Result<bool, Failure> {
        let (send, mut changes) = mpsc::channel(QUEUE);
        let mut view = View::new(what.len());
        let tasks = what.iter().enumerate().map(|(at, followed)| watching(self, at, followed, send.clone(), end));
        // All of them live on this thread, and end with this call.
        let mut tasks = std::pin::pin!(futures_util::future::join_all(tasks));
        drop(send);
        let mut steady: Option<Instant> = None;
        loop {
            let until = steady.map_or(end, |steady| steady.min(end));
            let change = tokio::select! {
                biased;
                change = timeout_at(until, changes.recv()) => change,
                _ = &mut tasks => return Ok(false),
            };
            let Ok(Some(first)) = change else { return Ok(steady.is_some_and(|steady| steady <= Instant::now())) };
            // What has come at once is looked at once.
            let mut next = Some(first);
            while let Some((at, change)) = next {
                view.take(at, change, what[at].optional)?;
                next = changes.try_recv().ok();
            }
            if view.complete || view.away.is_some() {
                steady = match look(&view) {
                    Look::GoOn => None,
                    Look::Done => return Ok(true),
                    Look::DoneAfter(time) => steady.or(Some(Instant::now() + time)),
                };
            }
        }
    }
}

fn id(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_string()
}

type Send = mpsc::Sender<(usize, Change)>;

async fn watching(connection: &Connection, at: usize, what: &Followed, send: Send, end: Instant) {
    let mut pause = FIRST_PAUSE;
    let mut version: Option<String> = None;
    while Instant::now() < end {
        let outcome = match version.take() {
            None => match request::list(connection, &what.resource, &what.which).await {
                Ok((objects, of)) => {
                    let _ = send.send((at, Change::Listed(objects))).await;
                    version = Some(of);
                    Ok(())
                }
                Err(failure) => Err(failure),
            },
            Some(mut from) => {
                let begun = Instant::now();
                let outcome = one_watch(&connection.client, &connection.server, at, what, &mut from, &send).await;
                version = Some(from);
                if outcome.is_ok() && begun.elapsed() < LONGEST_PAUSE {
                    // Whoever hangs up at once will do so again.
                    tokio::time::sleep(FIRST_PAUSE).await;
                }
                outcome
            }
        };
        match outcome {
            Ok(()) => pause = FIRST_PAUSE,
            Err(failure) if failure.trouble == Trouble::TooOld => version = None,
            Err(failure) if failure.passes() => {
                let _ = send.send((at, Change::Away(failure))).await;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(failure) => {
                let _ = send.send((at, Change::Failed(failure))).await;
                // Optional ones stay silent from here on; the others end the whole.
                tokio::time::sleep_until(end).await;
            }
        }
    }
}

/// Until the server ends it, or the line does: then `from` says where to go on.
async fn one_watch(
    client: &Client,
    server: &str,
    at: usize,
    what: &Followed,
    from: &mut String,
    send: &Send,
) -> Result<(), Failure> {
    let params = WatchParams {
        label_selector: what.which.labels.clone(),
        field_selector: what.which.fields.clone(),
        timeout: Some(OPEN_S),
        bookmarks: true,
        send_initial_events: false,
    };
    let request = request::built(Request::new(&what.resource.path).watch(&params, from))?;
    let opening = client.request_events::<Value>(request);
    let opened = match timeout(request::BOUND, opening).await {
        Ok(opened) => opened.map_err(|error| explain(&error, server))?,
        Err(elapsed) => return Err(super::explain::of_way(&elapsed.to_string(), server)),
    };
    let _ = send.send((at, Change::Resumed)).await;
    let mut events = std::pin::pin!(opened);
    // A line that says nothing for longer than the server would keep it is dead; it is opened anew.
    while let Ok(Some(event)) = timeout(SILENCE, events.next()).await {
        let change = match event {
            Ok(WatchEvent::Bookmark(mark)) => {
                *from = mark.metadata.resource_version;
                continue;
            }
            Ok(WatchEvent::Error(status)) => return Err(explain(&kube::Error::Api(status), server)),
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Change::Put(object),
            Ok(WatchEvent::Deleted(object)) => Change::Gone(object),
            Err(error) => return Err(explain(&error, server)),
        };
        if let Change::Put(object) | Change::Gone(object) = &change
            && let Some(version) = object["metadata"]["resourceVersion"].as_str()
        {
            *from = version.into();
        }
        let _ = send.send((at, change)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::connection::Wanted;
    use super::super::resource;
    use super::*;
    use serde_json::json;
    use shoal_core::kubernetes::template::Kind;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    fn gone() -> Failure {
        Failure::new(Trouble::Unreachable, "away", "wait")
    }

    #[test]
    fn each_selection_is_away_until_its_own_line_is_back() {
        let pod = || json!({"metadata": {"uid": "p"}});
        let mut view = View::new(2);
        for (at, change, complete, away, pods) in [
            (0, Change::Listed(vec![pod()]), false, false, 1),
            (1, Change::Away(gone()), false, true, 1),
            (1, Change::Listed(Vec::new()), true, false, 1),
            (0, Change::Away(gone()), true, true, 1),
            (1, Change::Away(gone()), true, true, 1),
            (1, Change::Resumed, true, true, 1),
            (0, Change::Resumed, true, false, 1),
            (0, Change::Gone(pod()), true, false, 0),
        ] {
            view.take(at, change, false).expect("no end");
            assert_eq!((view.complete, view.away.is_some(), view.of(0).count()), (complete, away, pods));
        }
        let forbidden = || Change::Failed(Failure::new(Trouble::Forbidden, "no", "ask"));
        assert!(view.take(1, forbidden(), true).is_ok() && view.take(1, forbidden(), false).is_err());
    }

    /// What a request asks for, headers and all read.
    fn asked(line: &TcpStream) -> String {
        let mut lines = BufReader::new(line).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        lines.for_each(drop);
        first
    }

    /// A server whose first watch breaks, whose second fails, and whose third says nothing at all.
    fn serve(listener: &TcpListener) {
        let mut kept = Vec::new();
        for line in listener.incoming() {
            let mut line = line.expect("a line");
            let asks = asked(&line);
            let body = match asks.contains("watch=") {
                true => {
                    let answer: &[u8] = match kept.len() {
                        1 => b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                        _ => b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
                    };
                    let _ = line.write_all(answer);
                    if kept.is_empty() {
                        let _ = line.write_all(b"5\r\n{");
                        let _ = line.shutdown(std::net::Shutdown::Both);
                    }
                    kept.push(line);
                    continue;
                }
                false => r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#,
            };
            let length = body.len();
            let _ = write!(
                line,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    }

    #[test]
    fn a_watch_that_goes_on_where_nothing_happened_is_not_away() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        std::thread::spawn(move || serve(&listener));
        let file = tempfile::NamedTempFile::new().expect("a file");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
        });
        std::fs::write(file.path(), kubeconfig.to_string()).expect("written");
        let wanted = Wanted { kubeconfig: Some(file.path().into()), ..Wanted::default() };
        let connection = Connection::open(&wanted).expect("a connection");
        let resource = resource::of_kind(Kind::Job, "lab");
        let what = [Followed { resource, which: Selection::default(), optional: false }];
        let mut was_away = false;
        let end = std::time::Instant::now() + Duration::from_secs(50);
        let back = connection.follow(&what, end, |view| {
            was_away |= view.away.is_some();
            if was_away && view.complete && view.away.is_none() { Look::Done } else { Look::GoOn }
        });
        assert!(back.expect("no failure"), "it stays away; was it ever? {was_away}");
    }
}
