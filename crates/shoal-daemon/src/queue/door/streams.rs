//! Answers that go on: the output of a run, the progress of a sweep.

use super::session::Session;
use crate::queue::serve::logs::Piece;
use crate::queue::serve::message::{LogPlace, Message};
use crate::queue::serve::turn::refused;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shoal_core::queue::RunId;
use shoal_core::queue::line::ToHost;
use shoal_core::queue::request::Answer;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Between two looks at a sweep.
const LOOK: Duration = Duration::from_millis(200);
/// A row that did not change is said again after this long, so that both sides know that the other is there.
const REPEAT: Duration = Duration::from_secs(10);
/// A host that went away while its output was read may come back.
const AWAY: Duration = Duration::from_secs(30);
/// Asked again without anything new.
const MOST_AGAIN: u32 = 200;
/// A host that is there answers.
const ANSWER: Duration = Duration::from_secs(30);

/// Whether the client is still there, waiting this long for it to go, or to say something: then it is over too.
fn is_there(session: &Session<'_>, wait: Duration) -> bool {
    let mut fds = [PollFd::new(session.stream, PollFlags::IN | PollFlags::RDHUP)];
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    matches!(poll(&mut fds, Some(&wait)), Ok(0) | Err(rustix::io::Errno::INTR))
}

pub fn wait(session: &Session<'_>, sweep: &str) -> bool {
    let mut last = None;
    loop {
        let (reply, row) = sync_channel(1);
        if !session.shared.post(Message::Look { sweep: sweep.into(), reply }) {
            return false;
        }
        let Ok(row) = row.recv_timeout(ANSWER) else { return false };
        let Some((row, over)) = row else {
            return session.say(refused(format!("there is no sweep `{sweep}`"), ""), &[]);
        };
        let is_new = last.as_ref().is_none_or(|(at, last)| *last != row || Instant::now() > *at + REPEAT);
        if is_new && !session.say(Answer::Sweeps { sweeps: vec![row.clone()] }, &[]) {
            return false;
        }
        if over {
            return session.say(Answer::Done, &[]);
        }
        if is_new {
            last = Some((Instant::now(), row));
        }
        if !is_there(session, LOOK) {
            return false;
        }
    }
}

enum Part {
    /// All of it was said.
    End,
    /// The rest has to be asked for again.
    Again,
    None(String),
    Gone,
}

pub fn logs(session: &Session<'_>, run: RunId, number: Option<u32>, rank: u32, follow: bool) -> bool {
    let (mut at, mut attempt, mut away) = (0, None, None::<Instant>);
    let mut stalled = (0, 0);
    loop {
        let (reply, place) = sync_channel(1);
        let find = Message::FindLog { run: run.clone(), attempt: number.or(attempt), rank, reply };
        if !session.shared.post(find) {
            return false;
        }
        let place = match place.recv_timeout(ANSWER) {
            Ok(Ok(place)) => place,
            // Followed before it has started: it will.
            Ok(Err(_)) if follow && attempt.is_none() && number.is_none() && waits(session, &run) => {
                if !is_there(session, LOOK) {
                    return false;
                }
                continue;
            }
            Ok(Err(answer)) => return session.say(answer, &[]),
            Err(_) => return false,
        };
        attempt = Some(place.attempt.number);
        let Some((line, outbox)) = &place.line else {
            let since = *away.get_or_insert_with(Instant::now);
            // Only for one that was there a moment ago.
            if at > 0 && since.elapsed() < AWAY {
                if !is_there(session, LOOK) {
                    return false;
                }
                continue;
            }
            let why = format!("{} is away, and has the output of {}", place.host, place.attempt);
            return no_output(session, &place, at, why);
        };
        away = None;
        let reading = session.shared.logs.ask();
        session.shared.logs.on_line(reading.ask, *line);
        let ask = ToHost::Log { ask: reading.ask, attempt: place.attempt.clone(), from: at, follow, rank };
        let part =
            if outbox.tell(&ask) { read(session, &place, &reading.pieces, follow, &mut at) } else { Part::Again };
        session.shared.logs.done(reading.ask);
        match part {
            Part::End if follow && number.is_none() => match next_attempt(session, &run, place.attempt.number) {
                Some(next) => (attempt, at) = (Some(next), 0),
                None => return session.say(Answer::Done, &[]),
            },
            Part::End => return session.say(Answer::Done, &[]),
            Part::Again => {
                outbox.tell(&ToHost::CancelLog { ask: reading.ask });
                stalled = if stalled.0 == at { (at, stalled.1 + 1) } else { (at, 0) };
                if stalled.1 > MOST_AGAIN {
                    let why = format!("{} does not give the output of {} from byte {at} on", place.host, place.attempt);
                    return no_output(session, &place, at, why);
                }
                if !is_there(session, Duration::from_millis(20)) {
                    return false;
                }
            }
            // It stands in line, or has only just begun.
            Part::None(_) if follow && place.live && at == 0 => {
                if !is_there(session, LOOK) {
                    return false;
                }
            }
            Part::None(why) => return no_output(session, &place, at, why),
            Part::Gone => {
                outbox.tell(&ToHost::CancelLog { ask: reading.ask });
                return false;
            }
        }
    }
}

