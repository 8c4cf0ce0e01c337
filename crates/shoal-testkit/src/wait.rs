//! Bounded waits.

use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// Calls `probe` until it gives a value, or gives up after `bound`. It is called at least once, and once more at the end.
pub fn until<T>(bound: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + bound;
    loop {
        let last = Instant::now() >= end;
        if let Some(value) = probe() {
            return Some(value);
        }
        if last {
            return None;
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_first_value_and_gives_up_at_the_bound() {
        let mut calls = 0;
        let third = until(Duration::from_secs(10), || {
            calls += 1;
            (calls == 3).then_some(calls)
        });
        assert_eq!(third, Some(3));
        assert_eq!(until(Duration::ZERO, || None::<()>), None);
    }
}
