//! How often does a test strike, and what does it say when it is through? A few times by default; `SHOAL_ROUNDS=200` for a long look.

use std::io::Write;
use std::time::Duration;

pub fn rounds(or: u64) -> u64 {
    std::env::var("SHOAL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// What a line of figures begins with.
pub const FIGURES: &str = "figures: ";

/// One line for whoever reads a long run of the tests. Figures are printed, never asserted: machines differ.
pub fn figures(kind: &str, rounds: u64, runs: usize, more: &str) {
    // Not `eprintln!`: the test harness swallows what a passing test prints with the macros.
    let _ = writeln!(std::io::stderr(), "{FIGURES}{kind} | rounds {rounds} | runs {runs} | failures 0{more}");
}

/// `; adopted after 12 ms (median), 340 ms (longest) of 56`
pub fn spread(what: &str, mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let (Some(median), Some(longest)) = (times.get(times.len() / 2), times.last()) else { return String::new() };
    format!(" | {what} median {} ms, longest {} ms, of {}", median.as_millis(), longest.as_millis(), times.len())
}

/// Choices that differ from round to round and are the same again.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }
}
