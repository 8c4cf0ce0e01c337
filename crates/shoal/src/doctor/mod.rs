//! The examination of a fleet: all hosts at once, then the ways between them. Every wait is bounded and has a name; a host that hangs
//! is in the table like the others.
//!
//! | file | question |
//! |---|---|
//! | `host` | what is looked at on one host, in which order |
//! | `ways` | what is between the hosts |
//! | `pools` | what do clusters say about the parts of them that take runs |
//! | `talk` | how do we speak with our program on a host, line by line |
//! | `lines` | which connections are ours, and how do they end |
//! | `progress` | what do people see meanwhile |

mod host;
mod lines;
mod pools;
mod progress;
mod talk;
mod ways;

use host::{Step, Update, Way};
use lines::Lines;
use progress::Progress;
use shoal_core::checkup::{Check, Finding, HostReport, REPORT_VERSION, Report, compare, peers};
use shoal_core::fleet::Fleet;
use shoal_core::plan::Secret;
use shoal_hosts::ssh::Settings;
use shoal_hosts::ssh::deliver::Parcel;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use ways::Ways;

const TURN: Duration = Duration::from_millis(50);

pub struct Doctor {
    pub fleet: Fleet,
    pub ssh: Settings,
    pub parcel: Parcel,
    pub token: Secret,
    /// How long one host may take, apart from the ways between hosts.
    pub patience: Duration,
    /// Whether a pod may be started in each pool.
    pub pods: bool,
}

/// What a host's examination has come to.
struct Patient {
    report: HostReport,
    step: Step,
    way: Option<Way>,
}

/// Examines all. `None`: `stop` said so.
pub fn examine(doctor: Doctor, stop: &dyn Fn() -> bool) -> Option<Report> {
    let doctor = Arc::new(doctor);
    let lines = Lines::new(&doctor.ssh);
    let (send, updates) = channel();
    let blank = |host: &shoal_core::fleet::Host| Patient {
        report: HostReport {
            name: host.name.clone(),
            address: host.address.clone(),
            findings: Vec::new(),
            facts: None,
        },
        step: Step::Connecting,
        way: None,
    };
    let mut patients: Vec<Patient> = doctor.fleet.hosts.iter().map(blank).collect();
    for i in 0..patients.len() {
        let (doctor, send, ssh) = (doctor.clone(), send.clone(), lines.settings(i));
        std::thread::spawn(move || host::examine(&doctor, i, &ssh, &send));
    }
    drop(send);
    let pools = pools::begin(&doctor);
    let mut progress = Progress::new();
    attend(&doctor.fleet, &mut patients, &updates, doctor.patience, stop, &mut progress)?;
    let Ways { pairs, absent } = ways::measure(&doctor, &patients, stop, &mut progress)?;
    progress.close();
    let mut hosts: Vec<HostReport> = patients.into_iter().map(|patient| patient.report).collect();
    for host in &mut hosts {
        let ports =
            host.facts.as_ref().and_then(|facts| facts.ports.as_ref().ok()).map(|ports| (ports.low, ports.high));
        peers::host(&host.name, &pairs, ports).into_iter().for_each(|finding| host.add(finding));
        if !pairs.is_empty() {
            host.fill(&[Check::Peers], "it took no part");
        }
    }
    for (i, why) in absent {
        let hint = "try again; if it stays so, log in and look at `ss -tlnp` and at the limits there";
        let text = format!("the ways from and to it could not be measured: {why}");
        hosts[i].findings.retain(|finding| finding.check != Check::Peers);
        hosts[i].add(Finding::yellow(Check::Peers, "?", text, hint));
    }
    compare::hosts(&mut hosts);
    hosts.extend(pools::finish(pools, &doctor, stop)?);
    Some(Report { version: REPORT_VERSION, fleet: doctor.fleet.name.clone(), hosts, pairs })
}

/// Waits until every host has been examined or has taken too long.
fn attend(
    fleet: &Fleet,
    patients: &mut [Patient],
    updates: &Receiver<(usize, Update)>,
    patience: Duration,
    stop: &dyn Fn() -> bool,
    progress: &mut Progress,
) -> Option<()> {
    let deadline = Instant::now() + patience;
    while patients.iter().any(|patient| patient.step != Step::Done) && Instant::now() < deadline {
        if stop() {
            return None;
        }
        match updates.recv_timeout(TURN) {
            Ok((i, Update::Step(step))) => patients[i].step = step,
            Ok((i, Update::Found(finding))) => patients[i].report.add(finding),
            Ok((i, Update::Done(report, way))) => {
                patients[i] = Patient { report: *report, step: Step::Done, way };
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let under_way = patients.iter().filter(|patient| patient.step != Step::Done);
        progress.show(under_way.map(|patient| format!("{} {}", patient.report.name, patient.step.doing())));
    }
    for patient in patients {
        if patient.step != Step::Done {
            let (step, report) = (patient.step, &mut patient.report);
            let text = format!("{} took longer than {} s", step.doing(), patience.as_secs());
            report.add(Finding::red(step.check(), "hangs", text, step.hint()));
        }
        let rest: Vec<Check> = host::checks(fleet, patient.report.finding(Check::Ssh));
        patient.report.fill(&rest, "not looked at, because of what is red");
    }
    Some(())
}
