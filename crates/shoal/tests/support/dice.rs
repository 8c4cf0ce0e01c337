//! Random choices that can be made again: the seed is printed, and `SHOAL_TEST_SEED` sets it.

use std::time::{SystemTime, UNIX_EPOCH};

pub struct Dice(u64);

impl Dice {
    pub fn new(test: &str) -> Dice {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
        let seed = std::env::var("SHOAL_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(now);
        eprintln!("{test}: SHOAL_TEST_SEED={seed}");
        Dice(seed | 1)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }
}
