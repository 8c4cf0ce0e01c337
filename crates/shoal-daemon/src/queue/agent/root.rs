//! Where is the folder for results, and is it the one that was meant? It is never made here, but for the queue's own: a drive that is not mounted must
//! not be taken for an empty one.

use super::marks;
use super::publish::{Job, Problem, problem_of};
use crate::queue::mark;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// `<root>/<sweep>/runs/param_NNN/<time>_num<rep>`.
const BELOW_ROOT: usize = 4;

/// The folder for results that a place is in, whether there is one or not.
pub fn above(to: &Path) -> Option<&Path> {
    to.ancestors().nth(BELOW_ROOT).filter(|root| root.parent().is_some())
}

/// The folder for results if it is the one that was meant, and the same place as seen from it.
pub fn root_of(job: &Job) -> Result<(File, PathBuf), Problem> {
    let (to, host) = (&job.to, &job.here.host);
    let Some((root, rest)) = above(to).and_then(|root| Some((root, to.strip_prefix(root).ok()?))) else {
        return Err(Problem::Never(format!("{} is no place for results", to.display())));
    };
    let away = |why: &str| Problem::Later(format!("the folder for results, {}, {why}", root.display()));
    let mut opened = File::open(root);
    if opened.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) && is_own(root, &job.here.store) {
        opened = DirBuilder::new().mode(0o700).create(root).and_then(|()| File::open(root));
    }
    let folder = match opened {
        Ok(folder) if folder.metadata().is_ok_and(|meta| meta.is_dir()) => folder,
        Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => return Err(problem_of(job, &e)),
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(away(&format!("cannot be opened on host {host}: {e}")));
        }
        _ => {
            return Err(away(&format!(
                "is not there on host {host}; is its drive mounted? If it was removed, make it again: `mkdir {}`. {}",
                quoted(root),
                kept(job)
            )));
        }
    };
    let seen = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    if let Some(mark) = &job.note.results_mark {
        if mark::is_on(&seen, mark) {
            marks::remember(&job.here.marks, mark, root, &folder);
        } else if marks::is_made_anew(&job.here.marks, mark, root, &folder) {
            mark::add(&seen, mark).map_err(|e| problem_of(job, &e))?;
        } else {
            return Err(away(&format!(
                "on host {host} is not the one that was there at submit: its file {} does not say {mark}. Is its drive mounted? If this is \
                 the right folder, say so: `echo {mark} >> {}`. {}",
                mark::NAME,
                quoted(&root.join(mark::NAME)),
                kept(job)
            )));
        }
    }
    Ok((folder, seen.join(rest)))
}

/// Whether it is the folder of the queue's own store, which is made again if somebody removes it. The store's id tells it from a mount point.
fn is_own(root: &Path, store: &str) -> bool {
    let id = root.parent().and_then(|parent| fs::read_to_string(parent.join("store-id")).ok());
    root.file_name() == Some(OsStr::new("results")) && !store.is_empty() && id.is_some_and(|id| id.trim() == store)
}

/// Where they are meanwhile, and what becomes of them.
pub fn kept(job: &Job) -> String {
    let room = job.room.display();
    format!("They are in {room} on host {} until then, and it is tried again within a minute", job.here.host)
}

/// As a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::super::publish::all;
    use super::super::publish::tests::job;
    use super::*;

    /// A mount point without its drive is an empty folder: nothing is put there.
    #[test]
    fn an_empty_folder_in_the_place_of_the_one_that_was_meant_gets_nothing() {
        let base = tempfile::tempdir().unwrap();
        let (results, away) = (base.path().join("results"), base.path().join("away"));
        fs::create_dir(&results).unwrap();
        let mut job = job(base.path(), "t_num0");
        job.note.results_mark = crate::queue::mark::leave(&results);
        fs::rename(&results, &away).unwrap();
        fs::create_dir(&results).unwrap();
        let said = match &all(std::slice::from_ref(&job))[0] {
            Err(Problem::Later(why)) => why.clone(),
            other => panic!("{other:?}"),
        };
        assert!(said.contains("on host h is not the one that was there at submit"), "{said}");
        assert_eq!(fs::read_dir(&results).unwrap().count(), 0);
        fs::remove_dir(&results).unwrap();
        fs::rename(&away, &results).unwrap();
        assert!(all(std::slice::from_ref(&job))[0].is_ok());
        assert_eq!(fs::read_to_string(job.to.join("sub/deep.txt")).unwrap(), "deep");
    }

    #[test]
    fn what_the_owner_made_anew_is_taken_and_so_is_what_somebody_calls_the_right_one() {
        let base = tempfile::tempdir().unwrap();
        let results = base.path().join("results");
        fs::create_dir(&results).unwrap();
        let mark = mark::leave(&results);
        let marked = |stamp: &str| {
            let mut job = job(base.path(), stamp);
            job.note.results_mark = mark.clone();
            job
        };
        let anew = || {
            fs::remove_dir_all(&results).unwrap();
            fs::create_dir(&results).unwrap();
        };
        // Nobody here has seen the mark: somebody has to say so, as they are told.
        anew();
        let said = match &all(&[marked("t_num0")])[0] {
            Err(Problem::Later(why)) => why.clone(),
            other => panic!("{other:?}"),
        };
        let command = said.split('`').nth(1).unwrap().to_string();
        assert!(said.contains(base.path().join("room").to_str().unwrap()), "{said}");
        assert!(std::process::Command::new("sh").args(["-c", &command]).status().unwrap().success(), "{command}");
        assert!(all(&[marked("t_num0")])[0].is_ok(), "{command}");
        // From now on it is known where it was.
        anew();
        assert!(all(&[marked("t_num1")])[0].is_ok());
        assert!(mark::is_on(&results, mark.as_deref().unwrap()));
        anew();
        assert_ne!(mark::leave(&results), mark, "somebody else submits to the new one");
        assert!(all(&[marked("t_num2")])[0].is_ok());
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }

    #[test]
    fn the_queues_own_folder_is_made_again_and_no_other() {
        let base = tempfile::tempdir().unwrap();
        let results = base.path().join("results");
        let mut job = job(base.path(), "t_num0");
        job.here.store = "0123456789abcdef".into();
        assert!(all(std::slice::from_ref(&job))[0].is_err());
        fs::write(base.path().join("store-id"), "fedcba9876543210").unwrap();
        assert!(all(std::slice::from_ref(&job))[0].is_err() && !results.exists(), "the store of another queue");
        fs::write(base.path().join("store-id"), "0123456789abcdef").unwrap();
        assert!(all(std::slice::from_ref(&job))[0].is_ok());
        assert_eq!(fs::read_to_string(job.to.join("loss.csv")).unwrap(), "1,2");
    }
}
