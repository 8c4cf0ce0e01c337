//! Which trees, environments and folders of runs that failed may go? Those that nobody has used for long, and of the others the oldest, until the
//! rest fits. Never what a live run needs. Pure.

use std::collections::HashSet;

/// One tree, environment or folder of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub bytes: u64,
    /// Since it was last used.
    pub idle_seconds: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Of all of them together.
    pub bytes: u64,
    /// So many, at most.
    pub count: usize,
    pub idle_seconds: u64,
    /// Used so lately that the next run which needs it is perhaps on its way: stays, whatever the bounds say.
    pub fresh_seconds: u64,
}

/// Names, the longest unused first.
pub fn which(items: &[Item], in_use: &HashSet<String>, bounds: &Bounds) -> Vec<String> {
    let mut total: u64 = items.iter().map(|item| item.bytes).fold(0, u64::saturating_add);
    let mut count = items.len();
    let may_go = |item: &&Item| item.idle_seconds >= bounds.fresh_seconds && !in_use.contains(&item.name);
    let mut old: Vec<&Item> = items.iter().filter(may_go).collect();
    old.sort_by(|a, b| b.idle_seconds.cmp(&a.idle_seconds).then_with(|| a.name.cmp(&b.name)));
    let mut gone = Vec::new();
    for item in old {
        if item.idle_seconds > bounds.idle_seconds || total > bounds.bytes || count > bounds.count {
            total -= item.bytes.min(total);
            count -= 1;
            gone.push(item.name.clone());
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn items(list: &[(&str, u64, u64)]) -> Vec<Item> {
        list.iter()
            .map(|(name, bytes, idle)| Item { name: (*name).into(), bytes: *bytes, idle_seconds: *idle })
            .collect()
    }

    #[test]
    fn the_oldest_go_first_and_what_is_needed_stays() {
        let all = items(&[("new", 5, 1), ("a", 10, 500), ("b", 10, 400), ("c", 10, 300), ("live", 90, 600)]);
        let live = HashSet::from(["live".to_string()]);
        let bounds = |bytes, idle_seconds| Bounds { bytes, count: usize::MAX, idle_seconds, fresh_seconds: 10 };
        for (bytes, idle, gone) in [
            (1000, 1000, &[][..]),
            (115, 1000, &["a"]),
            (114, 1000, &["a", "b"]),
            (0, 1000, &["a", "b", "c"]),
            (1000, 350, &["a", "b"]),
            (1000, 500, &[]),
        ] {
            assert_eq!(which(&all, &live, &bounds(bytes, idle)), gone, "{bytes} {idle}");
        }
        for (count, gone) in [(5, &[][..]), (4, &["a"]), (2, &["a", "b", "c"])] {
            assert_eq!(which(&all, &live, &Bounds { count, ..bounds(1000, 1000) }), gone, "{count}");
        }
    }

    #[test]
    fn of_equally_old_ones_the_name_decides() {
        let all = items(&[("3", 53, 149), ("10", 1, 149), ("new", 236, 0)]);
        let bounds = Bounds { bytes: 237, count: usize::MAX, idle_seconds: 900, fresh_seconds: 50 };
        assert_eq!(which(&all, &HashSet::new(), &bounds), ["10", "3"]);
    }

    proptest! {
        #[test]
        fn nothing_goes_without_need_and_nothing_that_is_used(
            sizes in proptest::collection::vec((0u64..100, 0u64..1000, any::<bool>()), 0..20), bytes in 0u64..1000
        ) {
            let all: Vec<Item> = sizes.iter().enumerate()
                .map(|(k, (bytes, idle, _))| Item { name: k.to_string(), bytes: *bytes, idle_seconds: *idle }).collect();
            let live: HashSet<String> =
                sizes.iter().enumerate().filter(|(_, (.., live))| *live).map(|(k, _)| k.to_string()).collect();
            let bounds = Bounds { bytes, count: usize::MAX, idle_seconds: 900, fresh_seconds: 50 };
            let gone: HashSet<String> = which(&all, &live, &bounds).into_iter().collect();
            prop_assert!(gone.is_disjoint(&live));
            let left: u64 = all.iter().filter(|item| !gone.contains(&item.name)).map(|item| item.bytes).sum();
            let may_go = |item: &&Item| item.idle_seconds >= 50 && !live.contains(&item.name);
            prop_assert!(left <= bytes || all.iter().filter(may_go).all(|item| gone.contains(&item.name)));
            // Without the one that went last, it would not have fitted, or it was too old.
            for item in all.iter().filter(|item| gone.contains(&item.name) && item.idle_seconds <= 900) {
                let order = |item: &Item| (std::cmp::Reverse(item.idle_seconds), item.name.clone());
                let younger: u64 = all.iter()
                    .filter(|other| gone.contains(&other.name) && order(other) > order(item))
                    .map(|other| other.bytes).sum();
                prop_assert!(left + younger + item.bytes > bytes || item.bytes == 0);
            }
        }
    }
}
