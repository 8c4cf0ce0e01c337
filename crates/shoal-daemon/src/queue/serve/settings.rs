//! What holds for the queue as a whole? What the file of the fleet said, the last time there was one: a daemon that starts by itself has none.

use super::daemon::Daemon;
use super::turn::Turn;
use crate::queue::places::{Store, write_durable};
use serde::{Deserialize, Serialize};
use shoal_core::fleet::queue::OfAll;
use shoal_core::queue::event::Event;
use std::fs;
use std::io;

/// Changes whenever the meaning of a field does (WIRE-1).
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    #[serde(flatten)]
    of_all: OfAll,
}

/// What was said now is kept for those who come later; else what was kept. A daemon that cannot know where results go serves nobody.
pub fn settle(store: &Store, said: Option<OfAll>) -> io::Result<OfAll> {
    let path = store.settings();
    if let Some(of_all) = said {
        let kept = Kept { version: VERSION, of_all };
        write_durable(&path, &serde_json::to_vec(&kept)?, 0o600)?;
        return Ok(kept.of_all);
    }
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(OfAll::default()),
        Err(e) => return Err(e),
    };
    let kept: Kept = serde_json::from_slice(&text)?;
    match kept.version {
        VERSION => Ok(kept.of_all),
        other => Err(io::Error::other(format!("it has version {other}, and this shoal reads {VERSION}"))),
    }
}

impl Daemon {
    /// The file's word counts: who is not named in it has no bound.
    pub(super) fn set_quotas(&mut self, of_all: &OfAll, turn: &mut Turn) {
        let known: Vec<(String, u32)> = self.queue.quotas().map(|(user, slots)| (user.into(), slots)).collect();
        let gone = known.iter().filter(|(user, _)| !of_all.quotas.contains_key(user)).map(|(user, _)| (user, None));
        let is_new = |(user, slots): &(&String, &u32)| !known.iter().any(|(name, had)| name == *user && had == *slots);
        let new = of_all.quotas.iter().filter(is_new).map(|(user, slots)| (user, Some(*slots)));
        for (user, slots) in gone.chain(new) {
            let bound = slots.map_or_else(|| "none".into(), |slots| slots.to_string());
            self.shared.log.say(format!("bound on the processes of {user}: {bound}"));
            self.note(turn, Event::QuotaSet { at: turn.now, user: user.clone(), slots });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_last_is_known_to_a_daemon_without_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        assert_eq!(settle(&store, None).unwrap(), OfAll::default());
        let said = OfAll { results: Some("/nfs".into()), quotas: [("bob".to_string(), 8)].into() };
        assert_eq!(settle(&store, Some(said.clone())).unwrap(), said);
        assert_eq!(settle(&store, None).unwrap(), said);
        // The kept sample (WIRE-1).
        assert_eq!(
            fs::read_to_string(store.settings()).unwrap(),
            r#"{"version":1,"results":"/nfs","quotas":{"bob":8}}"#
        );
        settle(&store, Some(OfAll::default())).unwrap();
        assert_eq!(settle(&store, None).unwrap(), OfAll::default());
        fs::write(store.settings(), r#"{"version":2,"results":null,"quotas":{}}"#).unwrap();
        assert!(settle(&store, None).unwrap_err().to_string().contains("version 2"));
    }
}
