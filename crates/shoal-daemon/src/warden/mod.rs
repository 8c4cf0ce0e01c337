//! What does a warden do? It starts the keepers of its host's ranks, tells the launcher what becomes of them, and makes
//! sure that nothing is left when launcher or gang is gone (GANG-1).

mod front;
mod gang;
mod keepers;
mod losses;
mod outbox;
pub(crate) mod ports;
mod run;
mod spare;
mod usage;

use crate::frame::FrameError;
use crate::inner::FromKeeper;
use crate::protocol::{self, FromWarden, Hello, PREAMBLE, PROTOCOL_VERSION, ToWarden};
use crate::{proc, records, signals};
use outbox::Outbox;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Runs whose records are kept.
const KEEP_RUNS: records::PruneKeep = 200;

pub(crate) enum Event {
    Launcher(ToWarden),
    /// Its stdin ended, or made no sense.
    LauncherGone(Option<FrameError>),
    Keeper(usize, FromKeeper),
    KeeperGone(usize),
    Signal(i32),
    /// From the other hosts of a detached run.
    Gang(crate::gang_line::News),
    /// The outbox is empty.
    Idle,
    /// Stdout is closed.
    Deaf,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// `--ports N`: how many to hold for the ranks.
    pub ports: usize,
    /// `--silence-ms N`: the launcher is taken for dead when nothing was heard for so long.
    pub silence: Duration,
    /// `--detachable`: a process stays in front that can end while the warden goes on.
    pub detachable: bool,
    /// `--state FOLDER`: instead of the user's own.
    pub state: PathBuf,
    /// The subcommand of this executable that is a keeper, such as `["host", "keeper"]`.
    pub keeper: Vec<String>,
}

impl Settings {
    pub fn parse(args: impl IntoIterator<Item = String>, keeper: &[&str]) -> Result<Settings, String> {
        let mut settings = Settings {
            ports: 0,
            // With the usual grace of five seconds nothing is left after ten, whatever ranks make of being asked to end.
            silence: Duration::from_secs(4),
            detachable: false,
            state: records::root(),
            keeper: keeper.iter().map(|s| s.to_string()).collect(),
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
            match arg.as_str() {
                "--ports" => settings.ports = number(value()?)?.min(10_000) as usize,
                "--silence-ms" => settings.silence = Duration::from_millis(number(value()?)?.max(1)),
                "--state" => settings.state = value()?.into(),
                "--detachable" => settings.detachable = true,
                other => return Err(format!("unknown argument {other}")),
            }
        }
        Ok(settings)
    }
}

/// The hidden subcommand. `keeper`: the words by which this executable becomes a keeper.
pub fn main(args: impl IntoIterator<Item = String>, keeper: &[&str]) -> ExitCode {
    let settings = match Settings::parse(args, keeper) {
        Ok(settings) => settings,
        Err(e) => {
            eprintln!("shoal warden: {e}");
            return ExitCode::from(2);
        }
    };
    match serve(settings) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("shoal warden on {}: {e}", proc::node_name());
            ExitCode::FAILURE
        }
    }
}

fn serve(settings: Settings) -> std::io::Result<ExitCode> {
    let front = if settings.detachable { front::split()? } else { front::Front::none() };
    // One that goes on without us must not hold what we hold; it is started in the usual way.
    let spare = if settings.detachable { None } else { spare::fork() };
    signals::block();
    // Fails for a leader of a group, which is apart already.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let ports = ports::Ports::reserve(settings.ports)?;
    let stdin = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut stdout = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    stdout.write_all(PREAMBLE)?;
    let outbox = Arc::new(Outbox::default());
    outbox.send(&FromWarden::Hello(hello(&ports)));
    let (events, inbox) = sync_channel(1024);
    signals::listen({
        let events = events.clone();
        move |signal| events.send(Event::Signal(signal)).is_ok()
    })?;
    std::thread::spawn({
        let events = events.clone();
        move || hear(stdin, &events)
    });
    std::thread::spawn({
        let (events, outbox) = (events.clone(), outbox.clone());
        move || {
            let idle = || _ = events.try_send(Event::Idle);
            if outbox.write(&mut stdout, idle).is_err() {
                outbox.close();
                let _ = events.send(Event::Deaf);
            }
        }
    });
    Ok(run::Warden::new(settings, outbox, events, inbox, front, spare).run())
}

/// A word of what sshd says about the connection: its client and port, its server and port.
fn connection(word: usize) -> Option<String> {
    std::env::var("SSH_CONNECTION").ok()?.split(' ').nth(word).map(str::to_string)
}

fn hello(ports: &ports::Ports) -> Hello {
    // ssh sets both; without them the number must do.
    let user = ["USER", "LOGNAME"].iter().find_map(|v| std::env::var(v).ok());
    Hello {
        version: PROTOCOL_VERSION,
        shoal_version: env!("CARGO_PKG_VERSION").into(),
        host: proc::node_name(),
        pid: std::process::id(),
        user: user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string()),
        ports: ports.numbers(),
        client: connection(0),
        server: connection(2),
    }
}

fn hear(mut stdin: File, events: &SyncSender<Event>) {
    let mut body = Vec::new();
    let why = loop {
        match protocol::read_to_warden(&mut stdin, &mut body) {
            Ok(Some(message)) => {
                if events.send(Event::Launcher(message)).is_err() {
                    return;
                }
            }
            Ok(None) => break None,
            Err(e) => break Some(e),
        }
    };
    let _ = events.send(Event::LauncherGone(why));
}
