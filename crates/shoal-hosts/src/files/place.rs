//! Where files go on the machine that receives them: folders and links made, what is there already found, each file written beside its
//! place and renamed into it once it is whole.

use super::manifest::{Entry, Kind, Manifest, Part};
use super::rules::{InForce, Rules};
use super::tree::{hash_file, joined, path_of};
use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use std::collections::HashSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What could not be done, and to which path.
#[derive(Debug)]
pub struct Problem {
    pub path: PathBuf,
    pub error: io::Error,
}

impl Problem {
    pub fn text(&self) -> String {
        let text = self.error.to_string();
        format!("{}: {}", self.path.display(), text.split(" (os error").next().unwrap_or(&text))
    }

    pub fn hint(&self) -> String {
        match self.error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space there, or choose another place".into()
            }
            io::ErrorKind::ReadOnlyFilesystem => "that file system is mounted read-only; choose another place".into(),
            io::ErrorKind::PermissionDenied => {
                "the user who logs in there may not write this; choose a place in its home".into()
            }
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::IsADirectory => {
                "a folder with things in it stands where a file belongs; remove it there".into()
            }
            io::ErrorKind::NotADirectory => "a file stands where a folder belongs; remove it there".into(),
            _ => "look at that path there".into(),
        }
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> Problem + '_ {
    |error| Problem { path: path.into(), error }
}

/// Where each part goes, and what is still missing.
pub struct Place {
    pub manifest: Manifest,
    /// Part and place of every entry, in the order of the manifest.
    at: Vec<(usize, PathBuf)>,
    pub roots: Vec<PathBuf>,
    pub lacking: Vec<bool>,
    /// Bytes of files that are there, but not as they should be.
    pub stale: u64,
}

/// `~` is this user's home, and what is not absolute begins there, as after a login.
fn expand(remote: &str, home: &Path) -> PathBuf {
    match remote.strip_prefix('~') {
        Some("") => home.into(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => home.join(remote),
    }
}

impl Place {
    /// Makes folders and links, and looks which files are there. `tick` is called now and then.
    pub fn prepare(manifest: Manifest, home: &Path, tick: &mut dyn FnMut()) -> Result<Place, Problem> {
        let roots: Vec<PathBuf> = manifest.parts.iter().map(|part| root_of(part, home)).collect();
        let mut place = Place { at: Vec::new(), lacking: Vec::new(), stale: 0, roots, manifest };
        for (number, part) in place.manifest.parts.iter().enumerate() {
            let root = &place.roots[number];
            let folder = if part.single { root.parent().unwrap_or(Path::new("/")) } else { root };
            std::fs::create_dir_all(folder).map_err(at(folder))?;
            for entry in &part.entries {
                let path = if part.single { root.clone() } else { path_of(root, &entry.path) };
                match &entry.kind {
                    Kind::Folder => make_folder(&path, entry.mode)?,
                    Kind::Link(target) => make_link(&path, target)?,
                    Kind::File { .. } => {}
                }
                place.at.push((number, path));
            }
        }
        place.look(tick)?;
        Ok(place)
    }

    /// Finds out anew which files are lacking.
    pub fn look(&mut self, tick: &mut dyn FnMut()) -> Result<(), Problem> {
        let mut buffer = vec![0; 256 << 10];
        self.stale = 0;
        let entries: Vec<&Entry> = self.manifest.entries().map(|(_, entry)| entry).collect();
        let mut lacking = Vec::with_capacity(entries.len());
        for (entry, (_, path)) in entries.iter().zip(&self.at) {
            tick();
            let state = state_of(entry, path, &mut buffer)?;
            self.stale += if state == State::Stale { entry.size() } else { 0 };
            lacking.push(state != State::There);
        }
        self.lacking = lacking;
        Ok(())
    }

    pub fn entry(&self, index: usize) -> Option<(&Entry, &Path)> {
        let (part, path) = self.at.get(index)?;
        let before: usize = self.manifest.parts[..*part].iter().map(|p| p.entries.len()).sum();
        Some((self.manifest.parts[*part].entries.get(index - before)?, path))
    }

    /// Modes and times of folders, innermost first; what is not of the tree goes, if it should. The rules see the tree under the same name
    /// as where it comes from: what they left out there, they protect here.
    pub fn finish(&self, delete: Option<&Rules>, under: Option<&str>) -> Result<u64, Problem> {
        let mut deleted = 0;
        if let Some(rules) = delete {
            let in_force = InForce::new(rules);
            let (filter, under) = (&rules.filter[..], under.unwrap_or_default().as_bytes());
            // Left out as a whole: nothing was sent, so nothing is known of what belongs there.
            let is_out = !under.is_empty() && in_force.leaves_out(under, true);
            let parts = self.manifest.parts.iter().zip(&self.roots);
            for (part, root) in parts.filter(|(part, _)| !part.single && !is_out) {
                let ours: HashSet<&[u8]> = part.entries.iter().map(|entry| &entry.path[..]).collect();
                deleted += Sweep { root, under, ours, filter }.folder(b"", &in_force)?;
            }
        }
        let folders = self.manifest.entries().zip(&self.at).filter(|((_, e), _)| e.kind == Kind::Folder);
        let folders: Vec<_> = folders.map(|((_, entry), (_, path))| (entry, path)).collect();
        for (entry, path) in folders.into_iter().rev() {
            // One that is right already may be somebody else's.
            if !std::fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o7777 == entry.mode) {
                std::fs::set_permissions(path, Permissions::from_mode(entry.mode)).map_err(at(path))?;
            }
            // A folder's time tells nobody anything that matters.
            let _ = File::open(path).and_then(|folder| folder.set_modified(time_of(entry)));
        }
        Ok(deleted)
    }
}

