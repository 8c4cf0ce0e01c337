//! What do people see when a file is wrong? `bad/` holds such files, and beside each, as `.txt`, exactly what is said of it.
//!
//! `SHOAL_BLESS=1 cargo test -p shoal-core --test diagnostics` writes the `.txt` files anew; look at the difference.

use shoal_core::fleet;
use std::fs;
use std::path::{Path, PathBuf};

fn bad_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let files = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e != "txt")).collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

#[test]
fn every_bad_file_is_refused_in_these_words() {
    let bless = std::env::var_os("SHOAL_BLESS").is_some();
    let files = bad_files();
    assert!(files.len() >= 40, "only {} files", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("readable");
        let said = fleet::read(name(&path), &text).expect_err(name(&path)).to_string() + "\n";
        let kept = path.with_extension("txt");
        if bless {
            fs::write(&kept, &said).expect("writable");
        } else if fs::read_to_string(&kept).unwrap_or_default() != said {
            wrong.push(format!("{}:\n{said}", name(&path)));
        }
    }
    assert!(wrong.is_empty(), "these are said otherwise now:\n\n{}", wrong.join("\n"));
}

#[test]
fn every_error_points_into_its_file() {
    for path in bad_files() {
        let text = fs::read_to_string(&path).expect("readable");
        let lines: Vec<&str> = text.lines().collect();
        for diagnostic in fleet::read(name(&path), &text).expect_err(name(&path)).0 {
            let at = diagnostic.at;
            assert!((1..=lines.len() + 1).contains(&at.line), "{}: {diagnostic}", name(&path));
            let line = lines.get(at.line - 1).copied().unwrap_or("");
            assert!((1..=line.chars().count() + 1).contains(&at.column), "{}: {diagnostic}", name(&path));
            assert_eq!(diagnostic.source, line, "{}", name(&path));
        }
    }
}
