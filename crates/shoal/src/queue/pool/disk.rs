//! What do runs ask for, and what was decided, on the volume? Decisions are there before the cluster hears of them (QUEUE-2): a Job that was
//! decided has a table, a folder with a link for each index, and whoever comes later goes by that.

use super::PODS;
use shoal_core::kubernetes::pool::ask::{Ask, End};
use shoal_core::kubernetes::pool::{ASK, BEGUN, CODE, END, GO, JOBS, LIMIT, SCRIPT, STOP, TOLD};
use shoal_core::queue::Moment;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// In a table: the server has taken the Job.
const APPLIED: &str = ".applied";
/// An end that was decided, while what it frees is still removed.
const LAST: &str = "end.last";

#[derive(Debug, Clone)]
pub struct Disk {
    pods: PathBuf,
}

/// What is in a run's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub name: String,
    has: BTreeSet<String>,
}

impl Run {
    /// Its turn has come: somebody waits for it.
    pub fn is_due(&self) -> bool {
        self.has.contains(GO) && !self.is_over()
    }

    pub fn is_over(&self) -> bool {
        self.has.contains(END)
    }

    pub fn is_to_stop(&self) -> bool {
        self.has.contains(STOP)
    }

    /// Its script says that its time was over.
    pub fn is_late(&self) -> bool {
        self.has.contains(LIMIT)
    }

    /// Its script says that it was told to end and its program ended with 0.
    pub fn is_told(&self) -> bool {
        self.has.contains(TOLD)
    }

    pub fn has_code(&self) -> bool {
        self.has.contains(CODE)
    }
}

/// A Job that was decided: which run is which index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub runs: Vec<String>,
    pub applied: bool,
}

/// Whether nobody holds it, for sure: a volume that cannot say so for a moment must not end anybody's pods.
fn is_free(asked: &Result<(), TryLockError>) -> bool {
    asked.is_ok()
}

impl Disk {
    pub fn open(root: &Path) -> io::Result<Disk> {
        let disk = Disk { pods: root.join(PODS) };
        fs::create_dir_all(disk.pods.join(JOBS))?;
        Ok(disk)
    }

