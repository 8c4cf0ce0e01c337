//! What does a warden do for the gang of a detached run? It carries words between the sockets of the gang's line and the
//! decisions of `gang_line::{head, member}`, and does on its host what was decided (GANG-1).

use super::Event;
use super::run::Warden;
use crate::gang_line::head::Head;
use crate::gang_line::member::Member;
use crate::gang_line::words::{self, EndedRank, LINE_VERSION, Order, Report, Word};
use crate::gang_line::{BEAT, News, dial, listen, say};
use shoal_core::job::HostJob;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When a launcher that waits is told that hosts do not find each other.
const SAY_AFTER: Duration = Duration::from_secs(3);

/// This warden's part in the gang.
pub enum Gang {
    /// The launcher decides.
    Nobody,
    Head {
        head: Head,
        lines: BTreeMap<String, Line>,
    },
    Member {
        member: Member,
        stream: Option<Arc<TcpStream>>,
        told: Option<(Report, Instant)>,
        said: bool,
    },
}

/// The head's line to one member.
pub struct Line {
    connection: u64,
    stream: Arc<TcpStream>,
    told: Option<(Word, Instant)>,
}

impl Gang {
    /// The part of a detached job's warden; other jobs have a launcher.
    pub fn new(job: &HostJob) -> Gang {
        let here = || job.ranks.iter().map(|r| (r.rank, job.host.clone())).collect();
        let head = |ranks, silence| Gang::Head {
            head: Head::new(&job.run, &job.host, ranks, job.grace_ms, silence),
            lines: BTreeMap::new(),
        };
        match &job.gang {
            _ if !job.detached => Gang::Nobody,
            None => head(&here(), u64::MAX),
            Some(line) if line.head == job.host => head(&line.ranks, line.silence_ms),
            Some(line) => {
                let member = Member::new(&line.head, job.grace_ms, line.silence_ms);
                Gang::Member { member, stream: None, told: None, said: false }
            }
        }
    }

    /// All who must know each other do.
    pub fn is_up(&self) -> bool {
        match self {
            Gang::Nobody => true,
            Gang::Head { head, .. } => head.is_up(),
            Gang::Member { member, .. } => member.is_up(),
        }
    }

    /// With all ranks of this host over, whether this warden is of no more use to the others.
    pub fn may_leave(&self, ended: usize) -> bool {
        match self {
            Gang::Nobody => true,
            Gang::Head { head, .. } => head.is_over(),
            Gang::Member { member, .. } => member.may_leave(ended),
        }
    }

    fn order(&self) -> Order {
        match self {
            Gang::Nobody => Order::GoOn,
            Gang::Head { head, .. } => head.order().clone(),
            Gang::Member { member, .. } => member.order().clone(),
        }
    }
}

impl Warden {
    /// Takes up this warden's part, once the job is known.
    pub(super) fn join_gang(&mut self, job: &HostJob) {
        self.gang = Gang::new(job);
        let Some(line) = job.gang.as_ref().filter(|_| job.detached) else { return };
        let events = self.events.clone();
        let tell = move |news| events.send(Event::Gang(news)).is_ok();
        let ready = if line.head == job.host { listen::listen(line, tell) } else { dial::dial(line, tell) };
        if let Err(e) = ready {
            // The others will miss us; nothing may go on here without them.
            let what = format!("the hosts of this run cannot meet on port {}: {e}", line.port);
            self.trouble(None, what.clone(), None);
            self.stop_because(self.grace(), Some(what));
        }
    }

