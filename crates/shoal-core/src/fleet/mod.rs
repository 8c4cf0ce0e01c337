//! The machines of one file, whatever its form: native `shoal.yaml`, Poseidon JSON or Ray YAML, all read into one value.

pub mod convert;
mod cross_check;
pub mod detect;
pub mod native;
mod native_host;
pub mod native_pool;
pub mod pool;
pub mod poseidon;
pub mod queue;
pub mod range;
pub mod ray;
pub mod schema;
pub mod size;
pub mod target;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::reader::Reader;
use crate::job::Prepare;
use detect::Form;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// A safe file name.
    pub name: String,
    /// In the order of the file; names are unique.
    pub hosts: Vec<Host>,
    pub environment: Environment,
    /// A folder that all hosts see under this path; commands run there unless told otherwise.
    pub shared: Option<String>,
    pub placement: Placement,
    /// Parts of Kubernetes clusters, for the queue and for gangs of their own: there is nowhere to log in. Names are unique among hosts and pools.
    pub pools: Vec<pool::Pool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// What people call it.
    pub name: String,
    /// What ssh calls it, and the other hosts unless they have a name of their own for it.
    pub address: String,
    /// What the other hosts call it, where that is something else: a machine of a cloud has a private address.
    pub internal: Option<String>,
    pub reach: Reach,
    pub groups: Vec<String>,
    pub slots: Slots,
}

/// How a host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// It is the machine this program runs on.
    Local,
    /// By the system's ssh; what is not given here is for `~/.ssh/config` to say.
    Ssh {
        user: Option<String>,
        port: Option<u16>,
        key: Option<String>,
        /// The host of this fleet to go through.
        jump: Option<String>,
        /// The command whose stdin and stdout lead to the host, as ssh's ProxyCommand; instead of `jump`.
        proxy: Option<String>,
        /// Where its host key is kept, if not in ssh's own files.
        host_key: Option<HostKey>,
    },
}

/// A file of host keys apart from ssh's own, and the name by which it has this host's. For machines whose addresses are soon another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKey {
    pub file: String,
    pub name: String,
}

impl Host {
    /// What the other hosts call it.
    pub fn among_hosts(&self) -> &str {
        self.internal.as_deref().unwrap_or(&self.address)
    }
}

/// What a host has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// Workers it takes; 0 for a host that others are reached through.
    pub ranks: u32,
    pub cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub gpus: Option<u32>,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { ranks: 1, cpus: None, memory_bytes: None, gpus: None }
    }
}

/// What every command of this fleet finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub prepare: Prepare,
    pub env: BTreeMap<String, String>,
}

/// Where the ranks go unless a run says otherwise: names of hosts. A host may be there several times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Without it: beside worker 0.
    pub master: Option<String>,
    pub servers: Vec<String>,
    /// Without any: as many on each host as it has slots.
    pub workers: Vec<String>,
}

/// Names of this machine. Anything else is another machine, even if it is this one's address.
pub const THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl Fleet {
    /// This machine alone: the fleet of those who have no file.
    pub fn local() -> Fleet {
        let name = THIS_MACHINE[0].to_string();
        let host = Host {
            address: name.clone(),
            name,
            internal: None,
            reach: Reach::Local,
            groups: Vec::new(),
            slots: Slots::default(),
        };
        Fleet {
            name: "local".into(),
            hosts: vec![host],
            environment: Environment::default(),
            shared: None,
            placement: Placement::default(),
            pools: Vec::new(),
        }
    }

    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// All groups, sorted.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self.hosts.iter().flat_map(|host| &host.groups).map(String::as_str).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

/// A file that could be read, and what of it is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub fleet: Fleet,
    pub form: Form,
    pub warnings: Vec<Diagnostic>,
}

/// Reads a fleet from the text of a file of any form. `file` names it in messages, and the fleet if it has no name of its own.
pub fn read(file: &str, text: &str) -> Result<Reading, Diagnostics> {
    read_filled(file, text, &BTreeMap::new())
}

/// As `read`, with what fills the slots of a cluster file; other forms have none.
pub fn read_filled(file: &str, text: &str, values: &BTreeMap<String, String>) -> Result<Reading, Diagnostics> {
    read_as(detect::form(file, text), file, text, values)
}

/// Where the form is known beforehand.
pub fn read_as(form: Form, file: &str, text: &str, values: &BTreeMap<String, String>) -> Result<Reading, Diagnostics> {
    // Editors on Windows put a byte order mark there; it would count as a column.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::new(file, text);
    let name = detect::name_from_file(file);
    let fleet = match form {
        Form::Native => native::read(&mut reader, name, text),
        Form::Poseidon => poseidon::read(&mut reader, name, text),
        Form::Ray => ray::read(&mut reader, file, text, values),
    };
    reader.finish(fleet).map(|(fleet, warnings)| Reading { fleet, form, warnings })
}
