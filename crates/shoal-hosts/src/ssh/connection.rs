//! The one connection of a host: opened by the system's ssh, shared by everything we do there, kept warm for the next command.

use super::explain::{self, Failure, Trouble, explain};
use super::{guard, options};
use crate::process::{End, Exit, Process, Said};
use sha2::{Digest, Sha256};
use shoal_core::fleet::{Fleet, Host, Reach};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long ssh may take in all; it gives up connecting after ten seconds by itself.
const OPENING: Duration = Duration::from_secs(25);
/// How long a host may take to free the session of a command that is over.
const FREEING: Duration = Duration::from_secs(2);
/// How often a host that turns us away during the greeting is tried again: it may only be busy.
const ATTEMPTS: u32 = 6;

/// How long a connection may take to end when it is told to, and how often we look.
const CLOSING: Duration = Duration::from_secs(5);
const CLOSING_LOOK: Duration = Duration::from_millis(2);

#[derive(Debug, Clone)]
pub struct Settings {
    /// Where control sockets live: a short path, for its owner alone.
    pub folder: PathBuf,
    /// Instead of `~/.ssh/config`.
    pub config: Option<PathBuf>,
    /// Seconds an idle connection stays open.
    pub persist_s: u32,
}

impl Settings {
    /// From the environment: `SHOAL_SSH_CONFIG`, `SHOAL_SSH_PERSIST`, and where this user's files for a session belong.
    pub fn from_env() -> Settings {
        let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        let persist = var("SHOAL_SSH_PERSIST").and_then(|v| v.to_str()?.parse().ok());
        let cache = || var("HOME").map(|home| PathBuf::from(home).join(".cache/shoal"));
        let nowhere = || PathBuf::from(format!("/tmp/shoal-ssh-{}", rustix::process::geteuid().as_raw()));
        let base = var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir()).map(|dir| dir.join("shoal"));
        Settings {
            folder: base.or_else(cache).map_or_else(nowhere, |base| base.join("ssh")),
            config: var("SHOAL_SSH_CONFIG").map(PathBuf::from),
            persist_s: persist.unwrap_or(60),
        }
    }
}

pub struct Connection {
    host: String,
    target: String,
    user: Option<String>,
    control: PathBuf,
    session: Arc<openssh::Session>,
    runtime: Arc<Runtime>,
}

impl Connection {
    /// Uses the host's open connection, or opens it.
    pub fn open(fleet: &Fleet, host: &Host, settings: &Settings) -> Result<Connection, Failure> {
        Connection::open_nth(fleet, host, settings, 0)
    }

    /// The `n`-th connection to a host: hosts allow each only so many sessions (MaxSessions).
    pub fn open_nth(fleet: &Fleet, host: &Host, settings: &Settings, n: u32) -> Result<Connection, Failure> {
        let user = match &host.reach {
            Reach::Ssh { user, .. } => user.clone(),
            Reach::Local => None,
        };
        let target = match &user {
            Some(user) => format!("{user}@{}", host.address),
            None => host.address.clone(),
        };
        let fault = |trouble, what: String, hint: &str| Failure {
            host: host.name.clone(),
            target: target.clone(),
            trouble,
            what,
            hint: hint.into(),
        };
        let system = |what: &str| {
            let what = what.to_string();
            move |e: std::io::Error| {
                fault(Trouble::Other, format!("{what}: {e}"), "is the disk full, or the folder not yours?")
            }
        };
        if let Reach::Ssh { key: Some(key), .. } = &host.reach
            && let Err(e) = std::fs::File::open(expand(key))
        {
            let (what, hint) = explain::unusable(key, &e);
            return Err(fault(Trouble::KeyUnusable, what, &hint));
        }
        if let Err(refusal) = guard::check(fleet, host, settings.config.as_deref()) {
            return Err(fault(Trouble::Forbidden, refusal.to_string(), guard::HINT));
        }
        let private = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&settings.folder);
        private.map_err(system("no folder for the connection's socket"))?;
        if !is_ours_alone(&settings.folder) {
            let what = format!(
                "{} is not yours alone: whoever may write there could take over connections",
                settings.folder.display()
            );
            return Err(fault(Trouble::Forbidden, what, "set HOME or XDG_RUNTIME_DIR, or remove that folder"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = Arc::new(runtime.map_err(system("no event loop"))?);
        let identity = format!("{}\0{n}", options::identity(fleet, host, settings.config.as_deref()));
        let control = settings.folder.join(name_of(&identity));
        // One opens it, the others that come at the same time find it open.
        let _turn = turn(&control).map_err(system("no lock for the connection"))?;
        let connection = |session| Connection {
            host: host.name.clone(),
            target: target.clone(),
            user: user.clone(),
            control: control.clone(),
            session: Arc::new(session),
            runtime: runtime.clone(),
        };
        if let Some(session) = resume(&runtime, &control) {
            return Ok(connection(session));
        }
        let config = settings.config.as_deref();
        let args = options::master(fleet, host, config, &control, settings.persist_s);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let Err(said) = start_master(&args, &control) else { break };
            let failure = match said {
                Refused::NoSsh(why) => {
                    fault(Trouble::NoSsh, format!("ssh could not be run: {why}"), "install the OpenSSH client")
                }
                Refused::Said(text) => match options::jump(fleet, host).filter(|_| explain::is_of_the_jump_host(&text))
                {
                    Some(gate) => explain::on_the_way(&host.name, gate, &text),
                    None => match (explain(&host.name, &target, user.as_deref(), &text), &host.reach) {
                        (failure, Reach::Ssh { host_key: Some(key), .. }) => explain::kept_apart(failure, key),
                        (failure, _) => failure,
                    },
                },
                Refused::Silent => fault(
                    Trouble::Unreachable,
                    format!("ssh did not get through within {} s", OPENING.as_secs()),
                    "is it under heavy load, or does its login ask for something?",
                ),
            };
            if failure.trouble != Trouble::TurnedAway || attempt >= ATTEMPTS {
                return Err(failure);
            }
            // Not all of those who were turned away at the same time come back at the same time.
            let spread =
                std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| u64::from(now.subsec_nanos()) % 100);
            std::thread::sleep(Duration::from_millis((150 << attempt) * (50 + spread) / 100));
        }
        let lost =
            || fault(Trouble::Other, "the connection opened and closed at once".into(), "see the host's auth log");
        resume(&runtime, &control).map(connection).ok_or_else(lost)
    }

