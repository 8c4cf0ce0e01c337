//! How does the daemon get to a host's agent?

use shoal_core::queue::host::HostPolicy;
use std::io::{Read, Write};

/// A way to hosts. Called in a thread of its own for every host, again and again; each call is bounded by whoever implements it.
pub trait Reacher: Send + Sync {
    /// Starts `host agent --store <store>` there and gives its stdin and stdout. The error is a sentence for people.
    fn open(&self, policy: &HostPolicy, store: &str) -> Result<LineStream, String>;
}

/// Bytes to an agent and from it. The first ones from it are [`crate::queue::framing::PREAMBLE`]: what a login printed comes before.
pub struct LineStream {
    pub to: Box<dyn Write + Send>,
    pub from: Box<dyn Read + Send>,
    /// Ends both, also while somebody reads or writes: a host that is silent must not hold a thread for ever. May be called twice.
    pub cut: Box<dyn Fn() + Send + Sync>,
}

/// Nobody can be reached but this machine.
pub struct NoReach;

impl Reacher for NoReach {
    fn open(&self, policy: &HostPolicy, _store: &str) -> Result<LineStream, String> {
        Err(format!("no way to {} was given", policy.name))
    }
}
