//! The last steps of joining: everyone shows itself in the area, and everyone tries everyone's memory.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

use super::area::Area;
use super::bell;
use super::error::{LocalError, Result};
use super::group::LocalGroup;
use super::layout::MAX_MEMBERS;
use super::vm::Peer;

/// What the others read and write to find out whether they can. It stays where it is as long as the group.
pub(super) struct Probe {
    nonce: AtomicU64,
    landing: [AtomicU64; MAX_MEMBERS],
}

/// The calls that are tried, by the code they have in `RankCell::probe`.
const CALLS: [&str; 2] = ["read", "write"];

/// Checks a member list and finds `me` in it.
pub(super) fn position(members: &[u32], me: u32) -> Result<usize> {
    let bad = |why: String| Err(LocalError::BadGroup { why });
    if members.len() > MAX_MEMBERS {
        return bad(format!("{} ranks on one host; {MAX_MEMBERS} is the most", members.len()));
    }
    if !members.is_sorted_by(|a, b| a < b) {
        return bad(format!("members must be sorted and distinct: {members:?}"));
    }
    members.iter().position(|&m| m == me).map_or_else(|| bad(format!("rank {me} is not one of {members:?}")), Ok)
}

/// Meets the others in the area. Every wait is bounded by the deadline and names who is missing.
pub(super) fn enter(area: Area, members: &[u32], me: usize, deadline: Instant) -> Result<LocalGroup> {
    let header = area.header();
    let cell = &header.ranks[me];
    let nonce = u64::from_ne_bytes(random()?);
    let probe = Box::new(Probe { nonce: AtomicU64::new(nonce), landing: [const { AtomicU64::new(0) }; MAX_MEMBERS] });
    cell.rank.store(members[me], Relaxed);
    cell.pid.store(std::process::id() as i32, Relaxed);
    cell.nonce.store(nonce, Relaxed);
    cell.nonce_addr.store(probe.nonce.as_ptr() as u64, Relaxed);
    cell.landing_addr.store(probe.landing.as_ptr() as u64, Relaxed);
    header.joined.0.fetch_or(1 << me, SeqCst);
    gather(&area, members, deadline, "joined", || header.joined.0.load(SeqCst))?;

    let peers: Vec<Peer> = header.ranks.iter().zip(members).map(|(c, &m)| Peer::new(m, c.pid.load(Relaxed))).collect();
    for (i, peer) in peers.iter().enumerate().filter(|&(i, _)| i != me) {
        let theirs = &header.ranks[i];
        if theirs.rank.load(Relaxed) != peer.rank {
            let why = format!("ranks {} and {} have different member lists", members[me], peer.rank);
            return Err(LocalError::BadGroup { why });
        }
        let landing = theirs.landing_addr.load(Relaxed) + 8 * me as u64;
        if let Err((call, errno)) = try_peer(peer, theirs.nonce_addr.load(Relaxed), theirs.nonce.load(Relaxed), landing)
        {
            cell.probe.store((call as u64 + 1) << 40 | (i as u64) << 32 | errno as u32 as u64, SeqCst);
            break;
        }
    }
    header.probed.fetch_or(1 << me, SeqCst);
    gather(&area, members, deadline, "tried the others' memory", || header.probed.load(SeqCst))?;

    // One rank that cannot is enough: all decide alike.
    for (cell, &rank) in header.ranks.iter().zip(members) {
        let found = cell.probe.load(SeqCst);
        if found != 0 {
            let call = CALLS.get((found >> 40) as usize - 1).copied().unwrap_or("use");
            let peer = members.get((found >> 32 & 0xff) as usize).copied().unwrap_or(u32::MAX);
            return Err(LocalError::NotPermitted { rank, peer, call, errno: found as u32 as i32 });
        }
    }
    Ok(LocalGroup::new(area, members.to_vec(), me, peers, probe))
}

/// Reads the peer's nonce and writes to its landing place. A wrong nonce means that the number names another
/// process here than there (another PID namespace).
fn try_peer(peer: &Peer, nonce_addr: u64, nonce: u64, landing: u64) -> Result<(), (usize, i32)> {
    let mut seen = 0u64;
    // SAFETY: eight bytes of our own.
    unsafe { peer.read(nonce_addr, (&raw mut seen).cast(), 8) }.map_err(|errno| (0, errno))?;
    if seen != nonce {
        return Err((0, libc::ESRCH));
    }
    // SAFETY: reads eight bytes of our own; the peer, whose nonce it was, keeps a place for us.
    unsafe { peer.write(landing, (&raw const nonce).cast(), 8) }.map_err(|errno| (1, errno))
}

fn gather(area: &Area, members: &[u32], deadline: Instant, what: &'static str, seen: impl Fn() -> u32) -> Result<()> {
    let missing = || -> Vec<u32> {
        let seen = seen();
        members.iter().enumerate().filter(|(i, _)| seen >> i & 1 == 0).map(|(_, &rank)| rank).collect()
    };
    bell::ring(area.header(), bell::ALL, u32::MAX);
    loop {
        let ranks = missing();
        if ranks.is_empty() {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LocalError::Missing { ranks, what });
        }
        bell::sleep(area.header(), bell::ALL, left, || missing().is_empty());
    }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match got {
        Ok(n) if n == N => Ok(bytes),
        Ok(_) => Err(LocalError::io("asking for random bytes", std::io::Error::other("too few"))),
        Err(e) => Err(LocalError::io("asking for random bytes", e)),
    }
}