    pub fn runs(&self) -> io::Result<BTreeMap<String, Run>> {
        let mut runs = BTreeMap::new();
        for entry in fs::read_dir(&self.pods)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name == JOBS {
                continue;
            }
            // One that is removed meanwhile is not there; of one that cannot be read nothing is known, and nothing is done.
            let files = match fs::read_dir(self.pods.join(&name)) {
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
                files => files?,
            };
            let mut has = BTreeSet::new();
            for file in files {
                has.extend(file?.file_name().into_string().ok());
            }
            runs.insert(name.clone(), Run { name, has });
        }
        Ok(runs)
    }

    pub fn ask(&self, name: &str) -> io::Result<Ask> {
        Ok(serde_json::from_slice(&fs::read(self.pods.join(name).join(ASK))?)?)
    }

    pub fn code(&self, name: &str) -> Option<i64> {
        fs::read_to_string(self.pods.join(name).join(CODE)).ok()?.trim().parse().ok()
    }

    /// Whether nobody waits for it any more.
    pub fn is_left(&self, name: &str) -> bool {
        let go = OpenOptions::new().write(true).open(self.pods.join(name).join(GO));
        match go {
            Ok(file) => is_free(&file.try_lock()),
            Err(_) => false,
        }
    }

    /// When a file of its folder was written last.
    fn moment(&self, name: &str, file: &str) -> Option<Moment> {
        let at = fs::metadata(self.pods.join(name).join(file)).ok()?.modified().ok()?;
        Moment::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
    }

    pub fn stop(&self, name: &str) -> io::Result<()> {
        fs::write(self.pods.join(name).join(STOP), "0")
    }

    /// The last word on a run, whole or not there. `first` is done when it is decided, before anybody hears of it.
    pub fn end(&self, name: &str, end: End, first: impl FnOnce()) -> io::Result<()> {
        let folder = self.pods.join(name);
        let end = End { began: self.moment(name, BEGUN), ended: self.moment(name, CODE), ..end };
        fs::write(folder.join("end.new"), serde_json::to_vec(&end)?)?;
        fs::rename(folder.join("end.new"), folder.join(LAST))?;
        first();
        fs::rename(folder.join(LAST), folder.join(END))
    }

    /// Of one that was killed in between: what it had decided stands.
    pub fn finish_ends(&self) -> io::Result<()> {
        for name in self.runs()?.into_keys() {
            let folder = self.pods.join(name);
            match fs::rename(folder.join(LAST), folder.join(END)) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    pub fn tables(&self) -> io::Result<BTreeMap<String, Table>> {
        let mut tables = BTreeMap::new();
        for entry in fs::read_dir(self.pods.join(JOBS))? {
            let Ok(job) = entry?.file_name().into_string() else { continue };
            let folder = self.pods.join(JOBS).join(&job);
            if job.starts_with('.') {
                // Begun and never decided.
                fs::remove_dir_all(&folder)?;
                continue;
            }
            let mut runs = Vec::new();
            while let Ok(link) = fs::read_link(folder.join(runs.len().to_string())) {
                let run = link.parent().and_then(Path::file_name).and_then(|name| name.to_str());
                runs.push(run.unwrap_or_default().to_string());
            }
            tables.insert(job, Table { runs, applied: folder.join(APPLIED).exists() });
        }
        Ok(tables)
    }

    /// Whole or not there.
    pub fn decide(&self, job: &str, runs: &[String]) -> io::Result<Table> {
        let (folder, half) = (self.pods.join(JOBS).join(job), self.pods.join(JOBS).join(format!(".{job}")));
        match fs::remove_dir_all(&half) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        fs::create_dir(&half)?;
        for (index, run) in runs.iter().enumerate() {
            symlink(Path::new("../..").join(run).join(SCRIPT), half.join(index.to_string()))?;
        }
        fs::rename(&half, &folder)?;
        Ok(Table { runs: runs.to_vec(), applied: false })
    }

    pub fn applied(&self, job: &str) -> io::Result<()> {
        fs::write(self.pods.join(JOBS).join(job).join(APPLIED), "")
    }

    pub fn forget(&self, job: &str) -> io::Result<()> {
        fs::remove_dir_all(self.pods.join(JOBS).join(job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::work::Ending;

    #[test]
    fn only_a_lock_that_was_had_says_that_nobody_waits() {
        let failed = TryLockError::Error(io::Error::from_raw_os_error(rustix::io::Errno::NOLCK.raw_os_error()));
        for (asked, free) in [(Ok(()), true), (Err(TryLockError::WouldBlock), false), (Err(failed), false)] {
            assert_eq!(is_free(&asked), free, "{asked:?}");
        }
    }

    #[test]
    fn what_was_decided_is_there_for_whoever_comes_later() {
        let root = tempfile::tempdir().expect("a folder");
        let disk = Disk::open(root.path()).expect("a disk");
        for run in ["a", "b"] {
            let folder = root.path().join(PODS).join(run);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(SCRIPT), run).expect("written");
        }
        disk.decide("job-1", &["b".into(), "a".into()]).expect("decided");
        disk.applied("job-1").expect("applied");
        fs::create_dir(root.path().join(PODS).join(JOBS).join(".job-2")).expect("half a table");
        let tables = disk.tables().expect("tables");
        let whole = Table { runs: vec!["b".into(), "a".into()], applied: true };
        assert_eq!(tables, BTreeMap::from([("job-1".to_string(), whole)]));
        let script = fs::read_to_string(root.path().join(PODS).join(JOBS).join("job-1/0"));
        assert_eq!(script.expect("a script"), "b");

        assert!(!disk.runs().expect("runs")["a"].is_due());
        let go = fs::File::create(root.path().join(PODS).join("a").join(GO)).expect("a file");
        go.lock().expect("a lock");
        assert!(disk.runs().expect("runs")["a"].is_due() && !disk.is_left("a"));
        drop(go);
        assert!(disk.is_left("a"));
        let end = End { ending: Ending::Exited(0), began: None, ended: None };
        disk.end("a", end, || assert!(!root.path().join(PODS).join("a").join(END).exists())).expect("an end");
        assert!(disk.runs().expect("runs")["a"].is_over());
        fs::rename(root.path().join(PODS).join("a").join(END), root.path().join(PODS).join("a").join(LAST))
            .expect("cut");
        disk.finish_ends().expect("finished");
        assert!(disk.runs().expect("runs")["a"].is_over());
        disk.forget("job-1").expect("forgotten");
        assert!(disk.tables().expect("tables").is_empty());
    }
}
