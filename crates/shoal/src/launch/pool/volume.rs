//! What lies on the pool's volume for a gang, and what do its ranks leave there?

use crate::commands::run::NotBegun;
use crate::queue::snapshot::walk::{Listing, What};
use crate::queue::snapshot::{self, Kind, Root};
use crate::queue::trees::is_a_project;
use shoal_core::kubernetes::gang::{self, GO, HEART, PROGRAM, SCRIPT, SOURCE, STOP, script};
use shoal_core::kubernetes::pool::{BEGUN, CODE, OUT};
use shoal_core::plan::GangPlan;
use shoal_core::rank::Rank;
use shoal_hosts::ssh::deliver::Parcel;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Between two beats of the heart.
const BEAT: Duration = Duration::from_secs(1);
/// Output that is taken from one rank at a time.
const PIECE: usize = 256 << 10;
/// Below the pool's folder: our program, by its content.
const BIN: &str = "bin";

pub struct Volume {
    pub folder: PathBuf,
    pub bin: PathBuf,
}

impl Volume {
    /// `root`: the pool's folder.
    pub fn at(root: &Path, run: &str, digest: &str) -> Volume {
        Volume { folder: root.join(gang::GANGS).join(run), bin: root.join(BIN).join(digest) }
    }

    pub fn source(&self) -> PathBuf {
        self.folder.join(SOURCE)
    }

    fn of(&self, rank: Rank) -> PathBuf {
        self.folder.join(gang::folder(rank))
    }

    /// A folder for each rank, with what its pod does until all are up.
    pub fn make(&self, plan: &GangPlan, silence_s: u64, grace_s: u64) -> io::Result<()> {
        for rank in &plan.ranks {
            let folder = self.of(rank.rank);
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let text = script::waiting(&folder.to_string_lossy(), silence_s, grace_s);
            fs::write(folder.join(SCRIPT), text)?;
        }
        Ok(())
    }

    /// Our program, for master and servers: once, by its content, whole or not there.
    pub fn deliver(&self, parcel: &Parcel) -> io::Result<()> {
        if self.bin.is_dir() {
            return Ok(());
        }
        let beside = self.bin.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_dir_all(&beside);
        fs::create_dir_all(&beside)?;
        fs::copy(&parcel.path, beside.join("shoal"))?;
        for name in ["ps_master", "ps_server"] {
            symlink("shoal", beside.join(name))?;
        }
        match fs::rename(&beside, &self.bin) {
            // Somebody else was quicker.
            Err(_) if self.bin.is_dir() => fs::remove_dir_all(&beside),
            renamed => renamed,
        }
    }

    /// The project as it is now, for this run alone: ranks may write there.
    pub fn copy_source(&self, from: &Path, without: PathBuf) -> Result<Listing, NotBegun> {
        let root = Root { from: from.to_path_buf(), at: String::new(), ignore: Vec::new(), without: vec![without] };
        is_a_project(&root)?;
        let listing = snapshot::list(&[root], Kind::Source).map_err(NotBegun::Wrong)?;
        let to = self.source();
        let copied = fs::create_dir_all(&to).and_then(|()| {
            listing.entries.iter().try_for_each(|(name, entry)| {
                let to = to.join(name);
                if let Some(above) = to.parent() {
                    fs::create_dir_all(above)?;
                }
                match &entry.what {
                    What::Folder => fs::create_dir_all(&to),
                    What::File { .. } => fs::copy(&entry.from, &to).map(drop),
                    What::Link { to: target } => symlink(target, &to),
                }
            })
        });
        copied
            .map(|()| listing)
            .map_err(|e| NotBegun::Here(format!("the source cannot be copied to {}: {e}", to.display())))
    }

    /// The address of its pod, once that is up.
    pub fn address(&self, rank: Rank) -> Option<String> {
        let text = fs::read_to_string(self.of(rank).join(BEGUN)).ok()?;
        Some(text.trim().to_string()).filter(|address| !address.is_empty())
    }

