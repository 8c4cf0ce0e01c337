//! A prediction as people read it: the layers that matter, two rows of totals, and what the step waits for.

use super::model::{LayerOf, Model};
use shoal_core::checkup::table::{Look, tie, wrap};
use shoal_sync::scheme::words::{bytes, flops, rate, seconds};
use shoal_sync::scheme::{Bound, Conditions, LayerForecast, Prediction, Scheme};

/// More rows hide those that matter.
const MOST_ROWS: usize = 24;
const LONGEST_NAME: usize = 28;

pub struct Shown<'a> {
    pub model: &'a Model,
    pub batch: u64,
    pub link: f64,
    pub lab: &'a Conditions,
    /// Where the speed of products comes from, in a word.
    pub speed_is: &'a str,
    pub planned: &'a Prediction,
    pub dense: &'a Prediction,
    pub all: bool,
}

pub fn render(shown: &Shown<'_>, look: Look) -> String {
    let mut out = heading(shown, look.width);
    out.push('\n');
    out.push_str(&layers(shown, look.width));
    out.push('\n');
    out.push_str(&totals(shown));
    out.push('\n');
    out.push_str(&verdict(shown, look.width));
    out
}

fn heading(shown: &Shown<'_>, width: usize) -> String {
    let lab = shown.lab;
    let mut words = vec![
        format!("{}: batch {}", shown.model.name, shown.batch),
        format!("{} gradients", bytes(4.0 * shown.model.elements() as f64)),
        if lab.workers == 1 { "1 worker".into() } else { format!("{} workers", lab.workers) },
    ];
    if lab.per_host > 1 {
        words.push(format!("{} on a host", lab.per_host));
    }
    if lab.servers > 0 {
        words.push(format!("{} servers", lab.servers));
    }
    words.push(rate(shown.link));
    words.push(format!("round trip {}", seconds(lab.round_trip)));
    words.push(format!("{} ({})", flops(lab.flops), shown.speed_is));
    fold(&words.iter().map(|word| tie(word)).collect::<Vec<_>>().join(", "), 0, width)
}

fn layers(shown: &Shown<'_>, width: usize) -> String {
    let forecast: Vec<(&LayerOf, &LayerForecast)> = shown.model.layers.iter().zip(&shown.planned.layers).collect();
    let with_gradient = || forecast.iter().filter(|(_, layer)| layer.choice.is_some());
    let time = |layer: &LayerForecast| layer.choice.as_ref().map_or(0.0, |choice| choice.seconds);
    // The dearest ones, in the order of the model.
    let mut times: Vec<f64> = with_gradient().map(|(_, layer)| time(layer)).collect();
    times.sort_by(|a, b| b.total_cmp(a));
    let limit = if shown.all { 0.0 } else { times.get(MOST_ROWS).copied().unwrap_or(0.0) };
    let matters = |layer: &LayerForecast| time(layer) > limit || limit == 0.0;

    let mut rows = vec![["LAYER", "SHAPE", "SCHEME", "SENT", "TIME", "WHY"].map(String::from)];
    for (of, layer) in with_gradient().filter(|(_, layer)| matters(layer)) {
        let Some(choice) = &layer.choice else { continue };
        rows.push([
            cut(&layer.name),
            of.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x"),
            choice.scheme.to_string(),
            bytes(choice.bytes),
            seconds(choice.seconds),
            choice.why.clone(),
        ]);
    }
    let rest: Vec<_> =
        with_gradient().filter(|(_, layer)| !matters(layer)).filter_map(|(_, l)| l.choice.as_ref()).collect();
    if let [first, ..] = rest.as_slice() {
        let scheme =
            if rest.iter().all(|c| c.scheme == first.scheme) { first.scheme.to_string() } else { "mixed".into() };
        rows.push([
            format!("{} others", rest.len()),
            "-".into(),
            scheme,
            bytes(rest.iter().map(|choice| choice.bytes).sum()),
            seconds(rest.iter().map(|choice| choice.seconds).sum()),
            "small; --all shows them".into(),
        ]);
    }
    columns(&rows, width)
}

