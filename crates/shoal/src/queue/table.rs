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
/// Long texts are cut to this before anything else is left out for them.
const TELLING: usize = 24;

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
    let natural: Vec<(usize, usize)> = shown.clone();
    shrink(&mut shown, width, TELLING);
    while total(&shown) > width {
        let Some(at) = (0..shown.len()).max_by_key(|at| columns[shown[*at].0].spare) else { break };
        if columns[shown[at].0].spare == 0 {
            break;
        }
        shown.remove(at);
    }
    // Nothing more can be left out.
    shrink(&mut shown, width, READABLE);
    // What was left out may have made room.
    while total(&shown) < width {
        let wanted = |k: usize| natural.iter().find(|(known, _)| *known == k).map_or(0, |(_, width)| *width);
        let Some((_, short)) = shown.iter_mut().find(|(k, width)| *width < wanted(*k)) else { break };
        *short += 1;
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

fn total(shown: &[(usize, usize)]) -> usize {
    shown.iter().map(|(_, width)| width + 2).sum::<usize>().saturating_sub(2)
}

/// The widest is cut, and the next, until all fit or none is wider than `least`. What a line is about stays whole: people copy it.
fn shrink(shown: &mut [(usize, usize)], width: usize, least: usize) {
    while total(shown) > width {
        let others = shown.iter_mut().filter(|(k, width)| *k > 0 && *width > least);
        let Some((_, widest)) = others.max_by_key(|(_, width)| *width) else { break };
        *widest -= 1;
    }
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
    fn a_long_text_is_cut_before_others_go_for_it() {
        let columns = [left("RUN", 0, 20), left("STATE", 0, 60), left("HOST", 2, 30), left("WHY", 3, 100)];
        let rows = [row(["a:0", "failed: there is no program of this name", "vm", "mend it and submit it again"])];
        let text = render(&columns, &rows, 62);
        assert_eq!(
            text.lines().next().map(|line| line.split_whitespace().collect()),
            Some(vec!["RUN", "STATE", "HOST", "WHY"])
        );
        assert!(text.contains("failed: there is no") && text.contains("mend it and submit"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 62), "{text}");
        // Less room: the last goes, and the state has what it had.
        let text = render(&columns, &rows, 50);
        assert!(text.contains("failed: there is no program of this ...  vm"), "{text}");
    }

    #[test]
    fn columns_with_nothing_in_them_are_not_shown() {
        assert_eq!(render(&COLUMNS, &[row(["a", "", "", ""])], 80), "RUN\na\n");
        assert_eq!(render(&COLUMNS, &[], 80), "RUN  N  HOST  WHY\n");
    }
}