    /// Starts a shell line there, with pipes.
    pub fn start(&self, line: &str) -> Result<Process, Failure> {
        let other = |e: &dyn std::fmt::Display| Failure {
            host: self.host.clone(),
            target: self.target.clone(),
            trouble: Trouble::Other,
            what: e.to_string(),
            hint: "too many open files?".into(),
        };
        let (stdin, to) = std::io::pipe().map_err(|e| other(&e))?;
        let (from, stdout) = std::io::pipe().map_err(|e| other(&e))?;
        let (errors, stderr) = std::io::pipe().map_err(|e| other(&e))?;
        let (stdin, stdout, stderr): (std::os::fd::OwnedFd, std::os::fd::OwnedFd, std::os::fd::OwnedFd) =
            (stdin.into(), stdout.into(), stderr.into());
        let session = self.session.clone();
        let mut command = openssh::Session::to_raw_command(session, line);
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let child = self.runtime.block_on(async { tokio::time::timeout(OPENING, command.spawn()).await });
        match child {
            Ok(Ok(child)) => {
                let end = Remote { child: Some(child), exit: None, runtime: self.runtime.clone() };
                Ok(Process { to, from, errors, end: Box::new(end) })
            }
            Ok(Err(e)) => {
                let mut text = e.to_string();
                let mut cause = std::error::Error::source(&e);
                while let Some(inner) = cause {
                    text = format!("{text}: {inner}");
                    cause = inner.source();
                }
                Err(explain(&self.host, &self.target, self.user.as_deref(), &text))
            }
            Err(_) => Err(other(&format!("no session within {} s", OPENING.as_secs()))),
        }
    }

    /// Starts a line after another one: the host may take a moment to count that one's session as over.
    pub fn start_next(&self, line: &str) -> Result<Process, Failure> {
        let deadline = std::time::Instant::now() + FREEING;
        loop {
            match self.start(line) {
                Err(full) if full.trouble == Trouble::TooManySessions && std::time::Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => return other,
            }
        }
    }

    /// Runs a short shell line there to its end.
    pub fn run(&self, line: &str, input: Vec<u8>, limit: Duration) -> Result<Said, Failure> {
        self.start_next(line)?.finish(input, limit).ok_or_else(|| Failure {
            host: self.host.clone(),
            target: self.target.clone(),
            trouble: Trouble::Unreachable,
            what: format!("`{}` did not end within {} s", shorten(line), limit.as_secs()),
            hint: "is the host overloaded, or a file system of it hanging?".into(),
        })
    }

    pub fn target(&self) -> &str {
        &self.target
    }

