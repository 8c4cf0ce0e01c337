//! Does a word mean something of the queue, or a run of `shoal run --detach`?

use super::connect::{Queue, Start, has_journal};
use super::target::no_sweep;
use crate::commands::run::NotBegun;
use crate::later::launched;
use shoal_core::queue::is_sweep_name;

pub enum Whose {
    Queued(Box<Queue>),
    Detached,
}

/// Detached runs come first: their ids are theirs, and work where no queue is.
pub fn whose(word: &str) -> Result<Whose, NotBegun> {
    let queued = |queue| Ok(Whose::Queued(Box::new(queue)));
    if word.contains(':') {
        return queued(Queue::open(Start::IfStore)?);
    }
    if looks_like_an_id(word) || launched::read(word).is_some() || !is_sweep_name(word) {
        return Ok(Whose::Detached);
    }
    let found = match has_journal() {
        true => Some(Queue::open(Start::IfStore)?),
        false => Queue::found()?,
    };
    let Some(mut queue) = found else { return Ok(Whose::Detached) };
    let rows = queue.sweeps(true)?;
    match rows.iter().any(|row| row.name == word) {
        true => queued(queue),
        // Nobody has ever submitted anything: it is not sweeps that people here talk of.
        false if rows.is_empty() => Ok(Whose::Detached),
        false => Err(NotBegun::Wrong(no_sweep(word, rows.iter().map(|row| row.name.as_str())))),
    }
}

/// `261116-020304-a1b2c3`
pub fn looks_like_an_id(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let digits = |text: &str| text.len() == 6 && text.bytes().all(|b| b.is_ascii_digit());
    let hex = |text: &str| text.len() == 6 && text.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(parts[..], [date, time, random] if digits(date) && digits(time) && hex(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_detached_runs_are_told_from_names() {
        assert!(looks_like_an_id("261116-020304-a1b2c3"));
        for word in ["mlp", "261116", "261116-020304", "261116-020304-a1b2cz", "261116-020304-a1b2c3-x"] {
            assert!(!looks_like_an_id(word), "{word}");
        }
    }
}
