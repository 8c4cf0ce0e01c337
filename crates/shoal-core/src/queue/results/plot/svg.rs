//! How is the picture drawn? SVG is text; nothing is needed to make it.

use super::Line;
use super::scale::Scale;
use crate::queue::results::numbers::Summary;
use crate::queue::results::text::cut;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 500.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 64.0;
const LEFT: f64 = 84.0;
/// Room for the legend; without one, a margin.
const RIGHT: f64 = 230.0;
const MARGIN: f64 = 30.0;
/// So many lines have a name beside the picture.
const MOST_NAMED: usize = 16;
/// Letters that fit there.
const LONGEST_NAME: usize = 28;
const LONGEST_TICK: usize = 16;
/// More room below for names that stand aslant.
const ASLANT: f64 = 56.0;

/// Told apart by people who see colours differently, and after eight of them by their marks.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31"];

pub(super) struct Picture<'p> {
    pub title: &'p str,
    pub over: &'p str,
    pub metric: &'p str,
    /// The parameters that tell the lines apart.
    pub others: &'p [&'p str],
    pub horizontal: &'p Scale,
    pub vertical: &'p Scale,
    pub lines: &'p [Line],
}

/// Where the lines are: left, right, top, bottom.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    aslant: bool,
}

pub(super) fn draw(picture: &Picture) -> String {
    let named = picture.lines.len() > 1;
    let right = WIDTH - if named { RIGHT } else { MARGIN };
    // Names that would run into each other stand aslant.
    let ticks = &picture.horizontal.ticks;
    let longest = ticks.iter().map(|(_, label)| label.chars().count().min(LONGEST_TICK)).max().unwrap_or(0);
    let aslant = longest as f64 * 7.5 * ticks.len() as f64 > right - LEFT;
    let bottom = HEIGHT - BOTTOM - if aslant { ASLANT } else { 0.0 };
    let frame = Frame { left: LEFT, right, top: TOP, bottom, aslant };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n<title>{}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n",
        escaped(picture.title)
    );
    text(&mut svg, frame.left, 26.0, "start", 15, &cut(picture.title, 96));
    axes(&mut svg, picture, &frame);
    for (index, line) in picture.lines.iter().enumerate() {
        curve(&mut svg, picture, &frame, index, line);
    }
    if named {
        legend(&mut svg, picture, &frame);
    }
    svg.push_str("</svg>\n");
    svg
}

impl Frame {
    fn x(&self, scale: &Scale, value: f64) -> f64 {
        self.left + scale.at(value) * (self.right - self.left)
    }

    fn y(&self, scale: &Scale, value: f64) -> f64 {
        self.bottom - scale.at(value) * (self.bottom - self.top)
    }
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($svg:expr, $($words:tt)*) => {{ let _ = writeln!($svg, $($words)*); }};
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, size: u32, words: &str) {
    put!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"#222222\">{}</text>",
        escaped(words)
    );
}

fn axes(svg: &mut String, picture: &Picture, frame: &Frame) {
    let Frame { left, right, top, bottom, aslant } = frame;
    for (value, label) in &picture.vertical.ticks {
        let y = frame.y(picture.vertical, *value);
        put!(svg, "<line x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e4e4e4\"/>");
        text(svg, left - 8.0, y + 4.5, "end", 12, label);
    }
    let ticks = &picture.horizontal.ticks;
    // Where even aslant they are too close, only some are written.
    let every = (15.0 * ticks.len() as f64 / (right - left)).ceil().max(1.0) as usize;
    for (index, (value, label)) in ticks.iter().enumerate() {
        let x = frame.x(picture.horizontal, *value);
        put!(svg, "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" stroke=\"#eeeeee\"/>");
        let label = cut(label, LONGEST_TICK);
        match *aslant {
            _ if index % every != 0 => {}
            true => {
                let y = bottom + 14.0;
                put!(svg, "<g transform=\"rotate(-40 {x:.1} {y:.1})\">");
                text(svg, x, y, "end", 11, &label);
                svg.push_str("</g>\n");
            }
            false => text(svg, x, bottom + 18.0, "middle", 12, &label),
        }
    }
    put!(svg, "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#444444\"/>");
    let named = |name: &str, scale: &Scale| cut(name, 60) + if scale.is_log { " (log)" } else { "" };
    text(svg, (left + right) / 2.0, HEIGHT - 12.0, "middle", 13, &named(picture.over, picture.horizontal));
    let middle = (top + bottom) / 2.0;
    put!(svg, "<g transform=\"rotate(-90 20 {middle:.1})\">");
    text(svg, 20.0, middle, "middle", 13, &named(picture.metric, picture.vertical));
    svg.push_str("</g>\n");
}

