//! How does a path of the head get to a worker (`cluster_synced_files`)? As a stream through here; nothing is kept on the way.

use super::node::Work;
use super::provider::Trouble;
use shoal_core::cluster::{Node, Role};
use shoal_core::fleet::Reach;
use shoal_core::quote::quote;
use shoal_hosts::process::Exit;
use shoal_hosts::ssh::Connection;
use shoal_hosts::{Process, lines, local};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Exit code of our own line on the head: there is no such path yet, which is allowed.
const NOT_THERE: i32 = 44;
const ENDING: Duration = Duration::from_secs(60);
/// How long the stream may stand still: a disk that hangs, a node that is gone.
const STILL: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

pub fn bring(work: &Work, node: &Node, path: &str) -> Result<(), Trouble> {
    let fault = |what: String| Trouble { what, hint: "is there space on both nodes?".into() };
    let Some(head) = work.wanted.nodes.iter().find(|node| node.role == Role::Head) else { return Ok(()) };
    let path = word(path);
    let mut from = shell(
        work,
        head,
        &format!("test -e {path} || exit {NOT_THERE}; tar -C \"$(dirname {path})\" -cf - \"$(basename {path})\""),
    )?;
    let mut to = shell(work, node, &format!("mkdir -p \"$(dirname {path})\" && tar -C \"$(dirname {path})\" -xf -"))?;
    drop(from.to);
    let (said_there, said_here) = (lines::complaints(from.errors, 64 << 10), lines::complaints(to.errors, 64 << 10));
    let moved = stream(from.from, to.to);
    let mut still_since = Instant::now();
    loop {
        let more = moved.recv_timeout(LOOK);
        if work.is_stopping() && more != Err(RecvTimeoutError::Disconnected) {
            return Err(fault(format!("{path}: stopped")));
        }
        match more {
            Ok(()) => still_since = Instant::now(),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if still_since.elapsed() < STILL => {}
            Err(RecvTimeoutError::Timeout) => {
                let what = format!("{path} of the head: nothing moved for {} s", STILL.as_secs());
                return Err(Trouble { what, hint: "does a disk of the head or of this node hang?".into() });
            }
        }
    }
    let sent = from.end.wait(ENDING);
    let received = to.end.wait(ENDING);
    match (sent, received) {
        (Some(Exit::Code(NOT_THERE)), _) => Ok(()),
        (Some(Exit::Code(0)), Some(Exit::Code(0))) => Ok(()),
        (sent, received) => {
            let words: Vec<String> = [said_there, said_here].iter().filter_map(last).collect();
            let (sent, received, words) = (ending(sent), ending(received), words.join("; "));
            Err(fault(format!("{path} did not get from the head (there {sent}, here {received}): {words}")))
        }
    }
}

fn ending(exit: Option<Exit>) -> String {
    match exit {
        Some(Exit::Code(code)) => format!("exit code {code}"),
        Some(Exit::Cut) => "cut off".into(),
        None => format!("not over after {} s", ENDING.as_secs()),
    }
}

/// Passes everything on, with a word for every piece; the end of the words is the end of the stream.
fn stream(mut from: PipeReader, mut to: PipeWriter) -> Receiver<()> {
    let (send, receive) = sync_channel(1);
    std::thread::spawn(move || {
        let mut piece = vec![0; 256 << 10];
        // tar may leave before it has read the padding behind the last file; whether all arrived is for the exit codes to say.
        while let Ok(n @ 1..) = from.read(&mut piece)
            && to.write_all(&piece[..n]).is_ok()
        {
            // A word that is already waiting is enough.
            let _ = send.try_send(());
        }
    });
    receive
}

fn last(said: &Receiver<String>) -> Option<String> {
    let text = said.recv_timeout(Duration::from_secs(1)).ok()?;
    text.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().into())
}

/// A path for a shell there, which is to understand `~`.
fn word(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("~/{}", quote(rest)),
        None => quote(path).into_owned(),
    }
}

fn shell(work: &Work, node: &Node, line: &str) -> Result<Process, Trouble> {
    if node.host.reach == Reach::Local {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", line]);
        return local::start(command)
            .map_err(|e| Trouble { what: format!("sh: {e}"), hint: "too many processes?".into() });
    }
    let common = work.common;
    let opened = Connection::open(&common.fleet, &node.host, &common.ssh)
        .and_then(|c| c.start_next(&format!("exec sh -c {}", quote(line))));
    opened.map_err(|failure| Trouble { what: failure.to_string(), hint: failure.hint })
}
