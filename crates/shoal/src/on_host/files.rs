//! Taking files from a sender elsewhere, or giving them: the words go over stdin and stdout, unbuffered, because both sides also wait on them.

use shoal_hosts::files::{pull, receive};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

pub fn main(send: bool, room: bool) -> ExitCode {
    let home =
        std::env::var_os("HOME").filter(|home| !home.is_empty()).map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let files = || -> std::io::Result<(File, File)> {
        let input = std::io::stdin().as_fd().try_clone_to_owned()?;
        let output = std::io::stdout().as_fd().try_clone_to_owned()?;
        Ok((input.into(), output.into()))
    };
    let outcome = files().and_then(|(input, output)| match send {
        true => pull::give(input, output, &home),
        false => receive::serve(input, output, &home, room, &|_, _| {}).map(drop),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("shoal host files: {e}");
            ExitCode::FAILURE
        }
    }
}
