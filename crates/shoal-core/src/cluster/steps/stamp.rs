//! When is a step the same step? Its own words, the mounted files it names, and everything that ran before it.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a step was when it ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Of all the rest and of the steps before it.
    pub hash: String,
    /// Of the step itself.
    pub own: String,
    /// Of the mounted files that it names; empty if it names none.
    pub files: String,
}

impl Stamp {
    pub fn new(before: &str, own: &[&str], files: &[&str]) -> Stamp {
        let own = digest(own);
        let files = if files.is_empty() { String::new() } else { digest(files) };
        Stamp { hash: digest(&[before, &own, &files]), own, files }
    }
}

/// Of a list of texts; where one ends and the next begins counts.
pub fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

const HOMES: [&str; 3] = ["~/", "$HOME/", "${HOME}/"];

/// Whether a command names something at or below `remote`, or a folder that it lies in, by any of the ways in which people write a path of
/// their home.
pub fn names(command: &str, remote: &str) -> bool {
    let remote = remote.trim_end_matches('/');
    let below_home = HOMES.iter().find_map(|home| remote.strip_prefix(home));
    let in_home = |rest: &str| HOMES.iter().map(|home| format!("{home}{rest}")).collect::<Vec<_>>();
    let forms = match below_home {
        // Commands begin in the home folder, so the bare path is one of the ways.
        Some(rest) => [in_home(rest), vec![rest.to_string()]].concat(),
        None => vec![remote.to_string()],
    };
    // `cd ~/proj && make` works with what is mounted at `~/proj/src`. A bare word may be anything; behind `cd` it is a folder.
    let above = |path: &str| path.match_indices('/').map(|(at, _)| path[..at].to_string()).collect::<Vec<_>>();
    let around: Vec<String> = match below_home {
        Some(rest) => above(rest).iter().flat_map(|a| [in_home(a), vec![format!("cd {a}")]].concat()).collect(),
        // Everything lies in `/home/ann`, or in `/data`.
        None => above(remote)
            .into_iter()
            .filter(|a| a.matches('/').count() > if a.starts_with("/home/") { 2 } else { 1 })
            .collect(),
    };
    forms.iter().any(|form| !form.is_empty() && holds(command, form, false))
        || around.iter().any(|form| holds(command, form, true))
}

/// As a path of its own: neither the end of another path nor the beginning of a longer name. `alone`: nor of something below it.
fn holds(command: &str, path: &str, alone: bool) -> bool {
    let part_of_a_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    command.match_indices(path).any(|(at, _)| {
        let before = command[..at].chars().next_back();
        let mut rest = command[at + path.len()..].chars();
        let after = match rest.next() {
            Some('/') if alone => rest.next(),
            after => after,
        };
        let bare = !path.starts_with(['~', '$', '/']);
        let begins = before.is_none_or(|c| !(part_of_a_name(c) || bare && c == '/'))
            // `./proj` is `proj`.
            || (bare && command[..at].ends_with("./") && !command[..at].ends_with("../"));
        begins && after.is_none_or(|c| !part_of_a_name(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_paths_in_many_ways() {
        for (command, remote, named) in [
            ("pip install -r ~/proj/requirements.txt", "~/proj", true),
            ("pip install -r $HOME/proj/requirements.txt", "~/proj", true),
            ("cd \"${HOME}/proj\" && make", "~/proj/", true),
            ("cd proj; make", "~/proj", true),
            ("sh ./proj/run", "~/proj", true),
            ("pip install -r ~/project/requirements.txt", "~/proj", false),
            ("ls /data/proj", "~/proj", false),
            ("ls ../proj", "~/proj", false),
            ("ls /data/proj/x", "/data/proj", true),
            ("ls /data/proj.old", "/data/proj", false),
            ("pip install torch", "~/proj", false),
            ("cd ~/proj && make", "~/proj/src", true),
            ("make -C $HOME/proj/", "~/proj/src/lib", true),
            ("cd proj; make", "~/proj/src", true),
            ("pip install proj", "~/proj/src", false),
            ("pip install -r ~/proj/requirements.txt", "~/proj/src", false),
            ("cat ~/proj/*", "~/proj/src", true),
            ("cd ~/project", "~/proj/src", false),
            ("cd /data/proj && make", "/data/proj/src", true),
            ("cd /data && ls", "/data/proj", false),
            ("cd /home/ann", "/home/ann/proj/src", false),
            ("cd /home/ann/proj", "/home/ann/proj/src", true),
            ("PATH=/home/ann/proj/bin:$PATH x", "/home/ann/proj/src", false),
            ("echo hi", "~/", false),
        ] {
            assert_eq!(names(command, remote), named, "{command} {remote}");
        }
    }

    #[test]
    fn a_stamp_depends_on_all_of_its_parts() {
        let plain = Stamp::new("", &["a"], &[]);
        assert_eq!(plain, Stamp::new("", &["a"], &[]));
        for other in [Stamp::new("x", &["a"], &[]), Stamp::new("", &["b"], &[]), Stamp::new("", &["a"], &["f"])] {
            assert_ne!(plain.hash, other.hash);
        }
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }
}
