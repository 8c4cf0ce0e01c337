//! How does a table fit on the screen? Columns as wide as what is in them; where that is too wide, the least important ones go. (pure)

use crate::launch::screen;
use std::borrow::Cow;

/// One column: its head, and how it behaves.
#[derive(Debug, Clone)]
pub struct Column {
    pub head: Cow<'static, str>,
    /// Numbers.
    pub right: bool,
    /// Higher ones are left out first where there is no room; 0 is never left out.
    pub spare: u8,
    /// Cut to this many characters at most.
    pub most: usize,
}

pub const fn left(head: &'static str, spare: u8, most: usize) -> Column {
    Column { head: Cow::Borrowed(head), right: false, spare, most }
}

/// A parameter or a metric: never left out.
pub fn named(head: &str) -> Column {
    Column { head: Cow::Owned(head.into()), right: false, spare: 0, most: 40 }
}

pub const fn right(head: &'static str, spare: u8) -> Column {
    Column { head: Cow::Borrowed(head), right: true, spare, most: 40 }
}

/// Columns are not cut below this.
const READABLE: usize = 6;

/// As a terminal of this width shows it. Columns in which every row is empty are left out.
pub fn render(columns: &[Column], rows: &[Vec<String>], width: usize) -> String {
    let cell = |row: &[String], k: usize| cut(&flat(row.get(k).map_or("", String::as_str)), columns[k].most);
    let mut shown: Vec<(usize, usize)> = columns
        .iter()
        .enumerate()
        .filter_map(|(k, column)| {
            let widest = rows.iter().map(|row| cell(row, k).chars().count()).max().unwrap_or(0);
            (widest > 0 || rows.is_empty()).then_some((k, widest.max(column.head.chars().count())))
        })
        .collect();
    let total = |shown: &[(usize, usize)]| shown.iter().map(|(_, width)| width + 2).sum::<usize>().saturating_sub(2);
    while total(&shown) > width {
        let Some(at) = (0..shown.len()).max_by_key(|at| columns[shown[*at].0].spare) else { break };
        if columns[shown[at].0].spare == 0 {
            break;
        }
        shown.remove(at);
    }
    // Nothing more can be left out: the widest is cut, and the next, until it fits or nothing could be read any more. What a line is
    // about stays whole: people copy it.
    while total(&shown) > width {
        let others = shown.iter_mut().filter(|(k, width)| *k > 0 && *width > READABLE);
        let Some((_, widest)) = others.max_by_key(|(_, width)| *width) else { break };
        *widest -= 1;
    }
    let line = |text: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = shown
            .iter()
            .map(|(k, width)| {
                let text = cut(&text(*k), *width);
                if columns[*k].right { format!("{text:>width$}") } else { format!("{text:<width$}") }
            })
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let mut out = line(&|k| flat(&columns[k].head));
    for row in rows {
        out.push_str(&line(&|k| cell(row, k)));
    }
    out
}

/// How wide the screen is: the terminal, or what COLUMNS says; a file is as wide as it takes.
pub fn width() -> usize {
    use std::io::IsTerminal;
    if std::env::var_os("COLUMNS").is_some() {
        return screen::width();
    }
    let out = std::io::stdout();
    if !out.is_terminal() {
        return usize::MAX;
    }
    match rustix::termios::tcgetwinsize(&out) {
        Ok(size) if size.ws_col >= 20 => size.ws_col.into(),
        _ => screen::WIDTH,
    }
}

pub fn flat(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

pub fn cut(text: &str, most: usize) -> String {
    match text.chars().count() <= most {
        true => text.into(),
        false => format!("{}...", text.chars().take(most.saturating_sub(3)).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [left("RUN", 0, 20), right("N", 1), left("HOST", 3, 10), left("WHY", 2, 12)];

    fn row(cells: [&str; 4]) -> Vec<String> {
        cells.map(String::from).into()
    }

    #[test]
    fn wide_and_narrow() {
        let rows = [row(["mlp:1.0", "3", "node1", "a long\nreason it is"]), row(["mlp:10.0", "12", "node22", ""])];
        let wide = render(&COLUMNS, &rows, 80);
        assert_eq!(wide, "RUN        N  HOST    WHY\nmlp:1.0    3  node1   a long re...\nmlp:10.0  12  node22\n");
        let narrow = render(&COLUMNS, &rows, 28);
        assert_eq!(narrow, "RUN        N  WHY\nmlp:1.0    3  a long re...\nmlp:10.0  12\n");
        let least = render(&COLUMNS, &rows, 1);
        assert_eq!(least, "RUN\nmlp:1.0\nmlp:10.0\n");
    }

    #[test]
    fn columns_with_nothing_in_them_are_not_shown() {
        assert_eq!(render(&COLUMNS, &[row(["a", "", "", ""])], 80), "RUN\na\n");
        assert_eq!(render(&COLUMNS, &[], 80), "RUN  N  HOST  WHY\n");
    }
}
