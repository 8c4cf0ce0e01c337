//! Runs that somebody started earlier, perhaps elsewhere: where they are, what their hosts know of them, what that means.

pub mod ask;
pub mod launched;
pub mod places;
pub mod view;

use crate::commands::run::NotBegun;
use shoal_core::suggest::closest;

/// Ids travel as words of a shell line; anything else is no id.
pub fn check_id(run: &str) -> Result<(), NotBegun> {
    if shoal_daemon::records::is_safe_name(run) {
        return Ok(());
    }
    Err(NotBegun::Wrong(format!("`{run}` is no id of a run; `shoal ps --all` shows those there are")))
}

/// Nobody who was asked knows it: where we looked, and what comes close.
pub fn unknown(run: &str, asked: &[String], ids: &[String], with_fleet: bool) -> NotBegun {
    let begins = |id: &&String| run.len() >= 4 && id.starts_with(run);
    let near = closest(run, ids.iter().map(String::as_str)).or_else(|| ids.iter().find(begins).map(String::as_str));
    let near = near.map_or_else(String::new, |id| format!("; did you mean {id}?"));
    let hint = if with_fleet { "" } else { "; if it runs elsewhere, say where with --fleet FILE" };
    NotBegun::Wrong(format!("no run {run} on {}{near}{hint}", asked.join(", ")))
}

/// Says which hosts gave no answer.
pub fn say_unreached(program: &str, unreached: &[ask::Unreached]) {
    for one in unreached {
        let hint = if one.hint.is_empty() { String::new() } else { format!(" ({})", one.hint) };
        eprintln!("{program}: {} could not be asked: {}{hint}", one.host, one.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(error: NotBegun) -> String {
        match error {
            NotBegun::Wrong(text) | NotBegun::Here(text) | NotBegun::CannotStart(text) | NotBegun::Stopped(text) => {
                text
            }
        }
    }

    #[test]
    fn ids_are_plain_words_and_unknown_ones_say_where_we_looked() {
        assert!(check_id("261116-020304-a1b2c3").is_ok());
        for id in ["", "a b", "$(reboot)", "../x", "a;b"] {
            assert!(check_id(id).is_err(), "{id}");
        }
        let ids = ["261116-020304-a1b2c3".to_string()];
        let said = text(unknown("261116-020304-a1b2c4", &["a".into(), "b".into()], &ids, false));
        assert_eq!(
            said,
            "no run 261116-020304-a1b2c4 on a, b; did you mean 261116-020304-a1b2c3?; if it runs elsewhere, say where with --fleet FILE"
        );
        assert!(text(unknown("261116", &["a".into()], &ids, true)).ends_with("did you mean 261116-020304-a1b2c3?"));
        assert!(text(unknown("zzz", &["a".into()], &ids, true)).ends_with("on a"));
    }
}
