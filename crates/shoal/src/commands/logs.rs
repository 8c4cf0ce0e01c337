//! Shows what ranks have written, from all hosts of a run side by side.

use super::run::NotBegun;
use crate::args::logs::Args;
use crate::exit::Exit;
use crate::later::ask::Asker;
use crate::later::places::{self, Place};
use crate::later::{check_id, say_unreached, unknown};
use crate::launch::gather::Gather;
use crate::launch::program::{Broken, broken};
use crate::queue;
use crate::queue::whose::{Whose, whose};
use shoal_core::outcome::LOST;
use shoal_core::rank::Rank;
use shoal_daemon::frame::{self, FROM_WARDEN_LIMIT, OUTPUT};
use shoal_daemon::protocol::{self, FromWarden};
use shoal_hosts::Process;
use std::collections::BTreeSet;
use std::io::{BufReader, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if args.fleet.is_none()
        && let Whose::Queued(mut queue) = whose(&args.run)?
    {
        return queue::logs::show(&mut queue, args);
    }
    if args.attempt.is_some() {
        return Err(NotBegun::Wrong("--attempt is for runs of a sweep: mlp:17.2".into()));
    }
    check_id(&args.run)?;
    let places = places::of_run(&args.run, args.fleet.as_deref())?;
    let asked: Vec<String> = places.iter().map(|p| p.host.name.clone()).collect();
    let asker = Asker::new(&places)?;
    let answers = asker.list(places, Some(&args.run));
    say_unreached("shoal logs", &answers.unreached);
    let unreached = !answers.unreached.is_empty();
    let mut ids = Vec::new();
    let (mut hosts, mut ranks) = (Vec::new(), BTreeSet::new());
    for (place, listing) in answers.heard {
        ids.extend(listing.ids);
        let here: Vec<Rank> = listing.runs.iter().flat_map(|r| &r.ranks).map(|r| r.rank).collect();
        if here.iter().any(|rank| args.rank.is_none_or(|wanted| wanted == *rank)) {
            hosts.push(place);
        }
        ranks.extend(here);
    }
    if hosts.is_empty() {
        return match args.rank {
            _ if unreached => Ok(ExitCode::from(LOST)),
            Some(rank) if !ranks.is_empty() => {
                let there: Vec<String> = ranks.iter().map(Rank::to_string).collect();
                Err(NotBegun::Wrong(format!("run {} has no {rank}; it has {}", args.run, there.join(", "))))
            }
            _ => Err(unknown(&args.run, &asked, &ids, args.fleet.is_some())),
        };
    }
    let show = Show { rank: args.rank, gather: Gather::new(ranks.iter().map(|r| (*r, None)), true) };
    let words = words(args);
    let (unread, lost) = (AtomicBool::new(false), AtomicBool::new(unreached));
    std::thread::scope(|scope| {
        for place in &hosts {
            let (asker, show, words, unread, lost) = (&asker, &show, &words, &unread, &lost);
            scope.spawn(move || match show.follow(asker, place, words) {
                Ok(complete) => _ = unread.fetch_or(!complete, Ordering::Relaxed),
                Err(Broken { what, hint }) => {
                    lost.store(true, Ordering::Relaxed);
                    let hint = if hint.is_empty() { hint } else { format!(" ({hint})") };
                    eprintln!("shoal logs: {}: {what}{hint}", place.host.name);
                }
            });
        }
    });
    show.gather.finish();
    Ok(match (lost.into_inner(), unread.into_inner()) {
        (true, _) => ExitCode::from(LOST),
        (false, true) => Exit::RunFailed.into(),
        (false, false) => Exit::Success.into(),
    })
}

fn words(args: &Args) -> String {
    let rank = args.rank.map_or_else(String::new, |rank| format!(" --rank {rank}"));
    let follow = if args.follow { " --follow" } else { "" };
    format!("host tail {}{rank}{follow}", args.run)
}

struct Show {
    /// Byte for byte, if it is only one.
    rank: Option<Rank>,
    gather: Gather,
}

impl Show {
    /// Until the host has said all; whether that was everything there is.
    fn follow(&self, asker: &Asker, place: &Place, words: &str) -> Result<bool, Broken> {
        // As long as `_to` is open the host goes on; when we are gone, it ends.
        let Process { to: _to, from, errors: _errors, end: _end } = asker.start(place, words)?;
        let mut from = BufReader::with_capacity(256 << 10, from);
        let odd = |e: frame::FrameError| broken(format!("the connection broke: {e}"), "is the host up?");
        protocol::read_preamble(&mut from).map_err(odd)?;
        let mut body = Vec::new();
        let mut complete = true;
        loop {
            match frame::read(&mut from, FROM_WARDEN_LIMIT, &mut body).map_err(odd)? {
                None => return Err(broken("the connection was closed before the end", "is the host up?")),
                Some(OUTPUT) => {
                    let (rank, offset, bytes) = protocol::decode_output(&body).map_err(odd)?;
                    self.take(rank, offset, bytes);
                }
                Some(kind) => match protocol::decode_from_warden(kind, &body).map_err(odd)? {
                    FromWarden::Bye => return Ok(complete),
                    FromWarden::Trouble { what, .. } => {
                        complete = false;
                        eprintln!("shoal logs: {}: {what}", place.host.name);
                    }
                    _ => {}
                },
            }
        }
    }

    fn take(&self, rank: Rank, offset: u64, bytes: &[u8]) {
        let deaf = match self.rank {
            Some(only) => {
                let mut out = std::io::stdout().lock();
                only == rank && out.write_all(bytes).and_then(|()| out.flush()).is_err()
            }
            None => {
                self.gather.take(rank, offset, bytes);
                self.gather.is_deaf()
            }
        };
        if deaf {
            // Whoever read us (`| head`) has enough. Nothing here needs an orderly end.
            std::process::exit(0);
        }
    }
}
