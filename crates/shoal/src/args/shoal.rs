//! `shoal`'s command line: its verbs.

use clap::{Parser, Subcommand};

/// Turn the machines you have into one place to train.
#[derive(Debug, Parser)]
#[command(name = "shoal", version, propagate_version = true, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Run(Box<super::run::Args>),
    Fleet(super::fleet::Args),
    Doctor(super::doctor::Args),
    Plan(Box<super::plan::Args>),
    Ps(super::ps::Args),
    Logs(super::logs::Args),
    Stop(super::stop::Args),
    RsyncUp(Box<super::rsync_up::Args>),
    RsyncDown(Box<super::rsync_down::Args>),
    Image(super::image::Args),
    Exec(Box<super::exec::Args>),
    Attach(super::attach::Args),
    Submit(Box<super::submit::Args>),
    Up(Box<super::up::Args>),
    Down(super::down::Args),
    Status(super::status::Args),
    GetHeadIp(super::get_head_ip::Args),
    GetWorkerIps(super::get_worker_ips::Args),
    Sweep(Box<super::sweep::Args>),
    Results(super::results::Args),
    Why(super::why::Args),
    Retry(super::retry::Args),
    Wait(super::wait::Args),
    Forget(super::forget::Args),
    Pause(super::pause::Args),
    Resume(super::resume::Args),
    Hosts(super::hosts::Args),
    Drain(super::drain::Args),
    #[command(name = "k8s")]
    K8s(super::k8s::Args),
    Serve(super::serve::Args),
    Token(super::token::Args),
    Ludwig(super::ludwig::Args),
    /// What hosts run for us; not for people.
    #[command(hide = true)]
    Host(super::host::Args),
}
