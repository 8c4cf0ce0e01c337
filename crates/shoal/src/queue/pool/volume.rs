//! Is it the volume that the pool had before? Where it is not mounted there is a folder too: an empty one, by which nothing that runs is known, and
//! all of it would be taken away.
//!
//! So the pool's folder bears a mark, as folders for results do, and the queue's store remembers which.

use shoal_daemon::queue::mark;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// `folder`: the pool's on the volume, made the first time only. `memory`: the store's file on it.
pub fn is_the_same(folder: &Path, memory: &Path) -> Result<(), String> {
    let failed = |path: &Path, e: io::Error| format!("{}: {e}", path.display());
    let known = match fs::read_to_string(memory) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(failed(memory, e)),
    };
    let known = known.as_deref().and_then(|text| text.trim().split_once(' '));
    // A pool that was given another place on purpose begins there.
    if let Some((mark, _)) = known.filter(|(_, at)| Path::new(at) == folder) {
        if mark::is_on(folder, mark) {
            return Ok(());
        }
        let (at, file) = (folder.display(), folder.join(mark::NAME));
        return Err(format!(
            "{at} is not the folder that the pool had: its file {} does not say {mark}. Is the volume mounted on this machine? If this is the \
             right one, say so: `mkdir -p {at} && echo {mark} >> {}`",
            mark::NAME,
            file.display()
        ));
    }
    DirBuilder::new().mode(0o700).recursive(true).create(folder).map_err(|e| failed(folder, e))?;
    // Where no mark can be left, whoever works there says why.
    let Some(mark) = mark::leave(folder) else { return Ok(()) };
    let write = || {
        let new = memory.with_extension("new");
        fs::create_dir_all(memory.parent().unwrap_or(memory))?;
        fs::write(&new, format!("{mark} {}\n", folder.display()))?;
        fs::rename(&new, memory)
    };
    write().map_err(|e| failed(memory, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_is_not_mounted_is_not_taken_for_an_empty_one() {
        let base = tempfile::tempdir().expect("a folder");
        let (volume, memory) = (base.path().join("hot"), base.path().join("store/pools/p"));
        let folder = volume.join(".shoal/p");
        fs::create_dir(&volume).expect("a volume");
        is_the_same(&folder, &memory).expect("the first time");
        is_the_same(&folder, &memory).expect("again");
        fs::rename(&volume, base.path().join("away")).expect("unmounted");
        fs::create_dir(&volume).expect("the mount point");
        let why = is_the_same(&folder, &memory).expect_err("another");
        assert!(why.contains("Is the volume mounted") && !folder.exists(), "{why}");
        is_the_same(&base.path().join("other/.shoal/p"), &memory).expect("another place, on purpose");
        fs::remove_file(&memory).expect("forgotten");
        fs::remove_dir(&volume).expect("unmounted");
        fs::rename(base.path().join("away"), &volume).expect("mounted");
        is_the_same(&folder, &memory).expect("the mark that is there is taken");
    }
}
