//! Does what is to be written fit where it goes?

use super::manifest::Kind;
use super::place::Place;
use rustix::fs::statvfs;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What one file system is to take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Need {
    path: PathBuf,
    /// What it holds more in the end.
    more: u64,
    /// Of files that are replaced, the largest: old and new are there at once for a moment.
    twice: u64,
    files: u64,
}

/// What one file system has; 0 of 0 where it does not count them.
#[derive(Debug, Clone, Copy)]
struct Free {
    bytes: u64,
    of: u64,
    files: u64,
    of_files: u64,
}

/// Why it does not fit, with the figures. Where a file system does not say what is free, nothing is known to be wrong.
pub fn fault(place: &Place) -> Option<(String, String)> {
    let mut needs: BTreeMap<u64, Need> = BTreeMap::new();
    for (index, _) in place.lacking.iter().enumerate().filter(|(_, lacks)| **lacks) {
        let Some((entry, path)) = place.entry(index) else { continue };
        let Kind::File { size, .. } = entry.kind else { continue };
        let Some(device) = nearest(path).and_then(|folder| std::fs::metadata(folder).ok()).map(|meta| meta.dev())
        else {
            continue;
        };
        let old = std::fs::symlink_metadata(path).ok().filter(|meta| meta.is_file()).map(|meta| meta.size());
        let need = needs.entry(device).or_insert_with(|| Need { path: path.into(), ..Need::default() });
        need.more += size.saturating_sub(old.unwrap_or(0));
        need.twice = need.twice.max(size.min(old.unwrap_or(0)));
        need.files += u64::from(old.is_none());
    }
    needs.values().find_map(|need| {
        let folder = nearest(&need.path)?;
        let said = statvfs(folder).ok()?;
        let block = said.f_frsize;
        let free = Free {
            bytes: said.f_bavail.saturating_mul(block),
            of: said.f_blocks.saturating_mul(block),
            files: said.f_favail,
            of_files: said.f_files,
        };
        judge(need, folder, free)
    })
}

/// The folder that a path is in, as far as it is there.
fn nearest(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|folder| folder.is_dir())
}

fn judge(need: &Need, folder: &Path, free: Free) -> Option<(String, String)> {
    let place = folder.display();
    let needed = need.more + need.twice;
    let hint = "free some there, leave files out with --exclude, or choose another place; nothing was sent";
    if free.of > 0 && needed > free.bytes {
        let what = format!(
            "{place}: it does not fit: {} are needed, and {} of {} are free there",
            size(needed),
            size(free.bytes),
            size(free.of)
        );
        return Some((what, hint.into()));
    }
    (free.of_files > 0 && need.files > free.files).then(|| {
        let what = format!(
            "{place}: it does not fit: {} new files are to be made, and the file system takes {} more",
            need.files, free.files
        );
        (what, hint.into())
    })
}

/// For people.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_figures() {
        let need = |more, twice, files| Need { path: "/mnt/x".into(), more, twice, files };
        let free = Free { bytes: 10 << 20, of: 1 << 30, files: 100, of_files: 1000 };
        let said = |need: Need, free| judge(&need, Path::new("/mnt"), free).map(|(what, _)| what);
        assert_eq!(said(need(10 << 20, 0, 100), free), None);
        let what = said(need(8 << 20, 3 << 20, 1), free).expect("a fault");
        assert_eq!(what, "/mnt: it does not fit: 11.0 MiB are needed, and 10.0 MiB of 1.0 GiB are free there");
        assert!(said(need(0, 0, 101), free).expect("a fault").contains("101 new files"));
        // Some file systems have no idea.
        assert_eq!(said(need(u64::MAX / 2, 0, 9), Free { bytes: 0, of: 0, files: 0, of_files: 0 }), None);
    }
}
