//! What people see while nodes are set up: a line a node on a terminal, plain lines elsewhere, events as JSON where a program reads.

use super::transfer_screen::{PLAIN, size};
use crate::launch::screen::{WIDTH, fold};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use shoal_core::outcome::duration;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// More nodes than this are summed up, so that the table stays on the screen.
const MOST_LINES: usize = 40;
/// Columns below which a row has no columns of its own.
const NARROW: usize = 70;
/// Of the events that programs read (WIRE-1).
pub const EVENTS_VERSION: u32 = 1;
const DRAW_EVERY: Duration = Duration::from_millis(200);
/// Before that a rate would be a guess.
const SOON: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A table on a terminal, plain lines elsewhere; `output`: with what the commands print.
    People {
        output: bool,
    },
    Json,
}

/// What happened on a node.
pub enum Event<'e> {
    Doing(&'e str),
    /// Files are on their way; a `total` of 0 is not known.
    Sending {
        sent: u64,
        total: u64,
    },
    /// So many steps are ahead.
    Planned {
        steps: usize,
    },
    Begun {
        step: &'e str,
        what: &'e str,
    },
    Line {
        step: &'e str,
        text: &'e str,
    },
    Ended {
        step: &'e str,
        how: &'e str,
        ms: u64,
        good: bool,
    },
    /// Something worth a line of its own.
    Said(&'e str),
    Over {
        state: &'e str,
        good: bool,
    },
}

#[derive(Default)]
struct Row {
    name: String,
    step: String,
    k: usize,
    n: usize,
    since: Option<Instant>,
    /// Since when files are sent, and when that was last said where there is no table.
    sending: Option<(Instant, Instant)>,
    last: String,
    over: bool,
}

struct Inner {
    rows: Vec<Row>,
    bars: Option<(MultiProgress, Vec<ProgressBar>)>,
    style: Style,
    width: usize,
}

#[derive(Clone)]
pub struct Table(Arc<Mutex<Inner>>);

impl Table {
    pub fn new(style: Style, names: &[&str]) -> Table {
        let live = matches!(style, Style::People { .. }) && std::io::stderr().is_terminal();
        let bars = live.then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
            let plain = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = |_| all.add(ProgressBar::no_length().with_style(plain.clone()));
            // One more line where there are more nodes: for the rest of them.
            let bars = (0..names.len().min(MOST_LINES + 1)).map(bar).collect();
            (all, bars)
        });
        let row = |name: &&str| Row { name: (*name).into(), ..Row::default() };
        let rows = names.iter().map(row).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let inner = Arc::new(Mutex::new(Inner { rows, bars, style, width }));
        if live {
            tick(Arc::downgrade(&inner));
        }
        Table(inner)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked while drawing has left nothing that matters.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn tell(&self, i: usize, event: Event) {
        self.inner().tell(i, &event);
    }

    /// A line about all of it.
    pub fn say(&self, text: &str) {
        self.inner().say(text);
    }

    /// An event for programs.
    pub fn event(&self, kind: &str, fields: Value) {
        self.inner().event(kind, fields);
    }

    /// Leaves the table as it is and goes on below it.
    pub fn close(&self) {
        let mut inner = self.inner();
        inner.draw();
        if let Some((_, bars)) = inner.bars.take() {
            bars.iter().for_each(ProgressBar::abandon);
        }
    }
}

fn tick(inner: Weak<Mutex<Inner>>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(DRAW_EVERY);
            let Some(inner) = inner.upgrade() else { return };
            let Ok(inner) = inner.lock() else { return };
            inner.draw();
        }
    });
}

impl Inner {
    fn tell(&mut self, i: usize, event: &Event) {
        let plain = self.bars.is_none();
        let Some(row) = self.rows.get_mut(i) else { return };
        let name = row.name.clone();
        let mut line = None;
        match event {
            Event::Doing(what) => {
                if row.step != *what {
                    row.since = Some(Instant::now());
                }
                row.step = (*what).into();
            }
            Event::Sending { sent, total } => {
                let now = Instant::now();
                let (began, said) = row.sending.unwrap_or((now, now));
                row.step = "files".into();
                row.since = Some(began);
                row.last = on_its_way(*sent, *total, now - began);
                let is_due = now - said >= PLAIN;
                row.sending = Some((began, if is_due { now } else { said }));
                if is_due {
                    line = Some(format!("{name}: files: {}", row.last));
                    self.event("sending", json!({ "node": name, "sent": sent, "total": total }));
                }
            }
            Event::Planned { steps } => {
                row.n = *steps;
                row.k = 0;
            }
            Event::Begun { step, what } => {
                row.k += 1;
                row.sending = None;
                row.step = (*step).into();
                row.since = Some(Instant::now());
                row.last.clear();
                let what = shoal_core::document::node::short(what);
                let words = if step.ends_with(&what) { (*step).to_string() } else { format!("{step}: {what}") };
                line = Some(format!("{name}: [{}/{}] {words}", row.k, row.n));
                self.event("begun", json!({ "node": name, "step": step }));
            }
            Event::Line { step, text } => {
                row.last = (*text).into();
                if self.style == (Style::People { output: true }) {
                    line = Some(format!("{name} | {text}"));
                }
                self.event("line", json!({ "node": name, "step": step, "text": text }));
            }
            Event::Ended { step, how, ms, good } => {
                if !good {
                    line = Some(format!("{name}: {step}: {how}"));
                }
                self.event("ended", json!({ "node": name, "step": step, "how": how, "ms": ms, "good": good }));
            }
            Event::Said(text) => {
                self.say(&format!("{name}: {text}"));
                self.event("said", json!({ "node": name, "text": text }));
            }
            Event::Over { state, good } => {
                row.step = (*state).into();
                row.since = None;
                row.over = true;
                if *good {
                    row.last.clear();
                }
                self.event("node", json!({ "node": name, "state": state, "good": good }));
            }
        }
        if let Some(line) = line.filter(|_| plain) {
            self.say(&line);
        }
        self.draw();
    }

