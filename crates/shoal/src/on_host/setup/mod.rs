//! `shoal host setup`: what a node does for `up`, `down` and `status`, in one session, told line by line (`cluster::steps::wire`).
//!
//! | file | question |
//! |---|---|
//! | `inbox` | what does the client want, and is it still there |
//! | `state` | where is the node's record, and how is it kept; who holds the node |
//! | `command` | how is one program run, watched and ended |
//! | `output` | what of a program's output is passed on |
//! | `left` | what do start commands leave running, and does it still run |
//! | `ray` | is anything of Ray here, and whose is it |
//! | `mesh` | how may nodes log in to each other |
//! | `forget` | what has to go, and what is left |

mod command;
mod forget;
mod inbox;
mod left;
mod mesh;
mod output;
mod ray;
mod state;

use inbox::{Heard, Inbox};
use shoal_core::cluster::steps::record::{Ended, Outcome, StepRecord};
use shoal_core::cluster::steps::stamp::Stamp;
use shoal_core::cluster::steps::wire::{self, Ask, Container, Say, Task, WIRE_VERSION};
use shoal_daemon::records::unix_ms;
use state::{Held, State};
use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// How long the first question may take to come.
const FIRST_WORD: Duration = Duration::from_secs(60);
/// Asking docker or podman something small.
const ASKING: Duration = Duration::from_secs(20);

pub fn main() -> ExitCode {
    if say(&Say::Ready { version: WIRE_VERSION }).is_err() {
        return ExitCode::FAILURE;
    }
    let inbox = Inbox::open();
    let first = inbox.wait(FIRST_WORD);
    let Heard::Said(Ask::Hello { version, cluster, holder, container, silence_s }) = first else {
        return ExitCode::FAILURE;
    };
    if version != WIRE_VERSION {
        let what = format!("the client speaks version {version}, this node {WIRE_VERSION}");
        return refuse(what, "remove ~/.cache/shoal on the node; it will be delivered anew");
    }
    inbox.expect_a_word_every(Duration::from_secs(silence_s.max(1)));
    let node = Node::open(&cluster, inbox);
    match node {
        Ok(mut node) => {
            if let Some(holder) = holder {
                match node.state.hold(&holder) {
                    Ok(Held::Ours(lock)) => node.lock = Some(lock),
                    Ok(Held::By(holder)) => {
                        let _ = say(&Say::Locked { holder });
                        return ExitCode::FAILURE;
                    }
                    Err(e) => return refuse(format!("its folder cannot be locked: {e}"), state::HINT),
                }
            }
            // Read again only now: whoever held the node may have written until a moment ago.
            let trouble = node.state.load(node.lock.is_some());
            let running = container.as_ref().and_then(running);
            let record = node.state.record.clone();
            let boot = shoal_daemon::proc::machine().boot;
            let alive = left::alive(&record, &boot);
            if say(&Say::Hello { record, trouble, boot, container: running, alive }).is_err() {
                return ExitCode::FAILURE;
            }
            node.container = container;
            node.serve()
        }
        Err(e) => refuse(format!("its folder in ~/.cache/shoal cannot be used: {e}"), state::HINT),
    }
}

fn say(what: &Say) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(wire::line(what).as_bytes())?;
    out.flush()
}

fn refuse(what: String, hint: &str) -> ExitCode {
    let _ = say(&Say::Trouble { what, hint: hint.into() });
    ExitCode::FAILURE
}

/// The id of the cluster's container, if it runs.
fn running(container: &Container) -> Option<String> {
    let (program, words) = container.engine.split_first()?;
    let mut command = Command::new(program);
    command.args(words).args(["container", "inspect", "--format", "{{.Id}} {{.State.Running}}", &container.name]);
    let said = crate::on_host::bounded::program(command, ASKING).ok()??;
    said.output.trim().strip_suffix(" true").filter(|_| said.code == Some(0)).map(str::to_string)
}

struct Node {
    state: State,
    inbox: Inbox,
    container: Option<Container>,
    /// Held for as long as this program lives.
    lock: Option<std::fs::File>,
    left: left::Watch,
}

