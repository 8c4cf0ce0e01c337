//! How does a command run in a pod, with its three pipes here? Over a websocket of the API server, which passes it on to the pod's kubelet.
//!
//! Each has a thread, a connection and an event loop of its own: those who speak with it know pipes and nothing else, as with ssh.

use super::connection::Connection;
use super::explain::{Failure, Trouble, explain, of_way};
use super::request::BOUND;
use crate::process::{End, Exit, Process};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{Api, AttachParams, AttachedProcess, TerminalSize};
use kube::{Client, Config};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// Bytes that wait on each side for the other, and those of one turn.
const WAITING: usize = 1 << 20;
const TURN: usize = 64 << 10;
/// How many new sizes of a window may wait to be told; between them the last one counts.
const SIZES: usize = 8;

/// A command in one container of a pod.
#[derive(Debug, Clone)]
pub struct Command {
    pub pod: String,
    pub container: String,
    pub words: Vec<String>,
    /// It gets a terminal: one stream back, and sizes.
    pub terminal: bool,
}

/// Columns and rows.
pub type Size = (u16, u16);

pub struct Session {
    pub process: Process,
    /// Where to say how large the terminal is now.
    pub sizes: mpsc::Sender<Size>,
}

struct Ended {
    end: Receiver<Exit>,
    known: Option<Exit>,
}

impl End for Ended {
    fn wait(&mut self, limit: Duration) -> Option<Exit> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        if self.known.is_none() {
            self.known = match self.end.recv_timeout(limit) {
                Ok(exit) => Some(exit),
                Err(Disconnected) => Some(Exit::Cut),
                Err(Timeout) => None,
            };
        }
        self.known
    }
}

/// This end of the pipes: what the command hears, says and complains.
struct Pipes {
    input: PipeReader,
    output: PipeWriter,
    errors: PipeWriter,
}

impl Connection {
    /// Starts a command; refusals of the server come back before anything is sent.
    pub fn exec(&self, command: Command) -> Result<Session, Failure> {
        let here = |e: io::Error| Failure::new(Trouble::Other, format!("no pipe: {e}"), "too many open files?");
        let (input, to) = io::pipe().map_err(here)?;
        let (from, output) = io::pipe().map_err(here)?;
        let (complaints, errors) = io::pipe().map_err(here)?;
        let (opened, opening) = sync_channel(1);
        let (ended, end) = sync_channel(1);
        let (sizes, told) = mpsc::channel(SIZES);
        let (config, namespace, server) = (self.config.clone(), self.namespace.clone(), self.server.clone());
        let pipes = Pipes { input, output, errors };
        let work = move || {
            let exit = thread(config, &namespace, &server, &command, pipes, told, &opened);
            let _ = ended.send(exit);
        };
        std::thread::Builder::new().name("exec".into()).spawn(work).map_err(here)?;
        let lost = || Failure::new(Trouble::Other, "the command could not be started in the pod", "try again");
        opening.recv().unwrap_or_else(|_| Err(lost()))?;
        let end = Box::new(Ended { end, known: None });
        Ok(Session { process: Process { to, from, errors: complaints, end }, sizes })
    }
}

type Opened = SyncSender<Result<(), Failure>>;

fn thread(
    config: Config,
    namespace: &str,
    server: &str,
    command: &Command,
    pipes: Pipes,
    sizes: mpsc::Receiver<Size>,
    opened: &Opened,
) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            let why = Failure::new(Trouble::Other, format!("no event loop: {e}"), "free some memory or files");
            let _ = opened.send(Err(why));
            return Exit::Cut;
        }
    };
    runtime.block_on(async {
        match open(config, namespace, server, command).await {
            Ok(attached) => {
                let _ = opened.send(Ok(()));
                pass_on(attached, pipes, sizes).await.unwrap_or(Exit::Cut)
            }
            Err(failure) => {
                let _ = opened.send(Err(failure));
                Exit::Cut
            }
        }
    })
}

async fn open(config: Config, namespace: &str, server: &str, command: &Command) -> Result<AttachedProcess, Failure> {
    let client = Client::try_from(config).map_err(|error| explain(&error, server))?;
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    let params = AttachParams {
        container: Some(command.container.clone()),
        stdin: true,
        stdout: true,
        stderr: !command.terminal,
        tty: command.terminal,
        max_stdin_buf_size: Some(WAITING),
        max_stdout_buf_size: Some(WAITING),
        max_stderr_buf_size: Some(TURN),
    };
    match tokio::time::timeout(BOUND, pods.exec(&command.pod, command.words.clone(), &params)).await {
        Ok(attached) => attached.map_err(|error| refused(&error, server)),
        Err(elapsed) => Err(of_way(&elapsed.to_string(), server)),
    }
}

