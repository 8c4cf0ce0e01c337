//! Becoming part of a run: register with the master, hear who the others are, connect to those one talks to.

use super::meet::Meeting;
use super::reactor::Event;
use crate::control::{self, FromMaster, NodeRow, Register, Roster, ToMaster};
use crate::error::{Role, SyncError};
use crate::handshake::{self, Refusal};
use crate::node::world::{NodeId, World};
use crate::settings::OnDeath;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How often a wait looks whether it should be given up.
const LOOK_UP: Duration = Duration::from_millis(50);

/// A node that is in, with all its connections.
pub struct Joined {
    pub me: NodeId,
    pub roster: Roster,
    pub world: World,
    pub master: TcpStream,
    pub links: Vec<(NodeId, TcpStream)>,
    /// Who died or came since the run was complete, where it goes on.
    pub news: Vec<Event>,
    /// Where newcomers knock, if this is a server; elsewhere kept so that strangers are turned away instead of hanging.
    pub listener: TcpListener,
}

/// How long to try, and who may say that it is enough.
pub(super) struct Joining<'a> {
    pub token: &'a str,
    pub timeout: Duration,
    pub deadline: Instant,
    pub stop: &'a dyn Fn() -> bool,
}

impl Joining<'_> {
    pub fn go_on(&self) -> Result<(), SyncError> {
        if (self.stop)() { Err(SyncError::ShutDown) } else { Ok(()) }
    }

    /// One attempt to connect and to prove ourselves.
    pub fn dial_once(&self, address: &str) -> Result<TcpStream, Refusal> {
        let broken = |e: std::io::Error| Refusal::Broken(e.to_string());
        let mut last = Refusal::Broken("the name has no address".into());
        for target in address.to_socket_addrs().map_err(broken)? {
            match TcpStream::connect_timeout(&target, Duration::from_secs(3)) {
                Ok(mut stream) => return handshake::prove(&mut stream, self.token).map(|()| stream),
                Err(e) => last = broken(e),
            }
        }
        Err(last)
    }

    /// After a failed attempt: waits before the next one, or says why there will be none.
    pub fn pause(&self, pause: &mut Duration, refusal: Refusal, what: &str, address: &str) -> Result<(), SyncError> {
        if !refusal.may_pass() || Instant::now() + *pause > self.deadline {
            return Err(refusal.of(what, address));
        }
        std::thread::sleep(*pause);
        *pause = (*pause * 2).min(Duration::from_millis(500));
        Ok(())
    }

    /// Dials the master until it answers: the nodes of a run start in any order.
    fn dial_master(&self, address: &str) -> Result<TcpStream, SyncError> {
        let mut pause = Duration::from_millis(20);
        loop {
            self.go_on()?;
            match self.dial_once(address) {
                Ok(stream) => return Ok(stream),
                Err(refusal) => self.pause(&mut pause, refusal, "the master", address).map_err(hint)?,
            }
        }
    }
}

/// Adds what to do to "connection refused".
fn hint(error: SyncError) -> SyncError {
    match error {
        SyncError::Unreachable { what, address, why } => {
            let why = format!("{why}; is ps_master running there, and is master_address right?");
            SyncError::Unreachable { what, address, why }
        }
        other => other,
    }
}

/// Whether something is there to be read, or the end, within `wait`.
pub(super) fn readable(stream: &TcpStream, wait: Duration) -> bool {
    let mut fds = [rustix::event::PollFd::new(stream, rustix::event::PollFlags::IN)];
    let wait = rustix::event::Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    rustix::event::poll(&mut fds, Some(&wait)).is_ok_and(|n| n > 0)
}

/// Registers and waits until the run is complete. `make` is told the port to listen on and fills in the rest; once `stop` says so,
/// it ends with [`SyncError::ShutDown`].
pub fn join(
    master_address: &str,
    token: &str,
    listen_host: Option<&str>,
    timeout: Duration,
    stop: &dyn Fn() -> bool,
    make: impl FnOnce(u16) -> Register,
) -> Result<Joined, SyncError> {
    let joining = Joining { token, timeout, deadline: Instant::now() + timeout, stop };
    let address = crate::settings::address(master_address)?;
    let mut master = joining.dial_master(&address)?;
    let system = |what: &str| {
        let what = what.to_string();
        move |e: std::io::Error| SyncError::system(what, e)
    };
    control::watch_host(&master).map_err(system("cannot set up the connection to the master"))?;
    let local = master.local_addr().map_err(system("cannot see this machine's own address"))?;
    let bind = listen_host.map_or_else(|| local.ip().to_string(), str::to_string);
    let listener = TcpListener::bind((bind.as_str(), 0)).map_err(|e| SyncError::Unreachable {
        what: "a place to listen for peers".into(),
        address: bind.clone(),
        why: e.to_string(),
    })?;
    let port = listener.local_addr().map_err(system("cannot see the listener's port"))?.port();
    let register = make(port);
    let role = register.role;
    control::send(&mut master, &ToMaster::Register(register)).map_err(system("cannot register with the master"))?;
    let (id, roster) = await_roster(&mut master, &joining)?;
    let world = world_of(&roster);
    let me = if role == Role::Worker { id } else { world.workers + id };
    let mut meeting = Meeting {
        world: &world,
        me,
        roster: &roster,
        master: &mut master,
        joining: &joining,
        news: Vec::new(),
        master_gone: false,
    };
    let met = match &roster.late {
        None => meeting.meet(&listener),
        Some(late) => meeting.knock(late),
    };
    let news = meeting.news;
    let links = met.inspect_err(|error| {
        // The others wait for this node: they hear why it will not come, instead of seeing it die.
        let who = world.name(me);
        let error = match error {
            SyncError::ShutDown => SyncError::Aborted { who, why: "it was told to stop".into() },
            other => other.clone(),
        };
        // A master that is gone needs no explanation.
        let _ = control::send(&mut master, &ToMaster::Abort { error });
    })?;
    master.set_read_timeout(None).map_err(system("cannot set up the connection to the master"))?;
    Ok(Joined { me, roster, world, master, links, news, listener })
}

