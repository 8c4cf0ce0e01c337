//! One program of the plane: started with its log in a file, watched while it starts, ended by its own id.

use super::error::{Error, IoContext, Result};
use crate::wait;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

type Order = (Command, mpsc::Sender<std::io::Result<Child>>);

/// Starts a process that the kernel kills when this one ends, however it ends.
///
/// The kernel means the thread that started it, and a test's thread ends with its test while a plane may serve a whole file of tests: so
/// all are started by one thread that never ends.
fn spawn(command: Command) -> std::io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (send, orders) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in orders {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(send)
    });
    let (answer, child) = mpsc::channel();
    let gone = |_| std::io::Error::other("the thread that starts programs has ended");
    spawner.lock().map_err(|_| gone(mpsc::RecvError))?.send((command, answer)).map_err(|_| gone(mpsc::RecvError))?;
    child.recv().map_err(gone)?
}

pub struct Component {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Component {
    /// `program args`, not started yet; its log is appended to `folder/NAME.log`.
    pub fn new(name: &str, program: PathBuf, args: Vec<String>, folder: &Path) -> Self {
        Self { name: name.into(), program, args, log: folder.join(format!("{name}.log")), child: None }
    }

    pub fn start(&mut self) -> Result<()> {
        if !self.program.is_file() {
            return Err(Error::MissingProgram(self.program.clone()));
        }
        let out = OpenOptions::new().create(true).append(true).open(&self.log).context("make", &self.log)?;
        let err = out.try_clone().context("open", &self.log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program).args(&self.args);
        // Only what is given here counts, not what the user of this machine has set up.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", "/nonexistent");
        command.current_dir("/").stdin(Stdio::null()).stdout(out).stderr(err);
        self.child = Some(spawn(command).context("start", &self.program)?);
        Ok(())
    }

    /// SIGKILL, and waits for the end. One that does not run is no error.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for `what`, as long as this component runs.
    pub fn wait<T>(&mut self, what: &str, bound: Duration, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
        let outcome = wait::until(bound, || match self.child.as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => Some(Err(status.to_string())),
            None | Some(Err(_)) => Some(Err("nothing: it was not started".into())),
            Some(Ok(None)) => probe().map(Ok),
        });
        match outcome {
            Some(Ok(value)) => Ok(value),
            Some(Err(status)) => {
                Err(Error::Died { component: self.name.clone(), status, what: what.into(), log: self.log() })
            }
            None => Err(Error::Timeout { what: format!("{what} ({})", self.name), bound, log: self.log() }),
        }
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.kill();
    }
}
