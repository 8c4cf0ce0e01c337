//! Who sits at this machine, and since when have they touched nothing?

use super::desks;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Of an entry of utmp on Linux, whatever the word size: type, pid, line, id, user, and what nobody here needs.
const ENTRY: usize = 384;
const USER_PROCESS: i16 = 7;

#[derive(Debug, PartialEq, Eq)]
struct Login {
    user: String,
    line: String,
}

/// Those who are logged in, and for how many seconds nothing was touched; nothing if nobody is, or it cannot be known.
pub fn here() -> (Vec<String>, Option<u64>) {
    let mut logins = logins(&fs::read("/run/utmp").or_else(|_| fs::read("/var/run/utmp")).unwrap_or_default());
    let sessions = desks::sessions();
    // Newer systems have no utmp any more.
    let of = |session: &desks::Session| {
        let (user, line) = (session.user.clone(), session.tty.clone().unwrap_or_default());
        Login { user, line }
    };
    logins.extend(sessions.iter().filter(|session| session.at_screen || session.tty.is_some()).map(of));
    let users: BTreeSet<String> = logins.iter().map(|login| login.user.clone()).collect();
    let mut touched: Option<u64> = None;
    let mut note = |path: &Path| {
        let at = fs::metadata(path).ok().and_then(|m| u64::try_from(m.atime()).ok());
        touched = touched.max(at);
    };
    for login in logins.iter().filter(|login| !login.line.is_empty()) {
        note(&Path::new("/dev").join(&login.line));
    }
    // Terminals of windows that no login is written down for.
    if !logins.is_empty() {
        for entry in fs::read_dir("/dev/pts").into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit())) {
                note(&entry.path());
            }
        }
    }
    // Keyboard and mouse of a desktop, where the kernel keeps the time.
    for entry in fs::read_dir("/dev/input").into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("event") {
            note(&entry.path());
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let idle = touched.filter(|_| !users.is_empty()).map(|at| now.saturating_sub(at));
    let idle = idle.into_iter().chain(desks::idle_seconds(&sessions)).min();
    (users.into_iter().collect(), idle)
}

/// Pure.
fn logins(utmp: &[u8]) -> Vec<Login> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let one = |entry: &[u8]| {
        let kind = i16::from_ne_bytes([entry[0], entry[1]]);
        let (line, user) = (text(&entry[8..40]), text(&entry[44..76]));
        let plain = !line.is_empty() && !line.contains("..");
        (kind == USER_PROCESS && !user.is_empty() && plain).then_some(Login { user, line })
    };
    utmp.chunks_exact(ENTRY).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_read_and_others_are_not() {
        let entry = |kind: i16, line: &str, user: &str| {
            let mut bytes = vec![0u8; ENTRY];
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            bytes[8..8 + line.len()].copy_from_slice(line.as_bytes());
            bytes[44..44 + user.len()].copy_from_slice(user.as_bytes());
            bytes
        };
        let file = [entry(2, "~", "reboot"), entry(7, "pts/3", "ann"), entry(8, "pts/4", "bob"), vec![1; 20]].concat();
        assert_eq!(logins(&file), [Login { user: "ann".into(), line: "pts/3".into() }]);
        assert_eq!(logins(b""), []);
        here();
    }
}