/// A file goes into a folder that is there, or whose name ends with a slash; else the target is its name.
fn root_of(part: &Part, home: &Path) -> PathBuf {
    let path = expand(&part.remote, home);
    let name = part.entries.first().map(|entry| std::ffi::OsStr::from_bytes(&entry.path));
    match name {
        Some(name) if part.single && (part.remote.ends_with('/') || path.is_dir()) => path.join(name),
        _ => path,
    }
}

/// Whatever else has the name makes room; a link to a folder does, too: nothing is written through it.
fn make_folder(path: &Path, mode: u32) -> Result<(), Problem> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => {
            // Writable for us while we are at it.
            if meta.mode() & 0o700 != 0o700 {
                std::fs::set_permissions(path, Permissions::from_mode(mode | 0o700)).map_err(at(path))?;
            }
            return Ok(());
        }
        Ok(_) => std::fs::remove_file(path).map_err(at(path))?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(at(path)(e)),
    }
    std::fs::create_dir(path).map_err(at(path))?;
    std::fs::set_permissions(path, Permissions::from_mode(mode | 0o700)).map_err(at(path))
}

fn make_link(path: &Path, target: &[u8]) -> Result<(), Problem> {
    let target = Path::new(std::ffi::OsStr::from_bytes(target));
    if std::fs::read_link(path).is_ok_and(|there| there == target) {
        return Ok(());
    }
    clear(path)?;
    let aside = path.with_file_name(format!(".shoal-{}.link", std::process::id()));
    let _ = std::fs::remove_file(&aside);
    std::os::unix::fs::symlink(target, &aside).map_err(at(path))?;
    std::fs::rename(&aside, path).map_err(at(path))
}

/// An empty folder makes room for something that is none; a full one does not.
fn clear(path: &Path) -> Result<(), Problem> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir(path).map_err(at(path)),
        _ => Ok(()),
    }
}

#[derive(PartialEq, Eq)]
enum State {
    There,
    Stale,
    Missing,
}

/// Same size and time: the same file, as rsync believes it. Same size alone: the content decides, and the time is set right.
fn state_of(entry: &Entry, path: &Path, buffer: &mut [u8]) -> Result<State, Problem> {
    let Kind::File { size, hash } = entry.kind else { return Ok(State::There) };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => meta,
        Ok(meta) if meta.is_dir() => {
            clear(path)?;
            return Ok(State::Missing);
        }
        _ => return Ok(State::Missing),
    };
    if meta.size() != size {
        return Ok(State::Stale);
    }
    let mtime_ns = meta.mtime().wrapping_mul(1_000_000_000).wrapping_add(meta.mtime_nsec());
    if mtime_ns != entry.mtime_ns {
        match hash_file(path, buffer) {
            Ok((_, there)) if there == hash => {
                let _ = OpenOptions::new().write(true).open(path).and_then(|file| file.set_modified(time_of(entry)));
            }
            _ => return Ok(State::Stale),
        }
    }
    if meta.mode() & 0o7777 != entry.mode {
        std::fs::set_permissions(path, Permissions::from_mode(entry.mode)).map_err(at(path))?;
    }
    Ok(State::There)
}

