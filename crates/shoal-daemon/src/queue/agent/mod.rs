//! How does a host do what the daemon says?
//!
//! One agent per host and store. It holds nothing that is not on disk: killed at any moment, the next one hears from the keeper what
//! lives and what is over, and goes on. When the line ends it leaves, or calls again where nobody starts it; runs are the keeper's.
//!
//! | file | question |
//! |---|---|
//! | `call` | how an agent that nobody starts gets its line |
//! | `session` | the loop: what comes from line, keeper and helpers, and what follows |
//! | `starts`, `ready`, `room` | how a `Start` becomes something the keeper can execute |
//! | `trees`, `envs` | files and environments that runs share |
//! | `prune`, `store` | which of these may go (pure), and when that is looked at |
//! | `packages` | what an environment's Python has, for those who want to do it again |
//! | `ends`, `look` | what is made of an end before it is told; what the run left |
//! | `about` | what is told of a run beside its results |
//! | `publish`, `send` | how results become visible, here or at the daemon |
//! | `placing` | when results are put in place, and who waits |
//! | `root`, `marks` | whether a folder for results is the one that was meant |
//! | `numbers`, `tensorboard`, `live` | which numbers runs print |
//! | `logs`, `shelf` | how somebody reads output; where it is |
//! | `net` | how others reach it, and where gangs meet |
//! | `facts`, `people`, `gpus`, `nvml` | what this machine is like, and who uses it |
//! | `pods` | how a Kubernetes cluster does what this machine would |
//! | `note` | what comes back with a run |
//! | `link`, `outbox`, `lock`, `pool` | the way to the keeper, the way to the daemon, one agent a store, helpers |

mod about;
pub mod call;
mod desks;
mod ends;
mod envs;
mod facts;
mod gpus;
mod link;
mod live;
mod lock;
mod logs;
mod look;
mod marks;
mod net;
pub mod note;
mod numbers;
mod nvml;
mod outbox;
mod packages;
mod people;
mod placing;
pub mod pods;
mod pool;
mod prune;
mod publish;
mod ready;
mod room;
mod root;
mod send;
mod session;
mod shelf;
mod starts;
mod store;
mod tensorboard;
#[cfg(test)]
mod tests;
mod trees;

pub use link::Start as KeeperStart;

use super::framing::{self, PREAMBLE};
use super::keeper::folder::Folder;
use super::keeper::words::FromKeeper;
use crate::queue::keeper::diary::note;
use crate::signals;
use session::Session;
use shoal_core::fleet::pool::Pool;
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::{LINE_VERSION, ToHost};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Things that may be due in the loop; whoever brings more waits.
const EVENTS: usize = 4096;

/// All that the loop can hear.
enum Event {
    Line(ToHost, Vec<u8>),
    LineEnded(String),
    /// Of which keeper, in the order of their coming.
    Keeper(u64, FromKeeper),
    KeeperGone(u64),
    Looked(Box<look::Looked>),
    Published(String, Result<(), publish::Problem>),
    Environment(String, Result<PathBuf, String>),
    Tree(String, Result<(), trees::NotHere>),
    /// What the host has of trees and environments.
    Measured(Box<store::Found>),
    Facts(Box<HostFacts>),
    Pods(pods::Word),
    /// Somebody newer is there, or the machine goes down.
    Signal,
}

/// What an agent is started with.
pub struct Args {
    pub store: String,
    pub keeper: KeeperStart,
    /// Of a pool, and not of this machine.
    pub pods: Option<pods::Pods>,
}

impl Args {
    /// For this program under its usual name.
    pub fn new(store: &str) -> Args {
        let program = std::env::current_exe().unwrap_or_else(|_| "shoal".into());
        let args = ["host", "queue-keeper", "--store", store].map(Into::into).into();
        Args { store: store.into(), keeper: KeeperStart { program, args }, pods: None }
    }
}

/// How a line ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The daemon is gone, or closed it.
    Line(String),
    /// Asked to leave, by the daemon or by a newer agent.
    Left,
}

/// What is said of a pool's runs, for whoever takes it first.
type Words = Mutex<Option<Receiver<pods::Word>>>;

/// The one agent of a store on this host. Lines may come one after the other (a service that dials again).
pub struct Host {
    folder: Folder,
    keeper: KeeperStart,
    store: String,
    asked: Asked,
    net: std::sync::Arc<net::Net>,
    /// The pool whose agent this is, its nodes that take nothing, and what is said of it, for the first line.
    pool: Option<(Pool, pods::Shut, Words)>,
    _lock: lock::Lock,
}

/// Signals that ask to end: heard for as long as the process lives, told to whoever serves a line at that moment.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<(bool, Option<SyncSender<Event>>)>>);

