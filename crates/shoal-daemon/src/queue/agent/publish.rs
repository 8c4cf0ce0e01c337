//! How do results become visible? Staged beside their place, synced, renamed: complete or absent. The same attempt again finds itself
//! there and is done (QUEUE-2).

use super::about::{self, Here, is_there, run_json};
use super::note::Note;
use super::root::{kept, root_of};
use super::{room, trees};
use crate::queue::drive;
use shoal_core::queue::work::{DIFF_FILE, Ended};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const DEEPEST: usize = 64;

#[derive(Debug)]
pub enum Problem {
    /// It may go well later: a full drive, one that is away.
    Later(String),
    /// Somebody has to allow it first; until then every try is in vain.
    Refused(String),
    Never(String),
}

/// One run's results on their way.
pub struct Job {
    pub name: String,
    pub note: Note,
    pub ended: Ended,
    pub room: PathBuf,
    pub to: PathBuf,
    pub here: Here,
}

/// Places that somebody in this process is at. A line that was cut may have left a thread that hangs on a drive.
static BUSY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn busy() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them; drives are synced once for all.
pub fn all(jobs: &[Job]) -> Vec<Result<(), Problem>> {
    let mine: Vec<bool> = jobs.iter().map(|job| busy().insert(job.to.clone())).collect();
    let done = put(jobs, &mine);
    for (job, _) in jobs.iter().zip(mine).filter(|(_, mine)| *mine) {
        busy().remove(&job.to);
    }
    done
}

fn put(jobs: &[Job], mine: &[bool]) -> Vec<Result<(), Problem>> {
    let taken = |job: &Job| Problem::Later(format!("{}: an earlier try still hangs", job.to.display()));
    let staged = jobs.iter().zip(mine).map(|(job, mine)| if *mine { stage(job) } else { Err(taken(job)) });
    let staged: Vec<Result<Option<Staged>, Problem>> = staged.collect();
    let mut synced: HashMap<u64, Result<(), String>> = HashMap::new();
    for staged in staged.iter().flatten().flatten() {
        let Ok(meta) = fs::metadata(&staged.from) else { continue };
        synced.entry(meta.dev()).or_insert_with(|| sync(&staged.from).map_err(|e| e.to_string()));
    }
    let finish = |(job, staged): (&Job, Result<Option<Staged>, Problem>)| {
        let Some(staged) = staged? else { return Ok(()) };
        let problem = |e: io::Error| problem_of(job, &e);
        let device = fs::metadata(&staged.from).map_err(problem)?.dev();
        if let Some(Err(why)) = synced.get(&device) {
            return Err(Problem::Later(format!("{} cannot be synced: {why}", job.to.display())));
        }
        fs::rename(&staged.from, &staged.to).map_err(problem)?;
        let parent = staged.to.parent().unwrap_or(&staged.to);
        File::open(parent).and_then(|folder| folder.sync_all()).map_err(problem)
    };
    jobs.iter().zip(staged).map(finish).collect()
}

fn sync(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(path)?)?)
}

pub fn problem_of(job: &Job, e: &io::Error) -> Problem {
    let said = format!("{}: {e}", job.to.display());
    if drive::is_forbidden(e) {
        return Problem::Refused(format!(
            "{said}; the user of the agent on host {} has to be allowed to write there. {}",
            job.here.host,
            kept(job)
        ));
    }
    if drive::is_for_ever(e) { Problem::Never(said) } else { Problem::Later(said) }
}

/// Results beside their place.
struct Staged {
    from: PathBuf,
    to: PathBuf,
    /// The folder for results: both paths begin here, so they mean the same drive whatever is mounted or moved meanwhile.
    _root: File,
}

