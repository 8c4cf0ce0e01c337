//! What this program does on a host for a launcher elsewhere.

use crate::args::host::{Args, Part};
use crate::later::ask::{STOP_VERSION, StopAnswer};
use shoal_core::rank::Rank;
use shoal_daemon::protocol::PREAMBLE;
use shoal_daemon::queue;
use shoal_daemon::records::{self, StopError};
use std::io::{BufWriter, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

pub fn run(args: Args) -> ExitCode {
    match args.part {
        Part::Warden { args } => shoal_daemon::warden::main(args, &["host", "keeper"]),
        Part::Keeper { .. } => shoal_daemon::keeper::main(),
        Part::Probe => crate::on_host::probe::main(),
        Part::Peer => crate::on_host::peer::main(),
        Part::Agent { connect: Some(queue), .. } => crate::queue::call::main(&queue),
        Part::Agent { store: Some(store), pool: Some(pool), .. } => crate::queue::pool::agent(&store, &pool),
        Part::Pod { notes } => crate::on_host::pod::main(&notes),
        Part::Agent { store, .. } => queue::agent::main(queue::agent::Args::new(&store.unwrap_or_default())),
        Part::QueueKeeper { store } => queue::keeper::main(&store),
        Part::Guard { words } => queue::keeper::guard::main(words),
        Part::Setup => crate::on_host::setup::main(),
        Part::List { run } => list(run.as_deref()),
        Part::Tail { run, rank, follow } => tail(&run, rank, follow),
        Part::Stop { run, rank, grace_ms } => stop(&run, rank, Duration::from_millis(grace_ms)),
        Part::Files { send, room } => crate::on_host::files::main(send, room),
        Part::Digest => {
            let digest = std::env::current_exe().and_then(|me| shoal_hosts::ssh::deliver::digest_of(&me));
            match digest {
                Ok(digest) => {
                    crate::say::line(digest);
                    ExitCode::SUCCESS
                }
                Err(e) => {
                    eprintln!("shoal: cannot read its own file: {e}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}

/// Says at once that it is us: a login may have printed something, and whoever asked waits for a sign of life.
fn begin() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(PREAMBLE)?;
    out.flush()
}

fn answer(answer: &impl serde::Serialize) -> ExitCode {
    let written = serde_json::to_vec(answer).map_err(std::io::Error::from).and_then(|bytes| {
        let mut out = std::io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()
    });
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn list(run: Option<&str>) -> ExitCode {
    if begin().is_err() {
        return ExitCode::FAILURE;
    }
    answer(&records::listing(&records::root(), run))
}

fn stop(run: &str, rank: Option<Rank>, grace: Duration) -> ExitCode {
    if begin().is_err() {
        return ExitCode::FAILURE;
    }
    let root = records::root();
    let (known, stopped, problem) = match records::stop(&root, run, rank, grace) {
        Ok(stopped) => (true, stopped, None),
        Err(StopError::UnknownRun(_) | StopError::UnknownRank { .. }) => (false, Vec::new(), None),
        Err(e) => (true, Vec::new(), Some(e.to_string())),
    };
    let ids = if known { Vec::new() } else { records::listing(&root, Some(run)).ids };
    answer(&StopAnswer { version: STOP_VERSION, known, stopped, problem, ids })
}

fn tail(run: &str, rank: Option<Rank>, follow: bool) -> ExitCode {
    if begin().is_err() {
        return ExitCode::FAILURE;
    }
    std::thread::spawn(|| {
        // Whoever asked is gone when our stdin ends; a quiet rank would never let us notice otherwise.
        let _ = std::io::copy(&mut std::io::stdin().lock().by_ref(), &mut std::io::sink());
        std::process::exit(0);
    });
    let out = BufWriter::with_capacity(64 << 10, std::io::stdout());
    match records::send_logs(&records::root(), run, rank, follow, out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
