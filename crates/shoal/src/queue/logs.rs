//! The queue's side of `shoal logs`: what a run wrote, byte for byte, from wherever it is.

use super::connect::Queue;
use super::target;
use crate::args::logs::Args;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use shoal_core::queue::request::{Answer, Request};
use shoal_core::rank::Rank;
use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

pub fn show(queue: &mut Queue, args: &Args) -> Result<ExitCode, NotBegun> {
    if args.fleet.is_some() {
        return Err(NotBegun::Wrong("--fleet is for runs of `shoal run --detach`".into()));
    }
    let rank = match args.rank {
        None => 0,
        Some(Rank::Worker(rank)) => rank,
        Some(_) => return Err(NotBegun::Wrong("a gang of the queue has workers only: --rank worker1".into())),
    };
    let run = target::find_run(queue, &args.run)?;
    let mut last_attempt = None;
    queue.stream(
        &Request::Logs { run: run.clone(), attempt: args.attempt, follow: args.follow, rank },
        |answer, body| {
            if let Answer::Log { attempt } = answer {
                if last_attempt.is_some_and(|last| last != attempt) {
                    eprintln!("shoal logs: {run} was started again; this is attempt {attempt}");
                }
                last_attempt = Some(attempt);
                let mut out = std::io::stdout().lock();
                if out.write_all(body).and_then(|()| out.flush()).is_err() {
                    // Whoever read us (`| head`) has enough.
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    Ok(Exit::Success.into())
}
