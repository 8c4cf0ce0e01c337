//! How do source and data get into the queue's store? Listed and hashed here; sent only if the store lacks them.

use crate::commands::run::NotBegun;
use crate::launch::screen::size;
use crate::queue::connect::Queue;
use crate::queue::snapshot::walk::{Listing, What};
use crate::queue::snapshot::{self, Kind, Root, pack};
use indicatif::{ProgressBar, ProgressStyle};
use shoal_core::queue::line::BODY_LIMIT;
use shoal_core::queue::read::{Draft, Folder};
use shoal_core::queue::request::{Answer, Request};
use shoal_core::queue::work::Tree;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// A tree before it has a digest.
pub struct Planned {
    pub at: String,
    pub listing: Listing,
    pub what: &'static str,
}

/// All source is one tree; each data folder is one of its own, so that data that stays is not sent again with new source.
pub fn plan(draft: &Draft, base: &Path) -> Result<Vec<Planned>, NotBegun> {
    let mut trees = Vec::new();
    if !draft.source.is_empty() {
        // Data within the project is sent as data alone: it seldom changes, and may be larger than source is allowed to be.
        let data = draft.data.iter().map(|folder| place(folder, base));
        // Nor are results of earlier runs source of the next.
        let results = draft.rules.results.as_ref().and_then(|folder| Path::new(folder).canonicalize().ok());
        let without: Vec<PathBuf> = data.chain(results).collect();
        let roots = draft
            .source
            .iter()
            .map(|folder| Root { without: without.clone(), ..root(folder, base, folder.at.clone()) });
        let roots: Vec<Root> = roots.collect();
        roots.iter().try_for_each(is_a_project)?;
        let mut listing = snapshot::list(&roots, Kind::Source).map_err(NotBegun::Wrong)?;
        // A link to data in the project gives way to the data.
        let is_data = |name: &str| draft.data.iter().any(|data| name == data.at);
        listing.entries.retain(|name, entry| !(matches!(entry.what, What::Link { .. }) && is_data(name)));
        trees.push(Planned { at: String::new(), listing, what: "source" });
    }
    for folder in &draft.data {
        // A folder is linked as a whole; a file has to lie in a tree under its name.
        let path = place(folder, base);
        let (at, name) = match (path.is_dir(), folder.at.rsplit_once('/')) {
            (true, _) => (folder.at.as_str(), ""),
            (false, Some((at, name))) => (at, name),
            (false, None) => ("", folder.at.as_str()),
        };
        let listing = snapshot::list(&[root(folder, base, name.into())], Kind::Data).map_err(NotBegun::Wrong)?;
        trees.push(Planned { at: at.into(), listing, what: "data" });
    }
    for odd in trees.iter().flat_map(|tree| &tree.listing.odd) {
        eprintln!("shoal sweep: {odd}");
    }
    Ok(trees)
}

/// Somebody's whole home is nobody's source, and takes long to look through.
pub(crate) fn is_a_project(root: &Root) -> Result<(), NotBegun> {
    let home = std::env::var_os("HOME").and_then(|home| PathBuf::from(home).canonicalize().ok());
    if root.from.parent().is_some() && home.as_ref() != Some(&root.from) {
        return Ok(());
    }
    let hint = "go into the folder of the project, name it with --source, or copy nothing with --no-source";
    Err(NotBegun::Wrong(format!("all of {} would be copied as source\n  hint: {hint}", root.from.display())))
}

fn root(folder: &Folder, base: &Path, at: String) -> Root {
    Root { from: place(folder, base), at, ignore: folder.ignore.clone(), without: Vec::new() }
}

/// Without `.` and links, so that the same folder is known as the same.
fn place(folder: &Folder, base: &Path) -> PathBuf {
    let path = base.join(&folder.path);
    path.canonicalize().unwrap_or(path)
}

/// Makes the store have them all, and gives their names.
pub fn send(queue: &mut Queue, trees: &[Planned], quiet: bool) -> Result<Vec<Tree>, NotBegun> {
    let mut named = Vec::new();
    for tree in trees {
        named.push(Tree { digest: digest(&tree.listing)?, at: tree.at.clone() });
    }
    let lacking = queue.lacks(named.iter().map(|tree| tree.digest.clone()).collect())?;
    for (tree, name) in trees.iter().zip(&mut named) {
        if lacking.contains(&name.digest) {
            name.digest = upload(queue, &tree.listing, tree.what, quiet)?;
        }
    }
    Ok(named)
}

/// One file, such as a difference to a commit; gives its digest.
pub fn send_text(queue: &mut Queue, name: &str, bytes: &[u8]) -> Result<String, NotBegun> {
    let packed = pack::pack_bytes(name, bytes).map_err(NotBegun::Here)?;
    if queue.lacks(vec![packed.digest.clone()])?.is_empty() {
        return Ok(packed.digest);
    }
    send_packed(queue, packed, "the difference to the commit", true)
}

fn digest(listing: &Listing) -> Result<String, NotBegun> {
    pack::digest(listing).map_err(NotBegun::Here)
}

/// What is sent is what is there now: its digest may be another than a moment ago, and the new one counts.
fn upload(queue: &mut Queue, listing: &Listing, what: &str, quiet: bool) -> Result<String, NotBegun> {
    let packed = pack::pack(listing).map_err(NotBegun::Here)?;
    send_packed(queue, packed, what, quiet)
}

fn send_packed(queue: &mut Queue, mut packed: pack::Packed, what: &str, quiet: bool) -> Result<String, NotBegun> {
    let bar = bar(what, packed.bytes, quiet);
    let mut piece = vec![0u8; BODY_LIMIT];
    let mut at = 0;
    loop {
        let n =
            fill(&mut packed.file, &mut piece).map_err(|e| NotBegun::Here(format!("{what} cannot be read: {e}")))?;
        let last = at + n as u64 >= packed.bytes;
        let request = Request::Tree { digest: packed.digest.clone(), at, last };
        match queue.send(&request, &piece[..n])? {
            Answer::Done => {}
            other => return Err(queue.odd(&request, &other)),
        }
        at += n as u64;
        bar.set_position(at);
        if last {
            bar.finish_and_clear();
            return Ok(packed.digest);
        }
    }
}

fn fill(file: &mut std::fs::File, piece: &mut [u8]) -> std::io::Result<usize> {
    let mut have = 0;
    while have < piece.len() {
        match file.read(&mut piece[have..])? {
            0 => break,
            n => have += n,
        }
    }
    Ok(have)
}

/// Only for what takes a while.
fn bar(what: &str, bytes: u64, quiet: bool) -> ProgressBar {
    if quiet || bytes < 8 << 20 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let form = format!("sending {what} {{bar:30}} {{bytes}} of {} {{eta}}", size(bytes));
    let style = ProgressStyle::with_template(&form).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}
