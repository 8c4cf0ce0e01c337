//! Test hosts: machines to reach over real ssh, made of namespaces on this one.
//!
//! Each has a network of its own (its address on a bridge, at a chosen speed), its own host name, processes, `/tmp`, `/root`, `/home`,
//! `/run` and `/dev/shm`, and an sshd; it shares the rest of the file system. A set lives as long as its [`Hosts`] value, or until it is
//! taken down by name when it is kept. What a killed process leaves is taken down by the next one that makes hosts.

mod error;
mod machine;
mod network;
mod process;
mod record;
mod teardown;
mod tools;

pub use error::{Error, Result};
pub use tools::find as find_program;

use process::Process;
use record::{Lock, Record};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command};

/// Addresses .10 to .209 of the subnet.
const MOST: usize = 200;

/// What to bring up.
#[derive(Debug, Clone, Default)]
pub struct HostsSpec {
    /// Lower-case letters, digits and dashes; host `i` is called `NAME-i`. Sets of different processes may bear the same name.
    pub name: String,
    pub count: usize,
    /// The speed of each host's link in each direction, in tc's spelling (`1gbit`); none: as fast as it goes.
    pub rate: Option<String>,
    /// Paths below `/root`, `/home`, `/tmp`, `/var/tmp` or `/run` of this machine that the hosts see too, read-only; others they see anyway.
    pub share: Vec<PathBuf>,
    /// A drive that all of them have mounted, as from a file server.
    pub drive: Option<SharedDrive>,
    /// The set outlives this process, until [`Hosts::down`]. Only one kept set may bear a name.
    pub keep: bool,
}

/// A folder of this machine that every host can read and write, and where they have it: `/media/research_data`. Of the folder that the place is in,
/// hosts see nothing else.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct SharedDrive {
    pub folder: PathBuf,
    pub at: PathBuf,
}

impl HostsSpec {
    pub fn new(name: impl Into<String>, count: usize) -> Self {
        Self { name: name.into(), count, ..Self::default() }
    }

    fn check(&self) -> Result<u8> {
        let bad = |why: String| Err(Error::Spec { name: self.name.clone(), why });
        let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || self.name.len() > 32 || !self.name.chars().all(named) || self.name.starts_with('-') {
            return bad("a name is up to 32 lower-case letters, digits and dashes, and begins with no dash".into());
        }
        if let Some(drive) = &self.drive
            && (!drive.at.is_absolute()
                || drive.at.parent().and_then(|parent| parent.parent()).is_none()
                || machine::is_hidden(&drive.at))
        {
            return bad(format!("{} is no place for a drive; /media/NAME is one", drive.at.display()));
        }
        match u8::try_from(self.count) {
            Ok(count @ 1..) if self.count <= MOST => Ok(count),
            _ => bad(format!("a set has 1 to {MOST} hosts, not {}", self.count)),
        }
    }
}

/// One host that is up.
#[derive(Debug, Clone)]
pub struct Host {
    pub name: String,
    pub address: Ipv4Addr,
    /// The network namespace, for `ip -netns`.
    pub namespace: String,
    pub ssh_port: u16,
    init: i32,
}

impl Host {
    /// A command that runs on the host, past ssh, beginning in `/`. The program ends when this command's own process is killed;
    /// `current_dir` has no effect on it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = tools::command("nsenter");
        command.args(["--target", &self.init.to_string(), "--mount", "--uts", "--ipc", "--net", "--pid", "--"]).args([
            "setpriv",
            "--pdeathsig",
            "KILL",
            "--",
            program,
        ]);
        command
    }

    /// Kills the host: its first process, and with it everything that runs on it, at once and without a word.
    pub fn kill(&self) -> std::io::Result<()> {
        let init = rustix::process::Pid::from_raw(self.init).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(rustix::process::kill_process(init, rustix::process::Signal::KILL)?)
    }
}

