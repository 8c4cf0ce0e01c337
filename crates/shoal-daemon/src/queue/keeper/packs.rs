//! Where is the output of runs that are over?
//!
//! In few files: `packs/000001.pack` holds the output of thousands of runs one after the other, each behind a line that says whose it is
//! and how long, so that a pack can be read without any index. Output of more than a MiB becomes a file of its own by renaming it, which
//! costs no copy and no space. The oldest go when all together are beyond a bound.

use super::folder::make;
use super::logs::Log;
use super::words::Place;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The first word of every line before a run's output, with its version (WIRE-1).
const HEAD: &str = "=shoal-log-1";
const SEGMENT: u64 = 64 << 20;
const WHOLE: u64 = 1 << 20;
/// All packs together.
pub const BOUND: u64 = 2 << 30;
/// Looked at again after so much was added.
const PRUNE_EVERY: u64 = 32 << 20;
const LONGEST_HEAD: u64 = 1024;

pub struct Packs {
    folder: PathBuf,
    bound: u64,
    current: Option<(u64, File, u64)>,
    next: u64,
    added: u64,
    /// Written to and not synced.
    dirty: bool,
    buffer: Vec<u8>,
}

fn segment(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}.pack"))
}

fn whole(folder: &Path, number: u64, name: &str) -> PathBuf {
    folder.join(format!("{number:06}-{name}.log"))
}

/// Number, whose it is if it is of one run alone, path, size.
type Listed = (u64, Option<String>, PathBuf, u64);

/// In the order of their numbers.
fn list(folder: &Path) -> io::Result<Vec<Listed>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let Some((number, of)) = name.to_str().and_then(numbered) else { continue };
        let Ok(meta) = entry.metadata() else { continue };
        all.push((number, of.map(String::from), entry.path(), meta.size()));
    }
    all.sort();
    Ok(all)
}

fn numbered(name: &str) -> Option<(u64, Option<&str>)> {
    if let Some(number) = name.strip_suffix(".pack") {
        return Some((number.parse().ok()?, None));
    }
    let (number, of) = name.strip_suffix(".log")?.split_once('-')?;
    Some((number.parse().ok()?, Some(of)))
}

/// Whose output starts here, and how long it is. Pure.
fn head(line: &str) -> Option<(&str, u64)> {
    let mut words = line.strip_suffix('\n')?.split(' ');
    let (first, name, len) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    (first == HEAD && words.next().is_none()).then_some((name, len))
}

/// Goes through a pack; where its last whole entry ends.
fn walk(path: &Path, mut each: impl FnMut(&str, u64, u64) -> bool) -> io::Result<u64> {
    let file = File::open(path)?;
    let size = file.metadata()?.size();
    let mut from = BufReader::with_capacity(64 << 10, file);
    let (mut at, mut line) = (0, String::new());
    loop {
        line.clear();
        let read = (&mut from).take(LONGEST_HEAD).read_line(&mut line);
        let Some((name, len)) = read.ok().and_then(|_| head(&line)) else { return Ok(at) };
        let start = at + line.len() as u64;
        // One newline behind it keeps a pack readable for people.
        let end = start.saturating_add(len).saturating_add(1);
        if end > size || !each(name, start, len) {
            return Ok(at);
        }
        from.seek_relative((len + 1) as i64)?;
        at = end;
    }
}

impl Packs {
    pub fn open(folder: PathBuf, bound: u64) -> io::Result<Packs> {
        let all = list(&folder)?;
        let next = all.last().map_or(1, |last| last.0 + 1);
        let mut packs = Packs { folder, bound, current: None, next, added: 0, dirty: false, buffer: Vec::new() };
        if let Some((number, _, path, size)) = all.iter().rev().find(|one| one.1.is_none()) {
            // A crash may have left half an entry at its end; what is whole stays.
            let end = walk(path, |_, _, _| true)?;
            if end < SEGMENT {
                let file = OpenOptions::new().write(true).open(path)?;
                if end < *size {
                    file.set_len(end)?;
                }
                packs.current = Some((*number, file, end));
            }
        }
        Ok(packs)
    }

