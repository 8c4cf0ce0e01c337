//! Which scalars are in a TensorBoard event file?
//!
//! A file is records: `u64` length, masked CRC-32C of it, that many bytes, masked CRC-32C of these; all little endian. Each is a
//! protobuf `Event`, whose field 5 is a `Summary` of values, each with a tag (1), and a number as `simple_value` (2) or as a tensor (8) of
//! one float. Only these few fields are read here; everything else is stepped over.

use super::numbers::{Numbers, ReadAt, read};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// One record, at most: images and graphs are longer, and no scalars.
const LONGEST: u64 = 1 << 20;
/// Of one file, at most at a time.
const MOST: u64 = 64 << 20;
const PIECE: u64 = 4 << 20;
const DEEPEST: usize = 6;
const MOST_FILES: usize = 64;
const MOST_FOLDERS: usize = 2000;

/// CRC-32C (Castagnoli), bit by bit reflected, one byte at a time.
const TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut k = 0;
    while k < 256 {
        let (mut crc, mut bit) = (k as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[k] = crc;
        k += 1;
    }
    table
};

/// As TensorFlow stores it: a checksum of data that holds checksums would be weak.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    let crc = !bytes.iter().fold(!0u32, |crc, b| TABLE[((crc ^ u32::from(*b)) & 0xff) as usize] ^ (crc >> 8));
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// How far a file was read.
#[derive(Debug, Default)]
pub struct Reader {
    at: u64,
    broken: bool,
}

impl Reader {
    /// Takes the whole records that came since. One whose checksum is wrong ends it: what is behind cannot be found.
    pub fn take(&mut self, from: &impl ReadAt, len: u64, numbers: &mut Numbers) -> std::io::Result<()> {
        let end = len.min(self.at + MOST);
        while !self.broken && self.at < end {
            let bytes = read(from, self.at, (end - self.at).min(PIECE))?;
            let (took, broken) = records(&bytes, numbers);
            self.broken = broken;
            if took == 0 {
                return Ok(());
            }
            self.at += took;
        }
        Ok(())
    }
}

/// How many bytes of whole records there were (long ones reach beyond what is there), and whether something is wrong with the next.
fn records(bytes: &[u8], numbers: &mut Numbers) -> (u64, bool) {
    let mut at = 0usize;
    loop {
        let Some(head) = bytes.get(at..at + 12) else { return (at as u64, false) };
        let (length, crc) = head.split_at(8);
        let mut eight = [0u8; 8];
        eight.copy_from_slice(length);
        let len = u64::from_le_bytes(eight);
        if crc != masked_crc(length).to_le_bytes() {
            return (at as u64, true);
        }
        if len > LONGEST {
            return (at as u64 + 16 + len.min(u64::MAX / 2), false);
        }
        let (start, end) = (at + 12, at + 12 + len as usize);
        let (Some(data), Some(crc)) = (bytes.get(start..end), bytes.get(end..end + 4)) else {
            return (at as u64, false);
        };
        if crc != masked_crc(data).to_le_bytes() {
            return (at as u64, true);
        }
        event(data, numbers);
        at = end + 4;
    }
}

enum Field<'a> {
    Number(u64),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message, as far as they make sense.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in 0..10 {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift * 7)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<(u64, Field<'a>)> {
        let key = self.number()?;
        let field = match key & 7 {
            0 => Field::Number(self.number()?),
            1 => Field::Fixed64(u64::from_le_bytes(*self.bytes(8)?.first_chunk()?)),
            2 => {
                let len = usize::try_from(self.number()?).ok()?;
                Field::Bytes(self.bytes(len)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(*self.bytes(4)?.first_chunk()?)),
            _ => return None,
        };
        Some((key >> 3, field))
    }
}

