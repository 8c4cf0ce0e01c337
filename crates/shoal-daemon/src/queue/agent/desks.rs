//! Who is logged in, and who of them sits at a screen? What logind says: a desktop writes no logins down that would tell, and keyboard and mouse
//! of one leave no time at their devices.
//!
//! Somebody whose screen is in use is there until it is known that it is idle or locked: what cannot be found out never makes a desk free.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const SESSIONS: &str = "/run/systemd/sessions";
/// Sessions that are looked at.
const MOST: usize = 256;
/// Until logind has said how idle a screen is.
const ASK: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// A login as logind has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: String,
    pub user: String,
    /// Whose atime tells when it was touched.
    pub tty: Option<String>,
    /// It has the screen of its seat at the moment.
    pub at_screen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Screen {
    InUse,
    IdleFor(u64),
    Locked,
}

/// Of people, and not of what the system does for them.
pub fn sessions() -> Vec<Session> {
    let files = fs::read_dir(SESSIONS).into_iter().flatten().flatten().take(MOST);
    let read = |entry: fs::DirEntry| session(entry.file_name().to_str()?, &fs::read_to_string(entry.path()).ok()?);
    files.filter_map(read).collect()
}

/// For how many seconds nobody has touched any screen that is in use; nothing if none is.
pub fn idle_seconds(sessions: &[Session]) -> Option<u64> {
    /// Since when the screens are locked that are.
    static LOCKED: Mutex<Option<HashMap<String, Instant>>> = Mutex::new(None);
    let mut held = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    let locked = held.get_or_insert_default();
    let at_screen: Vec<&Session> = sessions.iter().filter(|session| session.at_screen).collect();
    locked.retain(|id, _| at_screen.iter().any(|session| session.id == *id));
    let idle = at_screen.into_iter().map(|session| {
        let said = ask(&session.id);
        match screen(said.as_deref(), monotonic_us()) {
            Screen::Locked => locked.entry(session.id.clone()).or_insert_with(Instant::now).elapsed().as_secs(),
            known => {
                locked.remove(&session.id);
                if let Screen::IdleFor(seconds) = known { seconds } else { 0 }
            }
        }
    });
    idle.min()
}

/// Of one file. Pure.
fn session(id: &str, text: &str) -> Option<Session> {
    let said = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.map(str::trim).filter(|value| !value.is_empty())
    };
    // `user-early`, `user-light` and the like are people as well; greeters, lock screens, background work and managers are not.
    let of_a_person =
        said("CLASS").is_some_and(|class| class == "user" || class == "user-early" || class == "user-light");
    let plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric());
    if !plain || !of_a_person || said("STATE") == Some("closing") {
        return None;
    }
    let graphical = matches!(said("TYPE"), Some("x11" | "wayland" | "mir"));
    let here = said("REMOTE") != Some("1");
    let tty = said("TTY").map(|tty| tty.trim_start_matches("/dev/")).filter(|tty| !tty.contains(".."));
    Some(Session {
        id: id.into(),
        user: said("USER")?.into(),
        tty: tty.map(Into::into),
        at_screen: graphical && here && (said("ACTIVE") == Some("1") || said("STATE") == Some("active")),
    })
}

/// What logind says of one screen, at this moment. Pure.
fn screen(said: Option<&str>, now_us: u64) -> Screen {
    let Some(said) = said else { return Screen::InUse };
    let value = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::trim);
    let since = value("IdleSinceHintMonotonic").and_then(|us| us.parse::<u64>().ok()).filter(|us| *us > 0);
    match (value("IdleHint"), since, value("LockedHint")) {
        (Some("yes"), Some(since), _) => Screen::IdleFor(now_us.saturating_sub(since) / 1_000_000),
        (_, _, Some("yes")) => Screen::Locked,
        _ => Screen::InUse,
    }
}

fn ask(id: &str) -> Option<String> {
    let mut command = Command::new("loginctl");
    command.args(["show-session", id, "-p", "IdleHint", "-p", "IdleSinceHintMonotonic", "-p", "LockedHint"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let end = Instant::now() + ASK;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(LOOK),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut text = String::new();
    // Three lines: they are in the pipe.
    child.stdout.take()?.take(4096).read_to_string(&mut text).ok()?;
    status.success().then_some(text)
}

fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESKTOP: &str = "# This is private data. Do not parse.\nUID=1000\nUSER=ann\nACTIVE=1\nIS_DISPLAY=1\nSTATE=active\nREMOTE=0\nTYPE=wayland\nORIGINAL_TYPE=wayland\nCLASS=user\nSCOPE=session-2.scope\nSEAT=seat0\nTTY=tty2\nVTNR=2\n";

    #[test]
    fn people_are_told_from_what_the_system_does() {
        let it = session("2", DESKTOP).unwrap();
        assert_eq!((it.user.as_str(), it.tty.as_deref(), it.at_screen), ("ann", Some("tty2"), true));
        let with = |from: &str, to: &str| session("2", &DESKTOP.replace(from, to));
        for (from, to) in
            [("CLASS=user", "CLASS=greeter"), ("CLASS=user", "CLASS=manager"), ("STATE=active", "STATE=closing")]
        {
            assert_eq!(with(from, to), None, "{to}");
        }
        // Another has the screen of the seat; a terminal; a screen that is far away.
        let away = DESKTOP.replace("ACTIVE=1", "ACTIVE=0").replace("STATE=active", "STATE=online");
        for text in [away, DESKTOP.replace("wayland", "tty"), DESKTOP.replace("REMOTE=0", "REMOTE=1")] {
            assert!(!session("2", &text).unwrap().at_screen, "{text}");
        }
        assert_eq!(with("TTY=tty2", "TTY=/dev/pts/3").unwrap().tty.as_deref(), Some("pts/3"));
        assert_eq!(with("TTY=tty2", "TTY=../../etc/x").unwrap().tty, None);
        assert_eq!((session("c1.ref", DESKTOP), session("2", "USER=ann\n")), (None, None));
    }

    #[test]
    fn a_screen_is_in_use_until_it_is_known_not_to_be() {
        let said = |idle: &str, since: u64, locked: &str| {
            format!("IdleHint={idle}\nIdleSinceHintMonotonic={since}\nLockedHint={locked}\n")
        };
        let now = 1_000_000_000;
        for (text, expected) in [
            (None, Screen::InUse),
            (Some(String::new()), Screen::InUse),
            (Some(said("no", 0, "no")), Screen::InUse),
            (Some(said("no", 900_000_000, "no")), Screen::InUse),
            (Some(said("yes", 400_000_000, "no")), Screen::IdleFor(600)),
            (Some(said("yes", 400_000_000, "yes")), Screen::IdleFor(600)),
            (Some(said("yes", 0, "no")), Screen::InUse),
            (Some(said("no", 0, "yes")), Screen::Locked),
        ] {
            assert_eq!(screen(text.as_deref(), now), expected, "{text:?}");
        }
        assert_eq!(idle_seconds(&[]), None);
    }

    #[test]
    fn a_screen_of_which_nothing_is_known_is_in_use() {
        // No logind knows a session of this name, where there is one.
        let unknown = Session { id: "nosuchsession".into(), user: "ann".into(), tty: None, at_screen: true };
        assert_eq!(idle_seconds(std::slice::from_ref(&unknown)), Some(0));
        assert_eq!(idle_seconds(&[Session { at_screen: false, ..unknown }]), None);
    }
}