    /// Takes over the whole output of a run. The file is the caller's again, unless `Taken::renamed`.
    pub fn add(&mut self, name: &str, log: &Log, path: &Path, len: u64) -> io::Result<Taken> {
        if len < WHOLE {
            match self.append(name, log, len) {
                Ok(place) => return Ok(Taken { place, renamed: false }),
                // A full disk has room for another name.
                Err(e) if e.kind() != io::ErrorKind::StorageFull => return Err(e),
                Err(_) => {}
            }
        }
        let number = self.take_number();
        let to = whole(&self.folder, number, name);
        if let Err(e) = fs::rename(path, &to) {
            if e.kind() != io::ErrorKind::NotFound {
                return Err(e);
            }
            // Somebody has removed a folder. The file is still open, wherever its name was.
            make(&self.folder)?;
            if fs::rename(path, &to).is_err() {
                copy(&log.file, &to)?;
            }
        }
        self.added += len;
        Ok(Taken { place: Place { pack: number, at: 0, len }, renamed: true })
    }

    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn append(&mut self, name: &str, log: &Log, len: u64) -> io::Result<Place> {
        // One without a name was removed with its folder: nobody would find what is added.
        let gone = |file: &File| file.metadata().is_ok_and(|meta| meta.nlink() == 0);
        if self.current.as_ref().is_none_or(|(_, file, end)| *end >= SEGMENT || gone(file)) {
            let number = self.take_number();
            let open = || new(&segment(&self.folder, number));
            let file = match open() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => make(&self.folder).and_then(|()| open())?,
                done => done?,
            };
            self.current = Some((number, file, 0));
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(format!("{HEAD} {name} {len}\n").as_bytes());
        let start = self.buffer.len();
        self.buffer.resize(start + len as usize, 0);
        log.file.read_exact_at(&mut self.buffer[start..], 0)?;
        self.buffer.push(b'\n');
        let Some((number, file, end)) = &mut self.current else { return Err(io::ErrorKind::NotFound.into()) };
        // What a write that failed left behind is written over by the next.
        file.write_all_at(&self.buffer, *end)?;
        let place = Place { pack: *number, at: *end + start as u64, len };
        *end += self.buffer.len() as u64;
        self.added += self.buffer.len() as u64;
        self.dirty = true;
        Ok(place)
    }

    /// For whoever syncs, if there is something to.
    pub fn take_dirty(&mut self) -> Option<File> {
        std::mem::take(&mut self.dirty).then(|| self.current.as_ref()?.1.try_clone().ok()).flatten()
    }

    /// Removes the oldest beyond the bound, now and then; how many, and their bytes.
    pub fn prune(&mut self) -> io::Result<(usize, u64)> {
        if self.added < PRUNE_EVERY.min(self.bound / 8) {
            return Ok((0, 0));
        }
        self.added = 0;
        let all = list(&self.folder)?;
        let mut total: u64 = all.iter().map(|one| one.3).sum();
        let (mut files, mut bytes) = (0, 0);
        for (number, _, path, size) in all {
            if total <= self.bound {
                break;
            }
            if self.current.as_ref().is_some_and(|c| c.0 == number) {
                continue;
            }
            fs::remove_file(path)?;
            total -= size;
            files += 1;
            bytes += size;
        }
        Ok((files, bytes))
    }
}

fn new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// All of a log that has no name any more.
fn copy(log: &File, to: &Path) -> io::Result<()> {
    let mut to = new(to)?;
    let (mut at, mut buffer) = (0, vec![0; 256 << 10]);
    loop {
        let read = log.read_at(&mut buffer, at)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
        at += read as u64;
    }
}

pub struct Taken {
    pub place: Place,
    pub renamed: bool,
}

/// The output of a run that is over.
pub struct Packed {
    file: File,
    at: u64,
    pub len: u64,
}

impl Packed {
    pub fn read_at(&self, to: &mut [u8], at: u64) -> io::Result<usize> {
        let room = self.len.saturating_sub(at).min(to.len() as u64) as usize;
        self.file.read_at(&mut to[..room], self.at + at)
    }
}

/// Where it was said to be.
pub fn open(folder: &Path, name: &str, place: Place) -> io::Result<Packed> {
    let file = File::open(whole(folder, place.pack, name)).or_else(|_| File::open(segment(folder, place.pack)))?;
    Ok(Packed { file, at: place.at, len: place.len })
}

/// Looks through all packs, the newest first.
pub fn find(folder: &Path, name: &str) -> io::Result<Option<Packed>> {
    for (_, of, path, size) in list(folder)?.into_iter().rev() {
        match of {
            Some(of) if of == name => return Ok(Some(Packed { file: File::open(path)?, at: 0, len: size })),
            Some(_) => {}
            None => {
                let mut found = None;
                walk(&path, |of, at, len| {
                    if of == name {
                        found = Some((at, len));
                    }
                    found.is_none()
                })?;
                if let Some((at, len)) = found {
                    return Ok(Some(Packed { file: File::open(path)?, at, len }));
                }
            }
        }
    }
    Ok(None)
}

