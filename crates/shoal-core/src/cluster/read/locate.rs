//! Where in the file is this piece of a value? A value knows where it begins, and may go on over several lines.

use crate::diagnostic::Place;

/// How many lines of a value are looked through.
const FARTHEST: usize = 200;

/// The place of the `nth` (from 0) `piece` at or after `from`; `from` itself if the text is not there as such
/// (escapes, folded lines).
pub fn piece(text: &str, from: Place, piece: &str, nth: usize) -> Place {
    let mut left = nth;
    for (index, line) in text.lines().enumerate().skip(from.line - 1).take(FARTHEST) {
        let skip = if index == from.line - 1 { from.column - 1 } else { 0 };
        let start = line.char_indices().nth(skip).map_or(line.len(), |(at, _)| at);
        for (at, _) in line[start..].match_indices(piece) {
            if left == 0 {
                let column = line[..start + at].chars().count() + 1;
                return Place { line: index + 1, column, width: piece.chars().count() };
            }
            left -= 1;
        }
    }
    from
}

/// What stands behind a place on its line.
pub fn after(text: &str, at: Place) -> &str {
    let line = text.lines().nth(at.line.saturating_sub(1)).unwrap_or("");
    line.char_indices().nth(at.column - 1 + at.width).map_or("", |(start, _)| &line[start..])
}

/// What begins at a place on its line.
pub fn begins(text: &str, at: Place) -> Option<char> {
    text.lines().nth(at.line.saturating_sub(1)).and_then(|line| line.chars().nth(at.column - 1))
}

/// How wide what begins at a place is, up to and with its `end` on the same line; 1 if it ends on another.
pub fn width_to(text: &str, at: Place, end: char) -> usize {
    let line = text.lines().nth(at.line.saturating_sub(1)).unwrap_or("");
    line.chars().skip(at.column - 1).position(|c| c == end).map_or(1, |last| last + 1)
}
