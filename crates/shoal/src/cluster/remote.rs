//! How does a command run on one node, without a terminal? One session carries it, its input and its output; asked to stop, or dead, this
//! side leaves nothing of it there (GANG-1). Nothing of ours has to be on the node, and nothing is waited for but the command.

use super::marked::Marked;
use crate::launch::program::{self, Broken, broken};
use shoal_core::cluster::Docker;
use shoal_core::cluster::session::{self, Stdin};
use shoal_core::cluster::shell::LONGEST;
use shoal_core::fleet::{Fleet, Host, Reach};
use shoal_hosts::Process;
use shoal_hosts::process::{End, Exit};
use shoal_hosts::ssh::options::{self, Forward};
use shoal_hosts::ssh::{Settings, explain, guard};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// What is to be run, and where.
pub struct Order<'a> {
    pub fleet: &'a Fleet,
    pub host: &'a Host,
    pub ssh: &'a Settings,
    pub command: &'a str,
    pub env: &'a [(String, String)],
    pub container: Option<&'a Docker>,
    pub forwards: &'a [Forward],
}

/// What the command reads.
pub enum Input {
    Nothing,
    Bytes(Box<dyn Read + Send>),
}

/// Which of the command's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Takes the command's output as it comes; false: nobody wants more of it.
pub type Sink<'a> = &'a mut dyn FnMut(Stream, &[u8]) -> bool;

/// After a request to end: the next, harder word, and how long each may take.
const HARDER: [(&str, Duration); 3] =
    [("INT", Duration::from_secs(10)), ("TERM", Duration::from_secs(5)), ("KILL", Duration::from_secs(5))];
/// How soon a request to end is noticed.
const TICK: Duration = Duration::from_millis(50);
/// Pieces of output that may wait for whoever reads ours; then the command has to.
const WAITING: usize = 16;
/// How long it may take to end by itself.
const PARTING: Duration = Duration::from_millis(300);
/// How long a session may take to say how it ended, once its outputs have.
const ENDING: Duration = Duration::from_secs(5);

enum Event {
    /// The command has begun: the number of its process group.
    Begun(Option<u32>),
    Some(Stream, Vec<u8>),
    /// Its output has come to its end, with its exit code.
    Over(u8),
    /// A pipe ended without that: what the login had said on it, and the code of a shell that did not get to the command.
    Closed(Stream, String, Option<u8>),
}

/// Runs it to its end; gives its exit code. `asked`: how often somebody wanted it to end so far.
pub fn run(order: &Order, input: Input, sink: Sink, asked: &(dyn Fn() -> u32 + Sync)) -> Result<u8, Broken> {
    if order.command.len() > LONGEST {
        let what = format!("the command has {} bytes; at most {LONGEST} fit", order.command.len());
        return Err(broken(what, "put it into a file and use `shoal submit`, or `shoal exec CLUSTER bash < FILE`"));
    }
    let mark = mark()?;
    let stdin = if matches!(input, Input::Nothing) { Stdin::Words } else { Stdin::Data };
    let Process { to, from, errors, end } = start(order, &session::line(&mark, stdin, order.container))?;
    let opening = session::opening(order.command, order.env);
    let (events, heard) = sync_channel(WAITING);
    // These end with the session, or when nobody listens to them any more; one that still waits then is of no harm.
    for (pipe, stream) in [(from, Stream::Out), (errors, Stream::Err)] {
        let (events, mark) = (events.clone(), mark.clone());
        std::thread::spawn(move || forward(pipe, stream, &mark, &events));
    }
    drop(events);
    let words = match input {
        Input::Nothing => Some(Words::open(to, &opening)),
        Input::Bytes(bytes) => {
            feed(to, opening, bytes);
            None
        }
    };
    watch(order, words, end, &heard, sink, asked)
}

fn start(order: &Order, line: &str) -> Result<Process, Broken> {
    let Order { fleet, host, ssh, forwards, .. } = order;
    let alone = |mut command: Command| {
        // Ctrl-C at our terminal is for us: the command hears of it from us.
        command.process_group(0);
        let name = command.get_program().display().to_string();
        start_child(command).map_err(|e| broken(format!("{name} cannot be run: {e}"), "is it installed?"))
    };
    if host.reach == Reach::Local {
        let mut bash = Command::new("bash");
        bash.args(["-c", line]);
        return alone(bash);
    }
    if forwards.is_empty() {
        return program::connect(fleet, ssh, host, line).map(|(_, process)| process);
    }
    let refused = |refusal: guard::Refusal| broken(refusal.to_string(), guard::HINT);
    guard::check(fleet, host, ssh.config.as_deref()).map_err(refused)?;
    let mut command = Command::new("ssh");
    command.args(options::alone(fleet, host, ssh.config.as_deref(), false, forwards)).arg(line);
    alone(command)
}

