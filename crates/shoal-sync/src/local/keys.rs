//! Which slot is a key's: the ranks agree by claiming, not by counting, so that each may meet its keys in its own order.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::group::LocalGroup;
use super::layout::SLOTS;

impl LocalGroup {
    /// The slot of `key`, claimed by whoever asks first; `None` once all slots belong to other keys.
    ///
    /// The claims never go away, so a rank that finds the key's place taken looks at the next one, and every
    /// rank walks the same way.
    pub fn slot_of(&self, key: u64) -> Option<u32> {
        let key = key.max(1);
        (0..SLOTS).map(|i| (key as usize).wrapping_add(i) % SLOTS).find_map(|slot| {
            let claim = &self.area.slot(slot).key;
            let holder = match claim.load(Acquire) {
                0 => claim.compare_exchange(0, key, AcqRel, Acquire).unwrap_or_else(|holder| holder),
                holder => holder,
            };
            (holder == key || holder == 0).then_some(slot as u32)
        })
    }
}