/// The last column goes below its row where it has no room beside.
fn columns(rows: &[[String; 6]], width: usize) -> String {
    let wide = |k: usize| rows.iter().map(|row| row[k].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(wide).collect();
    let before: usize = widths.iter().map(|w| w + 2).sum();
    let mut out = String::new();
    for row in rows {
        let [name, shape, scheme, sent, time, why] = row;
        let [a, b, c, d, e] = [widths[0], widths[1], widths[2], widths[3], widths[4]];
        let line = format!("{name:<a$}  {shape:<b$}  {scheme:<c$}  {sent:>d$}  {time:>e$}");
        out.push_str(&line);
        if before + why.chars().count() <= width {
            out.push_str(&format!("  {why}\n"));
        } else {
            out.push('\n');
            out.push_str(&fold(&format!("    {why}"), 4, width));
        }
    }
    out
}

fn totals(shown: &Shown<'_>) -> String {
    let row = |name: &str, p: &Prediction| {
        [
            name.to_string(),
            seconds(p.seconds),
            seconds(p.compute),
            seconds(p.rebuild),
            seconds(p.waiting),
            seconds(p.wire),
            bytes(p.sent),
        ]
    };
    let heads = ["A STEP", "TAKES", "COMPUTE", "REBUILD", "WAITING", "LINK BUSY", "SENT"].map(String::from);
    let rows = [heads, row("as planned", shown.planned), row("all dense", shown.dense)];
    let wide = |k: usize| rows.iter().map(|row| row[k].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; 7]| {
        let first = format!("{:<1$}", row[0], wide(0));
        let cells = (1..7).map(|k| format!("  {:>1$}", row[k], wide(k)));
        format!("{first}{}\n", cells.collect::<String>())
    };
    rows.iter().map(line).collect()
}

fn verdict(shown: &Shown<'_>, width: usize) -> String {
    let (planned, dense) = (shown.planned, shown.dense);
    let gradients = planned.layers.iter().filter_map(|layer| layer.choice.as_ref());
    if shown.lab.workers == 1 {
        return "One worker sends nothing.\n".into();
    }
    let waits = match planned.bound {
        Bound::Compute => "Most of the step is compute",
        Bound::Wire => "The step waits mostly for the wire",
        Bound::Rebuild => "The step goes mostly into rebuilding gradients from factors",
    };
    let other = gradients.filter(|choice| choice.scheme != Scheme::Dense).count();
    let gain = dense.seconds / planned.seconds;
    let gain = match other {
        0 => "all dense is the best there is".to_string(),
        _ if gain >= 1.005 => {
            format!("{gain:.2} times as fast as all dense, with {} of its bytes", share(planned.sent, dense.sent))
        }
        _ if gain > 0.995 => format!("as fast as all dense, with {} of its bytes", share(planned.sent, dense.sent)),
        _ => format!("all dense would be {:.2} times as fast, its transfers being hidden behind compute", 1.0 / gain),
    };
    let mut text = fold(&format!("{waits}; {gain}."), 0, width);
    if shown.speed_is == "assumed" {
        let hint = "The speed of your processors is a guess: --flops gives it, --measure takes this machine's.";
        text.push_str(&fold(hint, 0, width));
    }
    text
}

fn share(part: f64, whole: f64) -> String {
    match 100.0 * part / whole {
        percent if percent >= 10.0 => format!("{percent:.0} %"),
        percent => format!("{percent:.1} %"),
    }
}

fn cut(name: &str) -> String {
    let flat = name.chars().map(|c| if c.is_control() { ' ' } else { c });
    let (letters, long) = (name.chars().count(), name.chars().count() > LONGEST_NAME);
    // The end of a layer's name says more than its beginning.
    if long { format!("..{}", flat.skip(letters - LONGEST_NAME + 2).collect::<String>()) } else { flat.collect() }
}

/// Lines of at most `width`, with a newline after each; those after the first indented.
fn fold(text: &str, indent: usize, width: usize) -> String {
    wrap("", text, indent, Look { width, colour: false }) + "\n"
}
