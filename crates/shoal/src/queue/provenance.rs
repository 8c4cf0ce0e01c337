//! What has to be known to do it again? The commit, the difference to it, the packages. Nothing here may keep a submit from happening: what cannot be
//! found out is left out.

use shoal_core::queue::sweep::Provenance;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A larger difference is a vendored world; the source tree has it anyway.
const MOST_DIFF: u64 = 16 << 20;
/// Git on a slow drive.
const GIT_WAIT: Duration = Duration::from_secs(10);
const MOST_PACKAGES: usize = 2000;

/// Beside the record, the difference to the commit, if there is one.
pub fn of(folder: &Path, virtualenv: Option<&str>) -> (Provenance, Option<Vec<u8>>) {
    let commit = git(folder, &["rev-parse", "--verify", "--quiet", "HEAD"], 200);
    let commit = commit.and_then(|text| String::from_utf8(text).ok()).map(|text| text.trim().to_string());
    let commit = commit.filter(|text| text.len() >= 40 && text.bytes().all(|b| b.is_ascii_hexdigit()));
    let diff = commit.as_ref().and_then(|_| {
        git(folder, &["diff", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD", "--"], MOST_DIFF)
    });
    // Files that git does not know are in no difference; the source tree has them.
    let others = ["ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z"];
    let others = commit.as_ref().and_then(|_| git(folder, &others, MOST_DIFF));
    let dirty = match (&diff, &others) {
        (Some(diff), Some(others)) => Some(!diff.is_empty() || !others.is_empty()),
        _ => None,
    };
    let provenance = Provenance {
        folder: folder.display().to_string(),
        host: shoal_sync::host::name(),
        commit,
        dirty,
        diff: None,
        packages: environment(virtualenv).map(|root| packages(&root)).unwrap_or_default(),
    };
    (provenance, diff.filter(|diff| !diff.is_empty()))
}

/// What it said, if it ended well, in time, and was not too long.
fn git(folder: &Path, words: &[&str], most: u64) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["--no-pager", "-c", "core.fsmonitor=false"]);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.env("GIT_OPTIONAL_LOCKS", "0").spawn().ok()?;
    let pipe = child.stdout.take()?;
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(most + 1).read_to_end(&mut bytes);
        drop(send.send(read.ok().map(|_| bytes)));
    });
    let bytes = receive.recv_timeout(GIT_WAIT).ok().flatten().filter(|bytes| bytes.len() as u64 <= most);
    if bytes.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    bytes.filter(|_| status.success())
}

/// The environment that runs will find: the sweep's own, else that of whoever submits.
fn environment(virtualenv: Option<&str>) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let own = virtualenv.map(|text| match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    });
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    own.or_else(|| set("VIRTUAL_ENV")).or_else(|| set("CONDA_PREFIX"))
}

/// `name==version` of all that is installed, from the names of their metadata folders: no Python has to start for it.
fn packages(environment: &Path) -> Vec<String> {
    let folders = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let pythons = folders(environment.join("lib"))
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python")));
    let mut found: Vec<String> = pythons
        .flat_map(|python| folders(python.join("site-packages")))
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".dist-info")?.to_string();
            let (name, version) = name.rsplit_once('-')?;
            Some(format!("{name}=={version}"))
        })
        .collect();
    found.sort();
    found.dedup();
    found.truncate(MOST_PACKAGES);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_names() {
        let root = tempfile::tempdir().expect("a folder");
        for name in ["numpy-2.1.0.dist-info", "typing_extensions-4.12.2.dist-info", "numpy", "odd.dist-info"] {
            std::fs::create_dir_all(root.path().join("lib/python3.11/site-packages").join(name)).expect("a folder");
        }
        assert_eq!(packages(root.path()), ["numpy==2.1.0", "typing_extensions==4.12.2"]);
        assert!(packages(&root.path().join("none")).is_empty());
    }

    #[test]
    fn a_commit_and_what_was_changed_since() {
        let root = tempfile::tempdir().expect("a folder");
        let git = |words: &[&str]| {
            let name = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
            let done = Command::new("git").arg("-C").arg(root.path()).args(name).args(words).output();
            done.is_ok_and(|output| output.status.success())
        };
        let (none, diff) = of(root.path(), Some("/nowhere"));
        assert_eq!((none.commit, diff, none.packages.len()), (None, None, 0));
        if !git(&["init", "-q"]) {
            eprintln!("no git here: only half of it was tested");
            return;
        }
        std::fs::write(root.path().join("a"), "one\n").expect("a file");
        assert!(git(&["add", "a"]) && git(&["commit", "-qm", "first"]));
        let (clean, diff) = of(root.path(), Some("/nowhere"));
        assert!(clean.commit.is_some_and(|commit| commit.len() == 40) && diff.is_none());
        assert_eq!((none.dirty, clean.dirty), (None, Some(false)));
        std::fs::write(root.path().join("b"), "new\n").expect("a file");
        let (other, diff) = of(root.path(), Some("/nowhere"));
        assert_eq!((other.dirty, diff), (Some(true), None), "a file that git does not know");
        std::fs::remove_file(root.path().join("b")).expect("a file");
        std::fs::write(root.path().join("a"), "two\n").expect("a file");
        let (changed, diff) = of(root.path(), Some("/nowhere"));
        assert_eq!(changed.dirty, Some(true));
        assert!(String::from_utf8_lossy(&diff.expect("a difference")).contains("+two"));
    }
}
