//! What is in a tree: its entries, the digest over them, and how the list is written for another machine (pure, WIRE-1).

use std::collections::HashSet;

/// Changes with the form (WIRE-1); `tests/manifest.bin` is a kept sample.
pub const VERSION: u8 = 1;
const MAGIC: &[u8; 7] = b"SHOALMF";
/// No path is longer on Linux.
const LONGEST: usize = 4096;

pub type Hash = [u8; 32];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative, without `.` and `..`; bytes, because not all names are UTF-8.
    pub path: Vec<u8>,
    pub mode: u32,
    pub mtime_ns: i64,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Folder,
    Link(Vec<u8>),
    File { size: u64, hash: Hash },
}

/// One tree and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub remote: String,
    /// A file, which may get another name; else what is in a folder.
    pub single: bool,
    /// Folders come before what is in them.
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    pub parts: Vec<Part>,
}

impl Entry {
    pub fn size(&self) -> u64 {
        if let Kind::File { size, .. } = self.kind { size } else { 0 }
    }

    pub fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }

    /// For people.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// Names, modes, link targets and contents; not times.
pub fn digest(entries: &[Entry]) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(MAGIC);
    for entry in entries {
        let mut line = Vec::with_capacity(entry.path.len() + 64);
        put_bytes(&mut line, &entry.path);
        line.extend(entry.mode.to_le_bytes());
        put_kind(&mut line, &entry.kind);
        hash.update(&line);
    }
    hash.finalize().to_hex().to_string()
}

impl Manifest {
    /// All entries, in the order in which both sides count them.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.parts.iter().enumerate().flat_map(|(part, p)| p.entries.iter().map(move |entry| (part, entry)))
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        out.extend((self.parts.len() as u32).to_le_bytes());
        for part in &self.parts {
            put_bytes(&mut out, part.remote.as_bytes());
            out.push(u8::from(part.single));
            out.extend((part.entries.len() as u32).to_le_bytes());
            for entry in &part.entries {
                put_bytes(&mut out, &entry.path);
                out.extend(entry.mode.to_le_bytes());
                out.extend(entry.mtime_ns.to_le_bytes());
                put_kind(&mut out, &entry.kind);
            }
        }
        out
    }

    /// Reads and checks it: what it says can be done below the targets, and nowhere else.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        let mut rest = bytes.strip_prefix(&MAGIC[..]).ok_or("it is no list of files")?;
        let rest = &mut rest;
        match take::<1>(rest)?[0] {
            VERSION => {}
            other => return Err(format!("the list of files has version {other}, this side reads {VERSION}")),
        }
        let mut manifest = Manifest::default();
        for _ in 0..u32::from_le_bytes(take(rest)?) {
            let remote = String::from_utf8(take_bytes(rest)?).map_err(|_| "a target is not UTF-8")?;
            let single = take::<1>(rest)?[0] == 1;
            let mut part = Part { remote, single, entries: Vec::new() };
            for _ in 0..u32::from_le_bytes(take(rest)?) {
                let path = take_bytes(rest)?;
                let mode = u32::from_le_bytes(take(rest)?) & 0o7777;
                let mtime_ns = i64::from_le_bytes(take(rest)?);
                let kind = match take::<1>(rest)?[0] {
                    0 => Kind::Folder,
                    1 => Kind::Link(take_bytes(rest)?),
                    2 => Kind::File { size: u64::from_le_bytes(take(rest)?), hash: take(rest)? },
                    other => return Err(format!("an entry of unknown kind {other}")),
                };
                part.entries.push(Entry { path, mode, mtime_ns, kind });
            }
            part.check()?;
            manifest.parts.push(part);
        }
        if rest.is_empty() { Ok(manifest) } else { Err("the list of files is longer than it says".into()) }
    }
}

impl Part {
    /// Every entry lies in a folder of the same list, so nothing can be reached through a link or by `..`.
    fn check(&self) -> Result<(), String> {
        let mut folders: HashSet<&[u8]> = HashSet::from([&b""[..]]);
        let mut seen: HashSet<&[u8]> = HashSet::new();
        for entry in &self.entries {
            let path = &entry.path[..];
            let bad = |name: &[u8]| name.is_empty() || name == b"." || name == b".." || name.contains(&0);
            if path.len() > LONGEST || path.split(|b| *b == b'/').any(bad) {
                return Err(format!("`{}` is no name of a file in the tree", entry.name()));
            }
            let parent = path.iter().rposition(|b| *b == b'/').map_or(&b""[..], |at| &path[..at]);
            if !folders.contains(parent) || !seen.insert(path) {
                return Err(format!("`{}` is in no folder of the tree, or there twice", entry.name()));
            }
            if entry.kind == Kind::Folder {
                folders.insert(path);
            }
        }
        let one = matches!(&self.entries[..], [entry] if entry.is_file());
        if self.single && !self.entries.is_empty() && !one {
            Err("a single file that is several".into())
        } else {
            Ok(())
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_kind(out: &mut Vec<u8>, kind: &Kind) {
    match kind {
        Kind::Folder => out.push(0),
        Kind::Link(target) => {
            out.push(1);
            put_bytes(out, target);
        }
        Kind::File { size, hash } => {
            out.push(2);
            out.extend(size.to_le_bytes());
            out.extend_from_slice(hash);
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], String> {
    let (bytes, after) = rest.split_first_chunk::<N>().ok_or("the list of files ends too early")?;
    *rest = after;
    Ok(*bytes)
}

fn take_bytes(rest: &mut &[u8]) -> Result<Vec<u8>, String> {
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let (bytes, after) = rest.split_at_checked(length).ok_or("the list of files ends too early")?;
    *rest = after;
    Ok(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], kind: Kind) -> Entry {
        Entry { path: path.to_vec(), mode: 0o644, mtime_ns: 1_700_000_000_000_000_001, kind }
    }

    fn sample() -> Manifest {
        let entries = vec![
            entry(b"a", Kind::Folder),
            entry(b"a/\xff\n", Kind::File { size: 3, hash: [7; 32] }),
            entry(b"l", Kind::Link(b"../x".to_vec())),
        ];
        Manifest { parts: vec![Part { remote: "~/x".into(), single: false, entries }] }
    }

    #[test]
    fn the_kept_sample_reads_and_writes() {
        let kept = include_bytes!("samples/manifest-1.bin");
        assert_eq!(Manifest::decode(kept).expect("the sample"), sample());
        assert_eq!(sample().encode(), kept);
        for end in 0..kept.len() {
            assert!(Manifest::decode(&kept[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        for path in [&b".."[..], b"../x", b"/etc", b"a/../b", b"", b"a//b", b"x/y", b"l/y", b"a/\0"] {
            let mut manifest = sample();
            manifest.parts[0].entries.push(entry(path, Kind::Folder));
            assert!(Manifest::decode(&manifest.encode()).is_err(), "{}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn the_digest_knows_names_modes_targets_and_contents_but_not_times() {
        let base = sample().parts.remove(0).entries;
        let change = |f: &dyn Fn(&mut Vec<Entry>)| {
            let mut other = base.clone();
            f(&mut other);
            digest(&other) != digest(&base)
        };
        assert!(change(&|e| e[1].path = b"a/b".to_vec()));
        assert!(change(&|e| e[0].mode = 0o700));
        assert!(change(&|e| e[2].kind = Kind::Link(b"y".to_vec())));
        assert!(change(&|e| e[1].kind = Kind::File { size: 3, hash: [8; 32] }));
        assert!(!change(&|e| e[1].mtime_ns = 0));
    }
}
