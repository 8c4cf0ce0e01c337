//! What this program does on a host for a launcher elsewhere.

use crate::args::host::{Args, Part};
use std::process::ExitCode;

pub fn run(args: Args) -> ExitCode {
    match args.part {
        Part::Warden { args } => shoal_daemon::warden::main(args, &["host", "keeper"]),
        Part::Keeper { .. } => shoal_daemon::keeper::main(),
        Part::Probe => crate::on_host::probe::main(),
        Part::Peer => crate::on_host::peer::main(),
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
