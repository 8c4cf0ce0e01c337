//! How are moments and lengths of time written for people?

use shoal_core::outcome::duration;
use shoal_core::queue::Moment;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn now() -> Moment {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// `in 5 min`, from now; nothing for what is past.
pub fn left(until: Option<Moment>, now: Moment) -> String {
    until.filter(|until| *until > now).map_or_else(String::new, |until| coarse(until - now))
}

pub fn since(at: Option<Moment>, now: Moment) -> String {
    at.map_or_else(String::new, |at| coarse(now.saturating_sub(at)))
}

/// In two units at most, and no tenths of long times.
pub fn coarse(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    match seconds {
        0..60 => duration(ms),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The local time of day, with the date unless it is today.
pub fn clock(at: Moment, now: Moment) -> String {
    let zoned = |ms: Moment| {
        let stamp = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap_or(i64::MAX)).unwrap_or_default();
        stamp.to_zoned(jiff::tz::TimeZone::system())
    };
    let (at, now) = (zoned(at), zoned(now));
    let form = if at.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    at.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_two_units_at_most() {
        for (ms, text) in [(65_000, "1 min 5 s"), (59_000, "59 s"), (3_600_000, "1 h 0 min"), (90_000_000, "1 d 1 h")] {
            assert_eq!(coarse(ms), text);
        }
        assert_eq!((left(Some(5_000), 10_000), left(None, 0)), (String::new(), String::new()));
        assert_eq!(left(Some(70_000), 10_000), "1 min 0 s");
    }
}
