//! One host: the way in, its shell, how many sessions, our program there, what it tells about itself, its clock.

use super::talk::{Silence, Talk};
use super::{Doctor, lines};
use crate::on_host::probe::CLOCK_MARK;
use shoal_core::checkup::compare::Clock;
use shoal_core::checkup::facts::{self, Ask, FACTS_VERSION, Facts};
use shoal_core::checkup::judge::{self, PORTS_TRIED, Wants};
use shoal_core::checkup::reach::{self, Gate, USUAL_SESSIONS};
use shoal_core::checkup::{Check, Finding, HostReport};
use shoal_core::fleet::{Fleet, Host, Reach};
use shoal_hosts::process::Exit;
use shoal_hosts::ssh::{Connection, Failure, Settings, Trouble, deliver};
use shoal_hosts::{Process, local};
use std::process::Command;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A shell that is told to do nothing.
const SHELL: Duration = Duration::from_secs(15);
/// Facts: the probe gives up on each thing after 20 s at most.
const FACTS: Duration = Duration::from_secs(30);
const CLOCK: Duration = Duration::from_secs(3);
const CLOCK_SAMPLES: usize = 6;
const ENDING: Duration = Duration::from_secs(2);

/// What is being done, to be named when it takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Connecting,
    Shell,
    Sessions,
    Sending,
    Asking,
    Done,
}

impl Step {
    pub fn doing(self) -> &'static str {
        match self {
            Step::Connecting => "connecting",
            Step::Shell => "starting a shell",
            Step::Sessions => "opening sessions",
            Step::Sending => "sending shoal there",
            Step::Asking => "asking it about itself",
            Step::Done => "done",
        }
    }

    pub fn check(self) -> Check {
        match self {
            Step::Connecting => Check::Ssh,
            Step::Shell => Check::Shell,
            Step::Sessions => Check::Sessions,
            Step::Sending | Step::Asking | Step::Done => Check::Shoal,
        }
    }

    pub fn hint(self) -> &'static str {
        match self {
            Step::Connecting => "is it under heavy load, or does its login ask for something?",
            Step::Shell => "what does its ~/.bashrc wait for?",
            Step::Sessions => "is it under heavy load?",
            Step::Sending => "the line to it is slow; give more time with --timeout",
            Step::Asking | Step::Done => "is it overloaded, or a file system of it hanging?",
        }
    }
}

pub enum Update {
    Step(Step),
    Found(Finding),
    Done(Box<HostReport>, Option<Way>),
}

/// How our program is started there.
pub enum Way {
    Here,
    Over(Connection),
}

impl Way {
    pub fn start(&self, doctor: &Doctor, words: &str) -> Result<Process, Failure> {
        match self {
            Way::Over(connection) => connection.start(&doctor.parcel.line(words)),
            Way::Here => {
                let mut command = Command::new(&doctor.parcel.path);
                command.args(words.split(' '));
                local::start(command).map_err(|e| Failure {
                    host: "localhost".into(),
                    target: "localhost".into(),
                    trouble: Trouble::Other,
                    what: format!("{} cannot be run: {e}", doctor.parcel.path.display()),
                    hint: "reinstall shoal".into(),
                })
            }
        }
    }
}

/// What is asked about a host, given what was found on the way in.
pub fn checks(fleet: &Fleet, ssh: Option<&Finding>) -> Vec<Check> {
    let here = ssh.is_some_and(|finding| finding.cell == "here");
    let asked = |check: &Check| match check {
        Check::Shared => fleet.shared.is_some(),
        // Of all hosts together, later.
        Check::Peers => false,
        check if shoal_core::checkup::pools::CHECKS.contains(check) => false,
        Check::HostKey | Check::Key | Check::Shell | Check::Sessions | Check::Clock => !here,
        _ => true,
    };
    Check::ALL.into_iter().filter(asked).collect()
}

/// Examines host `i` and tells as it goes; the last word is `Done`.
pub fn examine(doctor: &Doctor, i: usize, ssh: &Settings, tell: &Sender<(usize, Update)>) {
    let host = &doctor.fleet.hosts[i];
    let report =
        HostReport { name: host.name.clone(), address: host.address.clone(), findings: Vec::new(), facts: None };
    let mut exam = Exam { doctor, host, ssh, report, tell: Box::new(|update| drop(tell.send((i, update)))) };
    let way = exam.whole();
    let report = Box::new(exam.report.clone());
    (exam.tell)(Update::Done(report, way));
}

struct Exam<'a> {
    doctor: &'a Doctor,
    host: &'a Host,
    ssh: &'a Settings,
    report: HostReport,
    tell: Box<dyn Fn(Update) + 'a>,
}