fn world_of(roster: &Roster) -> World {
    World {
        run: roster.run,
        generation: roster.generation,
        workers: roster.workers.len() as u32,
        servers: roster.servers.len() as u32,
        who: roster.workers.iter().chain(&roster.servers).map(|r| r.who.clone()).collect(),
        teams: teams_of(roster),
    }
}

/// Which workers may speak with one voice: those that share memory, unless somebody's part may have to be left out again
/// (`continue`) or the order of summation is fixed.
fn teams_of(roster: &Roster) -> Vec<u32> {
    if roster.common.on_death != OnDeath::Fail || roster.common.deterministic {
        return Vec::new();
    }
    let lowest = |row: &NodeRow| {
        let same = |w: &&NodeRow| w.memory_domain.is_some() && w.memory_domain == row.memory_domain;
        let (first, size) = (roster.workers.iter().find(same), roster.workers.iter().filter(same).count());
        first.filter(|_| size <= crate::local::MAX_MEMBERS).map_or(row.who.id, |w| w.who.id)
    };
    let teams: Vec<u32> = roster.workers.iter().map(lowest).collect();
    let alone = roster.workers.iter().zip(&teams).all(|(row, team)| row.who.id == *team);
    if alone { Vec::new() } else { teams }
}

fn await_roster(master: &mut TcpStream, joining: &Joining<'_>) -> Result<(u32, Roster), SyncError> {
    let mut id = None;
    let mut missing = String::from("the master's answer");
    // Once a message has begun, the rest of it is on its way.
    master.set_read_timeout(Some(handshake::PATIENCE)).map_err(|e| SyncError::system("cannot set a time-out", e))?;
    loop {
        joining.go_on()?;
        let left = joining.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(SyncError::Timeout {
                what: format!("the run to be complete: still missing {missing}"),
                seconds: joining.timeout.as_secs(),
            });
        }
        if !readable(master, left.min(LOOK_UP)) {
            continue;
        }
        match control::receive::<FromMaster>(master) {
            Ok(FromMaster::Welcome { id: mine }) => id = Some(mine),
            Ok(FromMaster::Refused { error } | FromMaster::Abort { error }) => return Err(error),
            Ok(FromMaster::Gathering { missing: who }) => missing = who,
            Ok(FromMaster::Complete(roster)) => {
                let id = id.ok_or_else(|| SyncError::Refused { why: "it sent a roster before a welcome".into() })?;
                return Ok((id, roster));
            }
            Ok(FromMaster::Dead { .. } | FromMaster::Joining(_) | FromMaster::Status(_)) => {}
            Err(e) => {
                let address = master.peer_addr().map_or_else(|_| "?".into(), |a| a.to_string());
                let why = match e.kind() {
                    std::io::ErrorKind::UnexpectedEof => "its connection closed".to_string(),
                    _ => e.to_string(),
                };
                return Err(SyncError::Unreachable { what: "the master".into(), address, why });
            }
        }
    }
}

/// Socket options of a data connection.
pub(super) fn tune(stream: TcpStream) -> Result<TcpStream, SyncError> {
    let fault = |e: std::io::Error| SyncError::system("cannot set up a connection", e);
    stream.set_nodelay(true).map_err(fault)?;
    stream.set_read_timeout(None).map_err(fault)?;
    stream.set_write_timeout(None).map_err(fault)?;
    if is_near(&stream) {
        // Nothing is lost on the way to oneself, and a sender that paces itself (BBR) only adds timers: measured
        // 10 % of the processor time. Not every system allows the choice; then its default serves.
        let _ = rustix::net::sockopt::set_tcp_congestion(&stream, "reno");
    }
    Ok(stream)
}

/// Whether both ends are this host.
pub fn is_near(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(here), Ok(there)) => here.ip() == there.ip(),
        _ => false,
    }
}

/// Lets the kernel wake us only when this many bytes are there (or the end). False if it refused, which changes nothing.
pub fn set_low_water(stream: &TcpStream, bytes: usize) -> bool {
    use std::os::fd::AsRawFd;
    let value = bytes as libc::c_int;
    // SAFETY: the descriptor is open as long as `stream` is borrowed, and the value outlives the call.
    let outcome = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    outcome == 0
}
