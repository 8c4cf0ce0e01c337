//! Text in columns: how wide, how marked, how wrapped.

use super::{Finding, Level};

/// How it is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub width: usize,
    pub colour: bool,
}

/// Longer names of hosts are cut.
const LONGEST_NAME: usize = 24;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub level: Level,
}

impl Cell {
    pub fn new(level: Level, text: &str) -> Cell {
        Cell { text: format!("{}{text}", mark(level)), level }
    }

    pub fn of(finding: Option<&Finding>) -> Cell {
        finding.map_or_else(|| Cell::new(Level::Unknown, ""), |finding| Cell::new(finding.level, &finding.cell))
    }
}

/// Marks and not colours alone: output is piped, and not everybody sees red.
pub fn mark(level: Level) -> &'static str {
    match level {
        Level::Green | Level::Unknown => "",
        Level::Yellow => "! ",
        Level::Red => "!! ",
    }
}

pub fn paint(text: &str, level: Level, look: Look) -> String {
    let code = match level {
        Level::Green => 32,
        Level::Unknown => 90,
        Level::Yellow => 33,
        Level::Red => 31,
    };
    if look.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
}

pub fn width(text: &str) -> usize {
    text.chars().count()
}

pub fn name(text: &str) -> String {
    if width(text) <= LONGEST_NAME {
        return text.into();
    }
    format!("{}..", text.chars().take(LONGEST_NAME - 2).collect::<String>())
}

/// A heading and a row for each line of the table; the first column is the rows' names.
pub struct Grid {
    pub corner: String,
    pub heads: Vec<String>,
    pub rows: Vec<(String, Vec<Cell>)>,
}

impl Grid {
    fn widths(&self) -> (usize, Vec<usize>) {
        let first = self.rows.iter().map(|(name, _)| width(name)).max().unwrap_or(0).max(width(&self.corner));
        let column = |i: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(i)).map(|cell| width(&cell.text));
            cells.max().unwrap_or(0).max(width(&self.heads[i]))
        };
        (first, (0..self.heads.len()).map(column).collect())
    }

    pub fn fits(&self, look: Look) -> bool {
        let (first, columns) = self.widths();
        first + columns.iter().map(|column| column + 2).sum::<usize>() <= look.width
    }

    /// Columns that do not fit beside the others go below, with the names again.
    pub fn render(&self, look: Look) -> String {
        let (first, columns) = self.widths();
        let mut out = String::new();
        let mut from = 0;
        while from < columns.len() {
            let mut room = look.width.saturating_sub(first);
            let fitting = columns[from..].iter().take_while(|column| {
                let fits = room >= **column + 2;
                room = room.saturating_sub(**column + 2);
                fits
            });
            // One at least, or it would never end.
            let to = from + fitting.count().max(1);
            if from > 0 {
                out.push('\n');
            }
            let heads = (from..to).map(|i| pad(&self.heads[i], columns[i], None, look));
            push_line(&mut out, &self.corner, first, heads);
            for (name, cells) in &self.rows {
                let cells = (from..to).map(|i| match cells.get(i) {
                    Some(cell) => pad(&cell.text, columns[i], Some(cell.level), look),
                    None => pad("", columns[i], None, look),
                });
                push_line(&mut out, name, first, cells);
            }
            from = to;
        }
        out
    }
}

fn push_line(out: &mut String, name: &str, first: usize, cells: impl Iterator<Item = String>) {
    let mut line = format!("{name:<first$}");
    cells.for_each(|cell| line.push_str(&format!("  {cell}")));
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Spaces stay outside the colour, so that they can be cut off at the end of a line.
fn pad(text: &str, to: usize, level: Option<Level>, look: Look) -> String {
    let spaces = " ".repeat(to.saturating_sub(width(text)));
    match level {
        // Most cells are green; colour is for what is not.
        Some(level) if level != Level::Green => format!("{}{spaces}", paint(text, level, look)),
        _ => format!("{text}{spaces}"),
    }
}

/// `lead` and `text` in lines of at most `look.width`, those after the first indented.
pub fn wrap(lead: &str, text: &str, indent: usize, look: Look) -> String {
    let mut out = lead.to_string();
    let mut used = width(lead);
    // Whether the line has no word yet; a word that fits nowhere stays whole.
    let mut fresh = true;
    for word in text.split(' ') {
        if !fresh && used + 1 + width(word) > look.width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        } else if !fresh {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += width(word);
        fresh = false;
    }
    out.replace(TIE, " ")
}

/// Between words that stay on one line.
const TIE: char = '\u{a0}';

/// A number and its unit, say, that `wrap` does not part.
pub fn tie(text: &str) -> String {
    text.replace(' ', &TIE.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look { width: 20, colour: false };

    #[test]
    fn long_text_is_wrapped_under_itself() {
        assert_eq!(wrap("!! ", "a, b: one two three four", 3, PLAIN), "!! a, b: one two\n   three four");
        // A word that fits nowhere stays whole.
        assert_eq!(wrap("  ", "x aaaaaaaaaaaaaaaaaaaaaaaaaaa y", 2, PLAIN), "  x\n  aaaaaaaaaaaaaaaaaaaaaaaaaaa\n  y");
    }

    #[test]
    fn what_is_tied_stays_together() {
        assert_eq!(
            wrap("", &format!("it took about {} more", tie("3.5 ms")), 2, PLAIN),
            "it took about 3.5 ms\n  more"
        );
        assert_eq!(wrap("", &format!("it took us about {}", tie("3.5 ms")), 2, PLAIN), "it took us about\n  3.5 ms");
    }

    #[test]
    fn columns_that_do_not_fit_go_below() {
        let cell = |text: &str| Cell::new(Level::Green, text);
        let grid = Grid {
            corner: "HOST".into(),
            heads: ["one", "two", "three"].map(Into::into).to_vec(),
            rows: vec![
                ("n1".into(), vec![cell("ok"), Cell::new(Level::Red, "bad"), cell("ok")]),
                ("n2".into(), vec![cell("ok"), cell("ok"), cell("ok")]),
            ],
        };
        assert!(!grid.fits(PLAIN));
        let expected = "HOST  one  two\nn1    ok   !! bad\nn2    ok   ok\n\nHOST  three\nn1    ok\nn2    ok\n";
        assert_eq!(grid.render(PLAIN), expected);
        let painted = grid.render(Look { width: 80, colour: true });
        assert!(painted.contains("\x1b[31m!! bad\x1b[0m  ok"), "{painted:?}");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(name("node01"), "node01");
        assert_eq!(name("gpu-workstation-17.lab.example.org"), "gpu-workstation-17.lab..");
    }
}
