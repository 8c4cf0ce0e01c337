//! What does a run find in its folder? Links into trees that all runs share, and its own few files.

use crate::queue::keeper::folder;
use shoal_core::queue::work::{Start, Tree};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// The top-level entries of trees, which never change.
#[derive(Default)]
pub struct Entries(HashMap<String, Vec<String>>);

impl Entries {
    fn of(&mut self, trees: &Path, digest: &str) -> io::Result<&[String]> {
        if !self.0.contains_key(digest) {
            let mut names = Vec::new();
            for entry in fs::read_dir(trees.join(digest))? {
                names.extend(entry?.file_name().into_string().ok());
            }
            names.sort();
            self.0.insert(digest.into(), names);
        }
        Ok(&self.0[digest])
    }
}

/// A name within the folder, and nothing else. Pure.
fn inside(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && path.components().next().is_some()).then(|| path.into())
}

/// Why a run cannot be prepared.
#[derive(Debug, PartialEq, Eq)]
pub enum Cannot {
    /// A full disk.
    Now(String),
    Ever(String),
}

impl<T: Into<String>> From<T> for Cannot {
    fn from(why: T) -> Cannot {
        Cannot::Ever(why.into())
    }
}

fn said(path: &Path, e: io::Error) -> Cannot {
    let text = format!("{}: {e}", path.display());
    if matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) { Cannot::Now(text) } else { Cannot::Ever(text) }
}

/// Makes the folder `room`; its top-level names that are ours.
pub fn make(start: &Start, room: &Path, trees: &Path, entries: &mut Entries) -> Result<Vec<String>, Cannot> {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    let made = builder.create(room).or_else(|e| match (e.kind(), room.parent()) {
        // Somebody has removed the folder of all runs: it is ours, and made again.
        (io::ErrorKind::NotFound, Some(work)) => folder::make(work).and_then(|()| builder.create(room)),
        _ => Err(e),
    });
    match made {
        Ok(()) => {}
        // Of one that was prepared and never handed over: nothing of a run is in it.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            remove(room).and_then(|()| builder.create(room)).map_err(|e| said(room, e))?;
        }
        Err(e) => return Err(said(room, e)),
    }
    let mut ours = Vec::new();
    // Data that was named counts before an entry of the source: where it lies within the source, both have it.
    let (whole, named): (Vec<&Tree>, Vec<&Tree>) = start.trees.iter().partition(|tree| tree.at.is_empty());
    for tree in named.into_iter().chain(whole) {
        let from = trees.join(&tree.digest);
        if tree.at.is_empty() {
            for name in entries.of(trees, &tree.digest).map_err(|e| said(&from, e))? {
                // The first of a name is what counts, as in a search path.
                if !ours.contains(name) {
                    symlink(from.join(name), room.join(name)).map_err(|e| said(&room.join(name), e))?;
                    ours.push(name.clone());
                }
            }
        } else {
            let at = inside(&tree.at).ok_or_else(|| format!("`{}` is no place in a run's folder", tree.at))?;
            put(room, &at, &mut ours, |path| symlink(&from, path))?;
        }
    }
    for (name, content) in &start.files {
        let at = inside(name).ok_or_else(|| format!("`{name}` is no file in a run's folder"))?;
        let write = |path: &Path| {
            // Not through a link into a tree.
            if path.is_symlink() {
                fs::remove_file(path)?;
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(content.as_bytes())
        };
        put(room, &at, &mut ours, write)?;
    }
    Ok(ours)
}

fn put(
    room: &Path,
    at: &Path,
    ours: &mut Vec<String>,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), Cannot> {
    let path = room.join(at);
    let said = |e: io::Error| said(&path, e);
    if let Some(parent) = path.parent().filter(|parent| *parent != room) {
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(said)?;
    }
    make(&path).map_err(said)?;
    let top = at.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    ours.extend(top.filter(|top| !ours.contains(top)));
    Ok(())
}

/// Also what a run has made read-only.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            fs::remove_dir_all(path)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::start;
    use super::*;

    #[test]
    fn a_folder_has_links_and_files_and_nothing_leads_out_of_it() {
        let base = tempfile::tempdir().unwrap();
        let (trees, room) = (base.path().join("trees"), base.path().join("room"));
        for (tree, name) in [("one", "a.py"), ("one", "in"), ("two", "a.py"), ("two", "b.py"), ("data", "x")] {
            fs::create_dir_all(trees.join(tree)).unwrap();
            fs::write(trees.join(tree).join(name), tree).unwrap();
        }
        let mut start = start("s", 0);
        start.trees = [("one", ""), ("two", ""), ("data", "in/data")]
            .map(|(d, at)| Tree { digest: d.into(), at: at.into() })
            .into();
        start.files = vec![("b.py".into(), "mine".into()), ("params.json".into(), "{}".into())];
        let mut entries = Entries::default();
        let ours = make(&start, &room, &trees, &mut entries).unwrap();
        assert_eq!(ours, ["in", "a.py", "b.py", "params.json"]);
        assert_eq!(fs::read_to_string(room.join("a.py")).unwrap(), "one");
        assert_eq!(fs::read_to_string(room.join("b.py")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(trees.join("two/b.py")).unwrap(), "two", "the tree is as it was");
        assert_eq!(fs::read_to_string(room.join("in/data/x")).unwrap(), "data");
        make(&start, &room, &trees, &mut entries).unwrap();
        for bad in ["/etc/x", "../x", "a/../../x", ""] {
            start.files = vec![(bad.into(), String::new())];
            assert!(make(&start, &room, &trees, &mut entries).is_err(), "{bad}");
        }
        remove(&room).unwrap();
        remove(&room).unwrap();
        assert!(trees.join("one/a.py").exists(), "links are removed, not what they lead to");
    }
}
