//! Which packages does the Python of a run have? It is asked itself, once for an environment and not again for a while, beside the run and never
//! in its way; the answer is kept in `packages/<environment>.txt`, where the next agent finds it.

use crate::keeper::command::Env;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Somebody may install something between two runs.
const AGAIN: Duration = Duration::from_secs(600);
/// Modules and conda on a slow drive; for ever is too long.
const LONGEST: Duration = Duration::from_secs(60);
/// Results of a run wait this long for an answer that is on its way.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_BYTES: u64 = 256 << 10;
const MOST_LINES: usize = 2000;
/// Environments that are remembered.
const MOST_KNOWN: usize = 1000;
/// Words of a command that are looked at.
const MOST_WORDS: usize = 16;

/// The first line says which Python it is. The first of a name is the one that is imported.
pub const SCRIPT: &str = "import sys\n\
    from importlib import metadata\n\
    found = {}\n\
    for one in metadata.distributions():\n    \
        name = one.metadata['Name']\n    \
        found.setdefault(str(name).lower(), '%s==%s' % (name, one.version))\n\
    print('%s %s' % (sys.version.split()[0], sys.executable))\n\
    print('\\n'.join(found[name] for name in sorted(found)))\n";

/// How the Python of an environment is started, and where its answer goes.
pub struct Question {
    pub file: PathBuf,
    pub program: PathBuf,
    pub argv: Vec<String>,
    pub env: Env,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub python: String,
    pub packages: Vec<String>,
}

struct Asked {
    at: Instant,
    open: bool,
}

static ASKED: Mutex<BTreeMap<PathBuf, Asked>> = Mutex::new(BTreeMap::new());
static ANSWERED: Condvar = Condvar::new();

fn asked() -> MutexGuard<'static, BTreeMap<PathBuf, Asked>> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    name.strip_prefix("python").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// The word of a command that is its Python: the program itself, one that another program is given by its path, or one that a shell's line
/// names; in a virtualenv, its own. Nothing if the command is of another kind. `is_there` says of a path whether it leads to a program.
pub fn interpreter(argv: &[String], virtualenv: bool, is_there: impl Fn(&str) -> bool) -> Option<String> {
    let first = argv.first()?;
    if is_python(first) {
        return Some(first.clone());
    }
    let words = || argv.iter().take(MOST_WORDS).skip(1);
    if let Some(word) = words().find(|word| word.starts_with('/') && is_python(word) && is_there(word)) {
        return Some(word.clone());
    }
    let apart = |c: char| c.is_whitespace() || ";&|()=\"'".contains(c);
    let shell = matches!(first.rsplit('/').next(), Some("sh" | "bash" | "dash" | "zsh" | "env"));
    let named = words().filter(|_| shell).flat_map(|word| word.split(apart));
    let named = named.filter(|word| is_python(word)).find(|word| !word.contains('/') || is_there(word));
    named.map(Into::into).or(virtualenv.then(|| "python".into()))
}

/// What tells environments apart.
pub fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect()
}

pub fn file(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.txt"))
}

/// Whether it was not asked of late. Whoever hears that asks.
pub fn is_due(file: &Path) -> bool {
    let mut asked = asked();
    let due = asked.get(file).is_none_or(|it| !it.open && it.at.elapsed() > AGAIN);
    if due {
        if asked.len() >= MOST_KNOWN {
            asked.retain(|_, it| it.open);
        }
        asked.insert(file.into(), Asked { at: Instant::now(), open: true });
    }
    due
}

fn close(file: &Path) {
    if let Some(it) = asked().get_mut(file) {
        it.open = false;
    }
    ANSWERED.notify_all();
}

/// In a thread of its own; what is no answer is left out.
pub fn ask(question: Question) {
    let file = question.file.clone();
    let run = move || {
        let kept = answer_of(&question).filter(|text| read(text).is_some()).map(|text| keep(&question.file, &text));
        if let Some(Err(e)) = kept {
            crate::queue::keeper::diary::note("agent", format!("{}: {e}", question.file.display()));
        }
        close(&question.file);
    };
    if std::thread::Builder::new().name("packages".into()).stack_size(256 << 10).spawn(run).is_err() {
        close(&file);
    }
}