impl Asked {
    fn held(&self) -> MutexGuard<'_, (bool, Option<SyncSender<Event>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Must be called before the first thread is started.
    fn listening() -> Result<Asked, String> {
        signals::block();
        let asked = Asked::default();
        let mine = asked.clone();
        let heard = signals::listen(move |signal| {
            if signal != libc::SIGCHLD {
                let mut held = mine.held();
                held.0 = true;
                if let Some(events) = &held.1 {
                    let _ = events.try_send(Event::Signal);
                }
            }
            true
        });
        heard.map_err(|e| format!("no thread could be started: {e}"))?;
        Ok(asked)
    }

    /// Somebody asked this process to end: no more lines.
    fn to_end(&self) -> bool {
        self.held().0
    }
}

impl Host {
    /// Whoever was the agent before is asked to leave. Must be called before the first thread is started.
    pub fn open(args: Args) -> Result<Host, String> {
        let asked = Asked::listening()?;
        Host::open_with(args, asked)
    }

    fn open_with(args: Args, asked: Asked) -> Result<Host, String> {
        let folder = Folder::open(&args.store)?;
        let lock = lock::take(&folder.agent_lock())?;
        let net = std::sync::Arc::new(net::Net::of_login());
        let pool = args.pods.map(|pods| begin(pods, &folder)).transpose()?;
        Ok(Host { folder, keeper: args.keeper, store: args.store, asked, net, pool, _lock: lock })
    }
}

/// From here on somebody speaks with the cluster.
fn begin(pods: pods::Pods, folder: &Folder) -> Result<(Pool, pods::Shut, Words), String> {
    let (tell, words) = channel();
    let (beside, root) = (pods.beside, folder.root().to_path_buf());
    let run = move || beside(root, tell);
    std::thread::Builder::new()
        .name("pods".into())
        .spawn(run)
        .map_err(|e| format!("no thread could be started: {e}"))?;
    Ok((pods.pool, pods.shut, Mutex::new(Some(words))))
}

impl Host {
    /// For an agent that calls: others reach it where it calls from.
    fn reached_as(mut self, daemon: &str, port: u16) -> Host {
        self.net = std::sync::Arc::new(net::Net::toward(daemon, port));
        self
    }
}

/// The hidden subcommand `shoal host agent --store ID`: the line is its stdin and stdout.
pub fn main(args: Args) -> ExitCode {
    // Said at once: a login may have printed something, and whoever asked waits for a sign of life.
    let mut stdout = match std::io::stdout().as_fd().try_clone_to_owned().map(std::fs::File::from) {
        Ok(stdout) => stdout,
        Err(_) => return ExitCode::FAILURE,
    };
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let (Ok(stdin), Ok(())) = (stdin, stdout.write_all(PREAMBLE)) else { return ExitCode::FAILURE };
    let served = Host::open(args).and_then(|host| serve(&host, stdin, stdout));
    match served {
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => {
            note("agent", why);
            ExitCode::FAILURE
        }
    }
}

/// Speaks with the daemon until the line ends.
pub fn serve(
    host: &Host,
    mut from: impl Read + Send + 'static,
    to: impl Write + Send + 'static,
) -> Result<End, String> {
    match hello(&mut from)? {
        None => Ok(End::Line("the daemon closed the line before it said anything".into())),
        Some(hello) => serve_as(host, hello, from, to),
    }
}

/// Which store, and what it calls this host.
struct Hello {
    store: String,
    name: String,
}

/// The daemon's first word; nothing if it closed the line instead.
fn hello(from: &mut impl Read) -> Result<Option<Hello>, String> {
    match framing::read_message(from).map_err(|e| format!("the daemon's hello: {e}"))? {
        None => Ok(None),
        Some((ToHost::Hello { version, .. }, _)) if version != LINE_VERSION => {
            Err(format!("the daemon speaks version {version}, this agent {LINE_VERSION}; use one version of shoal"))
        }
        Some((ToHost::Hello { store, host, .. }, _)) => Ok(Some(Hello { store, name: host })),
        Some(_) => Err("the daemon's first word was not hello".into()),
    }
}

fn serve_as(
    host: &Host,
    Hello { store, name }: Hello,
    from: impl Read + Send + 'static,
    to: impl Write + Send + 'static,
) -> Result<End, String> {
    if store != host.store {
        return Err(format!("the daemon's store is {store}, this agent was started for {}", host.store));
    }
    let (events, inbox) = sync_channel(EVENTS);
    host.asked.held().1 = Some(events.clone());
    hear(from, events.clone())?;
    Session::open(host, name, to, events, inbox)?.run()
}

fn hear(mut from: impl Read + Send + 'static, events: SyncSender<Event>) -> Result<(), String> {
    let run = move || {
        let why = loop {
            match framing::read_message(&mut from) {
                Ok(Some((message, body))) => {
                    if events.send(Event::Line(message, body)).is_err() {
                        return;
                    }
                }
                Ok(None) => break "the daemon closed the line".to_string(),
                Err(e) => break e.to_string(),
            }
        };
        let _ = events.send(Event::LineEnded(why));
    };
    std::thread::Builder::new().name("line".into()).spawn(run).map_err(|e| e.to_string())?;
    Ok(())
}
