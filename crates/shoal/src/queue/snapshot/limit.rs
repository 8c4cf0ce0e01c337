//! Is a tree too large, and what makes it so? (pure)

use super::Kind;
use super::walk::{Listing, What};
use crate::launch::screen::size;
use std::collections::BTreeMap;

/// So many folders are named.
const NAMED: usize = 5;

pub fn check(listing: &Listing, most: u64, kind: Kind) -> Result<(), String> {
    let bytes = listing.bytes();
    if bytes <= most {
        return Ok(());
    }
    let what = match kind {
        Kind::Source => "the source",
        Kind::Data => "the data",
    };
    let mut text =
        format!("{what} has {}, more than the {} that are sent; the largest in it:\n", size(bytes), size(most));
    for (name, bytes) in largest(listing) {
        text.push_str(&format!("  {:>9}  {name}\n", size(bytes)));
    }
    text.push_str(match kind {
        Kind::Source => {
            "  hint: leave folders out with .gitignore or .shoalignore, say which ones are needed (`--source`), give data by `--data`, or use --no-source"
        }
        Kind::Data => "  hint: put it on a drive that all hosts see and give the program its path",
    });
    Err(text)
}

/// Top-level folders and files with the most bytes; where one has nearly all, what is in it.
fn largest(listing: &Listing) -> Vec<(String, u64)> {
    let mut depth = 1;
    loop {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, entry) in &listing.entries {
            if let What::File { bytes, .. } = entry.what {
                let end = name.match_indices('/').nth(depth - 1).map_or(name.len(), |(at, _)| at + 1);
                *sums.entry(&name[..end]).or_default() += bytes;
            }
        }
        let mut sums: Vec<(String, u64)> = sums.into_iter().map(|(name, bytes)| (name.to_string(), bytes)).collect();
        sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let all: u64 = sums.iter().map(|(_, bytes)| bytes).sum();
        let one_has_it = sums.first().is_some_and(|(name, bytes)| name.ends_with('/') && *bytes > all / 10 * 9);
        if !one_has_it || depth == 3 {
            sums.truncate(NAMED);
            return sums;
        }
        depth += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::Entry;
    use super::*;

    #[test]
    fn the_largest_folders_are_named() {
        let mut listing = Listing::default();
        for (name, mib) in [("run/a/x", 100), ("run/a/y", 200), ("run/b/z", 250), ("train.py", 1)] {
            let what = What::File { bytes: mib << 20, executable: false };
            listing.entries.insert(name.into(), Entry { from: name.into(), what });
        }
        assert_eq!(check(&listing, 600 << 20, Kind::Source), Ok(()));
        let said = check(&listing, 512 << 20, Kind::Source).expect_err("too large");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "the source has 551 MB, more than the 512 MB that are sent; the largest in it:");
        assert_eq!(lines[1..4], ["     300 MB  run/a/", "     250 MB  run/b/", "       1 MB  train.py"]);
        assert!(lines[4].contains(".shoalignore"));
    }
}
