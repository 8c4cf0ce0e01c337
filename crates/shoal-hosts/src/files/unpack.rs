//! How do records become files? Each is written beside its place and gets its name when it is whole and what the list says.

use super::place::{Arriving, Place, Problem};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Instead of a length: the file is complete; the file is not what it was.
pub const END: u32 = u32::MAX;
pub const GIVEN_UP: u32 = u32::MAX - 1;
/// Records to files.
pub struct Unpack<'a> {
    pub current: Option<(usize, Option<Arriving>)>,
    /// Files that were not what the list says.
    pub changed: Vec<String>,
    pub bytes: &'a AtomicU64,
}

impl Unpack<'_> {
    pub fn take(&mut self, place: &mut Place, mut rest: &[u8]) -> Result<(), Problem> {
        let odd = |why: &str| Problem { path: "the stream".into(), error: io::Error::other(why.to_string()) };
        while let Some((head, after)) = rest.split_first_chunk::<8>() {
            let index = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let size = if length == END || length == GIVEN_UP { 0 } else { length as usize };
            let (bytes, after) = after.split_at_checked(size).ok_or_else(|| odd("a record longer than its piece"))?;
            rest = after;
            let wanted = place.lacking.get(index).copied().ok_or_else(|| odd("a file that is not in the list"))?;
            let Some((entry, path)) = place.entry(index) else { return Err(odd("a file that is not in the list")) };
            if self.current.as_ref().is_none_or(|(now, _)| *now != index) {
                let arriving = if wanted && entry.is_file() { Some(Arriving::begin(path)?) } else { None };
                self.current = Some((index, arriving));
            }
            let Some((_, arriving)) = &mut self.current else { continue };
            match (arriving.as_mut(), length) {
                (Some(arriving), size) if size != END && size != GIVEN_UP => {
                    arriving.add(path, bytes)?;
                    self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
                (Some(_), END) => {
                    let whole = arriving.take().map_or(Ok(false), |arriving| arriving.end(path, entry))?;
                    if !whole {
                        self.changed.push(entry.name());
                    }
                    self.current = None;
                    place.lacking[index] = !whole;
                }
                (Some(_), _) => {
                    self.changed.push(entry.name());
                    self.current = None;
                }
                (None, END | GIVEN_UP) => self.current = None,
                (None, _) => {}
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(odd("half a record")) }
    }
}
