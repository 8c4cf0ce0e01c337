//! Which file is a command, and if none is, what did the user mean?

use super::command::Cannot;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The file that `name` stands for, as `execvp` would find it from `cwd`.
pub fn find(name: &str, search: &OsStr, cwd: &Path) -> Result<PathBuf, Cannot> {
    let found = if name.contains('/') { Some(cwd.join(name)) } else { in_path(name, search, cwd) };
    let Some(path) = found else {
        return Err(Cannot {
            why: format!("command `{name}` was not found; PATH is {}", search.to_string_lossy()),
            hint: near(name, search, cwd),
        });
    };
    check(name, &path)?;
    Ok(path)
}

fn folders<'a>(search: &'a OsStr, cwd: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    std::env::split_paths(search).map(|folder| cwd.join(folder))
}

fn in_path(name: &str, search: &OsStr, cwd: &Path) -> Option<PathBuf> {
    let files: Vec<PathBuf> = folders(search, cwd).map(|f| f.join(name)).filter(|p| p.is_file()).collect();
    // One that may not be executed is better than none: the error can name it.
    files.iter().find(|p| is_executable(p)).or(files.first()).cloned()
}

fn check(name: &str, path: &Path) -> Result<(), Cannot> {
    let shown = path.display();
    match fs::metadata(path) {
        Err(e) => return Err(Cannot { why: format!("command `{name}`: {shown}: {}", plain(&e)), hint: None }),
        Ok(m) if m.is_dir() => {
            return Err(Cannot { why: format!("command `{name}`: {shown} is a folder"), hint: None });
        }
        Ok(_) => {}
    }
    if !is_executable(path) {
        return Err(Cannot {
            why: format!("command `{name}`: {shown} is not executable"),
            hint: Some(format!("chmod +x {shown}, or name the program that runs it, as in `python {name}`")),
        });
    }
    let mut start = [0u8; 256];
    let n = fs::File::open(path).and_then(|mut f| std::io::Read::read(&mut f, &mut start)).unwrap_or(0);
    match interpreter(&start[..n]) {
        Some(i) if !Path::new(&i).exists() => Err(Cannot {
            why: format!("command `{name}`: {shown} wants the interpreter {i}, which does not exist on this host"),
            hint: Some("a virtualenv that was copied or moved has such scripts; make it anew on this host".into()),
        }),
        _ => Ok(()),
    }
}

/// What a script's first line names. Pure.
fn interpreter(start: &[u8]) -> Option<String> {
    let line = start.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    String::from_utf8_lossy(line).split_ascii_whitespace().next().map(Into::into)
}

/// An io error without Rust's "(os error 2)".
pub fn plain(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

fn near(name: &str, search: &OsStr, cwd: &Path) -> Option<String> {
    if cwd.join(name).is_file() {
        return Some(format!("it is in the working folder {}: write ./{name}", cwd.display()));
    }
    let mut best: Option<(usize, String)> = None;
    for entry in folders(search, cwd).filter_map(|f| fs::read_dir(f).ok()).flatten().flatten() {
        let Ok(other) = entry.file_name().into_string() else { continue };
        if other.len().abs_diff(name.len()) > 2 {
            continue;
        }
        let far = distance(name, &other);
        // Shorter names are too easily near.
        if far <= (name.len() / 3).min(2) && best.as_ref().is_none_or(|(d, _)| far < *d) && is_executable(&entry.path())
        {
            best = Some((far, other));
        }
    }
    best.map(|(_, other)| format!("did you mean `{other}`?"))
}

/// Letters to add, drop, change or swap with their neighbour to get from one word to the other. Pure.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let mut d =
                (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(rows[i - 2][j - 2] + 1);
            }
            row.push(d);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_and_first_lines() {
        for (a, b, d) in [("pyhton3", "python3", 1), ("python", "python3", 1), ("", "ab", 2), ("x", "x", 0)] {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
        assert_eq!(interpreter(b"#! /usr/bin/env python\nx").as_deref(), Some("/usr/bin/env"));
        assert_eq!(interpreter(b"\x7fELF"), None);
        assert_eq!(interpreter(b"#!"), None);
    }
}
