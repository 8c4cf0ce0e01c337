//! The way in: name, network, ssh server, host key, our key, a shell. What stopped us there, and what it looked like when nothing did.

use super::{Check, Finding, HostReport};
use std::time::Duration;

/// Where the way in ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// No name, no answer, no ssh server, or no ssh here.
    Ssh,
    HostKeyUnknown,
    HostKeyChanged,
    KeyRefused,
    KeyUnusable,
    TurnedAway,
}

const FIRST_CONTACT: &str = "this was the first contact and its key was accepted unseen; compare it with the one on its console: \
                             ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub";
const SLOW_SHELL: Duration = Duration::from_secs(3);
/// What sshd allows unless told otherwise, and what people's tools count on.
pub const USUAL_SESSIONS: u32 = 10;

/// No way in: what comes before the gate is fine, the gate is red, the rest is not known.
pub fn stopped(report: &mut HostReport, gate: Gate, what: &str, hint: &str) {
    let (check, cell) = match gate {
        Gate::Ssh => (Check::Ssh, "no answer"),
        Gate::TurnedAway => (Check::Ssh, "hangs up"),
        Gate::HostKeyUnknown => (Check::HostKey, "unknown"),
        Gate::HostKeyChanged => (Check::HostKey, "changed"),
        Gate::KeyRefused => (Check::Key, "refused"),
        Gate::KeyUnusable => (Check::Key, "unusable"),
    };
    if check > Check::Ssh {
        report.add(Finding::green(Check::Ssh, "ok", "it answers"));
    }
    // A key of ours that cannot even be read says nothing about the host's.
    if check > Check::HostKey && gate != Gate::KeyUnusable {
        report.add(Finding::green(Check::HostKey, "ok", "its host key is the known one"));
    }
    report.add(Finding::red(check, cell, what, hint));
}

/// In. `first_contact`: ssh had never seen the host before.
pub fn entered(report: &mut HostReport, first_contact: bool) {
    report.add(Finding::green(Check::Ssh, "ok", "it answers"));
    report.add(if first_contact {
        Finding::yellow(Check::HostKey, "new", "its host key was not known until now", FIRST_CONTACT)
    } else {
        Finding::green(Check::HostKey, "ok", "its host key is the known one")
    });
    report.add(Finding::green(Check::Key, "ok", "our key is accepted"));
}

/// It is this machine.
pub fn here(report: &mut HostReport) {
    report.add(Finding::green(Check::Ssh, "here", "this machine; no ssh needed"));
}

/// What came out of a shell that was told to do nothing.
pub fn shell(output: &str, errors: &str, took: Duration) -> Finding {
    let first = |text: &str| text.lines().map(str::trim).find(|line| !line.is_empty()).map(|line| clip(line, 60));
    if let Some(line) = first(output) {
        return Finding::red(
            Check::Shell,
            "noisy",
            format!("its shell prints text to programs: \"{line}\""),
            "rsync, scp and sftp break on it; put `[ -z \"$PS1\" ] && return` at the top of ~/.bashrc there, \
             or print only where there is a terminal",
        );
    }
    if let Some(line) = first(errors) {
        return Finding::yellow(
            Check::Shell,
            "complains",
            format!("its shell complains at every login: \"{line}\""),
            "it will be in front of every error message; see ~/.bashrc, ~/.ssh/rc and the locale there",
        );
    }
    if took >= SLOW_SHELL {
        let took = format!("{:.0} s", took.as_secs_f64());
        return Finding::yellow(
            Check::Shell,
            &took,
            format!("its shell takes {took} to do nothing"),
            "every command waits for it; look for slow lines in ~/.bashrc (conda init, nvm, network drives)",
        );
    }
    Finding::green(Check::Shell, "ok", "its shell is quiet")
}

/// The shell did not even do nothing.
pub fn no_shell(what: &str, hint: &str) -> Finding {
    Finding::red(Check::Shell, "fails", what, hint)
}

/// How many sessions could be opened at once over the one connection, of those tried.
pub fn sessions(open: u32, tried: u32) -> Finding {
    if open >= tried {
        return Finding::green(Check::Sessions, "ok", format!("{open} sessions at once"));
    }
    Finding::yellow(
        Check::Sessions,
        open.to_string(),
        format!("only {open} sessions at once, of {tried} tried"),
        "raise MaxSessions in its /etc/ssh/sshd_config (usual: 10) and reload sshd, or do less there at once",
    )
}

/// At most `most` characters.
pub(super) fn clip(text: &str, most: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.chars().take(most).map(clean).collect();
    if text.chars().count() > most {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn nothing() -> HostReport {
        HostReport { name: "n".into(), address: "n".into(), findings: Vec::new(), facts: None }
    }

    #[test]
    fn a_gate_that_is_shut_says_how_far_we_came() {
        for (gate, ssh, host_key, key) in [
            (Gate::Ssh, Some(Level::Red), None, None),
            (Gate::TurnedAway, Some(Level::Red), None, None),
            (Gate::HostKeyChanged, Some(Level::Green), Some(Level::Red), None),
            (Gate::HostKeyUnknown, Some(Level::Green), Some(Level::Red), None),
            (Gate::KeyRefused, Some(Level::Green), Some(Level::Green), Some(Level::Red)),
            (Gate::KeyUnusable, Some(Level::Green), None, Some(Level::Red)),
        ] {
            let mut report = nothing();
            stopped(&mut report, gate, "what", "hint");
            let levels = [Check::Ssh, Check::HostKey, Check::Key].map(|c| report.finding(c).map(|f| f.level));
            assert_eq!(levels, [ssh, host_key, key], "{gate:?}");
        }
    }

    #[test]
    fn shells() {
        let quick = Duration::from_millis(80);
        for (output, errors, took, level, words) in [
            ("", "", quick, Level::Green, "quiet"),
            ("\n \n", "", quick, Level::Green, "quiet"),
            ("\nWelcome!\nmore", "", quick, Level::Red, "\"Welcome!\""),
            ("", "bash: warning: setlocale\n", quick, Level::Yellow, "setlocale"),
            ("", "", Duration::from_secs(4), Level::Yellow, "4 s"),
            ("a\x1b[31mb", "", quick, Level::Red, "a [31mb"),
        ] {
            let finding = shell(output, errors, took);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.text.contains(words), "{finding:?}");
        }
    }

    #[test]
    fn fewer_sessions_than_usual_are_yellow() {
        assert_eq!(sessions(10, 10).level, Level::Green);
        let few = sessions(2, 10);
        assert_eq!((few.level, few.cell.as_str()), (Level::Yellow, "2"));
    }

    #[test]
    fn a_first_contact_is_said() {
        let mut report = nothing();
        entered(&mut report, true);
        assert_eq!(report.finding(Check::HostKey).map(|f| f.level), Some(Level::Yellow));
    }
}
