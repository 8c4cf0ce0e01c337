//! How does a file become pieces? Records of one file after the other, in the order of the list; a piece holds whole records.

use super::manifest::{Kind, Manifest};
use super::seal::{Key, PIECE, Sealer};
use super::tree::path_of;
use super::unpack::{END, GIVEN_UP};
use std::io::{self, Read, Write};
use std::path::PathBuf;

const HEAD: usize = 8;
/// Less room than this is not worth a record.
const LEAST: usize = 4096;

/// What is sent: the list, and where its parts are.
pub struct Load {
    pub manifest: Manifest,
    pub roots: Vec<PathBuf>,
}

impl Load {
    pub fn len(&self) -> usize {
        self.manifest.parts.iter().map(|part| part.entries.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn bytes_of(&self, wanted: &[u32]) -> u64 {
        self.pick(wanted).map(|(_, _, size)| size).sum()
    }

    /// Number, path and size of the wanted ones; both lists are in order.
    fn pick<'a>(&'a self, wanted: &'a [u32]) -> impl Iterator<Item = (u32, PathBuf, u64)> + 'a {
        let mut wanted = wanted.iter().copied().peekable();
        self.manifest.entries().enumerate().filter_map(move |(i, (part, entry))| {
            let i = wanted.next_if_eq(&(i as u32))?;
            let Kind::File { size, .. } = entry.kind else { return None };
            Some((i, path_of(&self.roots[part], &entry.path), size))
        })
    }
}

/// Seals and writes the wanted files. A file that is not what the list says is given up, not the stream.
pub fn stream(load: &Load, key: &Key, number: u32, wanted: &[u32], out: &mut dyn Write) -> io::Result<()> {
    let mut sealer = Sealer::new(key, number)?;
    let mut piece: Vec<u8> = Vec::with_capacity(PIECE);
    for (index, path, size) in load.pick(wanted) {
        let mut file = std::fs::File::open(&path).ok();
        let mut left = size;
        loop {
            if PIECE - piece.len() < HEAD + LEAST {
                out.write_all(sealer.seal(&piece, false)?)?;
                piece.clear();
            }
            let start = piece.len();
            let room = (PIECE - start - HEAD).min(usize::try_from(left).unwrap_or(usize::MAX));
            piece.extend(index.to_le_bytes());
            piece.extend([0; 4]);
            piece.resize(start + HEAD + room, 0);
            let got = file.as_mut().map_or(Ok(0), |file| read_some(file, &mut piece[start + HEAD..])).unwrap_or(0);
            piece.truncate(start + HEAD + got);
            left -= got as u64;
            let length = match (got, left) {
                (0, 0) if file.is_some() => END,
                (0, _) => GIVEN_UP,
                (got, _) => got as u32,
            };
            piece[start + 4..start + HEAD].copy_from_slice(&length.to_le_bytes());
            if got == 0 {
                break;
            }
        }
    }
    out.write_all(sealer.seal(&piece, true)?)
}

fn read_some(file: &mut std::fs::File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read(&mut bytes[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
