//! Which files belong to a tree?

use super::{Kind, Root, plainly, skip};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub from: PathBuf,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Folder,
    File { bytes: u64, executable: bool },
    Link { to: PathBuf },
}

/// By the name in the tree, with `/` between folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: BTreeMap<String, Entry>,
    /// Left out, and worth saying.
    pub odd: Vec<String>,
}

/// More files than this are not somebody's source, nor fit for one tar.
const MOST_FILES: usize = 1_000_000;

impl Listing {
    pub fn bytes(&self) -> u64 {
        self.entries.values().map(|entry| if let What::File { bytes, .. } = entry.what { bytes } else { 0 }).sum()
    }

    pub fn files(&self) -> usize {
        self.entries.values().filter(|entry| entry.what != What::Folder).count()
    }
}

pub fn walk(roots: &[Root], kind: Kind) -> Result<Listing, String> {
    let mut listing = Listing::default();
    for root in roots {
        let about = std::fs::metadata(&root.from).map_err(|e| format!("{}: {}", root.from.display(), plainly(&e)))?;
        if about.is_dir() {
            folder(&mut listing, root, kind)?;
        } else {
            let name = if root.at.is_empty() { file_name(&root.from)? } else { root.at.clone() };
            add(&mut listing, root, name, root.from.clone(), &about)?;
        }
    }
    // A tree with one folder in it and nothing else gives the same tar, however its parents came about.
    let parents: Vec<String> = listing.entries.keys().flat_map(|name| parents_of(name)).collect();
    for parent in parents {
        let folder = Entry { from: PathBuf::new(), what: What::Folder };
        listing.entries.entry(parent).or_insert(folder);
    }
    Ok(listing)
}

fn parents_of(name: &str) -> Vec<String> {
    name.match_indices('/').map(|(at, _)| name[..at].to_string()).collect()
}

fn folder(listing: &mut Listing, root: &Root, kind: Kind) -> Result<(), String> {
    let mut walk = ignore::WalkBuilder::new(&root.from);
    // Names that begin with a dot are files like others; who does not want them sent says so in .gitignore.
    walk.standard_filters(false).follow_links(false).sort_by_file_name(std::ffi::OsStr::cmp);
    if kind == Kind::Source {
        // Also where no .git is: a copy of a project leaves out the same files.
        walk.git_ignore(true).git_exclude(true).parents(true).require_git(false);
        walk.add_custom_ignore_filename(".shoalignore");
    }
    let (left_out, without) = (patterns(root)?, root.without.clone());
    walk.filter_entry(move |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let name = entry.file_name().to_str().unwrap_or_default();
        let is_made = || if is_folder { skip::is_made(entry.path()) } else { skip::is_noise(name) };
        let unwanted = || {
            let is_elsewhere = without.iter().any(|path| path == entry.path());
            is_elsewhere || (kind == Kind::Source && is_made()) || left_out.matched(entry.path(), is_folder).is_ignore()
        };
        // What was asked for by its name is taken, whatever it is.
        entry.depth() == 0 || !unwanted()
    });
    for entry in walk.build() {
        let entry = entry.map_err(|e| format!("{} cannot be read: {e}", root.from.display()))?;
        let path = entry.path();
        let below = path.strip_prefix(&root.from).map_err(|e| format!("{}: {e}", path.display()))?;
        let below = below.to_str().ok_or_else(|| not_utf8(path))?;
        let name = match (root.at.is_empty(), below.is_empty()) {
            (true, true) => continue,
            (true, false) => below.to_string(),
            (false, true) => root.at.clone(),
            (false, false) => format!("{}/{below}", root.at),
        };
        let about = path.symlink_metadata().map_err(|e| format!("{}: {}", path.display(), plainly(&e)))?;
        add(listing, root, name, path.into(), &about)?;
    }
    Ok(())
}

fn patterns(root: &Root) -> Result<ignore::gitignore::Gitignore, String> {
    let mut patterns = ignore::gitignore::GitignoreBuilder::new(&root.from);
    for line in &root.ignore {
        patterns
            .add_line(None, line)
            .map_err(|e| format!("`{line}` in `ignore` is no pattern of a .gitignore: {e}"))?;
    }
    patterns.build().map_err(|e| format!("the patterns in `ignore` cannot be used: {e}"))
}