fn time_of(entry: &Entry) -> SystemTime {
    let ns = Duration::from_nanos(entry.mtime_ns.unsigned_abs());
    let start = SystemTime::UNIX_EPOCH;
    let time = if entry.mtime_ns < 0 { start.checked_sub(ns) } else { start.checked_add(ns) };
    time.unwrap_or(start)
}

/// Removes what is not of the tree, unless the rules leave it out.
struct Sweep<'s> {
    root: &'s Path,
    /// The name under which the rules see the root; empty: none.
    under: &'s [u8],
    ours: HashSet<&'s [u8]>,
    /// Names of files with rules.
    filter: &'s [String],
}

impl Sweep<'_> {
    /// Below `folder`; gives how many files and folders went, which is how rsync counts.
    fn folder(&self, folder: &[u8], above: &InForce) -> Result<u64, Problem> {
        let here = path_of(self.root, folder);
        let mut rules = above.clone();
        for name in self.filter {
            if let Ok(text) = std::fs::read(here.join(name)) {
                rules = rules.with_file(&joined(self.under, folder), &text);
            }
        }
        let mut gone = 0;
        for item in std::fs::read_dir(&here).map_err(at(&here))?.flatten() {
            let path = joined(folder, item.file_name().as_bytes());
            let is_folder = item.file_type().is_ok_and(|t| t.is_dir());
            if rules.leaves_out(&joined(self.under, &path), is_folder) {
                continue;
            }
            let full = item.path();
            if is_folder {
                gone += self.folder(&path, &rules)?;
                // One that is not empty holds what the rules leave out.
                gone += u64::from(!self.ours.contains(&path[..]) && std::fs::remove_dir(&full).is_ok());
            } else if !self.ours.contains(&path[..]) {
                std::fs::remove_file(&full).map_err(at(&full))?;
                gone += 1;
            }
        }
        Ok(gone)
    }
}

/// So much of nothing but zeros becomes a hole: disks of checkpoints and images are mostly that, and may not fit otherwise.
const NOTHING: &[u8] = &[0; 64 << 10];

/// A file on its way: without a name where the file system can do that, else beside its place; seen only when it is whole.
pub struct Arriving {
    file: File,
    /// `None`: it has no name yet, and goes with us if we are killed.
    aside: Option<PathBuf>,
    hash: blake3::Hasher,
    size: u64,
}

fn aside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".shoal-{}.part", std::process::id()))
}

impl Arriving {
    pub fn begin(path: &Path) -> Result<Arriving, Problem> {
        let new = |file, aside| Arriving { file, aside, hash: blake3::Hasher::new(), size: 0 };
        let flags = |flags: OFlags| flags.bits().cast_signed();
        let folder = path.parent().unwrap_or(Path::new("/"));
        let nameless = OpenOptions::new().write(true).mode(0o600).custom_flags(flags(OFlags::TMPFILE)).open(folder);
        if let Ok(file) = nameless {
            return Ok(new(file, None));
        }
        let aside = aside(path);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(flags(OFlags::NOFOLLOW));
        let file = options.open(&aside).map_err(at(path))?;
        Ok(new(file, Some(aside)))
    }

    pub fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Problem> {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        for piece in bytes.chunks(NOTHING.len()) {
            // The file is new: what is not written is a hole, which reads as zeros.
            if *piece == NOTHING[..piece.len()] {
                self.file.seek(SeekFrom::Current(piece.len() as i64)).map_err(at(path))?;
            } else {
                self.file.write_all(piece).map_err(at(path))?;
            }
        }
        Ok(())
    }

