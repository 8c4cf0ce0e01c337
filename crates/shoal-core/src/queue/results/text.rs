//! How does a table look in a terminal, however narrow it is?

use super::numbers::{digits, written};
use super::table::{Cell, Kind, Table};
use crate::queue::render::text::word;

/// No column is cut below this, and none is wider than the other from the start. Numbers are never cut: half of one is another one.
const NARROWEST: usize = 6;
const WIDEST: usize = 40;
const GAP: &str = "  ";

impl Table {
    /// No line is wider than `width` columns: texts are cut, and then whole columns left out, from the right, which is said.
    pub fn text(&self, width: usize) -> String {
        let width = width.max(20);
        let heads = self.columns.iter().map(|column| clean(&column.name)).collect();
        let rows: Vec<Vec<String>> =
            std::iter::once(heads).chain(self.lines.iter().map(|line| line.iter().map(shown).collect())).collect();
        let least: Vec<usize> = (0..self.columns.len()).map(|column| self.least(column)).collect();
        let (widths, left_out) = fitting(&rows, &least, width);
        let mut text = String::new();
        for row in &rows {
            let cells = row
                .iter()
                .zip(&widths)
                .zip(&self.columns)
                .map(|((cell, width), column)| padded(&cut(cell, *width), *width, is_text(&column.kind)));
            text.push_str(cells.collect::<Vec<_>>().join(GAP).trim_end());
            text.push('\n');
        }
        if left_out > 0 {
            let names: Vec<&str> = self.columns[widths.len()..].iter().map(|column| column.name.as_str()).collect();
            text.push_str(&cut(&format!("not shown: {}", clean(&names.join(", "))), width));
            text.push('\n');
        }
        text
    }

    /// What stands above numbers may be cut.
    fn least(&self, column: usize) -> usize {
        let number = |cell: &&Cell| matches!(cell, Cell::Count(_) | Cell::Number(_) | Cell::Mean(_));
        let numbers = self.lines.iter().filter_map(|line| line.get(column)).filter(number);
        numbers.map(|cell| cells_of(&shown(cell))).max().unwrap_or(0).max(NARROWEST)
    }
}

/// A cell as text, not cut.
pub fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Nothing => "-".into(),
        Cell::Text(text) => clean(text),
        Cell::Count(count) => count.to_string(),
        Cell::Value(value) => clean(&word(value)),
        Cell::Number(number) => digits(*number, 5),
        Cell::Mean(summary) => written(summary),
    }
}

/// Text of programs must not move the cursor.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn is_text(kind: &Kind) -> bool {
    matches!(kind, Kind::Id | Kind::Host | Kind::Folder | Kind::Parameter(_))
}

/// The widths of those columns that have room, and how many have none.
fn fitting(rows: &[Vec<String>], least: &[usize], width: usize) -> (Vec<usize>, usize) {
    let columns = rows.first().map_or(0, Vec::len);
    let natural =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cells_of(cell)).max().unwrap_or(0);
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    let mut widths: Vec<usize> = (0..columns).map(natural).collect();
    if total(&widths) > width {
        // Where there is room, paths stay whole: they are there to be copied.
        widths.iter_mut().zip(least).for_each(|(one, least)| *one = (*one).min(WIDEST.max(*least)));
    }
    loop {
        if total(&widths) <= width {
            return (widths.clone(), columns - widths.len());
        }
        let cuttable = (0..widths.len()).filter(|at| widths[*at] > least[*at]);
        match cuttable.max_by_key(|at| widths[*at]) {
            Some(widest) => widths[widest] -= 1,
            None if widths.len() > 1 => drop(widths.pop()),
            None => widths.iter_mut().for_each(|one| *one = width.min(*one)),
        }
    }
}

fn padded(text: &str, width: usize, left: bool) -> String {
    let blank = " ".repeat(width.saturating_sub(cells_of(text)));
    if left { format!("{text}{blank}") } else { format!("{blank}{text}") }
}

/// At most so wide, with dots where something is missing.
pub fn cut(text: &str, width: usize) -> String {
    if cells_of(text) <= width {
        return text.into();
    }
    let dots = ".".repeat(width.min(3));
    let mut short = String::new();
    let mut used = dots.len();
    for c in text.chars() {
        used += cells_of_char(c);
        if used > width {
            break;
        }
        short.push(c);
    }
    short + &dots
}

/// How many columns of a terminal a text takes, near enough: letters of East Asia and pictures take two.
pub fn cells_of(text: &str) -> usize {
    text.chars().map(cells_of_char).sum()
}

fn cells_of_char(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