/// A set of hosts that is up.
#[derive(Debug)]
pub struct Hosts {
    record: Record,
    hosts: Vec<Host>,
    /// The outermost process of each host, where this process started it: its end must be fetched.
    children: BTreeMap<usize, Child>,
    lives_on: bool,
}

impl Hosts {
    /// Brings a set up and waits until every host answers; on failure nothing of it stays.
    pub fn up(spec: HostsSpec) -> Result<Self> {
        let count = spec.check()?;
        tools::check()?;
        let record = {
            let lock = Lock::take()?;
            teardown::leftovers(&lock)?;
            if spec.keep && find_kept(&lock, &spec.name)?.is_some() {
                return Err(Error::AlreadyUp { name: spec.name });
            }
            lock.claim(&spec, count)?
        };
        // From here on, dropping the value takes down whatever has been made.
        let mut hosts = Self { record, hosts: Vec::new(), children: BTreeMap::new(), lives_on: false };
        hosts.make()?;
        if spec.keep {
            hosts.record.owner = None;
            hosts.record.save()?;
            hosts.lives_on = true;
        }
        Ok(hosts)
    }

    /// As [`Hosts::up`], for a test: where the machine cannot make hosts the test is skipped, and any other failure is the test's.
    pub fn up_or_skip(spec: HostsSpec) -> Option<Self> {
        match Self::up(spec) {
            Ok(hosts) => Some(hosts),
            Err(error) if error.is_unable() => {
                crate::skip(format_args!("{error} ({})", error.hint().unwrap_or_default()));
                None
            }
            Err(error) => panic!("{error}; hint: {}", error.hint().unwrap_or_else(|| "none".into())),
        }
    }

    /// The kept set of that name; dropping the value leaves it up.
    pub fn open(name: &str) -> Result<Self> {
        tools::check()?;
        let lock = Lock::take()?;
        let found = find_kept(&lock, name)?;
        lock.tidy();
        let record = found.ok_or_else(|| Error::NotUp { name: name.into() })?;
        let mut hosts = Self { record, hosts: Vec::new(), children: BTreeMap::new(), lives_on: true };
        hosts.publish();
        Ok(hosts)
    }

    /// The names and sizes of all sets that are up, and whether they are kept.
    pub fn list() -> Result<Vec<(String, usize, bool)>> {
        tools::check()?;
        let lock = Lock::take()?;
        let (records, _) = lock.all()?;
        lock.tidy();
        Ok(records.into_iter().map(|record| (record.name, record.hosts.len(), record.owner.is_none())).collect())
    }

    /// Takes kept sets down, all or those of that name, and what crashed processes left; sets of living processes stay. Gives the
    /// names.
    pub fn down_kept(name: Option<&str>) -> Result<Vec<String>> {
        tools::check()?;
        let lock = Lock::take()?;
        let mut names = teardown::leftovers(&lock)?;
        let meant = |record: &Record| record.owner.is_none() && name.is_none_or(|name| record.name == name);
        for record in lock.all()?.0.into_iter().filter(meant) {
            teardown::set(&record)?;
            names.push(record.name);
        }
        lock.tidy();
        Ok(names)
    }

    /// Takes the set down and says so if something stays.
    pub fn down(mut self) -> Result<()> {
        self.lives_on = true;
        self.take_down()
    }

