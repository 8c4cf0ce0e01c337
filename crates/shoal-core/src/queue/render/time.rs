//! What do clock and calendar say at a moment? In UTC, which needs no table of time zones.

use crate::queue::Moment;

struct Utc {
    year: i64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

fn utc(at: Moment) -> Utc {
    let seconds = at / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day at the end; eras of 400 of them are all alike.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = i64::try_from(era * 400 + year_of_era).unwrap_or(i64::MAX - 1) + i64::from(month <= 2);
    Utc { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
}

/// `2026-11-15T08:09:10Z`
pub fn iso(at: Moment) -> String {
    let Utc { year, month, day, hour, minute, second } = utc(at);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `2026-11-15-08:09:10`, as LudwigCluster names folders.
pub fn ludwig(at: Moment) -> String {
    let Utc { year, month, day, hour, minute, second } = utc(at);
    format!("{year:04}-{month:02}-{day:02}-{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_date() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_794_730_150, "2026-11-15T08:09:10Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso(seconds * 1000 + 999), expected);
        }
        assert_eq!(ludwig(1_794_730_150_000), "2026-11-15-08:09:10");
        assert!(iso(Moment::MAX).ends_with('Z'));
    }
}