fn add(listing: &mut Listing, root: &Root, name: String, from: PathBuf, about: &Metadata) -> Result<(), String> {
    let what = if about.is_dir() {
        What::Folder
    } else if about.is_file() {
        What::File { bytes: about.len(), executable: about.permissions().mode() & 0o100 != 0 }
    } else if about.is_symlink() {
        let to = std::fs::read_link(&from).map_err(|e| format!("{}: {}", from.display(), plainly(&e)))?;
        What::Link { to: lasting(&root.from, &from, to) }
    } else {
        listing.odd.push(format!("{} is neither file, folder nor link; left out", from.display()));
        return Ok(());
    };
    let folders_meet = |there: &Entry| what == What::Folder && there.what == What::Folder;
    if listing.entries.get(&name).is_some_and(|there| !folders_meet(there)) {
        let there = listing.entries.get(&name).map_or_else(PathBuf::new, |there| there.from.clone());
        return Err(format!("{} and {} would both be `{name}` for a run", there.display(), from.display()));
    }
    if listing.entries.len() >= MOST_FILES {
        let hint = "name the folders that are needed with `source:`, or leave some out with .gitignore or .shoalignore";
        return Err(format!("{} has more than {MOST_FILES} files\n  hint: {hint}", root.from.display()));
    }
    listing.entries.insert(name, Entry { from, what });
    Ok(())
}

/// Links within the tree stay as they are. Those that leave it are said in full: from where the copy lies, `..` leads elsewhere.
fn lasting(root: &Path, link: &Path, to: PathBuf) -> PathBuf {
    if to.is_absolute() {
        return to;
    }
    let mut whole = link.parent().unwrap_or(root).to_path_buf();
    for part in to.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    if whole.starts_with(root) { to } else { whole }
}

fn file_name(path: &Path) -> Result<String, String> {
    path.file_name().and_then(|name| name.to_str()).map(Into::into).ok_or_else(|| not_utf8(path))
}

fn not_utf8(path: &Path) -> String {
    format!("{}: names that are not UTF-8 cannot be sent to other hosts", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        file("train.py", "x");
        file("net/mlp.py", "y");
        file("net/__pycache__/mlp.pyc", "z");
        file("data/big.npz", "0123456789");
        file(".gitignore", "data/\n*.ckpt\n");
        file(".shoalignore", "paper\n");
        file("a.ckpt", "w");
        file("paper/text.tex", "t");
        file("env/pyvenv.cfg", "");
        file(".hidden", "h");
        file(".git/HEAD", "");
        std::os::unix::fs::symlink("net/mlp.py", root.path().join("inside")).expect("a link");
        std::os::unix::fs::symlink("../elsewhere", root.path().join("outside")).expect("a link");
        root
    }

    fn at(root: &tempfile::TempDir, path: &str, at: &str) -> Root {
        let from = if path.is_empty() { root.path().into() } else { root.path().join(path) };
        Root { from, at: at.into(), ignore: Vec::new(), without: Vec::new() }
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.entries.keys().map(String::as_str).collect()
    }

    #[test]
    fn source_is_what_people_wrote() {
        let root = project();
        let roots = [at(&root, "", "")];
        let listing = walk(&roots, Kind::Source).expect("a listing");
        assert_eq!(
            names(&listing),
            [".gitignore", ".hidden", ".shoalignore", "inside", "net", "net/mlp.py", "outside", "train.py"]
        );
        let link = |name: &str| match &listing.entries[name].what {
            What::Link { to } => to.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(link("inside"), Path::new("net/mlp.py"));
        assert_eq!(link("outside"), root.path().parent().expect("a parent").join("elsewhere"));
    }

    #[test]
    fn data_is_taken_whole_under_its_name() {
        let root = project();
        let mut data = at(&root, "data", "corpora/data");
        let listing = walk(&[data.clone()], Kind::Data).expect("a listing");
        assert_eq!(names(&listing), ["corpora", "corpora/data", "corpora/data/big.npz"]);
        data.ignore = vec!["*.npz".into()];
        assert_eq!(names(&walk(&[data], Kind::Data).expect("a listing")), ["corpora", "corpora/data"]);
    }

    #[test]
    fn several_roots_are_one_tree_and_may_not_collide() {
        let root = project();
        let at = |path: &str, name: &str| at(&root, path, name);
        let both = walk(&[at("net", "src/net"), at("train.py", "train.py")], Kind::Source).expect("a listing");
        assert_eq!(names(&both), ["src", "src/net", "src/net/mlp.py", "train.py"]);
        let apart = Root { without: vec![root.path().join("net/mlp.py")], ..at("net", "net") };
        assert_eq!(names(&walk(&[apart], Kind::Source).expect("a listing")), ["net"]);
        let collide = walk(&[at("train.py", "a"), at(".hidden", "a")], Kind::Source).expect_err("two of one name");
        assert!(collide.contains("would both be `a`"), "{collide}");
        assert!(walk(&[at("nothing", "n")], Kind::Source).expect_err("missing").contains("No such file"));
    }
}
