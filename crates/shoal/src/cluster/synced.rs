//! How does a path of the head get to a worker (`cluster_synced_files`)? As a stream through here; nothing is kept on the way.

use super::node::Work;
use super::provider::Trouble;
use shoal_core::cluster::{Node, Role};
use shoal_core::fleet::Reach;
use shoal_core::quote::quote;
use shoal_hosts::process::Exit;
use shoal_hosts::ssh::Connection;
use shoal_hosts::{Process, local};
use std::time::Duration;

/// Exit code of our own line on the head: there is no such path yet, which is allowed.
const NOT_THERE: i32 = 44;
const ENDING: Duration = Duration::from_secs(60);

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
    // tar may leave before it has read the padding behind the last file; whether all arrived is for the exit codes to say.
    let _ = std::io::copy(&mut from.from, &mut to.to);
    drop(to.to);
    let sent = from.end.wait(ENDING);
    let received = to.end.wait(ENDING);
    match (sent, received) {
        (Some(Exit::Code(NOT_THERE)), _) => Ok(()),
        (Some(Exit::Code(0)), Some(Exit::Code(0))) => Ok(()),
        (sent, received) => Err(fault(format!("{path} did not get from the head: {sent:?}, {received:?}"))),
    }
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
