//! What is below a path of this machine, as the rules leave it, and what is its digest?

use super::cache::Cache;
use super::manifest::{Entry, Hash, Kind, digest};
use super::rules::{InForce, Rules};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Readers of one tree.
const READERS: usize = 4;
const BUFFER: usize = 256 << 10;

#[derive(Debug, Clone)]
pub struct Tree {
    /// Over names, modes, link targets and contents.
    pub digest: String,
    pub bytes: u64,
    pub files: u64,
    /// A file; else a folder.
    pub single: bool,
    pub entries: Vec<Entry>,
    /// What was left out because it is neither file, folder nor link.
    pub notes: Vec<String>,
    /// Where the entries are: the folder, or that of the file.
    pub root: PathBuf,
}

/// Reads all that is not known from before; memory does not grow with the files' sizes.
pub fn tree(local: &Path, rules: &Rules) -> io::Result<Tree> {
    tree_under(local, rules, None)
}

/// As `tree`, for patterns that see the folder under a name of its own, as rsync does for `DIR` without a slash behind it.
pub fn tree_under(local: &Path, rules: &Rules, under: Option<&str>) -> io::Result<Tree> {
    let cache = Cache::of_user();
    let tree = with_cache(local, rules, under, &cache);
    cache.save();
    tree
}

pub fn with_cache(local: &Path, rules: &Rules, under: Option<&str>, cache: &Cache) -> io::Result<Tree> {
    let meta = std::fs::metadata(local).map_err(|e| named(local, &e))?;
    let mut walk =
        Walk { filter: &rules.filter, prefix: under.unwrap_or_default(), entries: Vec::new(), notes: Vec::new() };
    let single = meta.is_file();
    let root = if single {
        let name = local.file_name().unwrap_or_default().as_bytes().to_vec();
        match InForce::new(rules).leaves_out(&name, false) {
            true => walk.notes.push(left_out(local)),
            false => walk.add(name, &meta, Kind::File { size: meta.size(), hash: [0; 32] }),
        }
        local.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
    } else if meta.is_dir() {
        let in_force = InForce::new(rules);
        match under.is_some_and(|name| in_force.leaves_out(name.as_bytes(), true)) {
            true => walk.notes.push(left_out(local)),
            false => walk.folder(local, b"", &in_force)?,
        }
        local.to_path_buf()
    } else {
        return Err(io::Error::other(format!("{}: neither a file nor a folder", local.display())));
    };
    let Walk { mut entries, notes, .. } = walk;
    hash_all(&root, &mut entries, cache)?;
    Ok(Tree {
        digest: digest(&entries),
        bytes: entries.iter().map(Entry::size).sum(),
        files: entries.iter().filter(|e| e.is_file()).count() as u64,
        single,
        entries,
        notes,
        root,
    })
}

/// Asked for by its name and left out by a pattern: that should not look like a success.
fn left_out(local: &Path) -> String {
    format!("{}: left out by --exclude, rsync_exclude or rsync_filter", local.display())
}

/// With the path in front, of the same kind.
fn named(path: &Path, error: &io::Error) -> io::Error {
    let text = error.to_string();
    io::Error::new(error.kind(), format!("{}: {}", path.display(), text.split(" (os error").next().unwrap_or(&text)))
}

pub fn path_of(root: &Path, entry: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(entry))
}

struct Walk<'r> {
    filter: &'r [String],
    prefix: &'r str,
    entries: Vec<Entry>,
    notes: Vec<String>,
}

