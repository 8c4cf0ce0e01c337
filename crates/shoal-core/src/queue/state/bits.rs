//! Which of a million is the next? A set of numbers in which the first member from any place on is found in a few steps.

/// Bits in words; each level above says which words of the one below are not zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::queue) struct Bits {
    levels: Vec<Vec<u64>>,
    length: u32,
}

impl Bits {
    /// Makes place for numbers below `length`; those that are new are members if `filled`.
    pub fn grow(&mut self, length: u32, filled: bool) {
        let old = self.length;
        if length <= old {
            return;
        }
        self.length = length;
        let mut words = (length as usize).div_ceil(64);
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].resize(words, 0);
            if words <= 1 {
                break;
            }
            words = words.div_ceil(64);
        }
        // A level that was the top has a summary now.
        for level in 1..self.levels.len() {
            for at in 0..self.levels[level - 1].len() {
                if self.levels[level - 1][at] != 0 {
                    self.levels[level][at / 64] |= 1 << (at % 64);
                }
            }
        }
        if filled {
            (old..length).for_each(|number| self.insert(number));
        }
    }

    pub fn insert(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(at / 64) else { return };
            *word |= 1 << (at % 64);
            at /= 64;
        }
    }

    pub fn remove(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(at / 64) else { return };
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The least member that is not below this number.
    pub fn from(&self, number: u32) -> Option<u32> {
        let mut at = number as usize;
        let mut level = 0;
        // Up until a word has a member at or behind the place, then down along the first ones.
        loop {
            let words = self.levels.get(level)?;
            let word = words.get(at / 64).copied().unwrap_or(0) & (u64::MAX << (at % 64));
            if word != 0 {
                at = at / 64 * 64 + word.trailing_zeros() as usize;
                break;
            }
            at = at / 64 + 1;
            level += 1;
        }
        while level > 0 {
            level -= 1;
            let word = *self.levels[level].get(at)?;
            at = at * 64 + word.trailing_zeros() as usize;
        }
        u32::try_from(at).ok()
    }

    /// How many members are below this number.
    pub fn count_below(&self, number: u32) -> u32 {
        let Some(words) = self.levels.first() else { return 0 };
        let (whole, rest) = (number as usize / 64, number % 64);
        let full: u32 = words.iter().take(whole).map(|word| word.count_ones()).sum();
        full + words.get(whole).map_or(0, |word| (word & ((1 << rest) - 1)).count_ones())
    }

    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * 8).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_set_that_grows_keeps_its_members() {
        let mut bits = Bits::default();
        bits.grow(3, true);
        bits.remove(1);
        bits.grow(300_000, false);
        assert_eq!((bits.from(0), bits.from(1), bits.from(3)), (Some(0), Some(2), None));
        bits.insert(299_999);
        assert_eq!(bits.from(3), Some(299_999));
        bits.grow(300_001, true);
        assert_eq!(bits.from(300_000), Some(300_000));
        assert_eq!(bits.from(u32::MAX), None);
    }

    proptest! {
        #[test]
        fn it_is_a_set(
            size in 1u32..20_000, filled in proptest::bool::ANY,
            steps in proptest::collection::vec((0u32..20_000, proptest::bool::ANY), 0..200)
        ) {
            let mut bits = Bits::default();
            bits.grow(size, filled);
            let mut model: BTreeSet<u32> = if filled { (0..size).collect() } else { BTreeSet::new() };
            for (number, add) in steps {
                let number = number % size;
                if add {
                    bits.insert(number);
                    model.insert(number);
                } else {
                    bits.remove(number);
                    model.remove(&number);
                }
                prop_assert_eq!(bits.from(0), model.first().copied());
                prop_assert_eq!(bits.from(number), model.range(number..).next().copied());
                prop_assert_eq!(bits.count_below(number) as usize, model.range(..number).count());
            }
        }
    }
}