    fn gang_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    pub(super) fn on_gang(&mut self, news: News) {
        let now = self.gang_ms();
        match (&mut self.gang, news) {
            (Gang::Head { head, lines }, News::Report { connection, stream, report }) => {
                let host = report.host.clone();
                match head.hear(report, now) {
                    // Of a host's connections the newest counts.
                    Ok(()) if lines.get(&host).is_none_or(|l| l.connection < connection) => {
                        lines.insert(host, Line { connection, stream, told: None });
                    }
                    Ok(()) => {}
                    Err(why) => {
                        let _ = stream.shutdown(std::net::Shutdown::Both);
                        self.trouble(None, format!("{host} was refused: {why}"), None);
                    }
                }
            }
            (Gang::Head { head, lines }, News::Closed { connection }) => {
                let host = lines.iter().find(|(_, l)| l.connection == connection).map(|(host, _)| host.clone());
                if let Some(host) = host {
                    lines.remove(&host);
                    head.closed(&host, now);
                }
            }
            (Gang::Member { stream, told, .. }, News::Connected { stream: new }) => {
                (*stream, *told) = (Some(new), None);
            }
            (Gang::Member { member, .. }, News::Word(word)) => member.hear(word, now),
            (Gang::Member { member, stream, .. }, News::Disconnected { why }) => {
                *stream = None;
                member.failed(why, false, now);
            }
            (Gang::Member { member, .. }, News::Failed { why, nobody }) => member.failed(why, nobody, now),
            _ => {}
        }
    }

    /// Decides, does what was decided, and tells the others; from the warden's loop, after every event.
    pub(super) fn tend_gang(&mut self) {
        let now = self.gang_ms();
        match &mut self.gang {
            Gang::Nobody => return,
            Gang::Head { head, .. } => {
                for (rank, ending, ran_ms) in self.endings.iter().skip(self.endings_seen) {
                    head.ended(*rank, ending.clone(), *ran_ms, now);
                }
                self.endings_seen = self.endings.len();
                if let Some(grace_ms) = self.stop_asked {
                    head.stop(grace_ms, now);
                }
                head.tick(now);
            }
            Gang::Member { member, .. } => member.tick(now),
        }
        let order = self.gang.order();
        if order != self.obeyed {
            self.obeyed = order.clone();
            match order {
                Order::GoOn => {}
                Order::Stop { grace_ms, why } => self.stop_because(grace_ms, why),
                Order::Kill { why } => self.stop_because(0, why),
            }
        }
        self.tell_gang();
        self.say_what_keeps_us();
    }

    fn tell_gang(&mut self) {
        let fresh = |at: &Instant| at.elapsed() < BEAT;
        match &mut self.gang {
            Gang::Nobody => {}
            Gang::Head { head, lines } => {
                for (host, line) in lines {
                    let word = head.word(host);
                    if !line.told.as_ref().is_some_and(|(old, at)| *old == word && fresh(at)) {
                        // A connection that is of no use closes; its thread says so.
                        say(&line.stream, &words::encode(&word));
                        line.told = Some((word, Instant::now()));
                    }
                }
            }
            Gang::Member { stream, told, .. } => {
                let (Some(to), Some(job)) = (stream.as_ref(), &self.job) else { return };
                let ended = self.endings.iter().map(|(rank, ending, ran_ms)| EndedRank {
                    rank: *rank,
                    ending: ending.clone(),
                    ran_ms: *ran_ms,
                });
                let report = Report {
                    version: LINE_VERSION,
                    run: job.run.clone(),
                    host: job.host.clone(),
                    ended: ended.collect(),
                    stop_ms: self.stop_asked,
                };
                if !told.as_ref().is_some_and(|(old, at)| *old == report && fresh(at)) {
                    if say(to, &words::encode(&report)) {
                        *told = Some((report, Instant::now()));
                    } else {
                        *stream = None;
                    }
                }
            }
        }
    }

    /// To a launcher that waits for us to go on alone.
    fn say_what_keeps_us(&mut self) {
        let (late, launcher) = (self.begun.elapsed() > SAY_AFTER, self.launcher);
        let Gang::Member { member, said, .. } = &mut self.gang else { return };
        if !late || !launcher || *said || member.is_up() {
            return;
        }
        *said = true;
        let why = member.trouble().unwrap_or("no answer").to_string();
        let what = format!("the first host of this run cannot be reached from here: {why}");
        self.trouble(None, what, Some("detached runs need connections between their hosts; is there a firewall?"));
    }
}
