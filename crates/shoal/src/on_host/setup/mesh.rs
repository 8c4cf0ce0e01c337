//! How may nodes log in to each other? With a key made for this cluster, in files that say which lines are ours.

use super::state::{home, private_folder, write_beside};
use std::fs;
use std::io;
use std::path::PathBuf;

fn ssh() -> PathBuf {
    home().join(".ssh")
}

fn key(cluster: &str) -> PathBuf {
    ssh().join(format!("shoal-{cluster}"))
}

fn marks(cluster: &str) -> (String, String) {
    (format!("# shoal {cluster}: begin"), format!("# shoal {cluster}: end"))
}

/// Puts the key in place. What is there already, of ours, is replaced.
pub fn place(cluster: &str, private: &str, public: &str, addresses: &[String]) -> io::Result<()> {
    private_folder(&ssh())?;
    write_beside(&key(cluster), private.as_bytes())?;
    let marks = marks(cluster);
    let hosts = addresses.join(" ");
    let entry =
        format!("Host {hosts}\n  IdentityFile {}\n  StrictHostKeyChecking accept-new\n", key(cluster).display());
    // In front: of what a configuration says twice, the first counts; and a `Host` above would swallow it.
    change("config", |text| Some(with(text, &marks, &entry, true)))?;
    change("authorized_keys", |text| Some(with(text, &marks, &format!("{}\n", public.trim()), false)))
}

/// Takes it away again; true if there was one.
pub fn remove(cluster: &str) -> io::Result<bool> {
    let marks = marks(cluster);
    if !key(cluster).exists() {
        return Ok(false);
    }
    for file in ["config", "authorized_keys"] {
        change(file, |text| rest(text?, &marks))?;
    }
    fs::remove_file(key(cluster))?;
    Ok(true)
}

/// `with` gets the text, or nothing if there is no such file, and says the same of what there shall be.
fn change(name: &str, with: impl Fn(Option<&str>) -> Option<String>) -> io::Result<()> {
    // Through a link, if it is one: people keep these files in their dotfiles.
    let path = ssh().join(name);
    let path = fs::canonicalize(&path).unwrap_or(path);
    let text = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    match with(text.as_deref()) {
        new if new == text => Ok(()),
        Some(new) => write_beside(&path, new.as_bytes()),
        None => fs::remove_file(&path),
    }
}

/// Among our lines, where there was no such file before them: it goes when they do, unless somebody has added to it.
const MADE: &str = "# shoal made this file";

/// The text with our lines, in front or behind (pure).
fn with(text: Option<&str>, (begin, end): &(String, String), lines: &str, in_front: bool) -> String {
    let made = text.is_none_or(|text| is_made(text, begin, end));
    let made = if made { format!("{MADE}\n") } else { String::new() };
    let (lines, text) = (format!("{begin}\n{made}{lines}{end}\n"), without(text.unwrap_or_default(), begin, end));
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    if in_front { format!("{lines}{text}") } else { format!("{text}{gap}{lines}") }
}

/// What stays without our lines (pure); nothing, if the file was ours and has nothing else in it.
fn rest(text: &str, (begin, end): &(String, String)) -> Option<String> {
    let rest = without(text, begin, end);
    let ours_alone = is_made(text, begin, end) && rest.trim().is_empty();
    (!ours_alone).then_some(rest)
}

fn is_made(text: &str, begin: &str, end: &str) -> bool {
    let ours = text.lines().skip_while(|line| line.trim_end() != begin).take_while(|line| line.trim_end() != end);
    ours.into_iter().any(|line| line == MADE)
}

/// The text without our lines (pure).
fn without(text: &str, begin: &str, end: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            mark if mark == begin => inside = true,
            mark if mark == end && inside => inside = false,
            _ if inside => {}
            _ => out.push_str(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_lines_go() {
        let (begin, end) = marks("lab");
        let text = format!("a\n{begin}\nx\n{end}\nb");
        assert_eq!(without(&text, &begin, &end), "a\nb");
        assert_eq!(without("a\nb\n", &begin, &end), "a\nb\n");
    }

    #[test]
    fn a_file_that_was_made_for_our_lines_goes_with_them() {
        let marks = marks("lab");
        let once = with(None, &marks, "Host a\n", true);
        let again = with(Some(&once), &marks, "Host a b\n", true);
        assert!(again.contains(MADE) && again.contains("Host a b") && again.matches("Host").count() == 1, "{again}");
        assert_eq!(rest(&again, &marks), None);
        // What others have added stays, and so does a file that was there, even an empty one.
        assert_eq!(rest(&format!("{again}Host x\n"), &marks), Some("Host x\n".into()));
        assert_eq!(rest(&with(Some(""), &marks, "Host a\n", true), &marks), Some(String::new()));
        assert_eq!(rest(&with(Some("key"), &marks, "k\n", false), &marks), Some("key\n".into()));
        // Two clusters: the file is the first one's.
        let other = (String::from("# shoal two: begin"), String::from("# shoal two: end"));
        let both = with(Some(&once), &other, "Host c\n", true);
        let left = rest(&both, &marks).expect("the other's lines");
        assert!(left.contains("Host c") && !left.contains("Host a"), "{left}");
    }
}
