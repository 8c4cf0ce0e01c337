//! Who keeps the runs? The keeper comes and goes, too: another takes its place.

use super::super::link;
use super::Session;
use crate::proc;
use crate::queue::keeper::diary::note;
use crate::queue::keeper::words::ToKeeper;
use rustix::process::Signal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Session {
    pub(super) fn dial_keeper(&mut self) -> Result<(), String> {
        self.keeper += 1;
        self.greeted = false;
        self.heard_of.clear();
        let link = link::Link::open(&self.folder, &self.keeper_start, self.keeper, &self.events)?;
        self.keeper_pid.store(link.pid, Ordering::Relaxed);
        self.link = Some(link);
        Ok(())
    }

    pub fn tell_keeper(&self, message: &ToKeeper) {
        if let Some(link) = &self.link {
            link.say(message);
        }
    }

    /// One that was stopped (SIGSTOP, by one of its runs perhaps) would start nothing and see no end, without a word.
    pub(super) fn wake_keeper(&self) {
        let pid = self.keeper_pid.load(Ordering::Relaxed);
        if let Some(stat) = proc::stat(pid).filter(|stat| self.link.is_some() && stat.state == b'T') {
            note("agent", format!("the keeper (process {pid}) was stopped; it goes on"));
            proc::signal(stat.process, Signal::CONT);
        }
    }

    pub(super) fn keeper_gone(&mut self) {
        self.link = None;
        if self.leaving.is_some() {
            return self.keeper_left();
        }
        self.retry_keeper_at = None;
        // It has not heard of these, perhaps; then its successor tells of them again.
        self.forget.clear();
        self.rubbish.clear();
        let of_keeper: Vec<String> = self.troubles.keys().filter(|key| key.starts_with("keeper: ")).cloned().collect();
        of_keeper.iter().for_each(|key| self.no_more_trouble(key));
        note("agent", "the keeper is gone; another is started");
        if let Err(why) = self.dial_keeper() {
            self.trouble("keeper", None, why);
            self.retry_keeper_at = Some(Instant::now() + Duration::from_secs(2));
        }
    }
}
