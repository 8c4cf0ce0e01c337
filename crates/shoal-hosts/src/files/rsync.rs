//! The system's rsync, over the connection that is open already: which words it gets (pure), and how it is run.

use super::line::{Trouble, stopped, trouble};
use super::stop::{LOOK, Stop};
use rustix::process::{Pid, Signal, kill_process_group};
use shoal_core::quote::quote;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Whether programs started here find it.
pub fn is_here() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let runs = |file: &Path| std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&path).any(|folder| runs(&folder.join("rsync")))
}

/// What rsync starts instead of ssh. The connection is there; a second login is never made.
pub fn shell(control: &Path) -> String {
    let control = control.display().to_string();
    format!("ssh -F none -S {} -o ControlMaster=no -o BatchMode=yes -o ProxyCommand=false", quote(&control))
}

/// Holes stay holes. Without owners: files belong to who logs in, whichever way they took. Not pressed: in a lab, rsync -z is slower than the network.
const ALWAYS: [&str; 6] =
    ["-lptS", "-s", "--timeout=30", "--info=progress2,stats2", "--no-inc-recursive", "--outbuf=N"];

/// Sends exactly these files of `root` to a folder.
pub fn up(root: &Path, control: &Path, remote: &str) -> Vec<OsString> {
    let mut args: Vec<OsString> = ALWAYS.map(Into::into).to_vec();
    args.extend(["--files-from=-".into(), "--from0".into(), "-e".into(), shell(control).into()]);
    let mut from = root.as_os_str().to_os_string();
    from.push("/");
    args.extend(["--".into(), from, format!("node:{}/", remote.trim_end_matches('/')).into()]);
    args
}

/// Sends one file to a path that is its whole name there.
pub fn up_file(local: &Path, control: &Path, remote: &str) -> Vec<OsString> {
    let mut args: Vec<OsString> = ALWAYS.map(Into::into).to_vec();
    args.extend(["-e".into(), shell(control).into(), "--".into(), local.into(), format!("node:{remote}").into()]);
    args
}

/// As `rsync SRC DST` does: a slash behind SRC means what is in it.
pub fn down(
    control: &Path,
    source: &str,
    target: &Path,
    excludes: &[String],
    filters: &[String],
    delete: bool,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = ALWAYS.map(Into::into).to_vec();
    args.push("-r".into());
    args.extend(delete.then(|| "--delete".into()));
    args.extend(excludes.iter().flat_map(|pattern| ["--exclude".into(), pattern.into()]));
    args.extend(filters.iter().flat_map(|file| ["--filter".into(), format!("dir-merge,- {file}").into()]));
    args.extend(["-e".into(), shell(control).into(), "--".into(), format!("node:{source}").into(), target.into()]);
    args
}

/// What it did, in its own numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Did {
    pub files: u64,
    pub deleted: u64,
    /// Files that were listed and gone when their turn came: programs that run make and remove them all the time.
    pub vanished: u64,
}

/// rsync's word for: everything is there, but for what vanished.
const VANISHED: i32 = 24;

/// Takes what a line of its account says (pure): `Number of deleted files: 1,234 (reg: 1,233, dir: 1)`.
fn account(line: &str, did: &mut Did) {
    let number = |rest: &str| rest.split_whitespace().next()?.replace(',', "").parse().ok();
    if let Some(n) = line.strip_prefix("Number of deleted files: ").and_then(number) {
        did.deleted = n;
    }
    if let Some(n) = line.strip_prefix("Number of regular files transferred: ").and_then(number) {
        did.files = n;
    }
}

/// How long it may take to end when it is asked to, before it is made to.
const GRACE: Duration = Duration::from_secs(2);

/// Runs it; `told` gets the bytes so far.
pub fn run(
    node: &str,
    args: &[OsString],
    input: Vec<u8>,
    stop: &Stop,
    told: &mut dyn FnMut(u64),
) -> Result<Did, Trouble> {
    let mut command = Command::new("rsync");
    command.args(args).env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child =
        command.spawn().map_err(|e| trouble(node, format!("rsync cannot be run: {e}"), "install rsync here"))?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    // Both end with rsync, which ends by itself when nothing moves for half a minute.
    std::thread::spawn(move || drop(stdin.map(|mut stdin| stdin.write_all(&input))));
    let complaints = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.map(|stderr| stderr.take(64 << 10).read_to_string(&mut text));
        text
    });
    // It has a group of its own, ssh with it; neither hears the Ctrl-C that we hear.
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (over, is_over) = channel::<()>();
    let watch = stop.clone();
    let watcher = std::thread::spawn(move || end_when_asked(group, &watch, &is_over));
    let mut line = Vec::new();
    let mut did = Did::default();
    for byte in
        child.stdout.take().into_iter().flat_map(|out| std::io::BufReader::new(out).bytes()).map_while(Result::ok)
    {
        match byte {
            b'\r' | b'\n' => {
                let text = String::from_utf8_lossy(&line).into_owned();
                let number: String = text.split_whitespace().next().unwrap_or_default().replace(',', "");
                let _ = number.parse().map(&mut *told);
                account(&text, &mut did);
                line.clear();
            }
            other => line.push(other),
        }
    }
    // Before its number may be another's.
    drop(over);
    let _ = watcher.join();
    let status = child.wait().map_err(|e| trouble(node, format!("rsync's end cannot be had: {e}"), ""))?;
    let said = complaints.join().unwrap_or_default();
    match status.code() {
        Some(0) => Ok(did),
        Some(VANISHED) => Ok(Did { vanished: vanished(&said), ..did }),
        _ if stop.is_asked() => Err(stopped(node)),
        code => Err(explain(node, code, &said)),
    }
}