fn curve(svg: &mut String, picture: &Picture, frame: &Frame, index: usize, line: &Line) {
    let colour = COLOURS[index % COLOURS.len()];
    put!(svg, "<g stroke=\"{colour}\" fill=\"{colour}\">");
    // Side by side by a few points, so that intervals at the same place can be told apart.
    let count = picture.lines.len() as f64;
    let aside = (index as f64 - (count - 1.0) / 2.0) * (14.0 / count).min(4.0);
    let x_of = |x: f64| frame.x(picture.horizontal, x) + aside;
    let place = |(x, point): &(f64, Summary)| format!("{:.1},{:.1}", x_of(*x), frame.y(picture.vertical, point.mean));
    let places: Vec<String> = line.points.iter().map(place).collect();
    if places.len() > 1 {
        put!(svg, "<polyline points=\"{}\" fill=\"none\" stroke-width=\"1.8\"/>", places.join(" "));
    }
    for (x, point) in &line.points {
        let x = x_of(*x);
        if let Some(half) = point.half.filter(|half| *half > 0.0) {
            let (low, high) =
                (frame.y(picture.vertical, point.mean - half), frame.y(picture.vertical, point.mean + half));
            let (a, b) = (x - 4.0, x + 4.0);
            put!(
                svg,
                "<path d=\"M{a:.1} {high:.1}H{b:.1}M{x:.1} {high:.1}V{low:.1}M{a:.1} {low:.1}H{b:.1}\" fill=\"none\" stroke-width=\"1.2\"/>"
            );
        }
        mark(svg, x, frame.y(picture.vertical, point.mean), index / COLOURS.len());
    }
    svg.push_str("</g>\n");
}

/// A disk; a square; a triangle.
fn mark(svg: &mut String, x: f64, y: f64, kind: usize) {
    match kind % 3 {
        0 => put!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\" stroke=\"none\"/>"),
        1 => put!(svg, "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\" stroke=\"none\"/>", x - 3.5, y - 3.5),
        _ => {
            let (a, b, low, high) = (x - 4.2, x + 4.2, y + 3.4, y - 4.2);
            put!(svg, "<path d=\"M{x:.1} {high:.1}L{b:.1} {low:.1}H{a:.1}Z\" stroke=\"none\"/>");
        }
    }
}

fn legend(svg: &mut String, picture: &Picture, frame: &Frame) {
    let x = frame.right + 16.0;
    // Every value has its share of the room: lines that differ in the last one have to look different.
    let share = LONGEST_NAME / picture.others.len().max(1);
    let row = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| cut(word, share.max(5).saturating_sub(2))).collect();
        cut(&words.join(", "), LONGEST_NAME)
    };
    text(svg, x, frame.top + 6.0, "start", 12, &row(picture.others));
    for (index, line) in picture.lines.iter().take(MOST_NAMED).enumerate() {
        let y = frame.top + 24.0 + 21.0 * index as f64;
        let colour = COLOURS[index % COLOURS.len()];
        let end = x + 20.0;
        put!(svg, "<g stroke=\"{colour}\" fill=\"{colour}\">");
        put!(svg, "<line x1=\"{x:.1}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke-width=\"1.8\"/>");
        mark(svg, x + 10.0, y, index / COLOURS.len());
        svg.push_str("</g>\n");
        let values: Vec<&str> = line.label.iter().map(String::as_str).collect();
        text(svg, x + 27.0, y + 4.0, "start", 12, &row(&values));
    }
    if picture.lines.len() > MOST_NAMED {
        let y = frame.top + 28.0 + 21.0 * MOST_NAMED as f64;
        text(svg, x, y, "start", 12, &format!("and {} more", picture.lines.len() - MOST_NAMED));
    }
}

/// XML has no place for control characters at all.
fn escaped(words: &str) -> String {
    let mut safe = String::new();
    for c in words.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push(' '),
            _ => safe.push(c),
        }
    }
    safe
}
