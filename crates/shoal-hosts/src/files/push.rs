//! Files to many nodes at once: each is asked what it lacks, then all get it, each in the way that suits it.

use super::choose::{How, Need, choose};
use super::line::{Line, Trouble, say, stopped, trouble};
use super::manifest::{Manifest, Part};
use super::relay::{self, Node};
use super::seal::Key;
use super::send::Load;
use super::words::{Answer, Order, VERSION, hex, numbers};
use super::{Delivery, Options, Progress, Stage, Way, proof, rsync, tree};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

/// How often files that change while they are sent are tried.
const ATTEMPTS: usize = 3;
const LIST_LEVEL: i32 = 3;

/// What a node got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub files: u64,
    pub bytes: u64,
    pub how: How,
    pub deleted: u64,
}

/// What all nodes of a transfer share.
pub struct Job<'a> {
    pub load: Load,
    pub key: Key,
    pub streams: AtomicU32,
    pub tell: &'a (dyn Fn(usize, Progress) + Sync),
    list: Vec<u8>,
    unpressed: usize,
    token: [u8; 32],
    options: &'a Options,
    deliveries: &'a [Delivery],
}

/// Brings all deliveries to all nodes; one result a node.
pub fn push(
    ways: &[Way],
    deliveries: &[Delivery],
    options: &Options,
    tell: &(dyn Fn(usize, Progress) + Sync),
) -> Vec<Result<Sent, Trouble>> {
    let mut results: Vec<Option<Result<Sent, Trouble>>> = ways.iter().map(|_| None).collect();
    for attempt in 1..=ATTEMPTS {
        let open: Vec<usize> = (0..ways.len()).filter(|i| results[*i].is_none()).collect();
        if open.is_empty() {
            break;
        }
        let job = match Job::new(deliveries, options, tell) {
            Ok(job) => job,
            Err((what, hint)) => {
                open.iter().for_each(|i| results[*i] = Some(Err(trouble(&ways[*i].host.name, &what, hint))));
                break;
            }
        };
        for (i, (result, changed)) in open.iter().zip(job.run(ways, &open)) {
            results[*i] = match (result, changed.first()) {
                (Ok(_), Some(_)) if attempt < ATTEMPTS => None,
                (Ok(_), Some(file)) => {
                    let what = format!("{file} changes while it is sent ({} files in all do)", changed.len());
                    Some(Err(trouble(&ways[*i].host.name, what, "leave it out with --exclude or rsync_exclude")))
                }
                (result, _) => Some(result),
            };
        }
    }
    let missing = |i: usize| Err(trouble(&ways[i].host.name, "nothing came of it", ""));
    results.into_iter().enumerate().map(|(i, result)| result.unwrap_or_else(|| missing(i))).collect()
}

