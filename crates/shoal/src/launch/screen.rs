//! What people see while a gang runs: a line a rank on a terminal, plain words elsewhere, events as JSON where a program reads.

use super::gather::Gather;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use shoal_core::follow::Follow;
use shoal_core::outcome::{Ending, duration};
use shoal_core::rank::Rank;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

/// More ranks than this are summed up, so that the table stays on the screen.
const MOST_LINES: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A table on a terminal; on anything else only what matters.
    Table,
    /// All output, prefixed by rank.
    Stream,
    Json,
}

pub struct Screen {
    style: Style,
    bars: Option<(MultiProgress, BTreeMap<Rank, ProgressBar>)>,
    memory: BTreeMap<Rank, u64>,
    names: usize,
    hosts: usize,
}

impl Screen {
    pub fn new(style: Style, ranks: &[(Rank, String)]) -> Screen {
        let names = ranks.iter().map(|(rank, _)| rank.to_string().len()).max().unwrap_or(0);
        let hosts = ranks.iter().map(|(_, host)| host.len()).max().unwrap_or(0);
        let live = style == Style::Table && std::io::stderr().is_terminal();
        let bars = live.then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
            let plain = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bars = ranks
                .iter()
                .take(MOST_LINES)
                .map(|(rank, _)| (*rank, all.add(ProgressBar::no_length().with_style(plain.clone()))));
            let bars = bars.collect();
            (all, bars)
        });
        Screen { style, bars, memory: BTreeMap::new(), names, hosts }
    }

    pub fn remember_memory(&mut self, rank: Rank, bytes: u64) {
        self.memory.insert(rank, bytes);
    }

    /// The table anew.
    pub fn draw(&self, follow: &Follow, gather: &Gather, now_ms: u64) {
        let Some((_, bars)) = &self.bars else { return };
        for member in follow.members() {
            let Some(bar) = bars.get(&member.rank) else { continue };
            let state = match (&member.ended, member.started_ms) {
                (Some((ending, ..)), _) => ending_word(ending),
                (None, Some(at)) => format!("up {}", duration(now_ms.saturating_sub(at))),
                (None, None) => "starting".into(),
            };
            let memory = self.memory.get(&member.rank).map_or_else(String::new, |b| size(*b));
            let last = gather.last_line(member.rank);
            let (names, hosts) = (self.names, self.hosts);
            bar.set_message(format!(
                "{:<names$}  {:<hosts$}  {state:<12} {memory:>8}  {last}",
                member.rank, member.host
            ));
        }
    }

    /// A line that stays, on stderr.
    pub fn say(&self, text: &str) {
        if self.style == Style::Json {
            return;
        }
        match &self.bars {
            Some((all, _)) => drop(all.println(text)),
            None => eprintln!("{text}"),
        }
    }

    /// An event, for programs.
    pub fn event(&self, kind: &str, mut fields: Value) {
        if self.style != Style::Json {
            return;
        }
        if let Some(map) = fields.as_object_mut() {
            map.insert("event".into(), json!(kind));
        }
        let _ = writeln!(std::io::stdout().lock(), "{fields}");
    }

    /// Leaves the table as it is and goes on below it.
    pub fn close(&mut self) {
        if let Some((_, bars)) = self.bars.take() {
            bars.values().for_each(ProgressBar::abandon);
        }
    }
}

pub fn ending_word(ending: &Ending) -> String {
    match ending {
        Ending::Exited(0) => "done".into(),
        Ending::Exited(code) => format!("exit {code}"),
        Ending::Signaled(signal) => format!("signal {signal}"),
        Ending::OutOfMemory => "no memory".into(),
        Ending::NotStarted { .. } => "not started".into(),
        Ending::Unreachable { .. } => "not reached".into(),
        Ending::Lost { .. } => "lost".into(),
        Ending::Stopped => "stopped".into(),
    }
}

/// Sentences are folded after this many columns.
pub const WIDTH: usize = 100;

/// As wide as people say in COLUMNS that they want it, or as their terminal is; sentences never wider than is good to read.
pub fn width() -> usize {
    let columns: Option<usize> = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal =
        || rustix::termios::tcgetwinsize(std::io::stderr()).ok().map(|size| usize::from(size.ws_col).min(WIDTH));
    columns.or_else(terminal).filter(|columns| *columns >= NARROWEST).unwrap_or(WIDTH)
}

/// Who says less does not mean it.
const NARROWEST: usize = 20;

/// A sentence over as many lines as it takes, the later ones indented. What is in backticks is there to be copied and stays whole.
pub fn fold(text: &str, indent: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let mut ticks = 0;
        let ends = |(_, c): &(usize, char)| {
            ticks += usize::from(*c == '`');
            *c == ' ' && ticks % 2 == 0
        };
        let end = rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at);
        let word = &rest[..end];
        let length = word.chars().count();
        if column > indent.len() && column + length > width {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        }
        let space = if end < rest.len() { " " } else { "" };
        out.push_str(word);
        out.push_str(space);
        column += length + 1;
        rest = &rest[end + space.len()..];
    }
    out
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib >= 1024.0 { format!("{:.1} GB", mib / 1024.0) } else { format!("{mib:.0} MB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_folded_and_commands_are_not() {
        assert_eq!(fold("one two three", "  ", 8), "one two\n  three");
        assert_eq!(fold("  do `a b c d` now", "  ", 9), "  do\n  `a b c d`\n  now");
        assert_eq!(fold("", "  ", 9), "");
    }
}
