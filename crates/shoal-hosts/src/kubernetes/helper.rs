//! How is there a pod in which a pool's volumes can be reached, and how does it go? What it is, is decided in `shoal_core::kubernetes::helper`.

use super::connection::Connection;
use super::exec::{Command, Session};
use super::explain::{Failure, Trouble};
use super::request::{self, Selection};
use super::resource;
use super::watch::{Followed, Look, View};
use crate::files;
use crate::process::{Exit, Process};
use crate::ssh::deliver::Parcel;
use kube::api::DeleteParams;
use serde_json::Value;
use shoal_core::kubernetes::helper::{self, CONTAINER, HELPER, LISTENING, Standing};
use shoal_core::kubernetes::template::Kind;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// An image of many gigabytes takes its time.
const START_BOUND: Duration = Duration::from_secs(900);
/// How long something has to be stuck before it is believed: volumes are bound and nodes taken note of within seconds.
const STEADY: Duration = Duration::from_secs(5);
/// How long its end may take before somebody is told.
const END_BOUND: Duration = Duration::from_secs(60);
/// Our program over a slow link.
const SENDING: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(1);

/// What is to be made.
#[derive(Debug, Clone)]
pub struct Plan {
    pub name: String,
    pub job: Value,
    /// The claims of its volumes.
    pub claims: Vec<String>,
    /// It ends when nobody has spoken to it for so long.
    pub idle: Duration,
}

/// A pod that runs, and is spoken to as long as this lives.
pub struct Helper {
    connection: Arc<Connection>,
    name: String,
    pub pod: String,
    _speaking: Sender<()>,
}

impl Helper {
    /// Makes it and waits until it runs; `tell` hears why it does not yet. What does not come about is taken away again.
    pub fn start(connection: Arc<Connection>, plan: &Plan, tell: &mut dyn FnMut(&str)) -> Result<Helper, Failure> {
        let unbound = check_claims(&connection, &plan.claims)?;
        let of = resource::of_kind(Kind::Job, &connection.namespace);
        connection.block_on(request::apply(&connection, &of, &plan.job, false))?;
        let pod = match until_it_runs(&connection, &plan.name, &unbound, tell) {
            Ok(pod) => pod,
            Err(failure) => {
                // Its own end would come as well; the first failure is the one to tell.
                let _ = remove(&connection, &plan.name);
                return Err(failure);
            }
        };
        let (speaking, stopped) = channel();
        let (theirs, idle, of) = (connection.clone(), plan.idle, pod.clone());
        let speak = move || speak(&theirs, &of, idle, &stopped);
        if let Err(e) = std::thread::Builder::new().name("helper".into()).spawn(speak) {
            let _ = remove(&connection, &plan.name);
            return Err(Failure::new(Trouble::Other, format!("no thread: {e}"), "free some memory"));
        }
        Ok(Helper { connection, name: plan.name.clone(), pod, _speaking: speaking })
    }

    pub fn exec(&self, words: Vec<String>, terminal: bool) -> Result<Session, Failure> {
        self.connection.exec(Command { pod: self.pod.clone(), container: CONTAINER.into(), words, terminal })
    }

    fn shell(&self, script: &str) -> Result<Session, Failure> {
        self.exec(["/bin/sh", "-c", script].map(String::from).to_vec(), false)
    }

    /// Puts our program there.
    pub fn deliver(&self, parcel: &Parcel) -> Result<(), Failure> {
        let unread = |e: std::io::Error| {
            Failure::new(Trouble::Other, format!("cannot read {}: {e}", parcel.path.display()), "reinstall shoal")
        };
        let bytes = std::fs::read(&parcel.path).map_err(unread)?;
        let session = self.shell(&helper::receiving(&parcel.digest, bytes.len() as u64))?;
        let Some(said) = session.process.finish(bytes, SENDING) else {
            let what = format!("shoal did not get into the pod within {} s", SENDING.as_secs());
            return Err(Failure::new(Trouble::Other, what, "is the way to the cluster that slow? try again"));
        };
        if said.exit == Exit::Code(0) {
            return Ok(());
        }
        let words = said.errors.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it does not say why");
        let what = format!("shoal could not be put into the pod: {words}");
        Err(Failure::new(Trouble::Other, what, hint(words)))
    }

    /// Takes it away, and comes back when it is gone.
    pub fn remove(self) -> Result<(), Failure> {
        remove(&self.connection, &self.name)
    }
}

/// What helps against a complaint (pure).
fn hint(words: &str) -> &'static str {
    let has = |signs: &[&str]| signs.iter().any(|sign| words.contains(sign));
    if has(&["host digest", "GLIBC", "Exec format", "shoal.arriving: not found", "No such file"]) {
        "the image's system is older, or of another kind (Alpine's, say), than the one shoal was built for; build shoal statically (--target x86_64-unknown-linux-musl), or take another image"
    } else if has(&["head:", "head: not found", "chmod: not found"]) {
        "the image needs `head` and `chmod`, as busybox and every distribution have them"
    } else if has(&["No space left"]) {
        "the node's own disk is full; choose another node, or ask whoever runs the cluster"
    } else {
        "try again; if it stays so, `kubectl exec` into a pod of this image and look around"
    }
}

impl files::Through for Helper {
    fn start(&self, words: &str) -> Result<Process, files::Trouble> {
        let words = std::iter::once(helper::program()).chain(words.split(' ').map(String::from));
        let session = self.exec(words.collect(), false);
        session.map(|session| session.process).map_err(|failure| files::Trouble {
            node: self.pod.clone(),
            what: failure.what,
            hint: failure.hint,
        })
    }
}

