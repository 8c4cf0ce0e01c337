//! One file, several programs: which one it is depends on the name it is called by, so that one file is all a host needs.

use crate::args;
use crate::commands::{self, run::NotBegun};
use crate::exit::{self, Exit};
use clap::Parser;
use std::path::Path;
use std::process::ExitCode;

pub fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().and_then(|n| n.to_str()).unwrap_or("shoal");
    match name {
        "ps_master" => exit::report(name, commands::ps_master::run(&args::ps_master::Args::parse())),
        "ps_server" => exit::report(name, commands::ps_server::run(&args::ps_server::Args::parse())),
        "psd_run" => conclude(name, commands::psd_run::run(&args::psd_run::Args::parse())),
        _ => shoal(),
    }
}

fn shoal() -> ExitCode {
    match args::shoal::Args::parse().verb {
        args::shoal::Verb::Run(args) => conclude("shoal run", commands::run::run(&args)),
        args::shoal::Verb::Fleet(args) => conclude("shoal fleet", commands::fleet::run(&args)),
        args::shoal::Verb::Doctor(args) => conclude("shoal doctor", commands::doctor::run(&args)),
        args::shoal::Verb::Plan(args) => conclude("shoal plan", commands::plan::run(&args)),
        args::shoal::Verb::Ps(args) => conclude("shoal ps", commands::ps::run(&args)),
        args::shoal::Verb::Logs(args) => conclude("shoal logs", commands::logs::run(&args)),
        args::shoal::Verb::Stop(args) => conclude("shoal stop", commands::stop::run(&args)),
        args::shoal::Verb::RsyncUp(args) => conclude("shoal rsync-up", commands::rsync_up::run(&args)),
        args::shoal::Verb::RsyncDown(args) => conclude("shoal rsync-down", commands::rsync_down::run(&args)),
        args::shoal::Verb::Image(args) => conclude("shoal image", commands::image::run(&args)),
        args::shoal::Verb::Exec(args) => conclude("shoal exec", commands::exec::run(&args)),
        args::shoal::Verb::Attach(args) => conclude("shoal attach", commands::attach::run(&args)),
        args::shoal::Verb::Submit(args) => conclude("shoal submit", commands::submit::run(&args)),
        args::shoal::Verb::Up(args) => conclude("shoal up", commands::up::run(&args)),
        args::shoal::Verb::Down(args) => conclude("shoal down", commands::down::run(&args)),
        args::shoal::Verb::Status(args) => conclude("shoal status", commands::status::run(&args)),
        args::shoal::Verb::GetHeadIp(args) => conclude("shoal get-head-ip", commands::get_head_ip::run(&args)),
        args::shoal::Verb::GetWorkerIps(args) => conclude("shoal get-worker-ips", commands::get_worker_ips::run(&args)),
        args::shoal::Verb::Sweep(args) => conclude("shoal sweep", commands::sweep::run(&args)),
        args::shoal::Verb::Results(args) => conclude("shoal results", commands::results::run(&args)),
        args::shoal::Verb::Why(args) => conclude("shoal why", commands::why::run(&args)),
        args::shoal::Verb::Retry(args) => conclude("shoal retry", commands::retry::run(&args)),
        args::shoal::Verb::Wait(args) => conclude("shoal wait", commands::wait::run(&args)),
        args::shoal::Verb::Forget(args) => conclude("shoal forget", commands::forget::run(&args)),
        args::shoal::Verb::Pause(args) => conclude("shoal pause", commands::pause::run(&args)),
        args::shoal::Verb::Resume(args) => conclude("shoal resume", commands::resume::run(&args)),
        args::shoal::Verb::Hosts(args) => conclude("shoal hosts", commands::hosts::run(&args)),
        args::shoal::Verb::Drain(args) => conclude("shoal drain", commands::drain::run(&args)),
        args::shoal::Verb::Token(args) => conclude("shoal token", commands::token::run(&args)),
        args::shoal::Verb::Ludwig(args) => conclude("shoal ludwig", commands::ludwig::run(&args)),
        args::shoal::Verb::K8s(args) => {
            let (program, outcome) = commands::k8s::run(&args);
            conclude(program, outcome)
        }
        args::shoal::Verb::Serve(args) => conclude("shoal serve", commands::serve::run(&args)),
        args::shoal::Verb::Host(args) => commands::host::run(args),
    }
}

/// The one place that says why something did not begin.
fn conclude(program: &str, outcome: Result<ExitCode, NotBegun>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(NotBegun::Wrong(why)) => {
            eprintln!("{program}: {why}");
            Exit::Usage.into()
        }
        Err(NotBegun::Here(why)) => {
            eprintln!("{program}: {why}");
            Exit::RunFailed.into()
        }
        Err(NotBegun::CannotStart(why)) => {
            eprintln!("{program}: {why}");
            Exit::CannotStart.into()
        }
        Err(NotBegun::Stopped(why)) => {
            eprintln!("{program}: {why}");
            shoal_core::outcome::STOPPED.into()
        }
    }
}
