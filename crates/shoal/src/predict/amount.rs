//! Quantities as people write them on a command line: rates, times, shapes.

/// Bytes a second. Bits and bytes differ by eight, so the unit must be there.
pub fn bandwidth(text: &str) -> Result<f64, String> {
    let wanted = "expected a rate such as 100mbit, 1gbit, 2.5gbit or 125MB/s";
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let amount = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps")).unwrap_or(unit).trim();
    // `b` is a bit and `B` a byte, as on boxes and in data sheets; `bit` may be written as one likes.
    let lower = amount.to_ascii_lowercase();
    let (prefix, bytes) = match amount.strip_suffix('B').or_else(|| amount.strip_suffix('b')) {
        _ if amount.is_empty() && !number.is_empty() => {
            return Err("the unit is missing; expected 1gbit or 125MB/s, say".into());
        }
        _ if lower.ends_with("bit") => (&lower[..lower.len() - 3], 1.0 / 8.0),
        Some(prefix) => (prefix, if amount.ends_with('B') { 1.0 } else { 1.0 / 8.0 }),
        None => return Err(wanted.into()),
    };
    let scale = match prefix.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1024.0 * 1024.0,
        "gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wanted.into()),
    };
    positive(number, scale * bytes).ok_or_else(|| "expected a rate above 0, such as 1gbit".into())
}

/// Operations a second: `50G`, `1.2T`, `5e10`.
pub fn flops(text: &str) -> Result<f64, String> {
    let wanted = || "expected operations a second, such as 50G, 1.2T or 5e10".to_string();
    let short = text.trim_end_matches("/s").trim_end_matches("FLOP").trim_end_matches("flop").trim();
    let (number, scale) = match short.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&short[..at], 1e3),
        Some((at, 'M' | 'm')) => (&short[..at], 1e6),
        Some((at, 'G' | 'g')) => (&short[..at], 1e9),
        Some((at, 'T' | 't')) => (&short[..at], 1e12),
        Some((at, 'P' | 'p')) => (&short[..at], 1e15),
        _ => (short, 1.0),
    };
    positive(number, scale).ok_or_else(wanted)
}

/// Seconds: `0.2ms`, `30us`, `0.001s`; 0 needs no unit.
pub fn time(text: &str) -> Result<f64, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let scale = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" if number.parse() == Ok(0.0) => return Ok(0.0),
        "" if !text.is_empty() => return Err("the unit is missing; expected 0.2ms or 30us, say".into()),
        _ => return Err("expected a time such as 0.2ms, 30us or 0.001s".into()),
    };
    match number.parse::<f64>() {
        Ok(value) if value * scale <= 60.0 => Ok(value * scale),
        Ok(_) => Err("a round trip of more than a minute is none".into()),
        Err(_) => Err("expected a time such as 0.2ms, 30us or 0.001s".into()),
    }
}

/// `3x224x224`, as it was written.
pub fn shape(text: &str) -> Result<String, String> {
    let number = |part: &str| part.parse::<u32>().is_ok_and(|n| n > 0);
    match text.split('x').all(number) {
        true => Ok(text.into()),
        false => Err("expected whole numbers with x between them, such as 3x224x224".into()),
    }
}

fn positive(number: &str, scale: f64) -> Option<f64> {
    let value = number.parse::<f64>().ok()? * scale;
    (value > 0.0 && value.is_finite()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_in_bits_and_bytes() {
        for (text, bytes) in [
            ("1gbit", 125e6),
            ("1Gbit/s", 125e6),
            ("10gbps", 1.25e9),
            ("2.5gbit", 312.5e6),
            ("100mbit", 12.5e6),
            ("100Mb/s", 12.5e6),
            ("125MB/s", 125e6),
            ("1GB/s", 1e9),
            ("1MiB/s", 1_048_576.0),
            ("800bit", 100.0),
        ] {
            assert_eq!(bandwidth(text), Ok(bytes), "{text}");
        }
        for text in ["", "1", "fast", "0gbit", "-1gbit", "1gbitten", "1.2.3gbit", "nan", "infgbit", "1µ"] {
            assert!(bandwidth(text).is_err(), "{text}");
        }
    }

    #[test]
    fn speeds_and_times() {
        for (text, value) in [("50G", 5e10), ("1.2T", 1.2e12), ("5e10", 5e10), ("50GFLOP/s", 5e10), ("3", 3.0)] {
            assert_eq!(flops(text), Ok(value), "{text}");
        }
        for text in ["", "G", "0", "-5G", "inf", "nan", "50X"] {
            assert!(flops(text).is_err(), "{text}");
        }
        assert!((time("0.2ms").expect("a time") - 2e-4).abs() < 1e-12);
        assert_eq!(time("0"), Ok(0.0));
        for text in ["", "1", "ms", "-1ms", "90s", "1.1.1s", "inf s"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(shape("3x224x224").is_ok() && shape("3,2").is_err() && shape("0x2").is_err() && shape("").is_err());
    }
}
