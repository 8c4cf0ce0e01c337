//! How does a packed tree become files that many runs share? In pieces into a file beside, unpacked into a folder beside, checked
//! against its digest, and only then given its name. Nothing of it leads out of the folder (SEC-1: a tree is somebody else's words).

use crate::queue::drive;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// Entries of one tree.
const MOST_ENTRIES: usize = 5_000_000;

pub fn is_digest(text: &str) -> bool {
    is_hex(text, 64)
}

pub fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

pub fn is_here(trees: &Path, digest: &str) -> bool {
    is_digest(digest) && trees.join(digest).is_dir()
}

/// All that are complete.
pub fn list(trees: &Path) -> Vec<String> {
    let names = fs::read_dir(trees).into_iter().flatten().flatten().filter_map(|e| e.file_name().into_string().ok());
    names.filter(|name| is_digest(name)).collect()
}

/// What was left half done.
pub fn clear(trees: &Path) {
    for entry in fs::read_dir(trees).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().to_str().is_some_and(is_digest) {
            let _ = fs::remove_file(&path).or_else(|_| super::room::remove(&path));
        }
    }
}

/// Trees on their way.
#[derive(Default)]
pub struct Arriving(HashMap<String, (File, u64)>);

impl Arriving {
    /// The file of pieces, once it is all there.
    pub fn piece(
        &mut self,
        trees: &Path,
        digest: &str,
        at: u64,
        last: bool,
        bytes: &[u8],
    ) -> io::Result<Option<PathBuf>> {
        if !is_digest(digest) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no digest of a tree"));
        }
        let path = trees.join(format!("{digest}.part"));
        if at == 0 {
            // The folder is made again if somebody has removed it.
            crate::queue::keeper::folder::make(trees)?;
            let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            self.0.insert(digest.into(), (file, 0));
        }
        let Some((file, have)) = self.0.get_mut(digest).filter(|(_, have)| *have == at) else {
            self.0.remove(digest);
            return Err(io::Error::other(format!("a piece of the tree {digest} came out of order")));
        };
        if let Err(e) = file.write_all(bytes) {
            // Its room is wanted for something else.
            self.0.remove(digest);
            let _ = fs::remove_file(&path);
            return Err(e);
        }
        *have += bytes.len() as u64;
        if last {
            self.0.remove(digest);
        }
        Ok(last.then_some(path))
    }
}

/// Why a tree is not there.
#[derive(Debug, PartialEq, Eq)]
pub enum NotHere {
    /// It is as it should be, and the disk is full.
    NoRoom(String),
    Broken(String),
}

impl NotHere {
    pub fn of(e: &io::Error, why: String) -> NotHere {
        if drive::is_full(e) { NotHere::NoRoom(why) } else { NotHere::Broken(why) }
    }

    pub fn why(&self) -> &str {
        match self {
            NotHere::NoRoom(why) | NotHere::Broken(why) => why,
        }
    }
}

/// Takes time: for a thread of its own.
pub fn unpack(trees: &Path, digest: &str, packed: &Path) -> Result<(), NotHere> {
    let beside = trees.join(format!("{digest}.new"));
    let done = super::room::remove(&beside).and_then(|()| into(packed, &beside));
    let _ = fs::remove_file(packed);
    let found = match done {
        Ok(found) => found,
        Err(e) => {
            let _ = super::room::remove(&beside);
            return Err(NotHere::of(&e, format!("the tree {digest} could not be unpacked: {e}")));
        }
    };
    if found != digest {
        let _ = super::room::remove(&beside);
        return Err(NotHere::Broken(format!("what came as the tree {digest} has the digest {found}")));
    }
    match fs::rename(&beside, trees.join(digest)) {
        Err(e) if !is_here(trees, digest) => {
            Err(NotHere::of(&e, format!("the tree {digest} could not be given its name: {e}")))
        }
        _ => Ok(()),
    }
}

struct Hashed<R> {
    from: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.hash.update(&to[..n]);
        Ok(n)
    }
}

