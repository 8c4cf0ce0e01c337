//! Which numbers did a run print? The last of each, in the order in which their names first came. Pure but for reading.
//!
//! From lines that are JSON objects with numbers in them: of `metrics.jsonl` in its folder, or of its output.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Of a file's end, at most: what a run printed in its first hour is not its last number.
pub const TAIL: u64 = 1 << 20;
const MOST_NAMES: usize = 200;
const LONGEST_NAME: usize = 120;
/// Lines that are longer are no metrics.
const LONGEST_LINE: usize = 64 << 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers(Vec<(String, String)>);

impl Numbers {
    pub fn set(&mut self, name: &str, value: String) {
        if let Some(known) = self.0.iter_mut().find(|(known, _)| known == name) {
            known.1 = value;
        } else if self.0.len() < MOST_NAMES && !name.is_empty() && name.len() <= LONGEST_NAME {
            self.0.push((name.into(), value));
        }
    }

    pub fn take_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") || !line.ends_with(b"}") || line.len() > LONGEST_LINE {
            return;
        }
        let Ok(Pairs(pairs)) = serde_json::from_slice(line) else { return };
        for (name, value) in pairs {
            match value {
                // When a line was printed is no result.
                serde_json::Value::Number(_) if name == "time" => {}
                serde_json::Value::Number(number) => self.set(&name, number.to_string()),
                // What JSON has no number for, as Python writes it into text.
                serde_json::Value::String(text) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => {
                    self.set(&name, text);
                }
                _ => {}
            }
        }
    }

    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }

    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    pub fn merge(&mut self, other: Numbers) {
        other.0.into_iter().for_each(|(name, value)| self.set(&name, value));
    }
}

/// An object in the order in which it is written.
struct Pairs(Vec<(String, serde_json::Value)>);

impl<'de> serde::Deserialize<'de> for Pairs {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Pairs, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        from.deserialize_map(Visitor)
    }
}

/// Something that can be read from any place.
pub trait ReadAt {
    fn read_at(&self, to: &mut [u8], at: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, to: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, to, at)
    }
}

impl ReadAt for crate::queue::keeper::packs::Packed {
    fn read_at(&self, to: &mut [u8], at: u64) -> io::Result<usize> {
        crate::queue::keeper::packs::Packed::read_at(self, to, at)
    }
}

/// Bytes from `at` on, at most `most`.
pub fn read(from: &impl ReadAt, at: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most as usize];
    let mut have = 0;
    while have < bytes.len() {
        match from.read_at(&mut bytes[have..], at + have as u64) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(have);
    Ok(bytes)
}

/// Of the end of something `len` bytes long.
pub fn of_tail(from: &impl ReadAt, len: u64) -> io::Result<Numbers> {
    let start = len.saturating_sub(TAIL);
    let bytes = read(from, start, len - start)?;
    let mut numbers = Numbers::default();
    let mut lines = bytes.split(|b| *b == b'\n');
    if start > 0 {
        // The first is half a line.
        lines.next();
    }
    lines.for_each(|line| numbers.take_line(line));
    Ok(numbers)
}

/// The numbers of a file that grows.
#[derive(Debug, Default)]
pub struct Growing {
    at: u64,
    half: Vec<u8>,
}

impl Growing {
    /// Takes what came since; only whole lines. What is beyond `most` is skipped: the newest counts.
    pub fn take(&mut self, from: &impl ReadAt, len: u64, most: u64, numbers: &mut Numbers) -> io::Result<()> {
        if len < self.at {
            *self = Growing::default();
        }
        if len - self.at > most {
            self.at = len - most;
            self.half.clear();
        }
        let new = read(from, self.at, len - self.at)?;
        self.at += new.len() as u64;
        self.half.extend_from_slice(&new);
        let whole = self.half.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        self.half[..whole].split(|b| *b == b'\n').for_each(|line| numbers.take_line(line));
        self.half.drain(..whole);
        if self.half.len() > LONGEST_LINE {
            self.half.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_number_of_each_name() {
        let mut numbers = Numbers::default();
        for line in [
            r#"{"step": 1, "time": 5.5, "loss": 0.5, "name": "x", "deep": {"a": 1}}"#,
            "Epoch 1 {",
            "{not json}",
            "[1,2]",
            r#"  {"step": 2, "acc": 1e-3, "loss": 0.25, "nan": "NaN"}  "#,
        ] {
            numbers.take_line(line.as_bytes());
        }
        let found: Vec<(&str, &str)> = numbers.pairs().iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, [("step", "2"), ("loss", "0.25"), ("acc", "0.001"), ("nan", "NaN")]);
    }

    proptest! {
        /// A file read as it grows gives what it gives at its end.
        #[test]
        fn growing_and_grown_agree(lines in proptest::collection::vec((0u8..5, 0i32..100), 0..40), cuts in proptest::collection::vec(1usize..60, 0..20)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("m");
            let text: String = lines.iter().map(|(name, value)| format!("{{\"m{name}\": {value}}}\n")).collect();
            std::fs::write(&path, &text).unwrap();
            let file = File::open(&path).unwrap();
            let (mut growing, mut numbers, mut at) = (Growing::default(), Numbers::default(), 0);
            for cut in cuts {
                at = (at + cut).min(text.len());
                growing.take(&file, at as u64, 1 << 20, &mut numbers).unwrap();
            }
            growing.take(&file, text.len() as u64, 1 << 20, &mut numbers).unwrap();
            prop_assert_eq!(numbers, of_tail(&file, text.len() as u64).unwrap());
        }
    }
}