fn event(data: &[u8], numbers: &mut Numbers) {
    let mut step = None;
    let mut found = false;
    for (number, field) in Fields(data) {
        match (number, field) {
            (2, Field::Number(value)) => step = Some(value),
            (5, Field::Bytes(summary)) => {
                for (number, field) in Fields(summary) {
                    if let (1, Field::Bytes(value)) = (number, field) {
                        found |= scalar(value, numbers);
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(step) = step.filter(|_| found) {
        numbers.set("step", step.to_string());
    }
}

fn scalar(value: &[u8], numbers: &mut Numbers) -> bool {
    let (mut tag, mut found) = (None, None);
    for (number, field) in Fields(value) {
        match (number, field) {
            (1, Field::Bytes(name)) => tag = std::str::from_utf8(name).ok(),
            (2, Field::Fixed32(bits)) => found = Some(f64::from(f32::from_bits(bits))),
            (8, Field::Bytes(tensor)) => found = found.or(of_tensor(tensor)),
            _ => {}
        }
    }
    let (Some(tag), Some(value)) = (tag, found) else { return false };
    numbers.set(tag, text(value));
    true
}

/// A tensor of one number: `dtype` (1) float or double, in `tensor_content` (4), `float_val` (5) or `double_val` (6).
fn of_tensor(tensor: &[u8]) -> Option<f64> {
    let (mut dtype, mut value, mut elements) = (0, None, 1u64);
    for (number, field) in Fields(tensor) {
        match (number, field) {
            (1, Field::Number(kind)) => dtype = kind,
            (2, Field::Bytes(shape)) => elements = shape_of(shape),
            (4, Field::Bytes(bytes)) if bytes.len() == 4 => {
                value = bytes.first_chunk().map(|b| f64::from(f32::from_le_bytes(*b)))
            }
            (4, Field::Bytes(bytes)) if bytes.len() == 8 => value = bytes.first_chunk().map(|b| f64::from_le_bytes(*b)),
            (5, Field::Fixed32(bits)) => value = Some(f64::from(f32::from_bits(bits))),
            (5, Field::Bytes(bytes)) if bytes.len() == 4 => {
                value = bytes.first_chunk().map(|b| f64::from(f32::from_le_bytes(*b)))
            }
            (6, Field::Fixed64(bits)) => value = Some(f64::from_bits(bits)),
            (6, Field::Bytes(bytes)) if bytes.len() == 8 => value = bytes.first_chunk().map(|b| f64::from_le_bytes(*b)),
            _ => {}
        }
    }
    value.filter(|_| matches!(dtype, 1 | 2) && elements == 1)
}

fn shape_of(shape: &[u8]) -> u64 {
    let sizes = Fields(shape).filter_map(|(number, field)| match (number, field) {
        (2, Field::Bytes(dim)) => {
            Fields(dim).find_map(|(n, f)| if let (1, Field::Number(size)) = (n, f) { Some(size) } else { None })
        }
        _ => None,
    });
    sizes.fold(1, u64::saturating_mul)
}

/// As few digits as tell it from its neighbours: what was a 32-bit number stays short.
fn text(value: f64) -> String {
    let narrow = value as f32;
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN".into()
        } else if value > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        };
    }
    if f64::from(narrow) == value { format!("{narrow}") } else { format!("{value}") }
}

/// The event files in a folder.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut next, mut seen) = (Vec::new(), vec![(root.to_path_buf(), 0)], 0);
    while let Some((folder, depth)) = next.pop() {
        seen += 1;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            // Links are ours, or lead elsewhere.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEEPEST && seen + next.len() < MOST_FOLDERS {
                next.push((entry.path(), depth + 1));
            } else if kind.is_file() && entry.file_name().to_string_lossy().contains("tfevents") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found.truncate(MOST_FILES);
    found
}

/// All scalars of a folder's event files.
pub fn of_folder(root: &Path) -> Numbers {
    let mut numbers = Numbers::default();
    for path in files(root) {
        if let Ok(file) = File::open(&path)
            && let Ok(meta) = file.metadata()
        {
            let _ = Reader::default().take(&file, meta.len(), &mut numbers);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(data: &[u8]) -> Vec<u8> {
        let len = (data.len() as u64).to_le_bytes();
        [&len[..], &masked_crc(&len).to_le_bytes(), data, &masked_crc(data).to_le_bytes()].concat()
    }

    fn message(field: u8, bytes: &[u8]) -> Vec<u8> {
        [&[field << 3 | 2, bytes.len() as u8][..], bytes].concat()
    }

    /// An event as TensorFlow 1 writes it: wall time, step, and a simple value.
    fn simple(step: u8, tag: &str, value: f32) -> Vec<u8> {
        let value = [message(1, tag.as_bytes()), vec![2 << 3 | 5], value.to_le_bytes().to_vec()].concat();
        [&[1 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 2 << 3, step][..], &message(5, &message(1, &value))].concat()
    }

    /// As TensorFlow 2 and PyTorch's new style write it: a tensor without dimensions.
    fn tensor(tag: &str, value: f32) -> Vec<u8> {
        let tensor = [&[1 << 3, 1][..], &message(2, &[]), &message(4, &value.to_le_bytes())].concat();
        message(5, &message(1, &[message(1, tag.as_bytes()), message(8, &tensor)].concat()))
    }

    #[test]
    fn the_checksum_is_the_known_one() {
        // "123456789" has the CRC-32C 0xe3069283.
        let unmasked = masked_crc(b"123456789").wrapping_sub(0xa282_ead8).rotate_left(15);
        assert_eq!(unmasked, 0xe306_9283);
    }

    #[test]
    fn scalars_are_read_wherever_the_file_is_cut() {
        let first = message(3, b"brain.Event:2");
        let events = [first, simple(1, "loss", 0.5), tensor("acc", 0.75), simple(2, "loss", 0.1)];
        let bytes: Vec<u8> = events.iter().flat_map(|e| record(e)).collect();
        let mut whole = Numbers::default();
        assert_eq!(records(&bytes, &mut whole), (bytes.len() as u64, false));
        assert_eq!(
            whole.pairs(),
            [("loss", "0.1"), ("step", "2"), ("acc", "0.75")].map(|(a, b)| (a.to_string(), b.to_string()))
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/events.out.tfevents.1.host");
        fs::create_dir(folder.path().join("logs")).unwrap();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(of_folder(folder.path()), whole);
        let file = File::open(&path).unwrap();
        for step in 1..40 {
            let (mut reader, mut numbers) = (Reader::default(), Numbers::default());
            let mut len = 0;
            while len < bytes.len() {
                len = (len + step).min(bytes.len());
                reader.take(&file, len as u64, &mut numbers).unwrap();
            }
            assert_eq!(numbers, whole, "{step}");
        }
        let mut broken = bytes.clone();
        let at = record(&events[0]).len() + 20;
        broken[at] ^= 1;
        let mut numbers = Numbers::default();
        assert_eq!(records(&broken, &mut numbers), (record(&events[0]).len() as u64, true));
        assert_eq!(numbers, Numbers::default());
    }

    #[test]
    fn nonsense_is_no_scalar() {
        for bytes in [&[0xff; 40][..], &[0x2a, 0xff, 0xff], &[8, 0x80], &[7]] {
            let mut numbers = Numbers::default();
            event(bytes, &mut numbers);
            assert_eq!(numbers, Numbers::default());
        }
        assert_eq!(
            (text(0.1f32.into()), text(f64::NAN), text(1e20)),
            ("0.1".into(), "NaN".into(), "100000000000000000000".into())
        );
    }
}