/// Until it is over: asked to stop, it and what it started are ended.
fn end_when_asked(group: Option<Pid>, stop: &Stop, is_over: &Receiver<()>) {
    let mut since: Option<Instant> = None;
    while is_over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let signal = match since {
            _ if !stop.is_asked() => continue,
            Some(since) if since.elapsed() < GRACE => continue,
            Some(_) => Signal::KILL,
            None => Signal::TERM,
        };
        since.get_or_insert_with(Instant::now);
        // One that is gone already is what was wanted.
        let _ = group.map(|group| kill_process_group(group, signal));
    }
}

/// How many files it missed (pure); at least one, or it would not say so.
fn vanished(said: &str) -> u64 {
    (said.lines().filter(|line| line.contains("has vanished")).count() as u64).max(1)
}

/// What rsync's complaint means (pure).
fn explain(node: &str, code: Option<i32>, said: &str) -> Trouble {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = lines.first().copied().unwrap_or("it does not say why");
    let has = |sign: &str| said.contains(sign);
    let hint = if has("No space left") || has("quota") {
        "free space there, or choose another place"
    } else if has("Read-only") {
        "that file system is mounted read-only; choose another place"
    } else if has("Permission denied") {
        "the user who logs in there may not do this; choose a place in its home"
    } else if has("No such file") {
        "is the path spelt as it is there?"
    } else {
        "run the same command again: what is there is not sent twice"
    };
    let code = code.map_or_else(|| "by a signal".to_string(), |code| format!("with code {code}"));
    trouble(node, format!("rsync ended {code}: {first}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsync_uses_the_open_connection_and_no_other() {
        let words = up(Path::new("/a b"), Path::new("/run/s p/x"), "/root/t/");
        let text: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
        assert!(text.contains(
            &"ssh -F none -S '/run/s p/x' -o ControlMaster=no -o BatchMode=yes -o ProxyCommand=false".to_string()
        ));
        assert_eq!(text[text.len() - 2..], ["/a b/", "node:/root/t/"]);
        assert!(!text.iter().any(|w| w.contains('z')), "{text:?}");
    }

    #[test]
    fn its_account_is_read() {
        let said = "Number of files: 9 (reg: 8, dir: 1)\nNumber of created files: 0\nNumber of deleted files: 1,234 (reg: 1,233, dir: 1)\n\
                    Number of regular files transferred: 2\nTotal file size: 12 bytes\n";
        let mut did = Did::default();
        said.lines().for_each(|line| account(line, &mut did));
        assert_eq!(did, Did { files: 2, deleted: 1234, vanished: 0 });
    }

    /// A folder in which a program works: something is gone between the list and its turn.
    #[test]
    fn what_vanishes_meanwhile_is_no_failure() {
        if !is_here() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir(&from).expect("a folder");
        std::fs::write(from.join("a"), vec![7; 600 << 10]).expect("a file");
        std::fs::write(from.join("z"), b"z").expect("a file");
        let mut args: Vec<OsString> = ["-r", "-W", "--bwlimit=300", "--no-inc-recursive", "--"].map(Into::into).into();
        args.extend([from.join("").into(), to.clone().into()]);
        let z = from.join("z");
        let remover = std::thread::spawn(move || {
            // The list is made before the first file is there.
            let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
            while std::fs::read_dir(&to).map_or(0, Iterator::count) == 0 {
                assert!(std::time::Instant::now() < end, "nothing comes");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            std::fs::remove_file(z).expect("it was there");
        });
        let did = run("n", &args, Vec::new(), &Stop::default(), &mut |_| {});
        remover.join().expect("removed");
        assert_eq!(did.map(|did| did.vanished), Ok(1));
    }

    /// Slow enough to take minutes; asked to, it is over at once, and says so.
    #[test]
    fn asked_to_stop_it_ends_before_it_is_done() {
        if !is_here() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, vec![7; 4 << 20]).expect("a file");
        let args: Vec<OsString> =
            ["-W".into(), "--bwlimit=10".into(), "--".into(), from.into(), to.clone().into_os_string()].into();
        let stop = Stop::default();
        let asker = stop.clone();
        let asks = std::thread::spawn(move || {
            std::thread::sleep(LOOK * 3);
            asker.ask();
        });
        let did = run("n", &args, Vec::new(), &stop, &mut |_| {});
        asks.join().expect("asked");
        assert_eq!(did, Err(stopped("n")));
        assert!(!to.exists());
    }

    #[test]
    fn the_usual_complaints_have_hints() {
        let said = "rsync: [receiver] write failed on \"/x\": No space left on device (28)\nrsync error: ...";
        let trouble = explain("n", Some(11), said);
        assert!(trouble.what.contains("with code 11") && trouble.what.contains("No space left"), "{trouble}");
        assert!(trouble.hint.contains("free space"));
    }
}
