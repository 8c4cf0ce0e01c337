//! How is `shoal-aws` found, started and talked to? It is a program of its own: its SDK is larger than everything else together.

use super::provider::Trouble;
use shoal_core::cluster::cloud::protocol::{Event, Failure, Request};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

const NAME: &str = "shoal-aws";

/// Which program, and what it finds in its environment beside ours.
pub struct Helper {
    pub program: PathBuf,
    pub env: Vec<(String, String)>,
}

impl Helper {
    /// Beside this program, else wherever programs are.
    pub fn find() -> Helper {
        let beside = std::env::current_exe().ok().and_then(|me| Some(me.parent()?.join(NAME)));
        let program = beside.filter(|file| file.is_file()).unwrap_or_else(|| NAME.into());
        Helper { program, env: Vec::new() }
    }
}

/// Its end is waited for, whatever happens: its ledger is only true when it has ended.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of its input asks it to stop.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Asks, passes on what it tells, and gives the last word. Ctrl-C reaches it by the terminal; it then ends in order, and says so.
pub fn ask(helper: &Helper, request: &Request, tell: &dyn Fn(&str)) -> Result<Event, Trouble> {
    let mut command = Command::new(&helper.program);
    command.envs(helper.env.iter().map(|(key, value)| (key, value)));
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = started.map_err(|e| Trouble {
        what: format!("clusters on AWS need the program {NAME}, which does not start: {e}"),
        hint: format!("put {NAME} beside shoal, or onto the PATH (`cargo build -p {NAME}` builds it)"),
    })?;
    let mut running = Running { child, input: None };
    running.input = running.child.stdin.take();
    let mut text = serde_json::to_string(request).unwrap_or_default();
    text.push('\n');
    if let Some(input) = &mut running.input {
        // If it is gone already, its answer or its end says more than the broken pipe.
        let _ = input.write_all(text.as_bytes()).and_then(|()| input.flush());
    }
    let Some(output) = running.child.stdout.take() else { return Err(silent("no output")) };
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|e| silent(&e.to_string()))?;
        match serde_json::from_str::<Event>(&line) {
            Ok(Event::Tell { text }) => tell(&text),
            Ok(Event::Failed(failure)) => return Err(trouble(failure)),
            Ok(last) => return Ok(last),
            Err(e) => return Err(silent(&format!("it said something this shoal does not understand: {e}"))),
        }
    }
    let status = running.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
    Err(silent(&status))
}

fn silent(why: &str) -> Trouble {
    Trouble {
        what: format!("{NAME} ended without an answer: {why}"),
        hint: "what was made so far is in the ledger: run the command again, or `shoal down`".into(),
    }
}

fn trouble(failure: Failure) -> Trouble {
    let hint = failure.hint.unwrap_or_else(|| "the ledger knows what was made: the command can be run again".into());
    Trouble { what: failure.text, hint }
}
