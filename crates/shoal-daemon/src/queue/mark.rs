//! Is this the folder for results that was meant? A mount point whose drive is away is a folder too: an empty one, in which results would
//! lie hidden as soon as the drive is back.
//!
//! Device numbers differ from host to host where a drive comes over the network; so the folder itself bears a mark, a file that is made,
//! or read, when somebody submits. The sweep remembers it, and hosts look for it before they put anything there.

use super::places::{hex, random};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Its lines are the marks of the folder; one nearly always.
pub const NAME: &str = ".shoal-results";

const TRIES: u32 = 50;
const LOOK: Duration = Duration::from_millis(10);

/// The mark of a folder; made if there is none. Nothing if this machine does not see the folder, or may not write there: then hosts can only
/// look whether there is a folder.
pub fn leave(folder: &Path) -> Option<String> {
    if !folder.is_absolute() || !folder.is_dir() {
        return None;
    }
    let path = folder.join(NAME);
    for _ in 0..TRIES {
        match marks(folder) {
            Ok(marks) => match marks.into_iter().next() {
                Some(mark) => return Some(mark),
                // Somebody is just making it.
                None => std::thread::sleep(LOOK),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Ok(mark) = make(&path) {
                    return Some(mark);
                }
                // Another was faster, or it is not allowed.
                if !path.exists() {
                    return None;
                }
            }
            Err(_) => return None,
        }
    }
    None
}

fn make(path: &Path) -> io::Result<String> {
    let mark = hex(&random::<8>()?);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    let written = file.write_all(format!("{mark}\n").as_bytes()).and_then(|()| file.sync_all());
    if let Err(e) = written {
        let _ = fs::remove_file(path);
        return Err(e);
    }
    Ok(mark)
}

/// One more mark: it is the folder that somebody meant.
pub fn add(folder: &Path, mark: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o644).open(folder.join(NAME))?;
    // On a line of its own, whatever is before it.
    file.write_all(format!("\n{mark}\n").as_bytes())?;
    file.sync_all()
}

/// Whether the folder bears the mark.
pub fn is_on(folder: &Path, mark: &str) -> bool {
    marks(folder).is_ok_and(|marks| marks.iter().any(|one| one == mark))
}

fn marks(folder: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(folder.join(NAME))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_mark_and_an_empty_one_has_none() {
        let base = tempfile::tempdir().unwrap();
        let (here, other) = (base.path().join("here"), base.path().join("other"));
        assert_eq!(leave(&here), None, "a folder that is not there is not made");
        fs::create_dir(&here).unwrap();
        fs::create_dir(&other).unwrap();
        let mark = leave(&here).unwrap();
        assert_eq!(leave(&here).as_ref(), Some(&mark));
        assert!(is_on(&here, &mark) && !is_on(&other, &mark) && !is_on(&base.path().join("none"), &mark));
        assert_ne!(leave(&other).unwrap(), mark);
        fs::write(other.join(NAME), format!("older\n{mark}\n")).unwrap();
        assert!(is_on(&other, &mark), "two drives may be one");
        add(&other, "third").unwrap();
        assert!(is_on(&other, &mark) && is_on(&other, "third"));
        assert_eq!(leave(Path::new("here")), None);
    }

    #[test]
    fn many_at_once_agree() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path();
        let marks: Vec<Option<String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| leave(path))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(marks[0].is_some() && marks.iter().all(|mark| *mark == marks[0]), "{marks:?}");
    }
}
