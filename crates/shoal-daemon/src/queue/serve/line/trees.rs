//! How do packed trees get to a host? In pieces, behind orders, one tree after the other.

use super::Outbox;
use crate::queue::serve::shared::Shared;
use shoal_core::queue::line::ToHost;
use std::collections::HashSet;
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Bytes of a piece.
const PIECE: usize = 256 << 10;
/// Different trees that a host may ask for on one line; there are never as many sweeps at work.
const MOST: usize = 4096;

pub struct TreeSender {
    want: Sender<String>,
    asked: Arc<Mutex<HashSet<String>>>,
}

impl TreeSender {
    pub fn start(shared: &Arc<Shared>, outbox: &Arc<Outbox>) -> TreeSender {
        let (want, wanted) = channel();
        let asked = Arc::new(Mutex::new(HashSet::new()));
        let (shared, outbox, open) = (shared.clone(), outbox.clone(), asked.clone());
        // If there is no thread for it, runs that need the tree wait until the line is opened anew.
        let send = move || send_all(&shared, &outbox, &wanted, &open);
        let _ = std::thread::Builder::new().name("trees".into()).stack_size(256 << 10).spawn(send);
        TreeSender { want, asked }
    }

    /// One that is on its way already is not sent twice.
    pub fn want(&self, digest: String) {
        let mut asked = self.asked.lock().unwrap_or_else(|e| e.into_inner());
        if asked.len() < MOST && asked.insert(digest.clone()) {
            let _ = self.want.send(digest);
        }
    }
}

fn send_all(shared: &Shared, outbox: &Outbox, wanted: &Receiver<String>, open: &Mutex<HashSet<String>>) {
    while let Ok(digest) = wanted.recv() {
        if !send(shared, outbox, &digest) {
            return;
        }
        // Asked for again later: it was broken on its way, or removed there.
        open.lock().unwrap_or_else(|e| e.into_inner()).remove(&digest);
    }
}

/// False when the line is over.
fn send(shared: &Shared, outbox: &Outbox, digest: &str) -> bool {
    let piece =
        |at: u64, last: bool, body: &[u8]| outbox.send_piece(&ToHost::Tree { digest: digest.into(), at, last }, body);
    let mut file = match shared.trees.open(digest) {
        Ok(file) => file,
        Err(e) => {
            // An empty tree has the wrong digest: the host says so of the runs that need it, instead of waiting for ever.
            shared.log.say(format!("the tree {digest} is not in the store: {e}"));
            return piece(0, true, &[]);
        }
    };
    let (mut at, mut have) = (0, vec![0; PIECE]);
    loop {
        let length = match fill(&mut file, &mut have) {
            Ok(length) => length,
            Err(e) => {
                shared.log.say(format!("the tree {digest} cannot be read: {e}"));
                return piece(at, true, &[]);
            }
        };
        // A piece that is not full is the last; a tree of whole pieces ends with an empty one.
        let last = length < PIECE;
        if !piece(at, last, &have[..length]) {
            return false;
        }
        if last {
            return true;
        }
        at += length as u64;
    }
}

fn fill(from: &mut impl Read, to: &mut [u8]) -> std::io::Result<usize> {
    let mut have = 0;
    while have < to.len() {
        match from.read(&mut to[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(have)
}
