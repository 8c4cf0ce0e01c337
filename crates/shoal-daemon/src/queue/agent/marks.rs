//! Is a folder for results that bears no mark the right one all the same? Its owner may have removed it and made it anew; or its drive is away,
//! and what is there is the mount point.
//!
//! A mount point without its drive lies on another mount than the drive did. So it is remembered on which mount a mark was seen, on this host
//! and since its boot: a folder of the same path on the very same mount was made anew on purpose. Whatever else is there has to be called the
//! right one by somebody, by writing the mark into it.

use super::trees::is_hex;
use crate::queue::keeper::folder::make;
use crate::queue::mark;
use crate::{proc, queue::places::write_durable};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Hexadecimal digits of a mark.
const DIGITS: usize = 16;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// Numbers of mounts and devices mean nothing after the next boot.
    boot: String,
    root: PathBuf,
    mount: u64,
    device: u64,
}

impl Seen {
    fn of(root: &Path, folder: &File) -> Option<Seen> {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", folder.as_raw_fd())).ok()?;
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
        let device = folder.metadata().ok()?.dev();
        Some(Seen { boot: proc::machine().boot, root: root.into(), mount, device })
    }
}

fn file(marks: &Path, mark: &str) -> Option<PathBuf> {
    is_hex(mark, DIGITS).then(|| marks.join(mark))
}

fn remembered(marks: &Path, mark: &str) -> Option<Seen> {
    serde_json::from_slice(&fs::read(file(marks, mark)?).ok()?).ok()
}

/// The folder bears the mark. What cannot be remembered is asked of people later.
pub fn remember(marks: &Path, mark: &str, root: &Path, folder: &File) {
    let (Some(seen), Some(file)) = (Seen::of(root, folder), file(marks, mark)) else { return };
    if remembered(marks, mark).is_none_or(|known| known != seen)
        && let Ok(text) = serde_json::to_vec(&seen)
    {
        let _ = make(marks).and_then(|()| write_durable(&file, &text, 0o600));
    }
}

/// Whether the folder, which does not bear the mark, is where the mark was seen before.
pub fn is_made_anew(marks: &Path, mark: &str, root: &Path, folder: &File) -> bool {
    let now = Seen::of(root, folder);
    now.is_some() && remembered(marks, mark) == now
}

/// Before a run of it starts: the folder may be made anew before anything is put there. For a thread of its own, since a drive may hang.
pub fn look(marks: &Path, mark: &str, root: &Path) {
    if let Ok(folder) = File::open(root)
        && mark::is_on(root, mark)
    {
        remember(marks, mark, root, &folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_testkit::Drive;

    #[test]
    fn a_folder_made_anew_is_told_from_a_mount_point() {
        let base = tempfile::tempdir().unwrap();
        let (marks, root) = (base.path().join("marks"), base.path().join("mnt/lab"));
        fs::create_dir_all(&root).unwrap();
        let open = || File::open(&root).unwrap();
        let mark = "0123456789abcdef";
        assert!(!is_made_anew(&marks, mark, &root, &open()), "never seen");
        look(&marks, mark, &root);
        assert!(!marks.exists(), "it bears no mark");
        fs::write(root.join(mark::NAME), format!("{mark}\n")).unwrap();
        look(&marks, mark, &root);
        fs::remove_dir_all(&root).unwrap();
        fs::create_dir(&root).unwrap();
        assert!(is_made_anew(&marks, mark, &root, &open()));
        assert!(!is_made_anew(&marks, "fedcba9876543210", &root, &open()), "another mark");
        assert!(!is_made_anew(&marks, mark, &base.path().join("other"), &open()), "another path");
        // The same folder of the same device, by another mount.
        let at = base.path().join("mnt");
        let Some(drive) = Drive::bound(&at, &at) else {
            return shoal_testkit::skip("nothing can be mounted here");
        };
        assert!(!is_made_anew(&marks, mark, &root, &open()));
        remember(&marks, mark, &root, &open());
        assert!(is_made_anew(&marks, mark, &root, &open()));
        drive.unmount();
        assert!(!is_made_anew(&marks, mark, &root, &open()), "its drive is away");
        remember(&marks, "../x", &root, &open());
        assert_eq!(fs::read_dir(&marks).unwrap().count(), 1);
    }
}