impl Walk<'_> {
    fn add(&mut self, path: Vec<u8>, meta: &std::fs::Metadata, kind: Kind) {
        let mtime_ns = meta.mtime().wrapping_mul(1_000_000_000).wrapping_add(meta.mtime_nsec());
        // Links have no mode of their own.
        let mode = if matches!(kind, Kind::Link(_)) { 0o777 } else { meta.mode() & 0o7777 };
        self.entries.push(Entry { path, mode, mtime_ns, kind });
    }

    fn folder(&mut self, folder: &Path, path: &[u8], above: &InForce) -> io::Result<()> {
        let seen = joined(self.prefix.as_bytes(), path);
        let mut in_force = None;
        for name in self.filter {
            if let Ok(text) = std::fs::read(folder.join(name)) {
                in_force = Some(in_force.as_ref().unwrap_or(above).with_file(&seen, &text));
            }
        }
        let in_force = in_force.as_ref().unwrap_or(above);
        let listing = match std::fs::read_dir(folder) {
            Ok(listing) => listing,
            // Gone since its parent was listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound && !path.is_empty() => return Ok(()),
            Err(e) => return Err(named(folder, &e)),
        };
        let mut names: Vec<_> =
            listing.map(|e| e.map(|e| e.file_name())).collect::<io::Result<_>>().map_err(|e| named(folder, &e))?;
        names.sort_unstable();
        for name in names {
            let (inner, full) = (joined(path, name.as_bytes()), folder.join(&name));
            let Ok(meta) = std::fs::symlink_metadata(&full) else { continue };
            if in_force.leaves_out(&joined(self.prefix.as_bytes(), &inner), meta.is_dir()) {
                continue;
            }
            if meta.is_dir() {
                self.add(inner.clone(), &meta, Kind::Folder);
                self.folder(&full, &inner, in_force)?;
            } else if meta.is_symlink() {
                if let Ok(target) = std::fs::read_link(&full) {
                    self.add(inner, &meta, Kind::Link(target.as_os_str().as_bytes().to_vec()));
                }
            } else if meta.is_file() {
                self.add(inner, &meta, Kind::File { size: meta.size(), hash: [0; 32] });
            } else {
                self.notes.push(format!("{}: neither file, folder nor link; left out", full.display()));
            }
        }
        Ok(())
    }
}

pub(super) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if folder.is_empty() || name.is_empty() { b"" } else { b"/" };
    [folder, slash, name].concat()
}

/// Fills in the hashes, from the cache or by reading; files that are gone by then are left out.
fn hash_all(root: &Path, entries: &mut Vec<Entry>, cache: &Cache) -> io::Result<()> {
    let files: Vec<usize> = (0..entries.len()).filter(|i| entries[*i].is_file()).collect();
    let (next, found, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(None));
    let work = || {
        let mut buffer = vec![0; BUFFER];
        let mut own = Vec::new();
        while let Some(&i) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let path = path_of(root, &entries[i].path);
            match hash_one(&path, cache, &mut buffer) {
                Ok(some) => own.push((i, some)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => own.push((i, (0, 0, [0; 32], false))),
                Err(e) => *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(named(&path, &e)),
            }
        }
        found.lock().unwrap_or_else(|e| e.into_inner()).extend(own);
    };
    if files.len() < 64 && files.iter().map(|i| entries[*i].size()).sum::<u64>() < 1 << 20 {
        work();
    } else {
        std::thread::scope(|scope| (0..READERS).for_each(|_| drop(scope.spawn(work))));
    }
    if let Some(error) = failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
        return Err(error);
    }
    let mut gone = vec![false; entries.len()];
    for (i, (size, mtime_ns, hash, there)) in found.into_inner().unwrap_or_else(|e| e.into_inner()) {
        gone[i] = !there;
        entries[i].kind = Kind::File { size, hash };
        entries[i].mtime_ns = mtime_ns;
    }
    let mut i = 0;
    entries.retain(|_| {
        i += 1;
        !gone[i - 1]
    });
    Ok(())
}

fn hash_one(path: &Path, cache: &Cache, buffer: &mut [u8]) -> io::Result<(u64, i64, Hash, bool)> {
    let meta = std::fs::metadata(path)?;
    let mtime_ns = meta.mtime().wrapping_mul(1_000_000_000).wrapping_add(meta.mtime_nsec());
    if let Some(hash) = cache.get(&meta) {
        return Ok((meta.size(), mtime_ns, hash, true));
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let (size, hash) = hash_file(path, buffer)?;
    if size == meta.size() {
        cache.put(&meta, hash, i128::try_from(now).unwrap_or(0));
    }
    Ok((size, mtime_ns, hash, true))
}

/// A file's length as it was read, and its hash.
pub fn hash_file(path: &Path, buffer: &mut [u8]) -> io::Result<(u64, Hash)> {
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut size) = (blake3::Hasher::new(), 0);
    loop {
        match file.read(buffer)? {
            0 => return Ok((size, *hash.finalize().as_bytes())),
            n => {
                hash.update(&buffer[..n]);
                size += n as u64;
            }
        }
    }
}