/// A server that answers and does not change to the other protocol is reached: something between us and it does not let that pass.
fn refused(error: &kube::Error, server: &str) -> Failure {
    match error {
        kube::Error::UpgradeConnection(why) => Failure::new(
            Trouble::Other,
            format!("{server} does not let a command run in the pod: {why}"),
            "`kubectl exec` asks for the same; does a proxy on the way keep websockets back?",
        ),
        other => explain(other, server),
    }
}

/// Until the command has ended and all it said has been passed on, or the connection is gone, or nobody here listens any more.
async fn pass_on(mut attached: AttachedProcess, pipes: Pipes, mut sizes: mpsc::Receiver<Size>) -> io::Result<Exit> {
    let mut errors = pipes.errors.try_clone()?;
    let (status, stdin) = (attached.take_status(), attached.stdin());
    let (stdout, stderr) = (attached.stdout(), attached.stderr());
    let mut window = attached.terminal_size();
    let input = pipe::Receiver::from_owned_fd(pipes.input.into())?;
    let (output, complaints) =
        (pipe::Sender::from_owned_fd(pipes.output.into())?, pipe::Sender::from_owned_fd(pipes.errors.into())?);
    tokio::spawn(async move {
        if let Some(mut stdin) = stdin {
            let _ = pump(input, &mut stdin).await;
            // Unlike most, this one is not closed by being dropped.
            let _ = stdin.shutdown().await;
        }
    });
    tokio::spawn(async move {
        while let Some((width, height)) = sizes.recv().await {
            let _ = window.as_mut().map(|window| window.try_send(TerminalSize { width, height }));
        }
    });
    let saying = async { tokio::try_join!(all(stdout, output), all(stderr, complaints)) };
    let mut saying = std::pin::pin!(saying);
    let mut said = None;
    let outcome = tokio::select! {
        outcome = attached.join() => outcome,
        outcome = &mut saying => {
            said = Some(());
            match outcome {
                // All has been said; what is left is the status, which came before.
                Ok(_) => Ok(()),
                // Nobody listens here: the rest would wait for ever.
                Err(e) => return Err(e),
            }
        }
    };
    if outcome.is_ok() && said.is_none() {
        saying.await?;
    }
    let status = match status {
        Some(status) if outcome.is_ok() => status.await,
        _ => None,
    };
    let (exit, why) = match (&outcome, &status) {
        (_, Some(status)) => end_of(status),
        (Err(e), None) => (Exit::Cut, Some(e.to_string())),
        (Ok(()), None) => (Exit::Cut, None),
    };
    if let Some(why) = why {
        let _ = errors.write_all(format!("{why}\n").as_bytes());
    }
    Ok(exit)
}

async fn all(from: Option<impl AsyncRead + Unpin>, to: pipe::Sender) -> io::Result<()> {
    match from {
        Some(from) => pump(from, &mut { to }).await,
        None => Ok(()),
    }
}

async fn pump(mut from: impl AsyncRead + Unpin, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut bytes = vec![0; TURN];
    loop {
        match from.read(&mut bytes).await? {
            0 => return Ok(()),
            n => to.write_all(&bytes[..n]).await?,
        }
    }
}

/// What the server says of an end: a code, or why there is none (pure).
fn end_of(status: &Status) -> (Exit, Option<String>) {
    if status.status.as_deref() == Some("Success") {
        return (Exit::Code(0), None);
    }
    let causes = status.details.as_ref().and_then(|details| details.causes.as_ref());
    let code = causes.into_iter().flatten().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    match code.and_then(|cause| cause.message.as_deref()?.parse().ok()) {
        Some(code) => (Exit::Code(code), None),
        None => (Exit::Cut, status.message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ends_are_codes_or_reasons() {
        for (status, exit, says) in [
            (json!({"status": "Success"}), Exit::Code(0), None),
            (
                json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with non-zero exit code",
                    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}),
                Exit::Code(3),
                None,
            ),
            (json!({"status": "Failure", "reason": "InternalError", "message": "no sh"}), Exit::Cut, Some("no sh")),
        ] {
            let status: Status = serde_json::from_value(status).expect("a status");
            assert_eq!(end_of(&status), (exit, says.map(String::from)));
        }
    }
}
