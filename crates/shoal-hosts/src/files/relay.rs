//! A stream to a chain of nodes: the first has it from here, each passes it on to the next. A node by itself is a chain of one.

use super::choose::patience_ms;
use super::line::{Bounded, Ear, Trouble, say, trouble};
use super::push::{Job, at_once};
use super::words::{Answer, Order, numbers};
use super::{Progress, Way, send};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a node waits for anything from its neighbour. Whoever is deaf is found sooner (`patience_ms`).
const QUIET_MS: u64 = 35_000;

/// A node that has been asked what it lacks.
pub struct Node<'w> {
    pub number: usize,
    pub way: &'w Way<'w>,
    pub mouth: Mutex<Option<Bounded>>,
    pub ear: Ear,
    pub control: Option<std::path::PathBuf>,
    pub lacking: Vec<u32>,
    pub stale: u64,
    pub port: Option<u16>,
    pub rsync: bool,
    pub roots: Vec<String>,
    pub changed: Vec<String>,
    pub trouble: Option<Trouble>,
}

impl Node<'_> {
    pub fn name(&self) -> &str {
        &self.way.host.name
    }

    pub fn say(&self, order: &Order) -> io::Result<()> {
        let mut mouth = self.mouth.lock().unwrap_or_else(|e| e.into_inner());
        say(mouth.as_mut().ok_or(io::ErrorKind::BrokenPipe)?, order)
    }
}

/// Has every node call its next one, and sends the stream to the first of each chain that came about.
pub fn run(job: &Job, mut nodes: Vec<&mut Node>) {
    let targets: Vec<Option<(String, String)>> = nodes
        .iter()
        .skip(1)
        .map(|next| next.port.map(|port| (next.name().to_string(), address(&next.way.internal, port))))
        .chain([None])
        .collect();
    let pairs: Vec<_> = nodes.iter_mut().zip(targets).collect();
    let linked: Vec<bool> = at_once(pairs, |(node, target)| link(job, node, target));
    let mut chains: Vec<Vec<&mut Node>> = Vec::new();
    let mut goes_on = false;
    for (node, linked) in nodes.drain(..).zip(linked) {
        if node.trouble.is_some() {
            goes_on = false;
            continue;
        }
        match chains.last_mut() {
            Some(chain) if goes_on => chain.push(node),
            _ => chains.push(vec![node]),
        }
        goes_on = linked;
    }
    std::thread::scope(|scope| {
        for chain in chains {
            scope.spawn(move || one(job, chain));
        }
    });
}

fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn link(job: &Job, node: &mut Node, target: Option<(String, String)>) -> bool {
    let Some((name, next)) = target else { return false };
    // One that is gone is heard to be gone.
    let _ = node.say(&Order::Link { next });
    match node.ear.hear(&mut |_| {}) {
        Ok(Answer::Linked { problem: None }) => true,
        Ok(Answer::Linked { problem: Some(why) }) => {
            let note = format!("{} cannot reach {name} ({why}): {name} gets its files from here", node.name());
            (job.tell)(node.number, Progress::note(note));
            false
        }
        Ok(_) => false,
        Err(lost) => {
            node.trouble = Some(lost);
            false
        }
    }
}

/// One stream through one chain. What a node lacks afterwards is up to the caller.
pub fn one(job: &Job, mut chain: Vec<&mut Node>) {
    let number = job.streams.fetch_add(1, Ordering::Relaxed);
    let mut wanted: Vec<u32> = chain.iter().flat_map(|node| node.lacking.iter().copied()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let length = chain.len();
    // Those at the end first: they must be ready when the first piece comes.
    for (i, node) in chain.iter().enumerate().rev() {
        let (from_peer, forward) = (i > 0, i + 1 < length);
        let order =
            Order::Receive { stream: number, from_peer, forward, write_ms: patience_ms(i, length), read_ms: QUIET_MS };
        // One that is gone is heard to be gone.
        let _ = node.say(&order);
    }
    let (ears, said): (Vec<_>, Vec<_>) = chain.iter_mut().map(|node| split(node)).unzip();
    let said = &said;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut mouth = said[0].lock().unwrap_or_else(|e| e.into_inner());
            let sent = match mouth.as_mut() {
                Some(mouth) => send::stream(&job.load, &job.key, number, &wanted, mouth),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            };
            if sent.is_err() {
                // So that it does not wait for the rest.
                *mouth = None;
            }
        });
        for (ear, next) in ears.into_iter().zip(1..) {
            scope.spawn(move || {
                let lost = follow(job, ear);
                if lost && let Some(mouth) = said.get(next) {
                    // Whatever it still waits for will not come.
                    let mut mouth = mouth.lock().unwrap_or_else(|e| e.into_inner());
                    let _ = mouth.as_mut().map(|mouth| say(mouth, &Order::Cut));
                }
            });
        }
    });
}

/// The parts of a node that hear and are changed, and the one by which it is spoken to.
struct Heard<'n> {
    number: usize,
    name: &'n str,
    ear: &'n mut Ear,
    lacking: &'n mut Vec<u32>,
    changed: &'n mut Vec<String>,
    trouble: &'n mut Option<Trouble>,
}

fn split<'n>(node: &'n mut &mut Node<'_>) -> (Heard<'n>, &'n Mutex<Option<Bounded>>) {
    let Node { number, way, mouth, ear, lacking, changed, trouble, .. } = &mut **node;
    (Heard { number: *number, name: &way.host.name, ear, lacking, changed, trouble }, mouth)
}

/// Listens to one node until it has all, or says what it lacks, or is lost (true).
fn follow(job: &Job, node: Heard) -> bool {
    let total = job.load.bytes_of(node.lacking);
    loop {
        let mut busy = |done| (job.tell)(node.number, Progress::sending(done, total));
        match node.ear.hear(&mut busy) {
            Ok(Answer::ForwardLost { why }) => {
                let note = format!("{}: the next of the chain is lost ({why})", node.name);
                (job.tell)(node.number, Progress::note(note));
            }
            Ok(Answer::Received { lacking, problem, changed }) => {
                *node.lacking = numbers(&lacking, job.load.len());
                *node.changed = changed;
                if let Some(why) = problem {
                    (job.tell)(node.number, Progress::note(format!("{}: {why}; the rest comes from here", node.name)));
                }
                return false;
            }
            Ok(other) => {
                *node.trouble =
                    Some(trouble(node.name, format!("an odd answer: {other:?}"), "is it another version of shoal?"));
                return true;
            }
            Err(lost) => {
                *node.trouble = Some(lost);
                return true;
            }
        }
    }
}

/// The next stream's number: none is used twice with one key.
pub fn streams() -> AtomicU32 {
    AtomicU32::new(1)
}
