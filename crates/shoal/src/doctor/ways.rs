//! The ways between hosts: everybody dials everybody at once, then pairs carry a load, round by round.

use super::host::Way;
use super::progress::Progress;
use super::talk::Talk;
use super::{Doctor, Patient};
use shoal_core::checkup::network::{self, FromPeer, PEER_VERSION, Pair, Target, ToPeer};
use shoal_core::fleet::{Fleet, Host, Reach};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

const LISTENING: Duration = Duration::from_secs(15);
/// Dialling gives up after three seconds, a silent peer after five; thirty-two are dialled at once.
const DIALLING: Duration = Duration::from_secs(20);
/// How long a pair carries its load: short, because there are many; long enough for a connection to come up to speed.
const LOAD_MS: u32 = 400;
const LOADING: Duration = Duration::from_secs(15);
const ENDING: Duration = Duration::from_secs(2);

/// A host that takes part.
struct Peer {
    name: String,
    talk: Talk,
    target: Target,
}

pub struct Ways {
    pub pairs: Vec<Pair>,
    /// Hosts of the fleet, by number, that should have taken part but could not, and why.
    pub absent: Vec<(usize, String)>,
}

/// All pairs of hosts that could be asked. `None`: `stop` said so.
pub fn measure(
    doctor: &Doctor,
    patients: &[Patient],
    stop: &dyn Fn() -> bool,
    progress: &mut Progress,
) -> Option<Ways> {
    let fleet = &doctor.fleet;
    let able: Vec<(usize, &Way)> =
        patients.iter().enumerate().filter_map(|(i, p)| Some((i, p.way.as_ref()?))).collect();
    let able: Vec<(usize, &Way)> = able.into_iter().filter(|(i, _)| runs_ranks(fleet, &fleet.hosts[*i])).collect();
    if able.len() < 2 {
        return Some(Ways { pairs: Vec::new(), absent: Vec::new() });
    }
    let mut said = |what: String| progress.show(std::iter::once(what));
    said("hosts listen".into());
    let (mut peers, absent) = gather(doctor, patients, &able);
    let targets: Vec<Target> = peers.iter().map(|peer| peer.target.clone()).collect();
    said("hosts dial each other".into());
    let mut pairs = dial(&mut peers, &targets);
    let rounds = network::loads(peers.len(), |a, b| matches!(pairs.get(&(a, b)), Some(Ok(_))));
    let mut loads: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (n, round) in rounds.iter().enumerate() {
        if stop() {
            return None;
        }
        said(format!("bandwidth, round {} of {}", n + 1, rounds.len()));
        load(&mut peers, &targets, round, &mut loads);
    }
    let pairs = std::mem::take(&mut pairs).into_iter().map(|((a, b), round_trip_ns)| Pair {
        from: peers[a].name.clone(),
        to: peers[b].name.clone(),
        round_trip_ns,
        bits_per_s: loads.get(&(a, b)).copied(),
    });
    let pairs = pairs.collect();
    peers.into_iter().for_each(|peer| peer.talk.finish(ENDING));
    Some(Ways { pairs, absent })
}

/// A host that others are only reached through need not be reached by ranks.
fn runs_ranks(fleet: &Fleet, host: &Host) -> bool {
    let place = &fleet.placement;
    host.slots.ranks > 0
        || place.master.as_ref() == Some(&host.name)
        || place.servers.contains(&host.name)
        || place.workers.contains(&host.name)
}