    /// How it ended by itself, and when.
    pub fn code(&self, rank: Rank) -> Option<(i64, SystemTime)> {
        let path = self.of(rank).join(CODE);
        let code = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
        Some((code, fs::metadata(path).and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH)))
    }

    /// The next piece of its output. Opened anew each time: only then does a network drive look whether there is more.
    pub fn output(&self, rank: Rank, from: u64) -> io::Result<Vec<u8>> {
        let file = match File::open(self.of(rank).join(OUT)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut bytes = vec![0; PIECE];
        let n = file.read_at(&mut bytes, from)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    pub fn last_lines(&self, rank: Rank) -> String {
        const LINES: usize = 10;
        let Ok(file) = File::open(self.of(rank).join(OUT)) else { return String::new() };
        let length = file.metadata().map_or(0, |about| about.len());
        let mut bytes = vec![0; 4 << 10];
        let from = length.saturating_sub(bytes.len() as u64);
        let n = file.read_at(&mut bytes, from).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// What a rank runs; before [`Volume::go`].
    pub fn write_program(&self, rank: Rank, text: &str) -> io::Result<()> {
        fs::write(self.of(rank).join(PROGRAM), text)
    }

    pub fn go(&self) -> io::Result<()> {
        fs::write(self.folder.join(GO), "")
    }

    pub fn stop(&self) -> io::Result<()> {
        fs::write(self.folder.join(STOP), "")
    }

    /// Removes what is of no use any more. What ranks have left in their folder stays; then that folder is said.
    pub fn leave(&self, source: Option<&Listing>) -> Option<PathBuf> {
        let left = source.is_some_and(|listing| {
            let known: BTreeSet<&str> = listing.entries.keys().map(String::as_str).collect();
            has_more(&self.source(), "", &known)
        });
        let Ok(entries) = fs::read_dir(&self.folder) else { return None };
        for entry in entries.flatten().filter(|entry| !left || entry.file_name() != SOURCE) {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
        let _ = fs::remove_dir(&self.folder);
        left.then(|| self.source())
    }
}

/// Whether anything is below that was not copied there; what Python makes of sources is nothing.
fn has_more(folder: &Path, at: &str, known: &BTreeSet<&str>) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let Ok(name) = entry.file_name().into_string() else { return true };
        let path = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match is_folder {
            true if name == "__pycache__" => false,
            true => has_more(&entry.path(), &path, known),
            false => !known.contains(path.as_str()),
        }
    })
}

/// As long as it is there, ranks know that somebody follows them.
pub struct Heart {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    pub fn start(folder: &Path) -> io::Result<Heart> {
        let (ends, path) = (Arc::new(AtomicBool::new(false)), folder.join(HEART));
        fs::write(&path, "0\n")?;
        let theirs = ends.clone();
        let beat = move || {
            for beat in 1u64.. {
                std::thread::park_timeout(BEAT);
                if theirs.load(Ordering::Relaxed) {
                    return;
                }
                // A volume that is away for a moment is written again; for longer, ranks end.
                let _ = fs::write(&path, format!("{beat}\n"));
            }
        };
        let thread = std::thread::Builder::new().name("heart".into()).spawn(beat)?;
        Ok(Heart { ends, thread: Some(thread) })
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_leave_stays_and_the_rest_goes() {
        let root = tempfile::tempdir().expect("a folder");
        let project = root.path().join("project");
        fs::create_dir_all(project.join("lib")).expect("a folder");
        fs::write(project.join("lib/a.py"), "x").expect("written");
        for (left, stays) in [(None, false), (Some("lib/__pycache__/a.pyc"), false), (Some("lib/model.pt"), true)] {
            let volume = Volume::at(root.path(), "r", "d");
            let listing = volume.copy_source(&project, project.join("logs")).unwrap_or_else(|e| panic!("{}", e.why()));
            assert_eq!(fs::read_to_string(volume.source().join("lib/a.py")).expect("a copy"), "x");
            fs::create_dir_all(volume.folder.join("worker0")).expect("a folder");
            if let Some(left) = left.map(|left| volume.source().join(left)) {
                fs::create_dir_all(left.parent().expect("a folder")).expect("a folder");
                fs::write(left, "y").expect("written");
            }
            assert_eq!(volume.leave(Some(&listing)), stays.then(|| volume.source()));
            assert_eq!((volume.folder.exists(), volume.folder.join("worker0").exists()), (stays, false));
        }
    }
}
