//! How does one follow the log of a rank that somebody else started?

use super::{RankRecord, State, list};
use shoal_core::rank::Rank;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Error)]
pub enum TailError {
    #[error("this host knows no {rank} of run {run}")]
    Unknown { run: String, rank: Rank },
    #[error("the log {path} of {rank} cannot be read: {source}")]
    Log { rank: Rank, path: String, source: io::Error },
    #[error("the output cannot be written: {0}")]
    Out(io::Error),
}

/// Copies the log of a rank from `offset` of its output to `out`. With `follow`, until the rank is over and everything
/// was copied. Returns the offset reached.
pub fn tail(
    root: &Path,
    run: &str,
    rank: Rank,
    offset: u64,
    follow: bool,
    out: &mut impl Write,
) -> Result<u64, TailError> {
    let mut known =
        list::run(root, run).into_iter().flat_map(|r| r.ranks.into_iter().map(move |k| (r.folder.clone(), k)));
    let known = known.find(|(_, r)| r.rank == rank);
    let (folder, record) = known.ok_or_else(|| TailError::Unknown { run: run.into(), rank })?;
    let find = || list::rank(&folder, rank);
    let failed = |source| TailError::Log { rank, path: record.log.display().to_string(), source };
    let mut file: Option<File> = None;
    let mut offset = offset;
    loop {
        // Looked at before the copy: what was written before its end is copied after it.
        let now = find();
        let over = now.as_ref().is_none_or(|r| r.state() != State::Alive);
        if file.is_none() {
            match File::open(&record.log) {
                Ok(opened) => file = Some(opened),
                Err(e) if e.kind() == io::ErrorKind::NotFound && !over && follow => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound && over => return Ok(offset),
                Err(e) => return Err(failed(e)),
            }
        }
        if let Some(file) = &file {
            let record = now.as_ref().unwrap_or(&record);
            offset = copy(file, record, offset, out).map_err(|e| e.unwrap_or_else(&failed))?;
        }
        if over || !follow {
            return Ok(offset);
        }
        std::thread::sleep(POLL);
    }
}

/// `Err(Err(_))` is the log's failure, `Err(Ok(_))` the output's.
#[allow(clippy::result_large_err)]
fn copy(
    file: &File,
    record: &RankRecord,
    mut offset: u64,
    out: &mut impl Write,
) -> Result<u64, Result<TailError, io::Error>> {
    // After its end, another run may have gone on in the same file.
    let end = record.ending.as_ref().map(|_| record.log_bytes);
    let mut buf = vec![0u8; crate::frame::CHUNK];
    loop {
        let room = end.map_or(buf.len() as u64, |end| end.saturating_sub(offset).min(buf.len() as u64)) as usize;
        let n = file.read_at(&mut buf[..room], record.log_start + offset).map_err(Err)?;
        if n == 0 {
            out.flush().map_err(|e| Ok(TailError::Out(e)))?;
            return Ok(offset);
        }
        out.write_all(&buf[..n]).map_err(|e| Ok(TailError::Out(e)))?;
        offset += n as u64;
    }
}