fn gather(doctor: &Doctor, patients: &[Patient], able: &[(usize, &Way)]) -> (Vec<Peer>, Vec<(usize, String)>) {
    let hello = ToPeer::Hello { version: PEER_VERSION, token: doctor.token.expose().into() };
    let hello = serde_json::to_string(&hello).unwrap_or_default();
    let mut absent = Vec::new();
    let mut started: Vec<(usize, Talk)> = Vec::new();
    for (i, way) in able {
        match way.start(doctor, "host peer") {
            Ok(process) => {
                let mut talk = Talk::with(process);
                talk.say(&hello);
                started.push((*i, talk));
            }
            Err(failure) => absent.push((*i, failure.what)),
        }
    }
    let deadline = Instant::now() + LISTENING;
    let mut peers = Vec::new();
    for (i, mut talk) in started {
        let heard = talk.hear(deadline.saturating_duration_since(Instant::now()), network::read);
        match (heard, address(doctor, patients, i)) {
            (Ok(FromPeer::Listening { port, .. }), Some(address)) => {
                let name = doctor.fleet.hosts[i].name.clone();
                peers.push(Peer { name, talk, target: Target { address, port } });
            }
            (Ok(FromPeer::Failed { why }), _) => absent.push((i, why)),
            (Ok(FromPeer::Listening { .. }), None) => absent.push((i, "what others call it is not known".into())),
            (Ok(_), _) => absent.push((i, "it said something odd".into())),
            (Err(silence), _) => absent.push((i, silence.to_string())),
        }
    }
    (peers, absent)
}

/// What the others call it: an address of the file; for a name, which may mean something to our ssh alone, what its sshd calls it; for
/// this machine, what they say the connection comes from.
fn address(doctor: &Doctor, patients: &[Patient], i: usize) -> Option<String> {
    let host = &doctor.fleet.hosts[i];
    if host.reach == Reach::Local {
        return patients.iter().find_map(|patient| patient.report.facts.as_ref()?.client.clone());
    }
    let called = host.among_hosts();
    if called.parse::<IpAddr>().is_ok() {
        return Some(called.into());
    }
    let facts = patients[i].report.facts.as_ref()?;
    Some(facts.server.clone().unwrap_or_else(|| called.into()))
}

type Trips = BTreeMap<(usize, usize), Result<u64, String>>;

fn dial(peers: &mut [Peer], targets: &[Target]) -> Trips {
    for (i, peer) in peers.iter_mut().enumerate() {
        let others = targets.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, target)| target.clone());
        let request = ToPeer::Reach { targets: others.collect() };
        peer.talk.say(&serde_json::to_string(&request).unwrap_or_default());
    }
    let limit = DIALLING * (targets.len() as u32).div_ceil(32);
    let deadline = Instant::now() + limit;
    let mut trips = Trips::new();
    for (i, peer) in peers.iter_mut().enumerate() {
        let others: Vec<usize> = (0..targets.len()).filter(|j| *j != i).collect();
        let answers = match peer.talk.hear(deadline.saturating_duration_since(Instant::now()), network::read) {
            Ok(FromPeer::Reached { round_trip_ns }) if round_trip_ns.len() == others.len() => round_trip_ns,
            Ok(FromPeer::Failed { why }) => vec![Err(why); others.len()],
            Ok(_) => vec![Err("it said something odd".into()); others.len()],
            Err(silence) => vec![Err(format!("it could not be asked: {silence}")); others.len()],
        };
        trips.extend(others.into_iter().map(|j| (i, j)).zip(answers));
    }
    trips
}

/// One round: no host is in two pairs. A load that fails is left out; that the pair can be reached is known.
fn load(peers: &mut [Peer], targets: &[Target], round: &[(usize, usize)], loads: &mut BTreeMap<(usize, usize), u64>) {
    for (from, to) in round {
        let request = ToPeer::Load { target: targets[*to].clone(), milliseconds: LOAD_MS };
        peers[*from].talk.say(&serde_json::to_string(&request).unwrap_or_default());
    }
    let deadline = Instant::now() + LOADING;
    for (from, to) in round {
        let left = deadline.saturating_duration_since(Instant::now());
        if let Ok(FromPeer::Loaded { bits_per_s: Ok(bits) }) = peers[*from].talk.hear(left, network::read) {
            loads.insert((*from, *to), bits);
        }
    }
}