/// A program of this machine that ends with us: ssh would keep its ports for as long as something there holds the output.
struct Ours(Child);

fn start_child(mut command: Command) -> std::io::Result<Process> {
    let (stdin, to) = std::io::pipe()?;
    let (from, stdout) = std::io::pipe()?;
    let (errors, stderr) = std::io::pipe()?;
    let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
    Ok(Process { to, from, errors, end: Box::new(Ours(child)) })
}

impl End for Ours {
    fn wait(&mut self, limit: Duration) -> Option<Exit> {
        let deadline = Instant::now() + limit;
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(status.code().map_or(Exit::Cut, Exit::Code)),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) => return None,
                Err(_) => return Some(Exit::Cut),
            }
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if self.wait(PARTING).is_none() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A word that nothing else prints.
fn mark() -> Result<String, Broken> {
    let mut bytes = [0u8; 12];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    got.map_err(|e| broken(format!("no random numbers: {e}"), "is /dev/urandom there?"))?;
    Ok(bytes.iter().fold("shoal-".to_string(), |mark, byte| mark + &format!("{byte:02x}")))
}

/// Passes one output on from its first mark to its last, as fast as it is taken.
fn forward(mut pipe: PipeReader, stream: Stream, mark: &str, events: &SyncSender<Event>) {
    let mut marked = Marked::new(mark);
    let mut buffer = vec![0u8; 64 << 10];
    let mut begun = false;
    // Whoever hears these may be gone already; then nobody minds.
    let tell = |event| events.send(event).is_ok();
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        let own = marked.own(&buffer[..n]);
        if !begun && let Some(words) = marked.begun() {
            begun = true;
            if stream == Stream::Err && !tell(Event::Begun(words.parse().ok())) {
                return;
            }
        }
        if !own.is_empty() && !tell(Event::Some(stream, own)) {
            return;
        }
        if let Some(code) = marked.over() {
            tell(Event::Over(code));
            return;
        }
        if marked.never().is_some() {
            break;
        }
    }
    let rest = marked.rest();
    if !rest.is_empty() {
        tell(Event::Some(stream, rest));
    }
    tell(Event::Closed(stream, marked.before(), marked.never()));
}

/// Sends the command, then what it shall read; in a thread that may never end, since reading may never.
fn feed(mut to: PipeWriter, opening: Vec<u8>, mut bytes: Box<dyn Read + Send>) {
    std::thread::spawn(move || {
        let mut buffer = vec![0u8; 64 << 10];
        // A command that wants no input closes the pipe.
        let mut sent = to.write_all(&opening).is_ok();
        while sent && let Ok(n @ 1..) = bytes.read(&mut buffer) {
            sent = to.write_all(&buffer[..n]).is_ok();
        }
    });
}

/// Words for the node about the command, through its own stdin or through a second session.
struct Words {
    to: PipeWriter,
    /// The second session's other pipes; they say nothing, but must stay open.
    _rest: Option<(PipeReader, PipeReader, Box<dyn End>)>,
}

impl Words {
    fn open(mut to: PipeWriter, opening: &[u8]) -> Words {
        // If it cannot be written, the session is over, and its end says why.
        let _ = to.write_all(opening);
        Words { to, _rest: None }
    }

    fn beside(order: &Order, group: u32) -> Option<Words> {
        let without = Order { forwards: &[], ..*order };
        let Process { to, from, errors, end } = start(&without, &session::lifeline(group, order.container)).ok()?;
        Some(Words { to, _rest: Some((from, errors, end)) })
    }

    fn say(&mut self, word: &str) {
        let _ = writeln!(self.to, "{word}");
    }
}

