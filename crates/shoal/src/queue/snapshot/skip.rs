//! Which folders are never part of a source, whatever .gitignore says?

use std::path::Path;

/// Made by version control, Python, notebooks and editors.
const NAMES: [&str; 14] = [
    ".git",
    ".hg",
    ".svn",
    ".jj",
    "__pycache__",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    "node_modules",
    ".idea",
    ".vscode",
];
/// The beginning of CACHEDIR.TAG, by which programs say that a folder is theirs and can be made again.
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// A folder that programs made and can make again.
pub fn is_made(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    NAMES.contains(&name)
        // A virtualenv, whatever it is called, and a conda environment.
        || has("pyvenv.cfg")
        || has("conda-meta")
        // `target` is Cargo's only where Cargo is; networks have targets too.
        || (name == "target" && folder.parent().is_some_and(|parent| parent.join("Cargo.toml").exists()))
        || is_tagged(folder)
}

fn is_tagged(folder: &Path) -> bool {
    use std::io::Read;
    let mut start = [0u8; TAG.len()];
    let read = std::fs::File::open(folder.join("CACHEDIR.TAG")).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *TAG
}

/// Files that nobody means.
pub fn is_noise(name: &str) -> bool {
    name == ".DS_Store" || name.ends_with(".pyc") || name.ends_with(".pyo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_by_whom() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |path: &str, file: &str, text: &[u8]| {
            let folder = root.path().join(path);
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join(file), text).expect("a file");
            folder
        };
        assert!(is_made(&make("env", "pyvenv.cfg", b"home = /usr/bin\n")));
        assert!(is_made(&make("conda", "conda-meta", b"")));
        assert!(is_made(&make("cache", "CACHEDIR.TAG", &[TAG, b"\n# more"].concat())));
        assert!(!is_made(&make("notes", "CACHEDIR.TAG", b"Signature: another")));
        assert!(is_made(&make(".git", "HEAD", b"")));
        assert!(!is_made(&make("target", "net.py", b"")));
        make(".", "Cargo.toml", b"");
        assert!(is_made(&root.path().join("target")));
        assert!(!is_made(&make("src", "net.py", b"")));
    }
}
