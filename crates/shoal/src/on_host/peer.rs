//! `shoal host peer`: listens, and dials whom it is told to, until its stdin ends. One process for both ends, because every session over
//! ssh counts where only a few are allowed.

use super::{dial, end_after, listen};
use shoal_core::checkup::network::{FromPeer, PEER_VERSION, ToPeer, line};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

const LIFE: Duration = Duration::from_secs(300);

pub fn main() -> ExitCode {
    end_after(LIFE);
    match converse() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&FromPeer::Failed { why });
            ExitCode::FAILURE
        }
    }
}

fn say(message: &FromPeer) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: stdin will end, too.
    let _ = out.write_all(line(message).as_bytes()).and_then(|()| out.flush());
}

fn converse() -> Result<(), String> {
    let mut secret = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        // The line is not repeated: it may be the one with the token.
        let message = serde_json::from_str(&line).map_err(|_| "a request could not be read".to_string())?;
        match (message, &secret) {
            (ToPeer::Hello { version, token }, None) => {
                if version != PEER_VERSION {
                    return Err(format!("the request is of version {version}, not {PEER_VERSION}"));
                }
                let port = listen::start(&token).map_err(|e| format!("no port to listen at: {e}"))?;
                secret = Some(token);
                say(&FromPeer::Listening { version: PEER_VERSION, port });
            }
            (ToPeer::Reach { targets }, Some(token)) => {
                say(&FromPeer::Reached { round_trip_ns: dial::reach(&targets, token) });
            }
            (ToPeer::Load { target, milliseconds }, Some(token)) => {
                say(&FromPeer::Loaded { bits_per_s: dial::load(&target, milliseconds, token) });
            }
            (ToPeer::Hello { .. }, Some(_)) => return Err("a second token".into()),
            (_, None) => return Err("no token was given".into()),
        }
    }
    Ok(())
}