fn read(
    session: &Session<'_>,
    place: &LogPlace,
    pieces: &std::sync::mpsc::Receiver<Piece>,
    follow: bool,
    at: &mut u64,
) -> Part {
    let mut quiet = Instant::now();
    loop {
        match pieces.recv_timeout(LOOK) {
            Ok(Piece::Bytes { from, bytes, end }) => {
                quiet = Instant::now();
                if from != *at {
                    return Part::Again;
                }
                *at += bytes.len() as u64;
                let said = bytes.is_empty() || session.say(Answer::Log { attempt: place.attempt.number }, &bytes);
                if !said {
                    return Part::Gone;
                }
                if end {
                    return Part::End;
                }
            }
            Ok(Piece::None { why }) => return Part::None(why),
            Err(RecvTimeoutError::Disconnected) => return Part::Again,
            Err(RecvTimeoutError::Timeout) => {
                if !is_there(session, Duration::ZERO) {
                    return Part::Gone;
                }
                if !follow && quiet.elapsed() > ANSWER {
                    return Part::None(format!("{} does not answer", place.host));
                }
            }
        }
    }
}

/// Why there is none; of one that failed the last lines are here.
fn no_output(session: &Session<'_>, place: &LogPlace, at: u64, why: String) -> bool {
    if at == 0 && !place.tail.is_empty() {
        let bytes = place.tail.as_bytes();
        if !session.say(Answer::Log { attempt: place.attempt.number }, bytes) {
            return false;
        }
        return session.say(refused(why, "above are the last lines of it, which the queue has kept"), &[]);
    }
    let hint = if place.live { "the run goes on; ask again when its host is back" } else { "" };
    session.say(refused(why, hint), &[])
}

fn look(session: &Session<'_>, run: &RunId) -> Option<(shoal_core::queue::request::RunState, u32)> {
    use shoal_core::queue::Target;
    use shoal_core::queue::request::{Filter, Request};
    let filter = Filter { target: Some(Target::Run(run.clone())), ..Filter::default() };
    match session.ask(Request::Runs { filter, from: 0, limit: 1 }) {
        Answer::Runs { runs, .. } => runs.first().map(|row| (row.state, row.attempt)),
        _ => None,
    }
}

fn waits(session: &Session<'_>, run: &RunId) -> bool {
    use shoal_core::queue::request::RunState;
    look(session, run).is_some_and(|(state, _)| matches!(state, RunState::Waiting | RunState::Running))
}

/// The attempt after this one, waited for while the run is not over.
fn next_attempt(session: &Session<'_>, run: &RunId, last: u32) -> Option<u32> {
    use shoal_core::queue::request::RunState;
    loop {
        match look(session, run)? {
            (_, number) if number > last => return Some(number),
            (RunState::Waiting | RunState::Running, _) => {}
            _ => return None,
        }
        if !is_there(session, LOOK) {
            return None;
        }
    }
}
