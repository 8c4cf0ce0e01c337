//! Says why runs are where they are.

use super::run::NotBegun;
use crate::args::why::Args;
use crate::exit::Exit;
use crate::launch::screen;
use crate::queue::connect::{Queue, Start};
use crate::queue::lists::word;
use crate::queue::{target, times};
use serde_json::json;
use shoal_core::queue::Moment;
use shoal_core::queue::request::{Answer, Request, WhyRow};
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    let request = Request::Why { target: target::find(&mut queue, &args.target)? };
    let reasons = match queue.ask(&request)? {
        Answer::Why { reasons } => reasons,
        other => return Err(queue.odd(&request, &other)),
    };
    match args.json {
        true => crate::say::line(json!({ "reasons": reasons })),
        false => crate::say::out(text(&reasons, times::now(), screen::width())),
    }
    Ok(Exit::Success.into())
}

/// Runs with the same reason are one paragraph. (pure)
fn text(reasons: &[WhyRow], now: Moment, width: usize) -> String {
    let mut groups: Vec<(&WhyRow, Vec<&WhyRow>)> = Vec::new();
    for row in reasons {
        match groups.iter_mut().find(|(first, _)| (first.state, &first.reason) == (row.state, &row.reason)) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((row, vec![row])),
        }
    }
    let mut out = String::new();
    for (first, rows) in groups {
        let whose = match rows.as_slice() {
            [one] => one.run.to_string(),
            [one, two] => format!("{} and {}", one.run, two.run),
            many => format!("{} and {} more", first.run, many.len() - 1),
        };
        let starts: Vec<Moment> = rows.iter().filter_map(|row| row.starts_at).filter(|at| *at > now).collect();
        let start = match (starts.iter().min(), starts.iter().max()) {
            (Some(first), Some(last)) if times::clock(*first, now) == times::clock(*last, now) => {
                format!("; probably starts in {} (at {})", times::coarse(first - now), times::clock(*first, now))
            }
            (Some(first), Some(last)) => format!(
                "; the first of them probably starts in {} (at {}), the last at {}",
                times::coarse(first - now),
                times::clock(*first, now),
                times::clock(*last, now)
            ),
            _ => String::new(),
        };
        let line = format!("{whose}: {}: {}{start}", word(first.state), first.reason);
        out.push_str(&screen::fold(&line, "    ", width));
        out.push('\n');
    }
    if out.is_empty() {
        out.push_str("nothing of it is there\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::RunId;
    use shoal_core::queue::request::RunState;

    #[test]
    fn one_paragraph_a_reason() {
        let row = |rep, reason: &str, starts_at| WhyRow {
            run: RunId { sweep: "mlp".into(), cell: 1, rep },
            state: RunState::Waiting,
            reason: reason.into(),
            code: "slots".into(),
            starts_at,
            forever: false,
        };
        let rows =
            [row(0, "all slots are taken", None), row(1, "all slots are taken", None), row(2, "it is paused", None)];
        assert_eq!(
            text(&rows, 0, 100),
            "mlp:1.0 and mlp:1.1: waiting: all slots are taken\nmlp:1.2: waiting: it is paused\n"
        );
        let soon = text(&[row(0, "all slots are taken", Some(65_000))], 0, 100);
        assert!(soon.contains("probably starts in 1 min 5 s (at "), "{soon}");
    }
}
