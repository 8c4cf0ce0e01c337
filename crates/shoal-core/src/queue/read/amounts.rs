//! How long is `1h30m`, how much is `0.25`?

/// Seconds: `90`, `90s`, `1h30m`, `2d`, `12:00:00`, `1-00:00:00`.
pub fn seconds(text: &str) -> Option<u64> {
    if text.contains(':') {
        return clock(text);
    }
    if let Some(seconds) = whole(text) {
        return Some(seconds);
    }
    let mut total: u64 = 0;
    let mut rest = text;
    let mut smallest = u64::MAX;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let number = whole(&rest[..end])?;
        rest = rest[end..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            "d" | "day" | "days" => 86_400,
            "w" | "week" | "weeks" => 604_800,
            _ => return None,
        };
        // From large to small, each once: `30m1h` is more likely a slip than meant.
        if unit >= smallest {
            return None;
        }
        smallest = unit;
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = rest[letters..].trim_start();
    }
    (smallest != u64::MAX).then_some(total)
}

/// As Slurm writes it: `[days-]hours:minutes:seconds`.
fn clock(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (whole(days)?, clock),
        None => (0, text),
    };
    let parts: Vec<u64> = clock.split(':').map(whole).collect::<Option<_>>()?;
    match parts[..] {
        [hours, minutes, seconds] if minutes < 60 && seconds < 60 => {
            days.checked_mul(86_400)?.checked_add(hours.checked_mul(3600)?)?.checked_add(minutes * 60 + seconds)
        }
        _ => None,
    }
}

/// Thousandths: `2`, `0.25`. Rounded down: three thirds have to fit into one.
pub fn milli(text: &str) -> Option<u32> {
    let (before, after) = text.split_once('.').unwrap_or((text, ""));
    if before.is_empty() && after.is_empty() || !after.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let units = if before.is_empty() { 0 } else { whole(before)? };
    let parts: String = after.chars().chain("000".chars()).take(3).collect();
    u32::try_from(units.checked_mul(1000)?.checked_add(whole(&parts)?)?).ok()
}

fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, expected) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("2h", Some(7200)),
            ("1h30m", Some(5400)),
            ("1d 2 hours 3min", Some(93_780)),
            ("12:00:00", Some(43_200)),
            ("1-00:00:01", Some(86_401)),
            ("0", Some(0)),
            ("", None),
            ("h", None),
            ("2x", None),
            ("30m1h", None),
            ("1h1h", None),
            ("1.5h", None),
            ("-5s", None),
            ("2:30", None),
            ("1:60:00", None),
            ("99999999999999999999s", None),
            ("1é", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1", Some(1000)),
            ("0.25", Some(250)),
            (".5", Some(500)),
            ("0.33333", Some(333)),
            ("2.", Some(2000)),
            ("0", Some(0)),
            ("", None),
            (".", None),
            ("-1", None),
            ("1e3", None),
            ("x", None),
            ("99999999", None),
        ] {
            assert_eq!(milli(text), expected, "{text}");
        }
    }
}