/// Names of those that have no volume yet. One that is not there is a failure before anything is made.
fn check_claims(connection: &Connection, claims: &[String]) -> Result<Vec<String>, Failure> {
    let of = resource::of("v1", "persistentvolumeclaims", Some(&connection.namespace));
    let mut unbound = Vec::new();
    for name in claims {
        let claim = match connection.block_on(request::get(connection, &of, name)) {
            Ok(claim) => claim.unwrap_or_default(),
            // The pod will tell.
            Err(failure) if failure.trouble == Trouble::Forbidden => continue,
            Err(failure) => return Err(failure),
        };
        if let Some((what, hint)) = helper::claim_fault(name, &claim) {
            let what = format!("{what} in namespace `{}`", connection.namespace);
            return Err(Failure::new(Trouble::NotThere, what, hint));
        }
        if helper::is_unbound(&claim) {
            unbound.push(name.clone());
        }
    }
    Ok(unbound)
}

fn labelled(name: &str) -> Selection {
    Selection::labels(format!("{HELPER}={name}"))
}

fn until_it_runs(
    connection: &Connection,
    name: &str,
    unbound: &[String],
    tell: &mut dyn FnMut(&str),
) -> Result<String, Failure> {
    let namespace = connection.namespace.as_str();
    let refused = Selection { fields: Some(format!("involvedObject.name={name}")), ..Selection::default() };
    let followed = [
        Followed { resource: resource::of_kind(Kind::Job, namespace), which: labelled(name), optional: false },
        Followed { resource: resource::pods(namespace), which: labelled(name), optional: false },
        Followed { resource: resource::events(namespace), which: refused, optional: true },
    ];
    let mut last = Standing::Waits("the API server is away".into());
    let mut told = String::new();
    let look = |view: &View| {
        if let Some(away) = &view.away {
            tell(&away.what);
        }
        if !view.complete {
            return Look::GoOn;
        }
        let pods: Vec<&Value> = view.of(1).collect();
        let refused = view.of(2).find(|event| event["reason"] == "FailedCreate").and_then(|e| e["message"].as_str());
        last = helper::standing(view.of(0).next(), &pods, refused, unbound);
        match &last {
            Standing::Runs(_) | Standing::Over { .. } => Look::Done,
            Standing::Stuck { .. } => Look::DoneAfter(STEADY),
            Standing::Waits(why) => {
                if *why != told {
                    tell(why);
                    told.clone_from(why);
                }
                Look::GoOn
            }
        }
    };
    connection.follow(&followed, Instant::now() + START_BOUND, look)?;
    match last {
        Standing::Runs(pod) => Ok(pod),
        Standing::Stuck { what, hint } | Standing::Over { what, hint } => Err(Failure::new(
            Trouble::Other,
            format!("the pod that was to reach the volume does not run: {what}"),
            hint,
        )),
        Standing::Waits(why) => {
            let what =
                format!("the pod that was to reach the volume did not run within {} s: {why}", START_BOUND.as_secs());
            Err(Failure::new(
                Trouble::Other,
                what,
                "`kubectl get events` says more; a large image may need a second try",
            ))
        }
    }
}

/// Says something to the pod often enough that it stays, until `stopped`; on a new line whenever one breaks.
fn speak(connection: &Connection, pod: &str, idle: Duration, stopped: &Receiver<()>) {
    let every = (idle / 8).clamp(Duration::from_millis(250), Duration::from_secs(10));
    let ends = |wait| stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
    let words = ["/bin/sh", "-c", LISTENING].map(String::from).to_vec();
    loop {
        let command = Command { pod: pod.into(), container: CONTAINER.into(), words: words.clone(), terminal: false };
        if let Ok(Session { process: Process { mut to, mut end, from: _from, errors: _errors }, .. }) =
            connection.exec(command)
        {
            while to.write_all(b".\n").is_ok() && end.wait(Duration::ZERO).is_none() {
                if ends(every) {
                    return;
                }
            }
        }
        if ends(PAUSE) {
            return;
        }
    }
}

/// Takes a helper away by its name, whoever made it, and comes back when its Job and its pod are gone.
pub fn remove(connection: &Connection, name: &str) -> Result<(), Failure> {
    let of = resource::of_kind(Kind::Job, &connection.namespace);
    let Some(job) = connection.block_on(request::get(connection, &of, name))? else { return Ok(()) };
    connection.block_on(request::delete(connection, &of, &job, &DeleteParams::foreground()))?;
    let followed = |resource| Followed { resource, which: labelled(name), optional: false };
    let pods = resource::pods(&connection.namespace);
    let mut left: Vec<String> = Vec::new();
    let gone = connection.follow(&[followed(of), followed(pods)], Instant::now() + END_BOUND, |view| {
        left =
            view.of(0).chain(view.of(1)).filter_map(|one| one["metadata"]["name"].as_str()).map(Into::into).collect();
        if view.complete && left.is_empty() { Look::Done } else { Look::GoOn }
    })?;
    if gone {
        return Ok(());
    }
    let what = format!("after {} s these are still there: {}", END_BOUND.as_secs(), left.join(", "));
    Err(Failure::new(Trouble::Other, what, "is their node down? `kubectl get pods` shows them; they were asked to end"))
}
