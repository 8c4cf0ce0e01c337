//! How do the logs of all ranks of a host travel to somebody who follows them? As the warden's output does: frames with
//! rank and offset, `Trouble` for what cannot be read, `Bye` at the end.

use super::{TailError, list, tail};
use crate::frame::{self, OUTPUT};
use crate::proc;
use crate::protocol::{self, FromWarden};
use shoal_core::rank::Rank;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Sends the logs of one rank or of all, side by side. With `follow`, until these ranks are over.
pub fn send_logs(
    root: &Path,
    run: &str,
    rank: Option<Rank>,
    follow: bool,
    out: impl Write + Send,
) -> Result<(), TailError> {
    // A home that hosts share has the others' records too; those are theirs to read.
    let node = proc::node_name();
    let ranks = list::run(root, run).into_iter().flat_map(|r| r.ranks).filter(|r| r.machine.node == node);
    let ranks = ranks.map(|r| r.rank).filter(|r| rank.is_none_or(|wanted| wanted == *r));
    let ranks: Vec<Rank> = ranks.collect();
    let out = Mutex::new(out);
    let result = std::thread::scope(|scope| {
        let one = |rank: Rank| {
            let mut framed = Framed { out: &out, rank, offset: 0 };
            move || tail(root, run, rank, 0, follow, &mut framed).map(drop)
        };
        let threads: Vec<_> = ranks.iter().map(|rank| (*rank, scope.spawn(one(*rank)))).collect();
        let mut result = Ok(());
        for (rank, thread) in threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(TailError::Out(e))) => result = Err(TailError::Out(e)),
                Ok(Err(e)) => say(&out, &trouble(rank, e.to_string())).map_err(TailError::Out)?,
                Err(_) => say(&out, &trouble(rank, "its log could not be followed".into())).map_err(TailError::Out)?,
            }
        }
        result
    });
    result.and_then(|()| say(&out, &FromWarden::Bye).map_err(TailError::Out))
}

fn trouble(rank: Rank, what: String) -> FromWarden {
    FromWarden::Trouble { rank: Some(rank), what, hint: None }
}

fn say(out: &Mutex<impl Write>, message: &FromWarden) -> io::Result<()> {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    out.write_all(&protocol::encode_from_warden(message))?;
    out.flush()
}

/// One rank's way into the common stream: each write becomes a frame.
struct Framed<'a, W> {
    out: &'a Mutex<W>,
    rank: Rank,
    offset: u64,
}

impl<W: Write> Write for Framed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(frame::CHUNK)];
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&mut *out, OUTPUT, &protocol::output_head(self.rank, self.offset), bytes)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}
