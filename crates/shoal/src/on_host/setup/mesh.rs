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
    let (begin, end) = marks(cluster);
    let hosts = addresses.join(" ");
    let lines = format!(
        "{begin}\nHost {hosts}\n  IdentityFile {}\n  StrictHostKeyChecking accept-new\n{end}\n",
        key(cluster).display()
    );
    // In front: of what a configuration says twice, the first counts; and a `Host` above would swallow it.
    change("config", |text| format!("{lines}{}", without(text, &begin, &end)))?;
    let public = public.trim();
    change("authorized_keys", |text| {
        let text = without(text, &begin, &end);
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        format!("{text}{gap}{begin}\n{public}\n{end}\n")
    })
}

/// Takes it away again; true if there was one.
pub fn remove(cluster: &str) -> io::Result<bool> {
    let (begin, end) = marks(cluster);
    if !key(cluster).exists() {
        return Ok(false);
    }
    for file in ["config", "authorized_keys"] {
        change(file, |text| without(text, &begin, &end))?;
    }
    fs::remove_file(key(cluster))?;
    Ok(true)
}

fn change(name: &str, with: impl Fn(&str) -> String) -> io::Result<()> {
    // Through a link, if it is one: people keep these files in their dotfiles.
    let path = ssh().join(name);
    let path = fs::canonicalize(&path).unwrap_or(path);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e),
    };
    let new = with(&text);
    if new == text { Ok(()) } else { write_beside(&path, new.as_bytes()) }
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
}
