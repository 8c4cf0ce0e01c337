//! How are the runs, until they are as far as asked?

use super::reach::of_launch;
use serde_json::Value;
use shoal_core::kubernetes::rows::{self, Goal, Row, Seeing};
use shoal_core::kubernetes::template::Kind;
use shoal_hosts::kubernetes::request::Selection;
use shoal_hosts::kubernetes::watch::{Followed, Look, View};
use shoal_hosts::kubernetes::{Connection, Failure, resource};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The kinds that a launch may have made, then pods, then what controllers could not do.
fn followed(launch: &str, namespace: &str) -> Vec<Followed> {
    let made = Kind::ALL.map(|kind| Followed {
        resource: resource::of_kind(kind, namespace),
        which: Selection::labels(of_launch(launch)),
        optional: false,
    });
    let refused = Followed {
        resource: resource::events(namespace),
        which: Selection { fields: Some("reason=FailedCreate".into()), ..Selection::default() },
        optional: true,
    };
    made.into_iter().chain([refused]).collect()
}

/// How long something has to be stuck before it is believed: volumes are bound and nodes taken note of within seconds.
const STEADY: Duration = Duration::from_secs(5);
const PODS: usize = 3;
const EVENTS: usize = 4;

fn rows_of(view: &View, names: Option<&[(Kind, &str)]>) -> Vec<Row> {
    let is_root = |object: &&Value| object["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty);
    let made = Kind::ALL.iter().enumerate();
    let made = made.flat_map(|(at, kind)| view.of(at).filter(is_root).map(|object| (*kind, object))).collect();
    let refused: BTreeMap<&str, &str> = view
        .of(EVENTS)
        .filter_map(|event| Some((event["involvedObject"]["uid"].as_str()?, event["message"].as_str()?)))
        .collect();
    rows::rows(&Seeing { made, pods: view.of(PODS).collect(), refused }, names)
}

/// How they are now; `None` if the server did not say so before `end`.
pub fn look(connection: &Connection, launch: &str, end: Instant) -> Result<Option<Vec<Row>>, Failure> {
    let mut rows = None;
    let now = |view: &View| {
        rows = view.complete.then(|| rows_of(view, None));
        if view.complete { Look::Done } else { Look::GoOn }
    };
    connection.follow(&followed(launch, &connection.namespace), end, now)?;
    Ok(rows)
}

/// Waits until they are as far as `goal`, until nothing will change any more, or until `end`: how they are then. A server that has told
/// nothing by then is an error: of nothing, everything would be true.
pub fn wait(
    connection: &Connection,
    launch: &str,
    names: &[(Kind, &str)],
    goal: Goal,
    end: Instant,
) -> Result<Vec<Row>, Failure> {
    let mut screen = Screen::default();
    let begun = Instant::now();
    let mut last: Option<Vec<Row>> = None;
    let looking = |view: &View| {
        screen.away(view.away.as_ref());
        if !view.complete {
            return Look::GoOn;
        }
        let rows = rows_of(view, Some(names));
        screen.show(&rows);
        let look = match rows::is_settled(&rows, goal) {
            true if rows::is_reached(&rows, goal) => Look::Done,
            true => Look::DoneAfter(STEADY),
            false => Look::GoOn,
        };
        last = Some(rows);
        look
    };
    let outcome = connection.follow(&followed(launch, &connection.namespace), end, looking);
    screen.end();
    outcome?;
    last.ok_or_else(|| Failure::no_answer(&connection.server, begun.elapsed()))
}

/// One line that changes at a terminal; elsewhere only what goes wrong, once.
#[derive(Default)]
pub struct Screen {
    shown: String,
    said: BTreeSet<String>,
    is_away: bool,
}

impl Screen {
    fn show(&mut self, rows: &[Row]) {
        self.line(rows::count(rows));
    }

    pub fn line(&mut self, text: String) {
        if std::io::stderr().is_terminal() && text != self.shown {
            eprint!("\r\x1b[K{text}");
            self.shown = text;
        }
    }

    pub fn away(&mut self, failure: Option<&Failure>) {
        match failure {
            Some(failure) if !self.is_away => {
                self.is_away = true;
                self.end();
                if self.said.insert(failure.what.clone()) {
                    eprintln!("{}; trying again", failure.what);
                }
            }
            None => self.is_away = false,
            Some(_) => {}
        }
    }

    pub fn end(&mut self) {
        if !self.shown.is_empty() {
            eprint!("\r\x1b[K");
            self.shown.clear();
        }
    }
}