    /// The socket through which other programs use this connection: ssh's `-S`.
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// Ends the host's open connections, with everything that still goes on over them.
    pub fn close(fleet: &Fleet, host: &Host, settings: &Settings) {
        let base = options::identity(fleet, host, settings.config.as_deref());
        let sockets =
            (0..).map(|n| settings.folder.join(name_of(&format!("{base}\0{n}")))).take_while(|path| path.exists());
        for control in sockets {
            let null = std::process::Stdio::null;
            let mut command = std::process::Command::new("ssh");
            // The name is not used: the socket says which connection is meant.
            command.arg("-S").arg(&control).args(["-O", "exit", "--", "nobody"]);
            // It only speaks with a process of this machine; if that one is gone, so is the connection.
            let Ok(mut child) = command.stdin(null()).stdout(null()).stderr(null()).spawn() else { continue };
            let deadline = std::time::Instant::now() + CLOSING;
            let late = || std::time::Instant::now() >= deadline;
            let said = loop {
                match child.try_wait() {
                    Ok(None) if !late() => std::thread::sleep(CLOSING_LOOK),
                    Ok(Some(status)) => break status.success(),
                    _ => {
                        let _ = child.kill();
                        let _ = child.wait();
                        break false;
                    }
                }
            };
            // It says yes before it goes; until it has gone, whoever comes next would take it for an open connection.
            while said && control.exists() && !late() {
                std::thread::sleep(CLOSING_LOOK);
            }
        }
    }
}

/// A folder of this user's, in which nobody else may make anything: without HOME it lies in /tmp, where another may have been first.
fn is_ours_alone(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(folder)
        .is_ok_and(|about| about.is_dir() && about.uid() == me && about.mode() & 0o022 == 0)
}

/// `~` as ssh understands it.
fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

fn shorten(line: &str) -> String {
    if line.chars().count() <= 60 { line.into() } else { format!("{}...", line.chars().take(57).collect::<String>()) }
}

/// Held until the file is dropped. Whoever holds it gives up after a bound of its own.
fn turn(control: &Path) -> std::io::Result<std::fs::File> {
    let path = format!("{}.lock", control.display());
    let file = std::fs::File::options().create(true).truncate(true).write(true).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Short, because paths of sockets may have only about a hundred bytes.
fn name_of(identity: &str) -> String {
    Sha256::digest(identity.as_bytes()).iter().take(10).map(|b| format!("{b:02x}")).collect()
}

fn resume(runtime: &Runtime, control: &Path) -> Option<openssh::Session> {
    if !control.exists() {
        return None;
    }
    let session = openssh::Session::resume_mux(control.into(), None);
    let alive = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(3), session.check()).await });
    matches!(alive, Ok(Ok(()))).then_some(session)
}

enum Refused {
    NoSsh(String),
    Said(String),
    Silent,
}

/// Runs ssh until it has gone to the background with the connection open.
fn start_master(args: &[String], control: &Path) -> Result<(), Refused> {
    let log = PathBuf::from(format!("{}.log", control.display()));
    // What is left of a connection that died; ssh would refuse to take its place.
    let _ = std::fs::remove_file(control);
    let _ = std::fs::remove_file(&log);
    let null = std::process::Stdio::null;
    let mut command = std::process::Command::new("ssh");
    command.args(args).stdin(null()).stdout(null()).stderr(null());
    // Otherwise Ctrl-C at our terminal would cut the connection before the ranks could be ended in order.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(|e| Refused::NoSsh(e.to_string()))?;
    let deadline = std::time::Instant::now() + OPENING;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => return Err(Refused::Said(std::fs::read_to_string(&log).unwrap_or_default())),
            Ok(None) if std::time::Instant::now() < deadline => std::thread::sleep(Duration::from_millis(4)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Refused::Silent);
            }
        }
    }
}

struct Remote {
    child: Option<openssh::Child<Arc<openssh::Session>>>,
    exit: Option<Exit>,
    runtime: Arc<Runtime>,
}

impl End for Remote {
    fn wait(&mut self, limit: Duration) -> Option<Exit> {
        if let Some(child) = self.child.take() {
            // Given up after the limit: the child cannot be asked twice, and who asks once has no more questions.
            let status = self.runtime.block_on(async { tokio::time::timeout(limit, child.wait()).await }).ok()?;
            self.exit = Some(match status {
                Ok(status) => status.code().map_or(Exit::Cut, Exit::Code),
                // This is how the library says 127.
                Err(openssh::Error::Remote(e)) if e.kind() == std::io::ErrorKind::NotFound => Exit::Code(127),
                Err(_) => Exit::Cut,
            });
        }
        self.exit
    }
}