impl<'a> Job<'a> {
    fn new(
        deliveries: &'a [Delivery],
        options: &'a Options,
        tell: &'a (dyn Fn(usize, Progress) + Sync),
    ) -> Result<Job<'a>, (String, &'static str)> {
        let mut load = Load { manifest: Manifest::default(), roots: Vec::new() };
        for delivery in deliveries {
            let found = tree::tree_under(&delivery.local, &delivery.rules, options.under.as_deref());
            let tree = found
                .map_err(|e| (e.to_string(), "the path is one of this machine; is it spelt right, and readable?"))?;
            tree.notes.iter().for_each(|note| tell(0, Progress::note(note.clone())));
            load.roots.push(tree.root);
            load.manifest.parts.push(Part {
                remote: delivery.remote.clone(),
                single: tree.single,
                entries: tree.entries,
            });
        }
        let plain = load.manifest.encode();
        let here = |e: std::io::Error| (e.to_string(), "this machine lacks something; try again");
        let list = zstd::bulk::compress(&plain, LIST_LEVEL).map_err(here)?;
        let (key, token) = (proof::random().map_err(here)?, proof::random().map_err(here)?);
        let streams = relay::streams();
        Ok(Job { load, key, streams, tell, list, unpressed: plain.len(), token, options, deliveries })
    }

    /// Results for `open`, and what changed meanwhile.
    fn run(&self, ways: &[Way], open: &[usize]) -> Vec<(Result<Sent, Trouble>, Vec<String>)> {
        let listen = open.len() > 1 && !self.options.direct;
        let mut nodes: Vec<Result<Node, Trouble>> =
            at_once(open.iter().map(|i| (*i, &ways[*i])).collect(), |(i, way)| self.ask(i, way, listen));
        let rsync_here = !self.options.no_rsync && rsync::is_here();
        let mut live: Vec<&mut Node> = nodes.iter_mut().filter_map(|node| node.as_mut().ok()).collect();
        let need = |node: &&mut Node| Need {
            files: node.lacking.len() as u64,
            bytes: self.load.bytes_of(&node.lacking),
            stale: node.stale,
            rsync: rsync_here && node.rsync && node.control.is_some(),
            listens: node.port.is_some(),
        };
        let needs: Vec<Need> = live.iter().map(need).collect();
        let ways = choose(&needs);
        let (mut chain, mut alone) = (Vec::new(), Vec::new());
        for (node, how) in live.drain(..).zip(&ways) {
            match how {
                How::Nothing => {}
                How::Relay => chain.push(node),
                How::Rsync | How::Stream => alone.push((node, *how)),
            }
        }
        std::thread::scope(|scope| {
            if !chain.is_empty() {
                scope.spawn(move || relay::run(self, chain));
            }
            for (node, how) in alone {
                scope.spawn(move || match how {
                    How::Rsync => self.by_rsync(node),
                    _ => relay::one(self, vec![node]),
                });
            }
        });
        // What a broken chain or a refusing rsync left goes from here.
        let short = |node: &&mut Node| node.trouble.is_none() && node.changed.is_empty() && !node.lacking.is_empty();
        at_once(nodes.iter_mut().filter_map(|node| node.as_mut().ok()).filter(short).collect(), |node| {
            relay::one(self, vec![node]);
        });
        let mut facts = needs.into_iter().zip(ways);
        let with_facts: Vec<_> = nodes.into_iter().map(|node| node.map(|node| (node, facts.next()))).collect();
        at_once(with_facts, |node| match node {
            Ok((mut node, facts)) => (self.finish(&mut node, facts), std::mem::take(&mut node.changed)),
            Err(trouble) => (Err(trouble), Vec::new()),
        })
    }

    fn ask<'w>(&self, number: usize, way: &'w Way<'w>, listen: bool) -> Result<Node<'w>, Trouble> {
        (self.tell)(number, Progress::at(Stage::Connecting));
        let Line { mut mouth, mut ear, control } = Line::open(way, &self.options.stop)?;
        (self.tell)(number, Progress::at(Stage::Looking));
        let order = Order::Prepare {
            version: VERSION,
            list: self.list.len(),
            unpressed: self.unpressed,
            key: hex(&self.key),
            token: hex(&self.token),
            listen,
        };
        // What goes wrong with saying it is heard as an answer, or as its end.
        let _ = say(&mut mouth, &order).and_then(|()| mouth.write_all(&self.list));
        match ear.hear(&mut |_| {})? {
            Answer::Prepared { lacking, stale, port, rsync, roots } => Ok(Node {
                number,
                way,
                mouth: Mutex::new(Some(mouth)),
                ear,
                control,
                lacking: numbers(&lacking, self.load.len()),
                stale,
                port,
                rsync,
                roots,
                changed: Vec::new(),
                trouble: None,
            }),
            other => {
                Err(trouble(&way.host.name, format!("an odd answer: {other:?}"), "is it another version of shoal?"))
            }
        }
    }

    fn by_rsync(&self, node: &mut Node) {
        let total = self.load.bytes_of(&node.lacking);
        let Some(control) = node.control.clone() else { return };
        let mut before = 0;
        for (number, part) in self.load.manifest.parts.iter().enumerate() {
            let first: usize = self.load.manifest.parts[..number].iter().map(|part| part.entries.len()).sum();
            let wanted = node.lacking.iter().filter_map(|i| part.entries.get((*i as usize).checked_sub(first)?));
            let wanted: Vec<_> = wanted.collect();
            let (Some(one), Some(there)) = (wanted.first(), node.roots.get(number)) else { continue };
            let root = &self.load.roots[number];
            let (args, input) = if part.single {
                (rsync::up_file(&tree::path_of(root, &one.path), &control, there), Vec::new())
            } else {
                let list = wanted.iter().flat_map(|entry| entry.path.iter().copied().chain([0])).collect();
                (rsync::up(root, &control, there), list)
            };
            let mut told = |done| (self.tell)(node.number, Progress::sending(before + done, total));
            if let Err(complaint) = rsync::run(&node.way.host.name, &args, input, &self.options.stop, &mut told) {
                if self.options.stop.is_asked() {
                    node.trouble = Some(stopped(node.name()));
                    return;
                }
                // Our own way is tried next; if that fails as well, its words are better.
                let note = format!("{complaint}; its files go over our own line");
                (self.tell)(node.number, Progress::note(note));
                break;
            }
            before += wanted.iter().map(|entry| entry.size()).sum::<u64>();
        }
        let _ = node.say(&Order::Look);
        match node.ear.hear(&mut |_| {}) {
            Ok(Answer::Received { lacking, .. }) => node.lacking = numbers(&lacking, self.load.len()),
            Ok(other) => node.trouble = Some(trouble(node.name(), format!("an odd answer: {other:?}"), "")),
            Err(lost) => node.trouble = Some(lost),
        }
    }

    fn finish(&self, node: &mut Node, facts: Option<(Need, How)>) -> Result<Sent, Trouble> {
        if let Some(trouble) = node.trouble.take() {
            return Err(trouble);
        }
        if !node.lacking.is_empty() && node.changed.is_empty() {
            let what = format!("{} files did not get there", node.lacking.len());
            return Err(trouble(node.name(), what, "run the same command again: what is there is not sent twice"));
        }
        let rules = self.deliveries.first().map(|delivery| delivery.rules.clone()).unwrap_or_default();
        let (delete, under) = (self.options.delete, self.options.under.clone());
        let order = Order::Finish { delete, exclude: rules.exclude, filter: rules.filter, under };
        let _ = node.say(&order);
        match node.ear.hear(&mut |_| {})? {
            Answer::Finished { deleted } => {
                (self.tell)(node.number, Progress::at(Stage::Done));
                let (files, bytes, how) =
                    facts.map_or((0, 0, How::Nothing), |(need, how)| (need.files, need.bytes, how));
                Ok(Sent { files, bytes, how, deleted })
            }
            other => Err(trouble(node.name(), format!("an odd answer: {other:?}"), "is it another version of shoal?")),
        }
    }
}

/// All at the same time; results in order.
pub fn at_once<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}
