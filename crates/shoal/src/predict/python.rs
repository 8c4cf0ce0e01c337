//! Asking Python for what only it knows: the layers of a torch module, how fast this machine multiplies (`python -m shoal.describe`).

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Making a large model and a step of it on one core takes minutes; what takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(600);
/// More is no description.
const MOST: u64 = 4 << 20;

/// What `python -m shoal.describe ARGS` prints. Its words on stderr are shown as they come.
pub fn ask(python: &str, args: &[String]) -> Result<String, String> {
    let mut command = Command::new(python);
    command.args(["-m", "shoal.describe"]).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| not_started(python, &e))?;
    let pipe = child.stdout.take();
    let output = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Whatever was read before an error is judged by who parses it.
        let _ = pipe.map(|pipe| pipe.take(MOST).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => return Err(stuck(&mut child, python)),
            Err(e) => return Err(format!("cannot wait for {python}: {e}")),
        }
    };
    match status.code() {
        Some(0) => Ok(output.join().unwrap_or_default()),
        // It has said why, as an error of its own or as Python does.
        Some(code) => {
            Err(format!("`{python} -m shoal.describe` ended with code {code}; its reason is above{}", hint(code)))
        }
        None => Err(format!("`{python} -m shoal.describe` was killed ({status}); was there enough memory?")),
    }
}

fn not_started(python: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!(
                "there is no program {python} here\n  hint: activate the environment with torch and shoal, or name its Python with --python"
            )
        }
        _ => format!("cannot run {python}: {error}"),
    }
}

/// Python's own code for a module that is not there is 1, like that of every exception.
fn hint(code: i32) -> &'static str {
    if code == 1 { "\n  hint: the Python that --python names needs the packages torch and shoal" } else { "" }
}

fn stuck(child: &mut Child, python: &str) -> String {
    // It is ours and still runs; if it cannot be killed, init will fetch it.
    let _ = child.kill();
    let _ = child.wait();
    format!("`{python} -m shoal.describe` took more than {} minutes and was ended", PATIENCE.as_secs() / 60)
}