/// Nothing if the results are there already.
fn stage(job: &Job) -> Result<Option<Staged>, Problem> {
    if !job.to.is_absolute() {
        return Err(Problem::Never(format!("{} is no absolute path", job.to.display())));
    }
    let (root, to) = root_of(job)?;
    let (Some(parent), Some(last)) = (to.parent(), to.file_name()) else {
        return Err(Problem::Never(format!("{} is no place for results", job.to.display())));
    };
    if to.exists() {
        return match is_there(&to, &job.note) {
            true => Ok(None),
            false => Err(Problem::Never(format!("{} is there already and is of another run", job.to.display()))),
        };
    }
    let problem = |e: io::Error| problem_of(job, &e);
    fs::create_dir_all(parent).map_err(problem)?;
    for (name, content) in &job.note.beside {
        if !put_beside(parent, name, content, &last.to_string_lossy()).map_err(problem)? {
            let other = job.to.with_file_name(name);
            return Err(Problem::Never(format!(
                "{} is of another configuration, of another queue perhaps",
                other.display()
            )));
        }
    }
    let diff = put_diff(parent, &job.note, &job.here.trees, &last.to_string_lossy()).map_err(problem)?;
    let staged = parent.join(format!(".{}.part", last.to_string_lossy()));
    room::remove(&staged).map_err(problem)?;
    let copied = copy(&job.room, &staged, &job.note.ours.iter().map(OsStr::new).collect(), 0)
        .and_then(|()| {
            let path = staged.join(about::name(&job.room, &job.note));
            // Never written through: a file of the same name shares its content with the one in the run's folder.
            let _ = fs::remove_file(&path);
            File::create_new(path)
        })
        .and_then(|mut file| file.write_all(run_json(&job.note, &job.ended, &job.here, diff).as_bytes()));
    if let Err(e) = copied {
        let _ = room::remove(&staged);
        return Err(problem(e));
    }
    Ok(Some(Staged { from: staged, to, _root: root }))
}

/// Whole or not at all; whoever was first counts. False if they said something else: results of the two would be mixed. `by`: whose results come
/// with it. What an agent left half that was killed is found by that name when these results come again.
fn put_beside(parent: &Path, name: &str, content: &str, by: &str) -> io::Result<bool> {
    let path = parent.join(name);
    if Path::new(name).components().count() != 1 {
        return Ok(true);
    }
    let beside = parent.join(format!(".{name}.{by}.part"));
    if path.exists() {
        let _ = fs::remove_file(&beside);
        return Ok(fs::read(&path)? == content.as_bytes());
    }
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o666).open(&beside)?;
        file.write_all(content.as_bytes())?;
        file.sync_data()?;
        fs::rename(&beside, &path)
    };
    // A drive that is full may take a name and nothing else.
    write().inspect_err(|_| drop(fs::remove_file(&beside)))?;
    Ok(true)
}

/// The difference to the commit, once for all configurations; its name as seen from a run's folder. Nothing if this host does not have it.
fn put_diff(parent: &Path, note: &Note, trees: &Path, by: &str) -> io::Result<Option<String>> {
    let Some(origin) = &note.origin else { return Ok(None) };
    let (Some(name), Some(digest), Some(runs)) = (origin.diff_name(), &origin.diff, parent.parent()) else {
        return Ok(None);
    };
    let from = trees.join(digest).join(DIFF_FILE);
    let path = runs.join(&name);
    let cell = parent.file_name().unwrap_or_default().to_string_lossy();
    let beside = runs.join(format!(".{name}.{cell}.{by}.part"));
    if path.exists() {
        let _ = fs::remove_file(&beside);
    } else {
        if !trees::is_here(trees, digest) || !from.is_file() {
            return Ok(None);
        }
        let write = || {
            fs::write(&beside, fs::read(&from)?)?;
            File::open(&beside)?.sync_data()?;
            fs::rename(&beside, &path)
        };
        write().inspect_err(|_| drop(fs::remove_file(&beside)))?;
    }
    Ok(Some(format!("../../{name}")))
}