/// What happens, in its order, until the command is over and its output has come.
fn watch(
    order: &Order,
    mut words: Option<Words>,
    mut end: Box<dyn End>,
    heard: &Receiver<Event>,
    sink: Sink,
    asked: &(dyn Fn() -> u32 + Sync),
) -> Result<u8, Broken> {
    let beside = words.is_none();
    let (mut begun, mut open, mut login) = (false, 2, String::new());
    let (mut over, mut never) = (None::<u8>, None::<u8>);
    // The command's group, and the same while it has no second session yet.
    let (mut leader, mut alone) = (None, None);
    let mut unwanted = 0;
    // The words said so far, and when the next one is due.
    let (mut said, mut due) = (0usize, None::<Instant>);
    while open > 0 {
        match heard.recv_timeout(TICK) {
            Ok(Event::Begun(group)) => {
                (begun, leader) = (true, group);
                alone = group.filter(|_| beside).map(|group| (group, Instant::now()));
            }
            Ok(Event::Some(stream, bytes)) => {
                if unwanted == 0 && !sink(stream, &bytes) {
                    unwanted = 1;
                }
            }
            Ok(Event::Over(code)) => (over, open) = (Some(code), open - 1),
            Ok(Event::Closed(stream, before, code)) => {
                (open, never) = (open - 1, never.or(code));
                if stream == Stream::Err {
                    login.push_str(&before);
                } else {
                    login.insert_str(0, &before);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if over.is_some() {
            continue;
        }
        let wanted = usize::try_from(asked()).unwrap_or(usize::MAX).saturating_add(unwanted);
        // Not at once: a command that is over in no time needs no second session.
        let late = |since: Instant| since.elapsed() >= TICK || wanted > 0;
        if let Some((group, _)) = alone.take_if(|(_, since)| late(*since)) {
            words = Words::beside(order, group);
        }
        let is_due = due.is_some_and(|due| Instant::now() >= due);
        if said < wanted.min(HARDER.len()) || is_due {
            match (HARDER.get(said), &mut words) {
                (Some((word, grace)), Some(words)) => {
                    words.say(word);
                    due = Some(Instant::now() + *grace);
                    said += 1;
                }
                // Not begun yet, or nothing helped: the end of the session is all it can still be told. Of that it dies with its next word.
                _ => return Ok(shoal_core::outcome::STOPPED),
            }
        }
    }
    // Asked to end, the command has: what it started and left must go as well, such as what shells put into the background, where an
    // interrupt is not heard. A second session that ends without a word is the order to do so (GANG-1).
    match words.take() {
        second @ Some(_) if said > 0 && beside => drop(second),
        _ if said > 0 => drop(leader.and_then(|group| Words::beside(order, group))),
        Some(mut second) if beside => second.say(session::DONE),
        _ => {}
    }
    match over {
        Some(code) => Ok(code),
        None => {
            let exit = never.map(|code| Exit::Code(code.into())).or_else(|| end.wait(ENDING));
            conclude(order, exit, begun, said > 0, &login)
        }
    }
}

/// The exit code, or what went wrong on the way to the command.
fn conclude(order: &Order, exit: Option<Exit>, begun: bool, stopped: bool, login: &str) -> Result<u8, Broken> {
    // What bash says by itself where it has no terminal, and when it goes.
    let own = |line: &&str| {
        !line.is_empty()
            && *line != "logout"
            && !line.contains("terminal process group")
            && !line.contains("no job control")
    };
    let last = || login.lines().rev().map(str::trim).find(own).unwrap_or("nothing").to_string();
    match exit {
        _ if stopped => Ok(shoal_core::outcome::STOPPED),
        Some(Exit::Code(255)) if login.contains("cannot listen to port") => Err(broken(
            format!("a port of this machine is taken: {}", login.lines().next().unwrap_or_default().trim()),
            "another one may lead there: -p LOCAL:REMOTE",
        )),
        // A connection of its own says itself why it was not made.
        Some(Exit::Code(255)) if !order.forwards.is_empty() => {
            let address = &order.host.address;
            Err(explain::explain(&order.host.name, address, None, login).into())
        }
        Some(Exit::Code(code)) if !begun && order.container.is_some() => Err(broken(
            format!("the command did not get into the container (exit code {code}): {}", last()),
            "does it run? `shoal up` starts it; `--run-env host` goes past it",
        )),
        Some(Exit::Code(code)) if !begun => Err(broken(
            format!("the shell there ended with code {code} before the command began; the last it said: {}", last()),
            "look at ~/.bash_profile and ~/.bashrc of that user; is bash installed there?",
        )),
        Some(_) | None => Err(broken(
            "the connection broke; whether the command ended is not known",
            "what it started ends by itself when the node notices",
        )),
    }
}
