//! How does somebody sit at a shell in a pod? Raw keys there, bytes back, and the window's size whenever it changes.

use crate::cluster::terminal;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use shoal_hosts::kubernetes::exec::{Session, Size};
use shoal_hosts::process::Exit;
use std::io::{self, Read, Write};
use std::time::Duration;

/// How often it is looked whether the command has ended, or the window changed.
const TURN: Duration = Duration::from_millis(50);
/// The rest of what was said, after the end.
const REST: Duration = Duration::from_secs(2);

/// The terminal as it was, again, whatever happens.
struct Raw(Termios);

impl Raw {
    fn of_stdin() -> io::Result<Raw> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

pub fn is_here() -> bool {
    terminal::is_here()
}

fn size() -> Option<Size> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some((size.ws_col, size.ws_row))
}

/// Gives this program's stdin, stdout and stderr to the session, byte for byte, until its command ends, or `stop` says so.
pub fn pass_on(session: Session, stop: &dyn Fn() -> bool) -> Exit {
    let Session { process, sizes: _sizes } = session;
    let (mut to, mut from, mut errors, mut end) = (process.to, process.from, process.errors, process.end);
    // Waits for input until this program ends; nobody needs it then.
    std::thread::spawn(move || drop(io::copy(&mut io::stdin(), &mut to)));
    let (said, all) = std::sync::mpsc::sync_channel(2);
    let also = said.clone();
    std::thread::spawn(move || {
        let _ = copy(&mut from, &mut io::stdout());
        let _ = said.send(());
    });
    std::thread::spawn(move || {
        let _ = copy(&mut errors, &mut io::stderr());
        let _ = also.send(());
    });
    let exit = loop {
        if let Some(exit) = end.wait(TURN) {
            break exit;
        }
        if stop() {
            return Exit::Cut;
        }
    };
    for _ in 0..2 {
        let _ = all.recv_timeout(REST);
    }
    exit
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = [0; 16 << 10];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            n => to.write_all(&bytes[..n]).and_then(|()| to.flush())?,
        }
    }
}

/// Gives this terminal to the session until its command ends, or `stop` says so; how it ended.
pub fn hold(session: Session, stop: &dyn Fn() -> bool) -> io::Result<Exit> {
    let Session { process, sizes } = session;
    let raw = Raw::of_stdin()?;
    let (mut to, mut from, mut end) = (process.to, process.from, process.end);
    // Waits for keys until this program ends; nobody needs it then.
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = io::stdin().read(&mut bytes) {
            if to.write_all(&bytes[..n]).is_err() {
                return;
            }
        }
    });
    let (said, all) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let _ = copy(&mut from, &mut io::stdout());
        let _ = said.send(());
    });
    let mut last = None;
    let exit = loop {
        let now = size();
        if now != last {
            last = now;
            // A queue that is full holds a size that is hardly older.
            let _ = now.map(|size| sizes.try_send(size));
        }
        if let Some(exit) = end.wait(TURN) {
            break exit;
        }
        if stop() {
            break Exit::Cut;
        }
    };
    let _ = all.recv_timeout(REST);
    drop(raw);
    Ok(exit)
}