impl Node {
    fn open(cluster: &str, inbox: Inbox) -> std::io::Result<Node> {
        Ok(Node { state: State::open(cluster)?, inbox, container: None, lock: None, left: left::Watch::default() })
    }

    fn serve(&mut self) -> ExitCode {
        loop {
            let ask = match self.inbox.wait(Duration::MAX) {
                Heard::Said(ask) => ask,
                Heard::Gone | Heard::Nothing => return ExitCode::SUCCESS,
            };
            // Without the lock one may only look.
            let locked = self.lock.is_some();
            let said = match ask {
                Ask::Run { steps } if locked => self.run(&steps),
                Ask::Mesh { id, stamp, private, public, addresses } if locked => {
                    let began = Instant::now();
                    let done = mesh::place(&self.state.cluster, &private, &public, &addresses);
                    let how = done.map_or_else(|e| Ended::NotStarted(e.to_string()), |()| Ended::Code(0));
                    self.note(&id, stamp, outcome(&how)).and_then(|()| self.ended(&id, how, began, Vec::new()))
                }
                Ask::Note { id, stamp, done } if locked => {
                    self.note(&id, stamp, if done { Outcome::Done } else { Outcome::Begun })
                }
                Ask::Forget { stop, container, program } if locked => {
                    let (removed, left) = forget::forget(&self.state, &self.inbox, stop, container, program);
                    say(&Say::Forgot { removed, left })
                }
                Ask::Bye => {
                    // Without it, the next `up` only does more than it has to.
                    let _ = self.look_again();
                    return ExitCode::SUCCESS;
                }
                _ => Ok(()),
            };
            if let Err(e) = said {
                return refuse(format!("its record cannot be kept: {e}"), state::HINT);
            }
        }
    }

    fn run(&mut self, steps: &[Task]) -> std::io::Result<()> {
        for task in steps {
            if task.mark {
                self.state.forget_starts_after(&task.id);
            }
            self.note(&task.id, task.stamp.clone(), Outcome::Begun)?;
            say(&Say::Begun { id: task.id.clone() })?;
            let began = Instant::now();
            if task.mark {
                self.left.begin(&self.state.cluster);
            }
            let ran = command::run(&self.state, &self.inbox, task);
            let left = task.mark.then(|| self.left.of(&task.id, &self.state.cluster)).flatten();
            let to = outcome(&ran.how);
            self.put(&task.id, StepRecord { left, epoch: task.epoch.clone(), ..done(task.stamp.clone(), to) })?;
            let good = ran.how.is_success();
            self.ended(&task.id, ran.how, began, ran.last)?;
            if !good {
                break;
            }
        }
        say(&Say::Idle)
    }

    fn note(&mut self, id: &str, stamp: Stamp, to: Outcome) -> std::io::Result<()> {
        self.put(id, done(stamp, to))
    }

    fn put(&mut self, id: &str, step: StepRecord) -> std::io::Result<()> {
        let made = match (&self.container, id == "container" && step.outcome == Outcome::Done) {
            (Some(container), true) => running(container),
            _ => None,
        };
        self.state.put(id, StepRecord { made, ..step })
    }

    /// Some of what commands leave goes by itself a moment later: helpers of theirs, not what they are for.
    fn look_again(&mut self) -> std::io::Result<()> {
        for (id, left) in self.left.again(&self.state.cluster) {
            let step = self.state.record.steps.get(&id).cloned();
            if let Some(step) = step.filter(|step| step.left != left) {
                self.state.put(&id, StepRecord { left, ..step })?;
            }
        }
        Ok(())
    }

    fn ended(&self, id: &str, how: Ended, began: Instant, last: Vec<String>) -> std::io::Result<()> {
        let log = self.state.log(id).display().to_string();
        say(&Say::Ended { id: id.into(), how, ms: began.elapsed().as_millis() as u64, last, log })
    }
}

fn done(stamp: Stamp, outcome: Outcome) -> StepRecord {
    StepRecord { stamp, outcome, at_ms: unix_ms(), made: None, left: None, epoch: None }
}

fn outcome(how: &Ended) -> Outcome {
    if how.is_success() { Outcome::Done } else { Outcome::Failed(how.clone()) }
}