    fn say(&self, text: &str) {
        match (&self.bars, self.style) {
            (_, Style::Json) => {}
            // Folded by us: a line that the terminal folds would be counted as one.
            (Some((all, _)), _) => drop(all.println(fold(text, "  ", columns()))),
            (None, _) => eprintln!("{text}"),
        }
    }

    fn event(&self, kind: &str, mut fields: Value) {
        if self.style != Style::Json {
            return;
        }
        if let Some(map) = fields.as_object_mut() {
            map.insert("event".into(), json!(kind));
            map.insert("version".into(), json!(EVENTS_VERSION));
        }
        crate::say::line(fields);
    }

    fn draw(&self) {
        let Some((_, bars)) = &self.bars else { return };
        let columns = columns();
        let shown = self.rows.len().min(MOST_LINES);
        if let Some(bar) = bars.get(shown) {
            bar.set_message(rest(&self.rows[shown..]));
        }
        for (row, bar) in self.rows[..shown].iter().zip(bars) {
            let time = row.since.map(|at| duration(at.elapsed().as_millis() as u64)).unwrap_or_default();
            bar.set_message(line(row, &time, self.width, columns));
        }
    }
}

/// How far files are, how fast, and for how long still (pure).
fn on_its_way(sent: u64, total: u64, since: Duration) -> String {
    let rate = sent as f64 / since.as_secs_f64();
    let known = sent > 0 && since >= SOON;
    let speed = if known { format!(", {}/s", size(rate as u64)) } else { String::new() };
    match total {
        0 => format!("{}{speed}", size(sent)),
        _ => {
            let left = total.saturating_sub(sent) as f64 / rate;
            let left = if known { format!(", {} left", duration((left * 1000.0) as u64)) } else { String::new() };
            format!("{} of {}{speed}{left}", size(sent), size(total))
        }
    }
}

/// One row (pure). Where there is little room, what a node says is worth more than columns.
fn line(row: &Row, time: &str, width: usize, columns: usize) -> String {
    let Row { name, step, last, .. } = row;
    if columns < NARROW {
        let time = if time.is_empty() { String::new() } else { format!(" {time}") };
        return format!("{name} {step}{time} {last}");
    }
    let count = if row.n > 0 { format!("{}/{}", row.k, row.n) } else { String::new() };
    format!("{name:<width$}  {count:>5}  {step:<12} {time:>8}  {last}")
}

/// Those without a row of their own, by what they do (pure).
fn rest(rows: &[Row]) -> String {
    let mut doing: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        match doing.iter_mut().find(|(step, _)| *step == row.step) {
            Some((_, count)) => *count += 1,
            None => doing.push((&row.step, 1)),
        }
    }
    let doing: Vec<String> = doing.into_iter().map(|(step, count)| format!("{count} {step}")).collect();
    format!("and {} more: {}", rows.len(), doing.join(", "))
}

/// Of the terminal, now: people change it.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_a_row_are_summed_up() {
        let row = |step: &str| Row { step: step.into(), ..Row::default() };
        let rows = [row("setup 1"), row("connected"), row("setup 1"), row("up")];
        assert_eq!(rest(&rows), "and 4 more: 2 setup 1, 1 connected, 1 up");
    }

    #[test]
    fn files_on_their_way_have_a_rate_and_a_time_left() {
        let mib = |n: u64| n << 20;
        let told = |sent, total, ms| on_its_way(sent, total, Duration::from_millis(ms));
        assert_eq!(told(mib(50), mib(200), 5_000), "50.00 MiB of 200.00 MiB, 10.00 MiB/s, 15 s left");
        assert_eq!(told(mib(1), mib(200), 10), "1.00 MiB of 200.00 MiB");
        assert_eq!(told(0, mib(200), 5_000), "0 B of 200.00 MiB");
        assert_eq!(told(mib(50), 0, 5_000), "50.00 MiB, 10.00 MiB/s");
    }

    #[test]
    fn a_narrow_terminal_shows_what_nodes_say() {
        let (name, step, last) = ("node-1".to_string(), "setup 1".to_string(), "Collecting torch".to_string());
        let row = Row { name, step, k: 1, n: 3, last, ..Row::default() };
        assert_eq!(line(&row, "5.7 s", 8, 40), "node-1 setup 1 5.7 s Collecting torch");
        assert_eq!(line(&row, "5.7 s", 8, 80), "node-1      1/3  setup 1         5.7 s  Collecting torch");
        let over = Row { name: "node-1".into(), step: "up".into(), ..Row::default() };
        assert_eq!(line(&over, "", 8, 40).trim_end(), "node-1 up");
    }
}