    /// Its name, if it is what the list says. False: it is not.
    pub fn end(mut self, path: &Path, entry: &Entry) -> Result<bool, Problem> {
        let Kind::File { size, hash } = entry.kind else { return Ok(false) };
        if self.size != size || *self.hash.finalize().as_bytes() != hash {
            return Ok(false);
        }
        // A hole at the end is only there by the length.
        self.file.set_len(size).map_err(at(path))?;
        self.file.set_permissions(Permissions::from_mode(entry.mode)).map_err(at(path))?;
        self.file.set_modified(time_of(entry)).map_err(at(path))?;
        if self.aside.is_none() {
            let name = |name: &Path| {
                let me = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, me.as_str(), CWD, name, AtFlags::SYMLINK_FOLLOW)
            };
            match name(path) {
                Ok(()) => return Ok(true),
                Err(rustix::io::Errno::EXIST) => {
                    let aside = aside(path);
                    let _ = std::fs::remove_file(&aside);
                    name(&aside).map_err(|e| at(path)(e.into()))?;
                    self.aside = Some(aside);
                }
                Err(e) => return Err(at(path)(e.into())),
            }
        }
        if let Some(aside) = &self.aside {
            std::fs::rename(aside, path).map_err(at(path))?;
        }
        self.aside = None;
        Ok(true)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside {
            let _ = std::fs::remove_file(aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a folder that is swept for a tree with nothing but `kept` in it, and how many went.
    fn swept(exclude: &[&str], under: Option<&str>) -> (Vec<String>, u64) {
        let home = tempfile::tempdir().expect("a folder");
        for folder in ["src/cache/deep", "src/old/empty"] {
            std::fs::create_dir_all(home.path().join(folder)).expect("folders");
        }
        for file in ["src/kept", "src/stale", "src/cache/deep/model", "src/old/x"] {
            std::fs::write(home.path().join(file), file).expect("a file");
        }
        let kind = Kind::File { size: 8, hash: *blake3::hash(b"src/kept").as_bytes() };
        let entries = vec![Entry { path: b"kept".to_vec(), mode: 0o644, mtime_ns: 0, kind }];
        let manifest = Manifest { parts: vec![Part { remote: "src".into(), single: false, entries }] };
        let place = Place::prepare(manifest, home.path(), &mut || {}).expect("prepared");
        let rules = Rules { exclude: exclude.iter().map(|e| (*e).into()).collect(), filter: Vec::new() };
        let gone = place.finish(Some(&rules), under).expect("finished");
        let mut left: Vec<String> = std::fs::read_dir(home.path().join("src"))
            .expect("a folder")
            .flatten()
            .map(|item| item.file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        (left, gone)
    }

    #[test]
    fn what_the_rules_leave_out_stays_under_the_name_by_which_they_know_it() {
        // Files and folders count, as in rsync.
        assert_eq!(swept(&[], None), (vec!["kept".into()], 7));
        assert_eq!(swept(&["/cache"], None), (vec!["cache".into(), "kept".into()], 4));
        // Sent as `src`, not as what is in it.
        for pattern in ["/src/cache", "src/cache", "cache"] {
            assert_eq!(swept(&[pattern], Some("src")), (vec!["cache".into(), "kept".into()], 4), "{pattern}");
        }
        assert_eq!(swept(&["/cache"], Some("src")).1, 7);
        // The folder as a whole: nothing was sent, so nothing goes.
        assert_eq!(swept(&["src"], Some("src")).1, 0);
    }

    #[test]
    fn zeros_become_holes_and_the_file_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let data = [&[1; 5000][..], &[0; 4 << 20], &[2], &[0; 1 << 20]].concat();
        let mut arriving = Arriving::begin(&path).expect("begun");
        for bytes in data.chunks(100_001) {
            arriving.add(&path, bytes).expect("written");
        }
        let kind = Kind::File { size: data.len() as u64, hash: *blake3::hash(&data).as_bytes() };
        let entry = Entry { path: b"disk".to_vec(), mode: 0o640, mtime_ns: 7_000_000_000, kind };
        assert!(arriving.end(&path, &entry).expect("named"));
        assert!(std::fs::read(&path).expect("the file") == data);
        let meta = std::fs::metadata(&path).expect("the file");
        assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
        assert_eq!((meta.mode() & 0o777, meta.mtime()), (0o640, 7));
    }
}
