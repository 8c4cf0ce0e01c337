//! When is a line tried again? Soon after one that worked, later and later after those that did not.

use std::time::Duration;

pub const SOONEST: Duration = Duration::from_millis(200);
pub const LATEST: Duration = Duration::from_secs(30);
/// A line that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(2);
/// After one that did not: what runs there is to be found again within two seconds, even if its agent is killed time and again.
const SHORT: Duration = Duration::from_secs(1);

/// One that says hello and is gone again is not tried as often as it could be, nor as rarely as one that does not answer.
pub fn after(wait: Duration, was_up: bool, lived: Duration) -> Duration {
    match was_up {
        true if lived >= GOOD => SOONEST,
        true => (wait * 2).min(SHORT),
        false => (wait * 2).min(LATEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soon_after_a_good_line_and_later_after_others() {
        let long = Duration::from_secs(60);
        assert_eq!(after(LATEST, true, long), SOONEST);
        let mut wait = SOONEST;
        for _ in 0..20 {
            wait = after(wait, true, Duration::ZERO);
        }
        assert_eq!(wait, SHORT);
        for _ in 0..20 {
            wait = after(wait, false, long);
        }
        assert_eq!(wait, LATEST);
    }
}