/// For tests and people: everything a folder of packs holds.
pub fn read_all(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for (_, of, path, _) in list(folder)? {
        if let Some(of) = of {
            all.push((of, fs::read(path)?));
            continue;
        }
        let mut places = Vec::new();
        walk(&path, |name, at, len| {
            places.push((name.to_string(), at, len));
            true
        })?;
        let mut file = File::open(&path)?;
        for (name, at, len) in places {
            let mut bytes = vec![0; len as usize];
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut bytes)?;
            all.push((name, bytes));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::logs::Logs;
    use super::*;

    fn add(packs: &mut Packs, logs: &mut Logs, name: &str, bytes: &[u8]) -> Place {
        let mut log = logs.take().unwrap();
        log.file.write_all(bytes).unwrap();
        let taken = packs.add(name, &log, &logs.path(&log), log.bytes()).unwrap();
        if !taken.renamed {
            logs.reuse(log);
        }
        taken.place
    }

    fn text(packed: &Packed) -> Vec<u8> {
        let mut bytes = vec![0; packed.len as usize + 10];
        let n = packed.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(n);
        bytes
    }

    #[test]
    fn output_comes_back_whole_also_after_a_crash_in_the_middle_of_an_entry() {
        let folder = tempfile::tempdir().unwrap();
        let mut logs = Logs::new(folder.path().into(), 1);
        let packs_in = folder.path().join("packs");
        fs::create_dir(&packs_in).unwrap();
        let mut packs = Packs::open(packs_in.clone(), BOUND).unwrap();
        // Output that looks like a head is still output.
        let awkward = format!("{HEAD} b 3\nabc");
        let big = vec![b'x'; WHOLE as usize + 5];
        let written = [("a", awkward.as_bytes()), ("b", b"no newline"), ("big", &big[..]), ("c", b"\n\n")];
        let places: Vec<Place> = written.iter().map(|(name, bytes)| add(&mut packs, &mut logs, name, bytes)).collect();
        drop(packs);
        // Half an entry, as a crash leaves it.
        let last = segment(&packs_in, places[3].pack);
        OpenOptions::new()
            .append(true)
            .open(&last)
            .unwrap()
            .write_all(format!("{HEAD} torn 100\nabc").as_bytes())
            .unwrap();
        let mut packs = Packs::open(packs_in.clone(), BOUND).unwrap();
        let after = add(&mut packs, &mut logs, "d", b"after");
        for ((name, bytes), place) in written.iter().zip(&places).chain([(&("d", &b"after"[..]), &after)]) {
            assert_eq!(text(&open(&packs_in, name, *place).unwrap()), *bytes, "{name}");
            assert_eq!(text(&find(&packs_in, name).unwrap().unwrap()), *bytes, "{name}");
        }
        assert!(find(&packs_in, "torn").unwrap().is_none());
        let names: Vec<String> = read_all(&packs_in).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "c", "d", "big"]);
    }

    #[test]
    fn the_oldest_go_beyond_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let mut logs = Logs::new(folder.path().into(), 1);
        let packs_in = folder.path().join("packs");
        fs::create_dir(&packs_in).unwrap();
        let mut packs = Packs::open(packs_in.clone(), 5 * WHOLE).unwrap();
        for k in 0..10 {
            add(&mut packs, &mut logs, &format!("r{k}"), &vec![b'x'; WHOLE as usize]);
        }
        let (files, bytes) = packs.prune().unwrap();
        assert_eq!((files, bytes), (5, 5 * WHOLE));
        assert!(find(&packs_in, "r4").unwrap().is_none());
        assert!(find(&packs_in, "r5").unwrap().is_some());
    }

    #[test]
    fn folders_that_were_removed_are_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (live, packs_in) = (folder.path().join("live"), folder.path().join("packs"));
        for path in [&live, &packs_in] {
            fs::create_dir(path).unwrap();
        }
        let mut logs = Logs::new(live.clone(), 1);
        let mut packs = Packs::open(packs_in.clone(), BOUND).unwrap();
        add(&mut packs, &mut logs, "a", b"one");
        let big = vec![b'x'; WHOLE as usize + 300_000];
        for name in ["b", "c"] {
            let mut log = logs.take().unwrap();
            log.file.write_all(&big).unwrap();
            fs::remove_dir_all(&packs_in).unwrap();
            if name == "c" {
                fs::remove_dir_all(&live).unwrap();
            }
            let taken = packs.add(name, &log, &logs.path(&log), log.bytes()).unwrap();
            assert_eq!(text(&open(&packs_in, name, taken.place).unwrap()), big, "{name}");
        }
        add(&mut packs, &mut logs, "d", b"two");
        assert_eq!(text(&find(&packs_in, "d").unwrap().unwrap()), b"two");
        fs::remove_dir_all(&live).unwrap();
        let log = logs.take().unwrap();
        assert!(logs.path(&log).exists(), "not one that nobody finds");
    }

    #[test]
    fn heads() {
        assert_eq!(head("=shoal-log-1 a_1.2_3 77\n"), Some(("a_1.2_3", 77)));
        for bad in ["", "\n", "=shoal-log-1 a\n", "=shoal-log-1 a 7", "=shoal-log-2 a 7\n", "=shoal-log-1 a 7 8\n"] {
            assert_eq!(head(bad), None, "{bad:?}");
        }
    }
}
