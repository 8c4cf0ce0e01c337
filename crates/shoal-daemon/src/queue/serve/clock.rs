//! What time is it, for the journal?
//!
//! A moment never goes backwards: not when the wall clock is set back while the daemon runs, and not when it was set back before it was
//! started (the last moment of the journal is a floor). Between looks at the wall clock the monotonic one counts. When the wall clock is
//! ahead it is followed, so moments are right again soon after it is; so the distance of two moments may be more than the time between them.
//! Nothing that ends a run depends on it: time limits (`keeper`) and silence (`Daemon::silence`) are measured with the monotonic clock.

use crate::records::unix_ms;
use shoal_core::queue::Moment;
use std::time::Instant;

#[derive(Debug)]
pub struct Clock {
    at: Instant,
    moment: Moment,
}

impl Clock {
    /// `floor`: the last moment that is known.
    pub fn new(floor: Moment) -> Clock {
        Clock { at: Instant::now(), moment: unix_ms().max(floor) }
    }

    pub fn now(&mut self) -> Moment {
        self.at_time(Instant::now(), unix_ms())
    }

    fn at_time(&mut self, at: Instant, wall: Moment) -> Moment {
        let passed = at.saturating_duration_since(self.at).as_millis() as u64;
        let moment = wall.max(self.moment + passed);
        // Less than a millisecond is kept for the next look, or a clock that is asked often would stand still.
        if moment > self.moment {
            *self = Clock { at, moment };
        }
        moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_never_goes_backwards_and_never_stands_still() {
        let start = Instant::now();
        let mut clock = Clock { at: start, moment: 1_000_000 };
        let mut last = 0;
        // Milliseconds passed, what the wall clock says, what we say.
        let looks = [
            (0, 1_000_000, 1_000_000),
            (10, 1_000_010, 1_000_010),
            (20, 500_000, 1_000_020),
            (30, 500_010, 1_000_030),
            (40, 2_000_000, 2_000_000),
            (50, 1_000_050, 2_000_010),
            (60, 2_000_500, 2_000_500),
        ];
        for (passed, wall, expected) in looks {
            let now = clock.at_time(start + Duration::from_millis(passed), wall);
            assert_eq!(now, expected);
            assert!(now >= last);
            last = now;
        }
        let mut often = Clock { at: start, moment: 1_000 };
        let asked = (1..=40_000).map(|n| often.at_time(start + Duration::from_micros(n * 250), 0)).last();
        assert_eq!(asked, Some(11_000));
    }
}
