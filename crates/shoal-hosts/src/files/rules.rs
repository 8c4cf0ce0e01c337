//! Which files of a tree are meant? As rsync decides it, for `--exclude X` and `--filter 'dir-merge,- FILE'` (pure).
//!
//! The first pattern that matches decides; a folder that is left out is not looked into. Names are bytes: not all are UTF-8.

use super::glob;

/// What is left out, in rsync's spelling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Patterns.
    pub exclude: Vec<String>,
    /// Names of files with patterns, such as `.gitignore`, looked for in every folder.
    pub filter: Vec<String>,
}

/// One pattern, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Vec<u8>,
    /// `+ x`: what it matches is taken after all.
    include: bool,
    anchored: bool,
    only_folders: bool,
    slashes: usize,
    wild: bool,
    /// `**` somewhere; at the start; `***` at the end.
    wild2: bool,
    wild2_first: bool,
    wild3_last: bool,
}

impl Pattern {
    /// `below`: the folder whose file holds the pattern; a leading slash means that folder.
    fn new(text: &[u8], include: bool, below: &[u8]) -> Option<Pattern> {
        let only_folders = text.len() > 1 && text.ends_with(b"/");
        let text = if only_folders { &text[..text.len() - 1] } else { text };
        let anchored = text.starts_with(b"/");
        let mut whole = Vec::new();
        if anchored && !below.is_empty() {
            // The folder's own name is meant as it is, whatever follows is a pattern.
            whole.push(b'/');
            let wild = text.iter().any(|b| b"*[?".contains(b));
            whole.extend(below.iter().flat_map(|b| {
                let escape = wild && b"*[?\\".contains(b);
                escape.then_some(b'\\').into_iter().chain([*b])
            }));
        }
        whole.extend_from_slice(text);
        if whole.is_empty() {
            return None;
        }
        let wild = whole.iter().any(|b| b"*[?".contains(b));
        let stars = whole.windows(2).position(|pair| pair == b"**");
        Some(Pattern {
            include,
            anchored,
            only_folders,
            slashes: whole.iter().filter(|b| **b == b'/').count(),
            wild,
            wild2: stars.is_some(),
            wild2_first: stars == Some(0),
            wild3_last: stars.is_some() && whole.ends_with(b"***"),
            text: whole,
        })
    }

    fn matches(&self, path: &[u8], is_folder: bool) -> bool {
        if self.only_folders && !is_folder {
            return false;
        }
        let name_only = self.slashes == 0 && !self.wild2;
        let last = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        let mut name: Vec<u8> = if name_only { path[last..].to_vec() } else { path.to_vec() };
        if !name_only && self.wild2_first {
            // `**/x` also matches an `x` at the top.
            name.insert(0, b'/');
        }
        if is_folder && self.wild3_last {
            // `x/***` matches x itself, too.
            name.push(b'/');
        }
        let pattern = if self.anchored { &self.text[1..] } else { &self.text[..] };
        let same = |text: &[u8]| if self.wild { glob::matches(pattern, text) } else { pattern == text };
        if self.anchored || name_only || self.wild2_first {
            return same(&name);
        }
        if self.wild2 {
            return starts(&name).any(|at| same(&name[at..]));
        }
        // As many names from the end as the pattern has.
        let wanted = self.slashes + 1;
        let all: Vec<usize> = starts(&name).collect();
        all.len() >= wanted && same(&name[all[all.len() - wanted]..])
    }
}

/// Where the names of a path begin.
fn starts(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    std::iter::once(0).chain(path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at + 1))
}

/// The rules that hold in one folder: those of the command, and those that files in it and above it gave.
#[derive(Debug, Clone, Default)]
pub struct InForce {
    given: Vec<Pattern>,
    /// Nearest folder first.
    merged: Vec<Pattern>,
}

impl InForce {
    pub fn new(rules: &Rules) -> InForce {
        let mut given = Vec::new();
        for text in &rules.exclude {
            if text == "!" {
                given.clear();
                continue;
            }
            let (text, include) = match (text.strip_prefix("- "), text.strip_prefix("+ ")) {
                (Some(rest), _) => (rest, false),
                (_, Some(rest)) => (rest, true),
                _ => (text.as_str(), false),
            };
            given.extend(Pattern::new(text.as_bytes(), include, b""));
        }
        InForce { given, merged: Vec::new() }
    }

    /// With the patterns of a merge file in `folder` (empty: the top): one a line, all excludes, `#` and `;` begin comments.
    pub fn with_file(&self, folder: &[u8], text: &[u8]) -> InForce {
        let lines =
            text.split(|b| b"\n\r\0".contains(b)).filter(|line| !line.starts_with(b"#") && !line.starts_with(b";"));
        let own = lines.filter_map(|line| Pattern::new(line, false, folder));
        InForce { given: self.given.clone(), merged: own.chain(self.merged.iter().cloned()).collect() }
    }

    /// Whether a path (relative to the top, without a leading slash) stays out.
    pub fn leaves_out(&self, path: &[u8], is_folder: bool) -> bool {
        let all = self.given.iter().chain(&self.merged);
        all.into_iter().find(|pattern| pattern.matches(path, is_folder)).is_some_and(|pattern| !pattern.include)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_rsync_documents() {
        for (pattern, path, folder, out) in [
            ("*.pyc", "a/b/c.pyc", false, true),
            ("*.pyc", "a/b/c.py", false, false),
            ("foo", "foobar", false, false),
            ("foo", "a/foo", false, true),
            ("foo/", "a/foo", false, false),
            ("foo/", "a/foo", true, true),
            ("/foo", "a/foo", false, false),
            ("/foo", "foo", false, true),
            ("a/foo", "x/a/foo", false, true),
            ("a/foo", "xa/foo", false, false),
            ("a/*", "x/a/foo", false, true),
            ("a/*", "x/a/b/foo", false, false),
            ("a/**", "x/a/b/foo", false, true),
            ("**/foo", "foo", false, true),
            ("**/foo", "a/b/foo", false, true),
            ("a/***", "a", true, true),
            ("a/***", "a/b", false, true),
            ("[ab].txt", "b.txt", false, true),
            ("[!ab].txt", "b.txt", false, false),
            ("?", "é", false, false),
            ("a\\*", "a*", false, true),
        ] {
            let rules = InForce::new(&Rules { exclude: vec![pattern.into()], filter: Vec::new() });
            assert_eq!(rules.leaves_out(path.as_bytes(), folder), out, "{pattern} {path}");
        }
    }

    #[test]
    fn the_first_match_decides_and_merge_files_hold_below_their_folder() {
        let rules = Rules { exclude: vec!["+ keep.log".into(), "*.log".into()], filter: Vec::new() };
        let rules = InForce::new(&rules);
        assert!(!rules.leaves_out(b"a/keep.log", false) && rules.leaves_out(b"a/x.log", false));
        let below = rules.with_file(b"sub", b"# words\n;words\n/top\n!odd\ndata/\n\n");
        assert!(below.leaves_out(b"sub/top", false) && !below.leaves_out(b"sub/x/top", false));
        assert!(below.leaves_out(b"sub/x/data", true) && below.leaves_out(b"sub/!odd", false));
    }
}