fn keep(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        crate::queue::keeper::folder::make(folder)?;
    }
    let beside = file.with_extension("part");
    fs::write(&beside, text)?;
    fs::rename(&beside, file)
}

fn answer_of(question: &Question) -> Option<String> {
    let mut command = Command::new(&question.program);
    command.args(&question.argv).env_clear().envs(&question.env).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let with_us = || {
        // SAFETY: one call with constants, async-signal-safe. The thread that starts it lives until it ends.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        crate::signals::reset_in_child();
        Ok(())
    };
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe { command.pre_exec(with_us) };
    let mut child = command.spawn().ok()?;
    let pipe = child.stdout.take()?;
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(MOST_BYTES).read_to_end(&mut bytes);
        drop(send.send(read.ok().map(|_| bytes)));
    });
    let bytes = receive.recv_timeout(LONGEST).ok().flatten();
    // Also what it started: setup lines may leave something behind that holds the pipe.
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group.filter(|_| bytes.is_none()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let status = child.wait().ok()?;
    String::from_utf8(bytes?).ok().filter(|_| status.success())
}

/// Pure.
fn read(text: &str) -> Option<Answer> {
    let mut lines = text.lines().filter(|line| line.len() < 300);
    let python = lines.next().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))?.to_string();
    let packages = lines.filter(|line| line.contains("==")).take(MOST_LINES).map(Into::into).collect();
    Some(Answer { python, packages })
}

/// What was answered, now or to an earlier agent. Waits for one that is on its way, not for ever.
pub fn answer(file: &Path) -> Option<Answer> {
    let until = Instant::now() + PATIENCE;
    let mut held = asked();
    while held.get(file).is_some_and(|it| it.open) {
        let left = until.checked_duration_since(Instant::now())?;
        held = ANSWERED.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    drop(held);
    read(&fs::read_to_string(file).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_word_is_the_python_of_a_command() {
        let there = |path: &str| path == "/v/bin/python3.11";
        let choose = "p=python3; if [ -x \"$0\" ]; then p=$0; fi; exec \"$p\" \"$@\"";
        for (words, virtualenv, expected) in [
            (&["python", "train.py"][..], false, Some("python")),
            (&["/v/bin/python3.11", "-u", "x"], false, Some("/v/bin/python3.11")),
            (&["sh", "-c", choose, "/v/bin/python3.11", "-u"], false, Some("/v/bin/python3.11")),
            (&["sh", "-c", choose, "/gone/bin/python", "-u"], false, Some("python3")),
            (&["bash", "-c", "cd x && python train.py"], false, Some("python")),
            (&["env", "A=1", "python3", "x"], false, Some("python3")),
            (&["torchrun", "train.py"], true, Some("python")),
            (&["torchrun", "train.py"], false, None),
            (&["true"], false, None),
            (&["sh", "-c", "echo pythonic"], false, None),
            (&["cat", "python"], false, None),
            (&[], true, None),
        ] {
            let argv: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            assert_eq!(interpreter(&argv, virtualenv, there).as_deref(), expected, "{words:?}");
        }
    }

    #[test]
    fn it_is_asked_once_and_the_answer_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("packages");
        let question = |key: &str, line: &str| Question {
            file: file(&at, key),
            program: "/bin/sh".into(),
            argv: vec!["-c".into(), line.into()],
            env: Env::default(),
        };
        let good =
            question("good", "echo asked >> /dev/stderr; echo 3.11.2 /usr/bin/python3; echo numpy==2.1; echo odd");
        let path = good.file.clone();
        assert!(is_due(&path));
        assert!(!is_due(&path), "one asks");
        ask(good);
        let known = Answer { python: "3.11.2 /usr/bin/python3".into(), packages: vec!["numpy==2.1".into()] };
        assert_eq!(answer(&path), Some(known));
        assert!(!is_due(&path), "not again so soon");
        for (key, line) in [("bad", "echo 3.11; exit 1"), ("none", "echo hello")] {
            let bad = question(key, line);
            let path = bad.file.clone();
            assert!(is_due(&path));
            ask(bad);
            assert_eq!(answer(&path), None, "{line}");
        }
        assert_eq!(answer(&file(&at, "never")), None);
        assert_ne!(key(&["a", "b"]), key(&["ab", ""]));
    }
}