/// The digest of what was in it.
fn into(packed: &Path, to: &Path) -> io::Result<String> {
    let decoder = zstd::stream::read::Decoder::new(BufReader::with_capacity(256 << 10, File::open(packed)?))?;
    let mut from = Hashed { from: decoder, hash: Sha256::new() };
    DirBuilder::new().mode(0o700).create(to)?;
    let mut folders = vec![to.to_path_buf()];
    let mut links: HashSet<PathBuf> = HashSet::new();
    {
        let mut archive = tar::Archive::new(&mut from);
        for (count, entry) in archive.entries()?.enumerate() {
            if count >= MOST_ENTRIES {
                return Err(io::Error::other(format!("it has more than {MOST_ENTRIES} entries")));
            }
            put(&mut entry?, to, &mut folders, &mut links)?;
        }
    }
    // What is behind the last entry belongs to the digest too.
    io::copy(&mut from, &mut io::sink())?;
    // Shared by many runs: nobody writes into it. From within, so that each can still be reached.
    for folder in folders.iter().rev().filter(|folder| *folder != to) {
        fs::set_permissions(folder, Permissions::from_mode(0o555))?;
    }
    Ok(from.hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn put(
    entry: &mut tar::Entry<impl Read>,
    to: &Path,
    folders: &mut Vec<PathBuf>,
    links: &mut HashSet<PathBuf>,
) -> io::Result<()> {
    let odd = |path: &Path, why: &str| io::Error::other(format!("{}: {why}", path.display()));
    let kind = entry.header().entry_type();
    let name = entry.path()?.into_owned();
    let name: PathBuf = name.components().filter(|part| *part != Component::CurDir).collect();
    if name.as_os_str().is_empty() {
        return Ok(());
    }
    if !name.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(odd(&name, "leads out of the tree"));
    }
    if name.ancestors().any(|ancestor| links.contains(ancestor)) {
        return Err(odd(&name, "lies behind a link"));
    }
    let path = to.join(&name);
    let mut missing: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
    while let Some(folder) = missing.pop() {
        DirBuilder::new().mode(0o700).create(folder)?;
        folders.push(folder.into());
    }
    if kind.is_dir() {
        if !path.is_dir() {
            DirBuilder::new().mode(0o700).create(&path)?;
            folders.push(path);
        }
    } else if kind.is_symlink() {
        let target = entry.link_name()?.ok_or_else(|| odd(&name, "a link to nothing"))?.into_owned();
        if !stays_inside(&name, &target) {
            return Err(odd(&name, "a link that leads out of the tree"));
        }
        symlink(target, &path)?;
        links.insert(name);
    } else if kind.is_file() || kind.is_contiguous() {
        let mode = entry.header().mode()?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        io::copy(entry, &mut file)?;
        file.set_permissions(Permissions::from_mode(if mode & 0o111 == 0 { 0o444 } else { 0o555 }))?;
    } else {
        return Err(odd(&name, "is neither a file nor a folder nor a link"));
    }
    Ok(())
}

/// Steps up come first and are no more than there are; then only steps down. Pure.
fn stays_inside(link: &Path, target: &Path) -> bool {
    let depth = link.components().count().saturating_sub(1);
    let up = target.components().take_while(|part| *part == Component::ParentDir).count();
    up <= depth && target.components().skip(up).all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(entries: &[(&str, tar::EntryType, &str)]) -> (Vec<u8>, String) {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            let content = if kind.is_file() { content.as_bytes() } else { b"" };
            if kind.is_symlink() {
                header.as_mut_bytes()[157..157 + entries.iter().find(|e| e.0 == *name).unwrap().2.len()]
                    .copy_from_slice(entries.iter().find(|e| e.0 == *name).unwrap().2.as_bytes());
            }
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, content).unwrap();
        }
        let tar = builder.into_inner().unwrap();
        let digest = Sha256::digest(&tar).iter().map(|b| format!("{b:02x}")).collect();
        (zstd::encode_all(&tar[..], 1).unwrap(), digest)
    }

    fn arrive(trees: &Path, bytes: &[u8], digest: &str) -> Result<(), NotHere> {
        let mut arriving = Arriving::default();
        let mut path = None;
        for (k, piece) in bytes.chunks(100).enumerate() {
            let at = k * 100;
            path = arriving.piece(trees, digest, at as u64, at + piece.len() == bytes.len(), piece).unwrap();
        }
        unpack(trees, digest, &path.unwrap())
    }

    #[test]
    fn a_tree_arrives_whole_and_stays_as_it_is() {
        use tar::EntryType::{Directory, Regular, Symlink};
        let base = tempfile::tempdir().unwrap();
        let trees = base.path();
        let (bytes, digest) = pack(&[
            ("src/", Directory, ""),
            ("src/deep/a.py", Regular, "print(1)"),
            ("src/link", Symlink, "deep/a.py"),
            ("up", Symlink, "src"),
            ("src/deep/up", Symlink, "../../src"),
        ]);
        arrive(trees, &bytes, &digest).unwrap();
        assert_eq!(fs::read_to_string(trees.join(&digest).join("src/link")).unwrap(), "print(1)");
        let mode = fs::metadata(trees.join(&digest).join("src/deep/a.py")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o444);
        assert_eq!(list(trees), std::slice::from_ref(&digest));
        arrive(trees, &bytes, &digest).unwrap();
        let other = digest.replace(|c: char| c.is_ascii_digit(), "a");
        assert!(arrive(trees, &bytes, &other).unwrap_err().why().contains("has the digest"));
        assert!(unpack(trees, &other, &trees.join("none")).is_err());
        fs::write(trees.join("x.part"), "").unwrap();
        clear(trees);
        assert_eq!(fs::read_dir(trees).unwrap().count(), 1);
    }

    #[test]
    fn nothing_leads_out_of_a_tree() {
        use tar::EntryType::{Fifo, Link, Regular, Symlink};
        let base = tempfile::tempdir().unwrap();
        for entries in [
            &[("../evil", Regular, "x")][..],
            &[("/tmp/evil", Regular, "x")],
            &[("a", Symlink, "/etc"), ("a/x", Regular, "x")],
            &[("a", Symlink, ".."), ("b", Regular, "x")],
            &[("a", Symlink, "."), ("b", Symlink, "a/../..")],
            &[("a", Symlink, "b"), ("a/x", Regular, "x")],
            &[("a", Fifo, "")],
            &[("a", Link, "")],
        ] {
            let (bytes, digest) = pack(entries);
            assert!(arrive(base.path(), &bytes, &digest).is_err(), "{entries:?}");
            assert!(!base.path().join(&digest).exists() && !base.path().parent().unwrap().join("evil").exists());
        }
    }

    #[test]
    fn pieces_have_an_order() {
        let base = tempfile::tempdir().unwrap();
        let digest = "0".repeat(64);
        let mut arriving = Arriving::default();
        assert!(arriving.piece(base.path(), &digest, 5, false, b"x").is_err());
        assert!(arriving.piece(base.path(), &digest, 0, false, b"abc").unwrap().is_none());
        assert!(arriving.piece(base.path(), &digest, 4, false, b"x").is_err());
        assert!(arriving.piece(base.path(), "../x", 0, false, b"x").is_err());
    }
}
