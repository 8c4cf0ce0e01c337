//! What do clusters say about the parts of them that take runs? Each pool is asked on a thread of its own, within the patience of a host; a pod
//! that is tried has as long as an image may take.

use super::{Doctor, TURN};
use crate::pools::visit::{Visit, wanted};
use shoal_core::checkup::HostReport;
use shoal_core::checkup::pools::{Here, Tried, judge, rights, unreached};
use shoal_core::fleet::pool::Pool;
use shoal_hosts::kubernetes::helper::{Helper, remove};
use shoal_hosts::kubernetes::{Connection, Failure};
use shoal_hosts::process::Exit;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An image may have to be pulled.
const POD_BOUND: Duration = Duration::from_secs(900);
/// A command that looks for one file.
const LOOKING: Duration = Duration::from_secs(30);

/// Pods that were asked for and not seen to go.
type Made = Arc<Mutex<Vec<(Arc<Connection>, String)>>>;

pub struct Asked {
    reports: Receiver<(usize, HostReport)>,
    made: Made,
}

/// Somebody stopped us, while hosts or pools were looked at, or a pod took too long.
impl Drop for Asked {
    fn drop(&mut self) {
        for (connection, name) in self.made.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = remove(&connection, &name);
        }
    }
}

pub fn begin(doctor: &Arc<Doctor>) -> Asked {
    let (send, reports) = channel();
    let made = Made::default();
    for i in 0..doctor.fleet.pools.len() {
        let (doctor, send, made) = (doctor.clone(), send.clone(), made.clone());
        std::thread::spawn(move || {
            let pool = &doctor.fleet.pools[i];
            let report = examine(pool, doctor.pods, &made).unwrap_or_else(|e| unreached(pool, &e.what, &e.hint));
            // Nobody waits any more: somebody said stop.
            let _ = send.send((i, report));
        });
    }
    Asked { reports, made }
}

/// In the order of the file. `None`: `stop` said so.
pub fn finish(asked: Asked, doctor: &Doctor, stop: &dyn Fn() -> bool) -> Option<Vec<HostReport>> {
    let pools = &doctor.fleet.pools;
    let patience = if doctor.pods { POD_BOUND } else { doctor.patience };
    let end = Instant::now() + patience;
    let mut reports: Vec<Option<HostReport>> = pools.iter().map(|_| None).collect();
    while reports.iter().any(Option::is_none) && Instant::now() < end {
        if stop() {
            return None;
        }
        match asked.reports.recv_timeout(TURN) {
            Ok((i, report)) => reports[i] = Some(report),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let late = |pool: &Pool| {
        let what = format!("the cluster did not say all within {} s", patience.as_secs());
        unreached(pool, &what, "is the way to it slow? try again, with a longer --timeout")
    };
    Some(reports.into_iter().zip(pools).map(|(report, pool)| report.unwrap_or_else(|| late(pool))).collect())
}

fn examine(pool: &Pool, pods: bool, made: &Made) -> Result<HostReport, Failure> {
    let connection = Arc::new(Connection::open(&wanted(pool))?);
    let claims: Vec<String> = pool.kubernetes.volumes.iter().map(|volume| volume.claim.clone()).collect();
    let facts = connection.examine_for(&claims, &rights())?;
    let is_there = pool.carrier().is_some_and(|(_, here)| Path::new(here).is_dir());
    let tried = pods.then(|| attempt(&connection, pool, is_there, made));
    Ok(judge(pool, &facts, &Here { is_there, tried }))
}

/// Starts a pod, and looks in it for a file that was made here.
fn attempt(connection: &Arc<Connection>, pool: &Pool, is_there: bool, made: &Made) -> Tried {
    let of = |failure: Failure| Tried { fault: Some((failure.what, failure.hint)), same: None };
    let visit = match Visit::over(connection.clone(), pool) {
        Ok(visit) => visit,
        Err(why) => return Tried { fault: Some((why.why(), "look at this machine".into())), same: None },
    };
    made.lock().unwrap_or_else(PoisonError::into_inner).push((connection.clone(), visit.plan.name.clone()));
    let helper = match Helper::start(connection.clone(), &visit.plan, &mut |_| {}) {
        Ok(helper) => helper,
        Err(failure) => return of(failure),
    };
    let same = if is_there { compare(&helper, pool, &visit.plan.name) } else { None };
    match helper.remove() {
        Ok(()) => {
            made.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, name)| *name != visit.plan.name);
            Tried { fault: None, same }
        }
        Err(failure) => of(failure),
    }
}

fn compare(helper: &Helper, pool: &Pool, name: &str) -> Option<bool> {
    let (volume, here) = pool.carrier()?;
    let file = format!(".{name}");
    let mark = Mark::make(Path::new(here).join(&file))?;
    let words = ["/bin/sh", "-c", "test -e \"$0\"", &format!("{}/{file}", volume.at)].map(String::from).to_vec();
    let said = helper.exec(words, false).ok()?.process.finish(Vec::new(), LOOKING)?;
    drop(mark);
    match said.exit {
        Exit::Code(0) => Some(true),
        Exit::Code(1) => Some(false),
        _ => None,
    }
}

/// A file that goes with this value.
struct Mark(PathBuf);

impl Mark {
    fn make(path: PathBuf) -> Option<Mark> {
        std::fs::OpenOptions::new().write(true).create_new(true).open(&path).ok().map(|_| Mark(path))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
