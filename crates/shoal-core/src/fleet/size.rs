//! How many bytes is `64GiB`?

/// Units of 1024 (`Gi`: as Kubernetes writes them) and of 1000. A bare `G` is what `nvidia-smi`, Slurm and Docker mean by it: 1024.
const UNITS: [(&str, u64); 16] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
];

pub fn parse(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (text[..end].parse::<u64>().ok()?, text[end..].trim_start());
    match unit {
        "" | "B" => Some(number),
        _ => UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .and_then(|(_, size)| number.checked_mul(*size)),
    }
}

/// The shortest text that `parse` reads as exactly this.
pub fn format(bytes: u64) -> String {
    let exact = UNITS[..4].iter().rev().find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size));
    exact.map_or_else(|| bytes.to_string(), |(name, size)| format!("{}{name}", bytes / size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_known() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("64GiB", Some(64 << 30)),
            ("64 gib", Some(64 << 30)),
            ("2GB", Some(2_000_000_000)),
            ("8G", Some(8 << 30)),
            ("8Gi", Some(8 << 30)),
            ("512", Some(512)),
            ("1.5G", None),
            ("G", None),
            ("-1G", None),
            ("64 GX", None),
            ("99999999999T", None),
        ] {
            assert_eq!(parse(text), bytes, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(n in any::<u64>(), shift in 0u32..50) {
            let bytes = (n >> shift) << shift;
            prop_assert_eq!(parse(&format(bytes)), Some(bytes));
        }
    }
}
