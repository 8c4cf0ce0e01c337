//! Which names does `node[01-16].lab` stand for? And which range stands for these names?

use thiserror::Error;

/// More hosts than this in one fleet is a slip (`[1-99999999]`), not a lab.
pub const MOST_HOSTS: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RangeError {
    #[error("`{0}` is no range; expected numbers such as [1-4,9] or [01-16]")]
    NotARange(String),
    #[error("the range `{0}` runs backwards")]
    Backwards(String),
    #[error("the numbers of the range `{0}` differ in length; write leading zeros in both or in neither")]
    Widths(String),
    #[error("a bracket is not closed, or not opened")]
    Unbalanced,
    #[error("the range stands for more than {MOST_HOSTS} names")]
    TooMany,
}

/// All names a text stands for, in order. Text without brackets stands for itself.
pub fn expand(text: &str) -> Result<Vec<String>, RangeError> {
    let mut names = vec![String::new()];
    let mut rest = text;
    while let Some(open) = rest.find(['[', ']']) {
        let (before, bracket) = rest.split_at(open);
        let inside = bracket.strip_prefix('[').ok_or(RangeError::Unbalanced)?;
        let (inside, after) = inside.split_once(']').ok_or(RangeError::Unbalanced)?;
        let numbers = numbers(inside)?;
        if names.len().saturating_mul(numbers.len()) > MOST_HOSTS {
            return Err(RangeError::TooMany);
        }
        names =
            names.iter().flat_map(|name| numbers.iter().map(move |number| format!("{name}{before}{number}"))).collect();
        rest = after;
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

fn numbers(inside: &str) -> Result<Vec<String>, RangeError> {
    let mut all = Vec::new();
    for part in inside.split(',').map(str::trim) {
        let not_a_range = || RangeError::NotARange(inside.into());
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| digits).ok_or_else(not_a_range)
        };
        let (low, high) = (number(first)?, number(last)?);
        if high < low {
            return Err(RangeError::Backwards(part.into()));
        }
        let padded = |text: &str| text.len() > 1 && text.starts_with('0');
        if (padded(first) || padded(last)) && first.len() != last.len() {
            return Err(RangeError::Widths(part.into()));
        }
        if (high - low) as usize >= MOST_HOSTS - all.len().min(MOST_HOSTS) {
            return Err(RangeError::TooMany);
        }
        let width = if padded(first) { first.len() } else { 0 };
        all.extend((low..=high).map(|n| format!("{n:0width$}")));
    }
    Ok(all)
}

/// The same names, shorter: neighbours that count up by one become a range. `expand` of the parts gives them back.
pub fn fold<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut names = names.into_iter().peekable();
    while let Some(first) = names.next() {
        let series = names.peek().and_then(|next| Series::of(first, next));
        let Some(mut series) = series else {
            parts.push(first.into());
            continue;
        };
        while names.next_if(|next| series.continues_with(next)).is_some() {
            series.last += 1;
        }
        parts.push(series.to_string());
    }
    parts
}

/// Names that differ only in one number, which counts up.
struct Series<'n> {
    before: &'n str,
    first: &'n str,
    after: &'n str,
    last: u32,
}

impl<'n> Series<'n> {
    /// The series two names would begin.
    fn of(name: &'n str, next: &str) -> Option<Series<'n>> {
        // Brackets and colons mean something else in names; those are left alone.
        if name.contains(['[', ']', ':']) {
            return None;
        }
        let numbers = name
            .char_indices()
            .filter(|(at, c)| c.is_ascii_digit() && !name[..*at].ends_with(|before: char| before.is_ascii_digit()));
        numbers
            .map(|(at, _)| {
                let tail = &name[at..];
                let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
                (&name[..at], &tail[..end], &tail[end..])
            })
            .filter(|(_, digits, _)| digits.len() <= 9)
            .filter_map(|(before, first, after)| Some(Series { before, first, after, last: first.parse().ok()? }))
            .find(|series| series.continues_with(next))
    }

    fn written(&self, number: u32) -> String {
        let width = if self.first.len() > 1 && self.first.starts_with('0') { self.first.len() } else { 0 };
        format!("{number:0width$}")
    }

    fn continues_with(&self, name: &str) -> bool {
        let next = self.written(self.last.saturating_add(1));
        let padded = self.first.len() > 1 && self.first.starts_with('0');
        let fits = next.len() <= 9 && (!padded || next.len() == self.first.len());
        fits && name.strip_prefix(self.before).and_then(|rest| rest.strip_suffix(self.after)) == Some(&next)
    }
}

impl std::fmt::Display for Series<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{}-{}]{}", self.before, self.first, self.written(self.last), self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_stand_for_names() {
        for (text, names) in [
            ("node", vec!["node"]),
            ("node[1-3]", vec!["node1", "node2", "node3"]),
            ("node[08-10].lab", vec!["node08.lab", "node09.lab", "node10.lab"]),
            ("10.0.0.[1-2,9]", vec!["10.0.0.1", "10.0.0.2", "10.0.0.9"]),
            ("r[1-2]n[1-2]", vec!["r1n1", "r1n2", "r2n1", "r2n2"]),
        ] {
            assert_eq!(expand(text).expect(text), names);
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (text, error) in [
            ("n[1-", RangeError::Unbalanced),
            ("n1]", RangeError::Unbalanced),
            ("n[]", RangeError::NotARange("".into())),
            ("n[a-c]", RangeError::NotARange("a-c".into())),
            ("n[1--2]", RangeError::NotARange("1--2".into())),
            ("n[3-1]", RangeError::Backwards("3-1".into())),
            ("n[01-100]", RangeError::Widths("01-100".into())),
            ("n[1-99999999]", RangeError::TooMany),
            ("n[1-200][1-200]", RangeError::TooMany),
            ("n[1-9999999999999]", RangeError::NotARange("1-9999999999999".into())),
        ] {
            assert_eq!(expand(text), Err(error), "{text}");
        }
        assert_eq!(expand("n[1-10000]").map(|names| names.len()), Ok(MOST_HOSTS));
    }

    #[test]
    fn names_fold_into_ranges() {
        for (names, parts) in [
            (vec!["n1", "n2", "n3"], vec!["n[1-3]"]),
            (vec!["n9", "n10"], vec!["n[9-10]"]),
            (vec!["n09", "n10", "x"], vec!["n[09-10]", "x"]),
            (vec!["10.0.0.1", "10.0.1.1"], vec!["10.0.[0-1].1"]),
            (vec!["n1", "n3", "n3"], vec!["n1", "n3", "n3"]),
            (vec!["fe80::1", "fe80::2"], vec!["fe80::1", "fe80::2"]),
            (vec![], vec![]),
        ] {
            assert_eq!(fold(names), parts);
        }
    }

    proptest! {
        #[test]
        fn folded_names_expand_to_themselves(names in prop::collection::vec("(n|r1n)(0?[0-9]|1[0-2])(\\.a)?", 0..20)) {
            let parts = fold(names.iter().map(String::as_str));
            let back: Vec<String> = parts.iter().flat_map(|part| expand(part).expect("valid")).collect();
            prop_assert_eq!(back, names);
        }
    }
}