/// Files, folders and links, without those on top that are ours. Nobody writes to them any more, so a second name does for a copy.
fn copy(from: &Path, to: &Path, ours: &HashSet<&OsStr>, depth: usize) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other(format!("{} is too deep", from.display())));
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if depth == 0 && ours.contains(name.as_os_str()) {
            continue;
        }
        let (source, target, kind) = (entry.path(), to.join(&name), entry.file_type()?);
        if kind.is_dir() {
            copy(&source, &target, ours, depth + 1)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() && fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
            let times = entry.metadata()?;
            let times = fs::FileTimes::new().set_modified(times.modified()?).set_accessed(times.modified()?);
            let _ = File::options().write(true).open(&target).and_then(|file| file.set_times(times));
        }
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::super::tests::{ended, start};
    use super::*;
    use shoal_core::queue::host::{Gpu, Held};
    use shoal_core::queue::work::Origin;

    pub fn job(base: &Path, stamp: &str) -> Job {
        let room = base.join("room");
        if !room.exists() {
            fs::create_dir_all(room.join("sub")).unwrap();
            fs::write(room.join("loss.csv"), "1,2").unwrap();
            fs::write(room.join("sub/deep.txt"), "deep").unwrap();
            fs::write(room.join("params.json"), "{}").unwrap();
            symlink("/etc", room.join("src")).unwrap();
            symlink("loss.csv", room.join("last")).unwrap();
        }
        let mut start = start("mlp", 3);
        start.beside = vec![("param2val.yaml".into(), "lr: 1\n".into())];
        let note = Note::of(&start, vec!["src".into(), "params.json".into()], None);
        let to = base.join("results/mlp/runs/param_003").join(stamp);
        let here = Here { host: "h".into(), trees: base.join("trees"), marks: base.join("marks"), ..Here::default() };
        Job { name: "mlp_3.0_1".into(), ended: ended(&start.attempt), note, room, to, here }
    }

    #[test]
    fn results_are_complete_or_absent_and_the_same_again_is_done() {
        let base = tempfile::tempdir().unwrap();
        let results = base.path().join("results");
        let job = job(base.path(), "t_num0");
        assert!(
            matches!(&all(std::slice::from_ref(&job))[0], Err(Problem::Later(why)) if why.contains("is not there"))
        );
        fs::create_dir(&results).unwrap();
        // What an agent left that was killed in between.
        fs::create_dir_all(results.join("mlp/runs/param_003/.t_num0.part/old")).unwrap();
        fs::write(results.join("mlp/runs/param_003/.param2val.yaml.t_num0.part"), "lr").unwrap();
        for _ in 0..2 {
            assert!(all(std::slice::from_ref(&job))[0].is_ok());
        }
        let mut names: Vec<_> =
            fs::read_dir(&job.to).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["last", "loss.csv", "run.json", "sub"]);
        assert_eq!(fs::read_to_string(job.to.join("sub/deep.txt")).unwrap(), "deep");
        assert_eq!(fs::read_to_string(job.to.parent().unwrap().join("param2val.yaml")).unwrap(), "lr: 1\n");
        assert_eq!(fs::read_dir(job.to.parent().unwrap()).unwrap().count(), 2, "nothing half is left");
        let mut marked = self::job(base.path(), "t_num7");
        marked.note.results_mark = crate::queue::mark::leave(&results);
        assert!(marked.note.results_mark.is_some() && all(std::slice::from_ref(&marked))[0].is_ok());
        let mut other = job;
        other.note.attempt.number = 2;
        assert!(matches!(all(std::slice::from_ref(&other))[0], Err(Problem::Never(_))));
        other.to.set_file_name("t_num1");
        other.note.beside[0].1 = "lr: 2\n".into();
        assert!(matches!(&all(&[other])[0], Err(Problem::Never(why)) if why.contains("another configuration")));
    }

    /// A program may leave a `run.json` of its own: what it left is its result, and ours goes beside it.
    #[test]
    fn a_programs_own_run_json_is_kept() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("results")).unwrap();
        let mut job = job(base.path(), "t_num0");
        fs::write(job.room.join("run.json"), "{\"theirs\": 1}").unwrap();
        for _ in 0..2 {
            assert!(all(std::slice::from_ref(&job))[0].is_ok(), "the same again finds itself there");
        }
        for kept in [job.room.join("run.json"), job.to.join("run.json")] {
            assert_eq!(fs::read_to_string(kept).unwrap(), "{\"theirs\": 1}");
        }
        let ours: serde_json::Value =
            serde_json::from_slice(&fs::read(job.to.join("run.shoal.json")).unwrap()).unwrap();
        assert_eq!(ours["run"], "mlp:3.0");
        // One that came with the source is no result.
        job.note.ours.push("run.json".into());
        job.to.set_file_name("t_num1");
        assert!(all(std::slice::from_ref(&job))[0].is_ok());
        assert!(fs::read_to_string(job.to.join("run.json")).unwrap().contains("mlp:3.0"));
        assert!(!job.to.join("run.shoal.json").exists());
    }

    #[test]
    fn what_is_forbidden_is_not_taken_for_a_drive_that_is_away() {
        let base = tempfile::tempdir().unwrap();
        let job = job(base.path(), "t_num0");
        for code in [libc::EACCES, libc::EPERM, libc::EROFS] {
            let problem = problem_of(&job, &io::Error::from_raw_os_error(code));
            let Problem::Refused(why) = problem else { panic!("{problem:?}") };
            assert!(why.contains("host h") && why.contains(job.room.to_str().unwrap()), "{why}");
        }
        assert!(matches!(problem_of(&job, &io::Error::from_raw_os_error(libc::ENOSPC)), Problem::Later(_)));
        assert!(matches!(problem_of(&job, &io::Error::from_raw_os_error(libc::ENOTDIR)), Problem::Never(_)));
    }

    #[test]
    fn what_is_needed_to_do_it_again_is_told() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("results")).unwrap();
        let digest = "ab".repeat(32);
        let tree = base.path().join("trees").join(&digest);
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join(DIFF_FILE), "-one\n+two\n").unwrap();
        let origin = Origin {
            commit: "c0".into(),
            dirty: Some(true),
            diff: Some(digest),
            folder: "/home/ann/mlp".into(),
            host: "desk".into(),
        };
        let told = |stamp: &str, origin: Origin| -> serde_json::Value {
            let mut job = job(base.path(), stamp);
            job.note.origin = Some(origin);
            job.note.devices = vec![Held { uuid: "GPU-1".into(), milli: 500 }];
            let gpu = |uuid: &str, model: &str| Gpu {
                uuid: uuid.into(),
                pci: String::new(),
                model: model.into(),
                memory_bytes: 0,
                foreign_bytes: 0,
                foreign_processes: 0,
            };
            job.here.gpus = vec![gpu("GPU-0", "other"), gpu("GPU-1", "GTX 1080")];
            assert!(all(std::slice::from_ref(&job))[0].is_ok());
            serde_json::from_slice(&fs::read(job.to.join("run.json")).unwrap()).unwrap()
        };
        let (one, two) = (told("t_num0", origin.clone()), told("t_num1", origin.clone()));
        assert_eq!((&one["source"]["commit"], &one["source"]["dirty"]), (&"c0".into(), &true.into()));
        assert_eq!(one["devices"][0]["model"], "GTX 1080");
        assert_eq!(one["source"]["diff"], two["source"]["diff"]);
        let folder = base.path().join("results/mlp/runs/param_003/t_num1");
        let diff = folder.join(two["source"]["diff"].as_str().unwrap());
        assert_eq!(fs::read_to_string(diff).unwrap(), "-one\n+two\n");
        assert_eq!(fs::read_dir(base.path().join("results/mlp/runs")).unwrap().count(), 2, "once for all");
        // A difference that did not come is not named.
        let other = told("t_num2", Origin { diff: Some("cd".repeat(32)), ..origin });
        assert_eq!(other["source"]["diff"], serde_json::Value::Null);
    }
}
