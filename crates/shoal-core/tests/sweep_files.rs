//! What do people see when a sweep's file is wrong? `bad-sweeps/` holds such files, and beside each, as `.txt`, exactly what is said of
//! it. And the examples of the document are right.
//!
//! `SHOAL_BLESS=1 cargo test -p shoal-core --test sweep_files` writes the `.txt` files anew; look at the difference.

use shoal_core::diagnostic::Diagnostics;
use shoal_core::queue::read;
use std::fs;
use std::path::{Path, PathBuf};

fn bad_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-sweeps");
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
        let said = Diagnostics(read::sweep(&text, name(&path)).expect_err(name(&path))).to_string() + "\n";
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
        for diagnostic in read::sweep(&text, name(&path)).expect_err(name(&path)) {
            let at = diagnostic.at;
            assert!((1..=lines.len() + 1).contains(&at.line), "{}: {diagnostic}", name(&path));
            let line = lines.get(at.line - 1).copied().unwrap_or("");
            assert!((1..=line.chars().count() + 1).contains(&at.column), "{}: {diagnostic}", name(&path));
            assert_eq!(diagnostic.source, line, "{}", name(&path));
        }
    }
}

/// What stands between ```yaml and ``` in the document.
fn examples() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/sweep-file.md");
    let text = fs::read_to_string(path).expect("the document is there");
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(block, _)| block.to_string()).collect()
}

#[test]
fn the_examples_of_the_document_are_right() {
    let examples = examples();
    assert!(examples.len() >= 5, "only {} examples", examples.len());
    for example in &examples {
        // Some show a part only.
        let whole = if example.contains("command:") { example.clone() } else { format!("command: train\n{example}") };
        if let Err(found) = read::sweep(&whole, "sweep-file.md") {
            panic!("{}", Diagnostics(found));
        }
    }
}

#[test]
fn the_document_names_every_field() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/sweep-file.md");
    let text = fs::read_to_string(path).expect("the document is there");
    let fields = read::FIELDS.iter().chain(&read::RESOURCES_FIELDS).chain(&read::ENVIRONMENT_FIELDS);
    for field in fields {
        assert!(text.contains(&format!("`{field}`")), "the document does not name `{field}`");
    }
}
