//! How is `shoal-aws` found, started and talked to? It is a program of its own: its SDK is larger than everything else together.

use super::provider::Trouble;
use crate::signals;
use shoal_core::cluster::cloud::protocol::{Ask, Event, Failure, Request};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NAME: &str = "shoal-aws";
/// How often we look whether somebody wants us gone.
const LOOK: Duration = Duration::from_millis(50);

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

/// The end of its input asks it to stop.
#[derive(Clone, Default)]
struct Input(Arc<Mutex<Option<ChildStdin>>>);

impl Input {
    fn close(&self) {
        drop(self.0.lock().ok().and_then(|mut input| input.take()));
    }

    fn is_closed(&self) -> bool {
        self.0.lock().map_or(true, |input| input.is_none())
    }
}

/// Its end is waited for, whatever happens: its ledger is only true when it has ended.
struct Running {
    child: Child,
    input: Input,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input.close();
        let _ = self.child.wait();
    }
}

/// Whoever asks `shoal up` alone to stop, as `shoal down` does, means what makes machines for it too. Only for `up`, which listens for signals
/// anyway: other commands simply end, and so does the input of this one.
fn pass_on_stops(input: Input) {
    let Ok(asked) = signals::count() else { return };
    std::thread::spawn(move || {
        while !input.is_closed() {
            if asked() > 0 {
                eprintln!(
                    "shoal up: stopping; what AWS was asked for last comes to its end first; once more to leave at once"
                );
                input.close();
                return;
            }
            std::thread::sleep(LOOK);
        }
    });
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
    let mut running = Running { child, input: Input::default() };
    let mut text = serde_json::to_string(request).unwrap_or_default();
    text.push('\n');
    if let Some(mut input) = running.child.stdin.take() {
        // If it is gone already, its answer or its end says more than the broken pipe.
        let _ = input.write_all(text.as_bytes()).and_then(|()| input.flush());
        running.input = Input(Arc::new(Mutex::new(Some(input))));
    }
    if matches!(request.ask, Ask::Ensure { .. }) {
        pass_on_stops(running.input.clone());
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
