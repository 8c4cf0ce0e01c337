//! What is wrong in a file, and where: shown the way rustc shows it, as plain text without colour.

use std::fmt;
use thiserror::Error;

/// A part of one line. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
    /// How many characters the carets cover; at least one is shown.
    pub width: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Error,
    /// The file can be used, but not all of it is.
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub file: String,
    pub at: Place,
    /// The line `at` points into.
    pub source: String,
    pub message: String,
    pub expected: Option<String>,
    pub found: Option<String>,
    /// What is close to what was found.
    pub suggestion: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    #[must_use]
    pub fn expected(mut self, what: impl Into<String>) -> Self {
        self.expected = Some(what.into());
        self
    }

    #[must_use]
    pub fn found(mut self, what: impl Into<String>) -> Self {
        self.found = Some(what.into());
        self
    }

    #[must_use]
    pub fn suggestion(mut self, what: Option<&str>) -> Self {
        self.suggestion = what.map(Into::into);
        self
    }

    #[must_use]
    pub fn help(mut self, what: impl Into<String>) -> Self {
        self.help = Some(what.into());
        self
    }

    /// What stands beside the carets, and what has no room there.
    fn notes(&self) -> (Option<String>, Vec<String>) {
        let difference = match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => Some(format!("expected {expected}, found {found}")),
            (Some(expected), None) => Some(format!("expected {expected}")),
            (None, found) => found.as_ref().map(|found| format!("found {found}")),
        };
        let meant = self.suggestion.as_ref().map(|word| format!("did you mean `{word}`?"));
        let help = self.help.as_ref().map(|text| format!("help: {text}"));
        match meant {
            Some(_) => (meant, difference.into_iter().chain(help).collect()),
            None => (difference, help.into_iter().collect()),
        }
    }
}

/// Wider lines are cut around the place: a file may be one line of a megabyte.
const WIDEST_LINE: usize = 100;

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let Place { line, column, width } = self.at;
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{kind}: {}", self.message)?;
        writeln!(f, "{margin}--> {}:{line}:{column}", self.file)?;
        writeln!(f, "{margin} |")?;
        let (shown, before) = window(&self.source, column);
        writeln!(f, "{number} | {shown}")?;
        let (label, notes) = self.notes();
        let room = shown.chars().count().saturating_sub(before.chars().count());
        let carets = "^".repeat(width.min(room).max(1));
        let label = label.map_or_else(String::new, |label| format!(" {label}"));
        write!(f, "{margin} | {before}{carets}{label}")?;
        for note in notes {
            write!(f, "\n{margin} = {note}")?;
        }
        Ok(())
    }
}

/// The part of a line worth showing, and the blank that leads under its `column`. Tabs stay tabs in both, so that they align.
fn window(line: &str, column: usize) -> (String, String) {
    let skip = if column > WIDEST_LINE * 3 / 4 { column - WIDEST_LINE / 2 } else { 0 };
    let visible = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    let shown: String = line.chars().skip(skip).take(WIDEST_LINE).map(visible).collect();
    let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
    let mut before: String = shown.chars().take(column - 1 - skip.min(column - 1)).map(blank).collect();
    // A place past the end of the line (something is missing there) still gets its caret.
    let missing = (column - 1 - skip.min(column - 1)).saturating_sub(before.chars().count());
    before.push_str(&" ".repeat(missing));
    (shown.trim_end().to_string(), before)
}

/// All that is wrong in one file, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Diagnostics(pub Vec<Diagnostic>);

/// More than this many are counted, not shown.
const MOST_SHOWN: usize = 20;

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().take(MOST_SHOWN).enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        if self.0.len() > MOST_SHOWN {
            write!(f, "\n\nand {} more", self.0.len() - MOST_SHOWN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(source: &str, column: usize, width: usize) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            file: "lab.yaml".into(),
            at: Place { line: 12, column, width },
            source: source.into(),
            message: "unknown field `usr`".into(),
            expected: None,
            found: None,
            suggestion: None,
            help: None,
        }
    }

    #[test]
    fn it_reads_like_rustc() {
        let shown = sample("  - usr: alice", 5, 3)
            .expected("one of `name`, `user`")
            .suggestion(Some("user"))
            .help("see the docs")
            .to_string();
        let wanted = "\
error: unknown field `usr`
  --> lab.yaml:12:5
   |
12 |   - usr: alice
   |     ^^^ did you mean `user`?
   = expected one of `name`, `user`
   = help: see the docs";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn tabs_align_and_long_lines_are_cut_around_the_place() {
        let shown = sample("\tusr", 2, 3).to_string();
        assert!(shown.contains("12 | \tusr\n   | \t^^^"), "{shown}");
        let long = format!("{}usr{}", "x".repeat(5000), "y".repeat(5000));
        let shown = sample(&long, 5001, 3).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[3].find("usr"), lines[4].find("^^^"));
        assert!(shown.lines().all(|line| line.len() < 120), "{shown}");
    }

    #[test]
    fn odd_places_are_shown_and_do_not_panic() {
        for (source, column) in [("", 1), ("", 9), ("ab", 3), ("ab", 500)] {
            assert!(sample(source, column, 0).to_string().ends_with('^'), "{source} {column}");
        }
    }

    #[test]
    fn a_flood_is_counted() {
        let many = Diagnostics(vec![sample("usr", 1, 3); 23]).to_string();
        assert!(many.ends_with("and 3 more"), "{many}");
    }
}