    pub fn host(&self, i: usize) -> &Host {
        &self.hosts[i]
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Host> {
        self.hosts.iter()
    }

    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// This machine's address as the hosts see it.
    pub fn gateway(&self) -> Ipv4Addr {
        self.record.gateway()
    }

    /// The folder that holds everything of the set while it is up.
    pub fn folder(&self) -> PathBuf {
        self.record.folder()
    }

    /// A configuration with which ssh reaches every host by name or address, as root, and touches nothing of the user's.
    pub fn ssh_config(&self) -> PathBuf {
        self.folder().join("ssh_config")
    }

    /// The private key that every host accepts.
    pub fn key(&self) -> PathBuf {
        self.folder().join("key")
    }

    /// The real ssh client, about to reach host `i`; add the remote command.
    pub fn ssh(&self, i: usize) -> Command {
        let mut command = tools::command("ssh");
        command.arg("-F").arg(self.ssh_config()).arg(&self.host(i).name);
        command
    }

    fn make(&mut self) -> Result<()> {
        machine::keygen(&self.key(), "shoal test hosts")?;
        network::make(&self.record)?;
        for i in 0..self.record.hosts.len() {
            self.start(i)?;
        }
        for i in 0..self.record.hosts.len() {
            self.wait_for(i)?;
        }
        self.publish();
        self.write_ssh_files()
    }

    fn start(&mut self, i: usize) -> Result<()> {
        let hidden = machine::prepare(&self.record, &self.record.hosts[i])?;
        let child = machine::start(&self.record, &self.record.hosts[i], &hidden)?;
        self.record.hosts[i].outer = Process::of(child.id().cast_signed());
        self.children.insert(i, child);
        self.record.save()
    }

    fn wait_for(&mut self, i: usize) -> Result<()> {
        let Some(outer) = self.children.get_mut(&i) else { return Ok(()) };
        self.record.hosts[i].init = Some(machine::init(&self.record, &self.record.hosts[i], outer)?);
        self.record.save()?;
        machine::ready(&self.record, &self.record.hosts[i], outer)
    }

    /// Host `i` loses its power: everything that runs on it, its connections, `/tmp` and `/run` are gone, without a word to anybody. Its disk stays.
    pub fn power_off(&mut self, i: usize) -> Result<()> {
        let host = &mut self.record.hosts[i];
        // The cable first: who talks to it hears nothing more, not even that connections end.
        network::unlink(host)?;
        teardown::end(host)?;
        if let Some(mut child) = self.children.remove(&i) {
            let _ = child.wait();
        }
        (host.init, host.outer) = (None, None);
        machine::forget(&self.record, &self.record.hosts[i])?;
        self.record.save()?;
        self.publish();
        Ok(())
    }

    /// It starts anew, and is there when sshd answers: other processes, another boot id, the same disk, address and key.
    pub fn power_on(&mut self, i: usize) -> Result<()> {
        network::link(&self.record, i)?;
        self.start(i)?;
        self.wait_for(i)?;
        self.publish();
        Ok(())
    }

    fn publish(&mut self) {
        let host = |host: &record::HostRecord| Host {
            name: host.name.clone(),
            address: host.address,
            namespace: host.namespace.clone(),
            ssh_port: machine::SSH_PORT,
            init: host.init.map_or(0, |process| process.pid),
        };
        self.hosts = self.record.hosts.iter().map(host).collect();
    }

    fn write_ssh_files(&self) -> Result<()> {
        let known: Result<String> =
            self.record.hosts.iter().map(|host| machine::known_host(&self.record, host)).collect();
        let known_hosts = self.folder().join("known_hosts");
        machine::write(&known_hosts, &known?)?;
        let names: String =
            self.hosts.iter().map(|host| format!("Host {}\n  HostName {}\n", host.name, host.address)).collect();
        let common = format!(
            "Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {}\n  \
             GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n  ConnectTimeout 10\n  LogLevel ERROR\n",
            self.key().display(),
            known_hosts.display(),
        );
        machine::write(&self.ssh_config(), &(names + &common))
    }

    fn take_down(&mut self) -> Result<()> {
        let lock = Lock::take()?;
        let result = teardown::set(&self.record);
        if result.is_ok() {
            // They have ended: the wait only fetches them.
            std::mem::take(&mut self.children).into_values().for_each(|mut child| drop(child.wait()));
        }
        lock.tidy();
        result
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if !self.lives_on
            && let Err(error) = self.take_down()
        {
            eprintln!("test hosts `{}` are not all down: {error}", self.record.name);
        }
    }
}

fn find_kept(lock: &Lock, name: &str) -> Result<Option<Record>> {
    Ok(lock.all()?.0.into_iter().find(|record| record.owner.is_none() && record.name == name))
}
