//! What does somebody see who waits for a sweep?

use super::text::{cells_of, cut};
use crate::queue::Moment;
use crate::queue::request::SweepRow;

/// One line, never wider than `width`: `mlp  [=====>    ]  52/100 done, 4 running, 1 failed, 2 min left`.
pub fn progress(row: &SweepRow, now: Moment, width: usize) -> String {
    const BAR: usize = 30;
    const SMALLEST_BAR: usize = 8;
    let all = row.waiting + row.running + row.finished + row.failed + row.stopped;
    let over = row.finished + row.failed + row.stopped;
    let mut said = vec![format!("{}/{all} done", row.finished)];
    for (count, what) in [(row.running, "running"), (row.failed, "failed"), (row.stopped, "stopped")] {
        if count > 0 {
            said.push(format!("{count} {what}"));
        }
    }
    match (&row.stuck, row.paused, row.done_at) {
        (Some(why), _, _) => said.push(format!("nothing starts: {why}")),
        (None, true, _) => said.push("paused".into()),
        (None, false, Some(at)) if over < all => said.push(format!("{} left", left(at.saturating_sub(now)))),
        _ => {}
    }
    let said = said.join(", ");
    let room = width.saturating_sub(cells_of(&row.name) + cells_of(&said) + 6);
    if room < SMALLEST_BAR {
        return cut(&format!("{}  {said}", row.name), width);
    }
    let bar = room.min(BAR);
    let part = |count: u64| usize::try_from(count * bar as u64 / all.max(1)).unwrap_or(bar);
    let (done, busy) = (part(over), part(over + row.running));
    let marks = format!("{}{}{}", "=".repeat(done), "-".repeat(busy - done), " ".repeat(bar - busy));
    format!("{}  [{marks}]  {said}", row.name)
}

/// A duration in milliseconds as people say it.
pub fn left(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < 60 => format!("{seconds} s"),
        () if minutes < 60 => format!("{minutes} min"),
        () if hours < 24 => format!("{hours} h {} min", minutes % 60),
        () => format!("{days} d {} h", hours % 24),
    }
}
