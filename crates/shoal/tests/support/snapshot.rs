//! What whole commands print, kept in `tests/cli/*.txt` for people to read. `SHOAL_BLESS=1` writes them anew.

use shoal::launch::screen::{WIDTH, fold};
use std::path::Path;

/// Compares with the kept text, or keeps this one.
#[track_caller]
pub fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli").join(format!("{name}.txt"));
    if std::env::var_os("SHOAL_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("tests/cli");
        std::fs::write(&path, text).expect("a snapshot");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "tests/cli/{name}.txt is\n{kept}\nbut now it is\n{text}\nSHOAL_BLESS=1 keeps the new one");
}

/// What a run says, as people see it, whose terminal is not as wide as the tests'.
pub fn folded(text: &str) -> String {
    let said_by_a_run =
        ["master on ", "server", "worker", "shoal run: worker", "psd_run: worker", "  then ", "  hint: "];
    let sentence = |line: &str| said_by_a_run.iter().any(|start| line.starts_with(start));
    let lines = text.lines().map(|line| if sentence(line) { fold(line, "    ", WIDTH) } else { line.into() });
    lines.map(|line| line + "\n").collect()
}

/// What differs from one time to the next, and what stands for it.
#[derive(Default)]
pub struct Redactions(Vec<(String, String)>);

impl Redactions {
    pub fn replace(&mut self, what: &str, with: &str) {
        self.0.push((what.into(), with.into()));
    }

    pub fn apply(&self, text: &str) -> String {
        let known = self.0.iter().fold(text.to_string(), |text, (what, with)| text.replace(what, with));
        let mut out = String::new();
        let mut rest = known.as_str();
        while let Some(first) = rest.chars().next() {
            let whole = !out.ends_with(|c: char| c.is_ascii_alphanumeric());
            match SHAPES.iter().find_map(|(shape, word)| whole.then(|| Some((matches(shape, rest)?, word)))?) {
                Some((length, word)) => {
                    out.push_str(word);
                    rest = &rest[length..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }
}

/// `9`: a digit; `#`: any number of them; `x`: a hexadecimal digit; the rest as it is.
const SHAPES: [(&str, &str); 12] = [
    ("999999-999999-xxxxxx", "[run]"),
    ("99999999_999999", "[time]"),
    ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "[digest]"),
    ("after # min # s", "after [time]"),
    ("in # min # s", "in [time]"),
    ("after #.# s", "after [time]"),
    ("after # s", "after [time]"),
    ("in #.# s", "in [time]"),
    ("in # s", "in [time]"),
    ("pid #", "pid [pid]"),
    (".arriving.#", ".arriving.[pid]"),
    ("tcp://#.#.#.#:#", "tcp://[address]"),
];

/// How much of the text has this shape.
fn matches(shape: &str, text: &str) -> Option<usize> {
    let mut at = 0;
    for part in shape.chars() {
        let c = text[at..].chars().next();
        match part {
            '9' => at += c.filter(char::is_ascii_digit)?.len_utf8(),
            'x' => at += c.filter(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase())?.len_utf8(),
            '#' => {
                let digits = text[at..].chars().take_while(char::is_ascii_digit).count();
                at += (digits > 0).then_some(digits)?;
            }
            part => at += c.filter(|c| *c == part)?.len_utf8(),
        }
    }
    Some(at)
}
