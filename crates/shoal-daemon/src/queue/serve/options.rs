//! How is a daemon to be?

use crate::queue::places::Store;
use shoal_core::fleet::queue::OfAll;
use shoal_core::queue::host::{HostPolicy, Reached};
use std::path::PathBuf;
use std::time::Duration;

/// What `shoal serve` makes of its command line.
#[derive(Debug, Clone)]
pub struct Options {
    pub store: Store,
    /// `address:port` to listen on for people and agents elsewhere. Empty: the unix socket alone.
    pub listen: Vec<String>,
    /// Further names and addresses in the certificate.
    pub names: Vec<String>,
    /// Members of this group may use the socket too, as `submit`.
    pub group: Option<String>,
    /// Started by a client: this machine is its host, and it leaves when there has been nothing to do for [`Options::idle`].
    pub auto: bool,
    pub idle: Duration,
    /// Hosts that are to be there, beside those that the journal knows; a host of the same name gets the new policy.
    pub hosts: Vec<HostPolicy>,
    /// What holds for the queue as a whole; `None`: what the last daemon was told.
    pub of_all: Option<OfAll>,
    /// The program that agents of this machine are started from; its first words are `host agent`.
    pub program: PathBuf,
    /// Also to stderr what goes to daemon.log.
    pub foreground: bool,
}

impl Options {
    pub fn new(store: Store) -> Options {
        Options {
            store,
            listen: Vec::new(),
            names: Vec::new(),
            group: None,
            auto: false,
            idle: Duration::from_secs(600),
            hosts: Vec::new(),
            of_all: None,
            program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("shoal")),
            foreground: false,
        }
    }
}

/// This machine, as a host of its own daemon: as many runs at once as it has CPUs.
pub fn this_machine() -> HostPolicy {
    HostPolicy {
        name: crate::proc::node_name(),
        groups: Vec::new(),
        slots: None,
        cpus: None,
        memory_bytes: None,
        owner: None,
        // It is never away by itself: where the daemon is, it is.
        lost_after_seconds: 7 * 24 * 3600,
        reach: Some(Reached::Here),
        address: None,
        jumped: false,
        environment: None,
    }
}
