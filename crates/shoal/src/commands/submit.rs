//! Copies a script to the head and runs it there.

use super::exec::{One, listen};
use super::run::NotBegun;
use crate::args::submit::Args;
use crate::cluster::around;
use crate::cluster::nodes::Nodes;
use crate::cluster::remote::{self, Input, Order, Stream};
use crate::launch::program::Broken;
use shoal_core::cluster::shell;
use shoal_core::quote::quote;
use shoal_hosts::ssh::Settings;
use std::process::ExitCode;

/// A shell's word for it.
const NO_SUCH_COMMAND: u8 = 127;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let path = args.script.display();
    let wrong = |why: String| NotBegun::Wrong(why);
    let name = args.script.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| wrong(format!("{path} has no name that a node could use")))?;
    // Looked at before anything is started: a cluster brought up for a script that is not there would cost money.
    let script = std::fs::File::open(&args.script).map_err(|e| wrong(format!("{path}: {}", plainly(&e))))?;
    if !script.metadata().is_ok_and(|about| about.is_file()) {
        let hint = "file_mounts and `shoal rsync-up` copy folders";
        return Err(wrong(format!("{path} is no file; one script was expected\n  hint: {hint}")));
    }
    let by = args.reaching.detaching().map_err(wrong)?;
    let around = (args.reaching.start, args.stop);
    around::around(around, &args.cluster, || submit(args, script, name, by)).map(ExitCode::from)
}

fn submit(args: &Args, script: std::fs::File, name: &str, by: Option<shell::Multiplexer>) -> Result<u8, NotBegun> {
    let nodes = Nodes::of(&args.cluster)?;
    let node = nodes.pick(None, &args.cluster.file)?;
    let mut command = shell::script(name, &args.script_args);
    if let Some(text) = &args.args {
        command = format!("{command} {text}");
    }
    let one = One { nodes: &nodes, node, container: nodes.cluster.docker.as_ref(), command: &command };
    let mut code = one.code("shoal submit", copy(&one, script, name)?);
    if code == 0 {
        code = match by {
            Some(by) => one.start_detached("shoal submit", by, &args.cluster.file.display().to_string())?,
            None => one.run("shoal submit", &args.reaching.forwards, args.stop)?,
        };
        if code == NO_SUCH_COMMAND {
            let file = args.cluster.file.display();
            eprintln!(
                "shoal submit: is there a `python` for logins on the head? `shoal exec {file} 'type python'` says"
            );
        }
    }
    Ok(code)
}

/// Written beside and renamed: a script of that name that runs now is not cut in half.
fn copy(one: &One, script: std::fs::File, name: &str) -> Result<Result<u8, Broken>, NotBegun> {
    let (ssh, asked) = (Settings::from_env(), listen()?);
    let (beside, name) = (format!(".{name}.arriving"), quote(name));
    let beside = quote(&beside);
    let command = format!("cat > ~/{beside}.$$ && mv -f ~/{beside}.$$ ~/{name} || {{ rm -f ~/{beside}.$$; exit 1; }}");
    let order = Order {
        fleet: &one.nodes.fleet,
        host: &one.node.host,
        ssh: &ssh,
        command: &command,
        env: &[],
        container: one.container,
        forwards: &[],
    };
    let mut said = Vec::new();
    // The first words tell; more is not needed.
    let mut sink = |_: Stream, bytes: &[u8]| {
        let room = 1000usize.saturating_sub(said.len());
        said.extend_from_slice(&bytes[..bytes.len().min(room)]);
        true
    };
    let ended = remote::run(&order, Input::Bytes(Box::new(script)), &mut sink, &asked);
    let said = String::from_utf8_lossy(&said).trim().to_string();
    Ok(ended.and_then(|code| match code {
        0 | shoal_core::outcome::STOPPED => Ok(code),
        _ => Err(crate::launch::program::broken(
            format!("the script could not be put there: {said}"),
            "is the home folder of that user full, or not writable?",
        )),
    }))
}

fn plainly(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).into()
}
