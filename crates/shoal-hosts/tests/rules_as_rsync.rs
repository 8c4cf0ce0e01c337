//! Our rules choose what real rsync chooses, pattern by pattern and with merge files.

use shoal_hosts::files::cache::Cache;
use shoal_hosts::files::tree::with_cache;
use shoal_hosts::files::{Rules, rsync};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const FILES: [&str; 24] = [
    "a.py",
    "a.pyc",
    "b/a.pyc",
    "b/c/a.py",
    "b/c/d/deep.txt",
    "foo/bar",
    "foo/baz/bar",
    "x/foo/bar",
    "xfoo/bar",
    "foo.d/[x]",
    "data/big.bin",
    "b/data/big.bin",
    "with space",
    "b/with space/y z",
    "é/ü",
    "star*",
    "back\\slash",
    "new\nline",
    "q?",
    "!odd",
    "#hash",
    ".hidden/x",
    "tmp/x",
    "b/tmp",
];

const PATTERNS: [&str; 59] = [
    "*.pyc",
    "/a.py",
    "a.py",
    "foo",
    "foo/",
    "/foo",
    "/foo/",
    "foo/bar",
    "/foo/bar",
    "foo/*",
    "foo/**",
    "**/bar",
    "b/**/deep.txt",
    "b/***",
    "/b/*",
    "**",
    "*",
    "b*",
    "?.py",
    "[ab].py*",
    "[!a]*",
    "[^a]*",
    "[[:alpha:]].py",
    "with space",
    "y?z",
    "é",
    "é/",
    "*\\*",
    "star\\*",
    "back\\slash",
    "back\\\\*",
    "new*",
    "foo.d/[x]",
    "foo.d/\\[x\\]",
    ".*",
    "/.*",
    "**o**",
    "x/**/bar",
    "/**/bar",
    "- foo",
    "+ foo",
    "!",
    "tmp",
    "tmp/",
    "/tmp",
    "*/tmp",
    "data/**",
    "b/data",
    "link",
    "linkdir/",
    "c/d",
    "a**c",
    "/",
    "//a.py",
    "c/",
    "*/",
    "b/c/",
    "[a-c]/",
    "***",
];

fn make(root: &Path) {
    for file in FILES {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, file).expect("a file");
    }
    std::fs::create_dir_all(root.join("empty/inner")).expect("folders");
    std::fs::write(root.join(".ignore"), "# words\n*.bin\n/tmp\n!odd\n").expect("rules");
    std::fs::write(root.join("b/.ignore"), ";words\n/c\nwith*\n").expect("rules");
    std::os::unix::fs::symlink("foo/bar", root.join("link")).expect("a link");
    std::os::unix::fs::symlink("b", root.join("linkdir")).expect("a link");
}

fn list(root: &Path, below: &str, out: &mut BTreeSet<String>) {
    for item in std::fs::read_dir(root.join(below)).expect("a folder").flatten() {
        let name = item.file_name().into_string().expect("a name");
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if item.file_type().expect("a type").is_dir() {
            list(root, &path, out);
        }
        out.insert(path);
    }
}

/// What rsync takes; `whole`: without a slash behind the source.
fn theirs(root: &Path, target: &Path, rules: &Rules, whole: bool) -> BTreeSet<String> {
    std::fs::create_dir(target).expect("a folder");
    let mut command = Command::new("rsync");
    command.arg("-a").args(rules.exclude.iter().flat_map(|p| ["--exclude", p]));
    command.args(rules.filter.iter().map(|file| format!("--filter=dir-merge,- {file}")));
    let source = if whole { root.display().to_string() } else { format!("{}/", root.display()) };
    assert!(command.arg(source).arg(target).status().expect("rsync runs").success(), "{rules:?}");
    let there = if whole { target.join("src") } else { target.to_path_buf() };
    let mut all = BTreeSet::new();
    if there.exists() {
        list(&there, "", &mut all);
    }
    all
}

#[test]
fn every_pattern_chooses_the_same() {
    if !rsync::is_here() {
        assert!(std::env::var_os("CI").is_none(), "rsync is missing");
        eprintln!("skipped: no rsync");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("src");
    make(&root);
    let mut cases: Vec<Rules> =
        PATTERNS.iter().map(|p| Rules { exclude: vec![(*p).into()], filter: Vec::new() }).collect();
    for (exclude, filter) in [
        (vec!["+ a.pyc", "*.pyc"], vec![]),
        (vec!["+ */", "+ *.py", "*"], vec![]),
        (vec!["*.py", "!", "foo"], vec![]),
        (vec![], vec![".ignore"]),
        (vec!["+ big.bin"], vec![".ignore"]),
        (vec!["foo"], vec![".ignore", ".none"]),
        (vec![".ignore"], vec![".ignore"]),
    ] {
        let own = |list: Vec<&str>| list.into_iter().map(Into::into).collect();
        cases.push(Rules { exclude: own(exclude), filter: own(filter) });
    }
    let mut wrong = Vec::new();
    for (i, rules) in cases.iter().enumerate() {
        for whole in [false, true] {
            let theirs = theirs(&root, &folder.path().join(format!("to{i}{whole}")), rules, whole);
            let tree = with_cache(&root, rules, whole.then_some("src"), &Cache::open(None)).expect("a tree");
            let ours: BTreeSet<String> = tree.entries.iter().map(|entry| entry.name()).collect();
            if ours != theirs {
                let more: Vec<_> = ours.difference(&theirs).collect();
                let less: Vec<_> = theirs.difference(&ours).collect();
                wrong.push(format!("{rules:?} whole={whole}: only ours {more:?}, only rsync's {less:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_unchanged_tree_is_known_from_before_and_a_change_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, kept) = (folder.path().join("src"), folder.path().join("deep/digests"));
    make(&root);
    let look = || {
        let cache = Cache::open(Some(kept.clone()));
        let tree = with_cache(&root, &Rules::default(), None, &cache).expect("a tree");
        cache.save();
        tree
    };
    let first = look();
    assert_eq!((look().digest, look().files), (first.digest.clone(), 26));
    std::fs::create_dir_all(kept.parent().expect("a folder")).expect("folders");
    std::fs::write(&kept, "nonsense").expect("written");
    assert_eq!(look().digest, first.digest);
    std::fs::write(root.join("a.py"), "other").expect("written");
    let changed = look().digest;
    assert_ne!(changed, first.digest);
    std::fs::remove_file(root.join("link")).expect("removed");
    assert_ne!(look().digest, changed);
}
