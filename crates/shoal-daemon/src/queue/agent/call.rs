//! How does an agent that nobody starts get its line? It calls the daemon with a token of its own, again and again (SEC-1).
//!
//! As a service of its host: users need no shell there, and the daemon no key. Whatever ends a line, the next call is made soon; runs go
//! on meanwhile. It ends when it is told to, by a signal.

use super::{Args, Asked, End, Hello, Host, hello, serve_as};
use crate::queue::again::{SOONEST, after};
use crate::queue::client::Remote;
use crate::queue::door::knock::Kind;
use crate::queue::door::tls;
use crate::queue::keeper::diary::note;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Until a daemon has answered, and until it has said hello.
const CONNECT: Duration = Duration::from_secs(10);
const HELLO: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(100);

/// How one call went.
struct Call {
    why: String,
    was_up: bool,
}

/// The hidden subcommand `shoal host agent --connect QUEUE`.
pub fn main(remote: &Remote) -> ExitCode {
    let asked = match Asked::listening() {
        Ok(asked) => asked,
        Err(why) => {
            note("agent", why);
            return ExitCode::FAILURE;
        }
    };
    let place = format!("{}:{}", remote.host, remote.port);
    let (mut host, mut wait, mut said) = (None, SOONEST, String::new());
    while !asked.to_end() {
        let began = Instant::now();
        let call = call(remote, &place, &mut host, &asked);
        // The same trouble is said once, and not every half minute.
        if !asked.to_end() && said != call.why {
            note("agent", format!("{}; calling again", call.why));
            said = call.why;
        }
        if call.was_up {
            said.clear();
        }
        wait = after(wait, call.was_up, began.elapsed());
        rest(wait, &asked);
    }
    ExitCode::SUCCESS
}

/// Ends early when this process is to end.
fn rest(wait: Duration, asked: &Asked) {
    let until = Instant::now() + wait;
    while !asked.to_end() && Instant::now() < until {
        std::thread::sleep(LOOK.min(wait));
    }
}

fn call(remote: &Remote, place: &str, host: &mut Option<Host>, asked: &Asked) -> Call {
    let not_up = |why: String| Call { why, was_up: false };
    let (hello, line) = match open(remote, place) {
        Ok(opened) => opened,
        Err(why) => return not_up(why),
    };
    // A store that was made anew is another queue: what ran for the old one is none of its business.
    if host.as_ref().is_some_and(|host| host.store != hello.store) {
        *host = None;
    }
    let open = match host {
        Some(host) => host,
        None => match Host::open_with(Args::new(&hello.store), asked.clone()) {
            Ok(opened) => host.insert(opened),
            Err(why) => return not_up(why),
        },
    };
    note("agent", format!("{place} is there and calls this host {}", hello.name));
    let to = match line.try_clone() {
        Ok(to) => to,
        Err(e) => return not_up(format!("no line to {place}: {e}")),
    };
    match serve_as(open, hello, line, to) {
        Ok(End::Line(why)) => Call { why: format!("the line to {place} ended: {why}"), was_up: true },
        Ok(End::Left) => Call { why: format!("{place} said that this agent may leave"), was_up: true },
        Err(why) => Call { why: format!("the line to {place} ended: {why}"), was_up: true },
    }
}

fn open(remote: &Remote, place: &str) -> Result<(Hello, UnixStream), String> {
    let Remote { host, port, fingerprint, token } = remote;
    let mut line = tls::dial(host, *port, fingerprint, Kind::Agent, token, CONNECT).map_err(|e| e.to_string())?;
    let broken = |e: std::io::Error| format!("no line to {place}: {e}");
    line.set_read_timeout(Some(HELLO)).map_err(broken)?;
    // Refused callers hear a word that is no hello: the daemon does not say what was wrong with their token.
    let refused = |why: String| {
        format!(
            "{place} did not say hello ({why}); is SHOAL_QUEUE_TOKEN of `shoal token add HOST --role host` there, and not expired?"
        )
    };
    let hello = hello(&mut line).map_err(refused)?;
    let hello = hello.ok_or_else(|| refused("it closed the line".into()))?;
    line.set_read_timeout(None).map_err(broken)?;
    Ok((hello, line))
}