impl Exam<'_> {
    fn step(&self, step: Step) {
        // What is known so far is told, too: the next step may be the one that hangs.
        self.report.findings.iter().for_each(|finding| (self.tell)(Update::Found(finding.clone())));
        (self.tell)(Update::Step(step));
    }

    /// Gives the way to our program there, if there is one.
    fn whole(&mut self) -> Option<Way> {
        let way = if self.host.reach == Reach::Local {
            reach::here(&mut self.report);
            Way::Here
        } else {
            let connection = self.enter()?;
            self.shell(&connection)?;
            self.sessions(&connection);
            Way::Over(connection)
        };
        let facts = self.ask(&way)?;
        let wants = Wants {
            slots: self.host.slots,
            prepare: self.doctor.fleet.environment.prepare.clone(),
            shoal: env!("CARGO_PKG_VERSION").into(),
        };
        judge::host(&facts, &wants).into_iter().for_each(|finding| self.report.add(finding));
        self.report.facts = Some(facts);
        Some(way)
    }

    fn enter(&mut self) -> Option<Connection> {
        match Connection::open(&self.doctor.fleet, self.host, self.ssh) {
            Ok(connection) => {
                reach::entered(&mut self.report, lines::log(self.ssh).contains("Permanently added"));
                Some(connection)
            }
            Err(failure) => {
                let gate = match failure.trouble {
                    Trouble::KeyRefused => Gate::KeyRefused,
                    Trouble::KeyUnusable => Gate::KeyUnusable,
                    Trouble::HostKeyChanged => Gate::HostKeyChanged,
                    Trouble::HostKeyUnknown => Gate::HostKeyUnknown,
                    Trouble::TurnedAway => Gate::TurnedAway,
                    Trouble::NoSuchName
                    | Trouble::Unreachable
                    | Trouble::PortClosed
                    | Trouble::TooManySessions
                    | Trouble::NoSsh
                    | Trouble::Forbidden
                    | Trouble::Other => Gate::Ssh,
                };
                reach::stopped(&mut self.report, gate, &failure.what, &failure.hint);
                None
            }
        }
    }

    /// Nothing else works where not even a shell does.
    fn shell(&mut self, connection: &Connection) -> Option<()> {
        self.step(Step::Shell);
        let began = Instant::now();
        let said = match connection.run("true", Vec::new(), SHELL) {
            Ok(said) => said,
            Err(failure) => {
                self.report.add(reach::no_shell(&failure.what, "what does its ~/.bashrc wait for, is its home there?"));
                return None;
            }
        };
        if said.exit != Exit::Code(0) {
            let what = format!("its shell cannot do nothing ({:?}): {}", said.exit, said.errors.trim());
            self.report.add(reach::no_shell(&what, "is the account allowed to log in (nologin, a forced command)?"));
            return None;
        }
        let output = String::from_utf8_lossy(&said.output);
        self.report.add(reach::shell(&output, &said.errors, began.elapsed()));
        Some(())
    }

    /// As many sessions at once as people's tools count on, each a `cat` that ends with its input.
    fn sessions(&mut self, connection: &Connection) {
        self.step(Step::Sessions);
        let open: Vec<Process> = (0..USUAL_SESSIONS).map_while(|_| connection.start("exec cat").ok()).collect();
        self.report.add(reach::sessions(open.len() as u32, USUAL_SESSIONS));
        let close = |session: Process| drop(session.finish(Vec::new(), ENDING));
        // Those that are still ending would count as open in what follows.
        open.into_iter().for_each(close);
    }

    fn ask(&mut self, way: &Way) -> Option<Facts> {
        self.step(Step::Asking);
        let mut found = Finding::green(Check::Shoal, "ok", "the same shoal is there");
        let mut answer = self.converse(way);
        if let (Err(Silence::Over(Some(Exit::Code(126 | 127)), _)), Way::Over(connection)) = (&answer, way) {
            self.step(Step::Sending);
            if let Err(failure) = deliver::deliver(connection, &self.host.name, &self.doctor.parcel) {
                self.report.add(Finding::red(Check::Shoal, "not sent", failure.what, failure.hint));
                self.ask_shell_for_disks(connection);
                return None;
            }
            found = Finding::green(Check::Shoal, "sent", "it was not there, or another one; it was sent now");
            self.step(Step::Asking);
            answer = self.converse(way);
        }
        match answer {
            Ok((facts, clock)) => {
                self.report.add(found);
                if let (Some(clock), Way::Over(_)) = (clock, way) {
                    self.report.add(clock.finding());
                }
                Some(facts)
            }
            Err(silence) => {
                let hint = "log in and run it by hand: ~/.cache/shoal/bin/*/shoal --version";
                let what = format!("shoal does not work there: {silence}");
                self.report.add(Finding::red(Check::Shoal, "fails", what, hint));
                None
            }
        }
    }

    /// The usual reason why our program cannot be put there is a full disk; the shell can tell of that.
    fn ask_shell_for_disks(&mut self, connection: &Connection) {
        let said = connection.run("df -Pk ~ /tmp", Vec::new(), SHELL);
        let finding = said.ok().and_then(|said| judge::disks_of_df(&String::from_utf8_lossy(&said.output)));
        finding.into_iter().for_each(|finding| self.report.add(finding));
    }

    fn converse(&self, way: &Way) -> Result<(Facts, Option<Clock>), Silence> {
        let process = way.start(self.doctor, "host probe").map_err(|failure| Silence::Odd(failure.what))?;
        let mut talk = Talk::with(process);
        let fleet = &self.doctor.fleet;
        let ask = Ask {
            version: FACTS_VERSION,
            prepare: fleet.environment.prepare.clone(),
            env: fleet.environment.env.clone(),
            shared: fleet.shared.clone(),
            ports: PORTS_TRIED,
        };
        talk.say(&serde_json::to_string(&ask).unwrap_or_default());
        let facts = talk.hear(FACTS, facts::read)?;
        let clock = Clock::best((0..CLOCK_SAMPLES).map_while(|_| {
            let asked = now();
            talk.say("t");
            let said = talk.hear(CLOCK, |line| {
                let ns = line.trim_end().split_once(CLOCK_MARK)?.1;
                Some(ns.parse::<u64>().map_err(|e| e.to_string()))
            });
            Some((asked, said.ok()?, now()))
        }));
        talk.finish(ENDING);
        Ok((facts, clock))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
