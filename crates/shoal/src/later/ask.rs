//! Asking many hosts the same question at once: a hidden `shoal host ...` there, its answer in JSON. A host that does not
//! answer is named; the others still do.

use super::places::Place;
use crate::commands::run::{NotBegun, parcel_for};
use crate::launch::program::{self, Broken};
use serde::{Deserialize, Serialize};
use shoal_core::fleet::Reach;
use shoal_daemon::protocol::{NOISE_LIMIT, after_preamble};
use shoal_daemon::records::{Listing, Stopped};
use shoal_hosts::Process;
use shoal_hosts::ssh::Settings;
use shoal_hosts::ssh::deliver::Parcel;
use std::io::Read;
use std::sync::mpsc::channel;
use std::time::Duration;

/// No answer is larger.
const LARGEST: u64 = 64 << 20;
/// For a list of runs, once the host is reached.
const LISTING: Duration = Duration::from_secs(30);
/// What stopping may take on a host beyond the grace: killing, sweeping, a slow machine.
const STOPPING: Duration = Duration::from_secs(60);

/// How our program gets to the hosts.
pub struct Asker {
    ssh: Settings,
    parcel: Parcel,
}

pub struct Unreached {
    pub host: String,
    pub what: String,
    pub hint: String,
}

/// Changes whenever the meaning of a field does (WIRE-1).
pub const STOP_VERSION: u32 = 1;

/// What a host says to `shoal stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopAnswer {
    pub version: u32,
    /// Whether it knows the run, or the rank of it.
    pub known: bool,
    pub stopped: Vec<Stopped>,
    /// What did not end.
    pub problem: Option<String>,
    /// All runs it knows.
    pub ids: Vec<String>,
}

pub struct Answers<T> {
    pub heard: Vec<(Place, T)>,
    pub unreached: Vec<Unreached>,
}

impl Asker {
    pub fn new(places: &[Place]) -> Result<Asker, NotBegun> {
        let remote = places.iter().any(|p| p.host.reach != Reach::Local);
        Ok(Asker { ssh: Settings::from_env(), parcel: parcel_for(remote)? })
    }

    /// Starts `shoal WORDS` on a host.
    pub fn start(&self, place: &Place, words: &str) -> Result<Process, Broken> {
        program::start(&place.fleet, &self.ssh, &self.parcel, &place.host, words)
    }

    pub fn list(&self, places: Vec<Place>, run: Option<&str>) -> Answers<Listing> {
        let run = run.map_or_else(String::new, |run| format!(" --run {run}"));
        self.ask(places, &format!("host list{run}"), LISTING)
    }

    pub fn stop(&self, places: Vec<Place>, run: &str, rank: Option<&str>, grace: Duration) -> Answers<StopAnswer> {
        let rank = rank.map_or_else(String::new, |rank| format!(" --rank {rank}"));
        let words = format!("host stop {run}{rank} --grace-ms {}", grace.as_millis());
        self.ask(places, &words, grace + STOPPING)
    }

    /// All at once. Words must be plain.
    fn ask<T: for<'a> Deserialize<'a> + Send>(&self, places: Vec<Place>, words: &str, limit: Duration) -> Answers<T> {
        let mut answers = Answers { heard: Vec::new(), unreached: Vec::new() };
        std::thread::scope(|scope| {
            let ask = |place: Place| scope.spawn(move || (self.one(&place, words, limit), place));
            let threads: Vec<_> = places.into_iter().map(ask).collect();
            for (answer, place) in threads.into_iter().filter_map(|t| t.join().ok()) {
                match answer {
                    Ok(answer) => answers.heard.push((place, answer)),
                    Err(Broken { what, hint }) => {
                        answers.unreached.push(Unreached { host: place.host.name, what, hint });
                    }
                }
            }
        });
        answers
    }

    fn one<T: for<'a> Deserialize<'a>>(&self, place: &Place, words: &str, limit: Duration) -> Result<T, Broken> {
        let Process { to, from, errors, end: _end } = self.start(place, words)?;
        let (send, receive) = channel();
        let sender = send.clone();
        // Threads that outlive the limit end with the connection: all they hold are pipes.
        std::thread::spawn(move || drop(sender.send((true, read(from)))));
        std::thread::spawn(move || drop(send.send((false, read(errors)))));
        let (mut answer, mut said) = (None, String::new());
        while let Ok((is_answer, bytes)) = receive.recv_timeout(limit) {
            match is_answer {
                true => answer = Some(bytes),
                false => said = String::from_utf8_lossy(&bytes).into_owned(),
            }
        }
        drop(to);
        let late = || program::broken(format!("no answer within {} s", limit.as_secs()), "is it overloaded?");
        let answer = answer.ok_or_else(late)?;
        let noise = answer.len().min(NOISE_LIMIT);
        let at = after_preamble(&answer[..noise]).map(|(_, at)| at);
        let nonsense = |e: &str| program::broken(format!("an odd answer: {e}{}", program::with(&said)), "");
        let at = at.ok_or_else(|| nonsense("it is not shoal's"))?;
        serde_json::from_slice(&answer[at..]).map_err(|e| nonsense(&e.to_string()))
    }
}

fn read(pipe: std::io::PipeReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A pipe that breaks is at its end.
    let _ = pipe.take(LARGEST).read_to_end(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_sample_reads_and_writes() {
        let sample = r#"{"version":1,"known":true,"stopped":[{"rank":"worker0","was_alive":true,"state":{"ended":{"stopped":{"signaled":15}}}}],"problem":"p","ids":["r0"]}"#;
        let answer: StopAnswer = serde_json::from_str(sample).expect("the sample");
        assert_eq!(answer.version, STOP_VERSION);
        assert_eq!(serde_json::to_string(&answer).expect("json"), sample);
    }
}
