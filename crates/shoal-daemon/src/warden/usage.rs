//! What do the ranks use?

use crate::proc::{self, Stat};
use std::collections::HashSet;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub rss_bytes: u64,
    pub cpu_ms: u64,
    pub processes: u32,
}

/// Of everything below a keeper, in one look at all processes. Pure.
pub fn of(all: &[Stat], keeper: u32, page: u64, ticks_per_second: u64) -> Usage {
    let mut usage = Usage::default();
    for stat in proc::descendants(all, keeper, &HashSet::new()) {
        usage.rss_bytes += stat.rss_pages * page;
        usage.cpu_ms += stat.cpu_ticks * 1000 / ticks_per_second.max(1);
        usage.processes += u32::from(!stat.is_zombie());
    }
    usage
}
