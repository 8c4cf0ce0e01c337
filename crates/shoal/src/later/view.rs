//! What do the answers of several hosts mean for a run? (pure)

use serde::Serialize;
use shoal_core::rank::Rank;
use shoal_daemon::Ending;
use shoal_daemon::records::{ListedRank, Listing, State};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunView {
    pub run: String,
    pub state: Standing,
    /// The first failure, or why nothing is known.
    pub why: Option<String>,
    pub detached: bool,
    pub age_ms: u64,
    /// Since the last rank ended; none while one lives.
    pub over_ms: Option<u64>,
    pub alive: usize,
    pub total: usize,
    pub hosts: BTreeSet<String>,
    pub command: String,
    pub ranks: Vec<RankView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankView {
    pub rank: Rank,
    pub host: String,
    /// None: its host did not answer.
    pub state: Option<State>,
    pub log: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Running,
    Finished,
    /// On request.
    Stopped,
    Failed,
    /// Ranks are gone and nobody recorded how they ended.
    Lost,
    /// Hosts of it did not answer, and those that did have nothing alive.
    Unknown,
}

impl Standing {
    pub fn word(self) -> &'static str {
        match self {
            Standing::Running => "running",
            Standing::Finished => "finished",
            Standing::Stopped => "stopped",
            Standing::Failed => "failed",
            Standing::Lost => "lost",
            Standing::Unknown => "unknown",
        }
    }
}

#[derive(Default)]
struct Known {
    detached: bool,
    command: Option<(bool, String)>,
    gang: BTreeMap<Rank, String>,
    ranks: BTreeMap<Rank, (String, ListedRank)>,
    began_ms: Option<u64>,
    ended_ms: Option<u64>,
}

/// All runs that were heard of, oldest first.
pub fn runs(listings: impl IntoIterator<Item = Listing>) -> Vec<RunView> {
    let mut all: BTreeMap<String, Known> = BTreeMap::new();
    for listing in listings {
        for run in listing.runs {
            let known = all.entry(run.run).or_default();
            known.detached |= run.detached;
            let works = run.ranks.iter().any(|r| matches!(r.rank, Rank::Worker(_)));
            if known.command.as_ref().is_none_or(|(is_workers, _)| works && !is_workers) {
                known.command = Some((works, run.command));
            }
            known.gang.extend(run.gang);
            for rank in run.ranks {
                // Ages by each host's own clock.
                let age = listing.now_ms.saturating_sub(rank.started_ms);
                known.began_ms = Some(known.began_ms.map_or(age, |old| old.max(age)));
                if let Some(at) = rank.ended_ms {
                    let since = listing.now_ms.saturating_sub(at);
                    known.ended_ms = Some(known.ended_ms.map_or(since, |old| old.min(since)));
                }
                // A home that hosts share shows the others' ranks too; only their own host can tell whether they live.
                let better = known.ranks.get(&rank.rank).is_none_or(|(_, old)| old.state == State::Elsewhere);
                if better {
                    known.ranks.insert(rank.rank, (run.host.clone(), rank));
                }
            }
        }
    }
    let mut views: Vec<RunView> = all.into_iter().map(|(run, known)| view(run, known)).collect();
    views.sort_by(|a, b| b.age_ms.cmp(&a.age_ms).then_with(|| a.run.cmp(&b.run)));
    views
}

fn view(run: String, mut known: Known) -> RunView {
    for (rank, (host, _)) in &known.ranks {
        known.gang.entry(*rank).or_insert_with(|| host.clone());
    }
    let (state, why) = standing(&known);
    let ranks = known.gang.iter().map(|(rank, host)| {
        let record = known.ranks.get(rank).map(|(_, record)| record);
        let state = record.map(|r| r.state.clone()).filter(|s| *s != State::Elsewhere);
        RankView { rank: *rank, host: host.clone(), state, log: record.map(|r| r.log.clone()) }
    });
    let ranks: Vec<RankView> = ranks.collect();
    let alive = ranks.iter().filter(|r| r.state == Some(State::Alive)).count();
    RunView {
        run,
        state,
        why,
        detached: known.detached,
        age_ms: known.began_ms.unwrap_or(0),
        over_ms: if state == Standing::Running { None } else { known.ended_ms },
        alive,
        total: ranks.len(),
        hosts: known.gang.values().cloned().collect(),
        command: known.command.map_or_else(String::new, |(_, command)| command),
        ranks,
    }
}

fn standing(known: &Known) -> (Standing, Option<String>) {
    let records = || known.ranks.iter().map(|(rank, (host, record))| (*rank, host.as_str(), record));
    // The gang's own verdict, where there is one: clocks of several hosts cannot say which failure came first.
    let verdict = records().find_map(|(_, _, r)| r.why.clone());
    let failure = || {
        let failed = |r: &ListedRank| match &r.state {
            State::Ended(Ending::Stopped(_)) => None,
            State::Ended(ending) if !ending.success() => Some(ending.clone()),
            _ => None,
        };
        let failures = records().filter_map(|(rank, host, r)| Some((r.ended_ms, rank, host, failed(r)?)));
        let first = failures.min_by_key(|(at, rank, ..)| (*at, std::cmp::Reverse(*rank)));
        first.map(|(_, rank, host, ending)| format!("{rank} on {host}: {ending}"))
    };
    if records().any(|(_, _, r)| r.state == State::Alive) {
        return (Standing::Running, verdict.or_else(failure));
    }
    if let Some(why) = verdict.or_else(failure) {
        return (Standing::Failed, Some(why));
    }
    if let Some((rank, host, _)) = records().find(|(_, _, r)| r.state == State::Lost) {
        let why = format!("{rank} on {host}: its keeper is gone and did not record an end; was the host restarted?");
        return (Standing::Lost, Some(why));
    }
    let silent: BTreeSet<&str> = known
        .gang
        .iter()
        .filter(|(rank, _)| known.ranks.get(rank).is_none_or(|(_, r)| r.state == State::Elsewhere))
        .map(|(_, host)| host.as_str())
        .collect();
    if !silent.is_empty() {
        let hosts: Vec<&str> = silent.into_iter().collect();
        return (Standing::Unknown, Some(format!("nothing is known from {}", hosts.join(", "))));
    }
    let stopped = |(rank, _, r): (Rank, &str, &ListedRank)| {
        matches!((rank, &r.state), (Rank::Worker(_), State::Ended(Ending::Stopped(_))))
    };
    if records().any(stopped) { (Standing::Stopped, None) } else { (Standing::Finished, None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_daemon::How;
    use shoal_daemon::records::{LISTING_VERSION, ListedRun};

    fn listing(host: &str, ranks: &[(Rank, State, Option<&str>)]) -> Listing {
        let ranks = ranks.iter().zip(1u64..).map(|((rank, state, why), k)| ListedRank {
            rank: *rank,
            state: state.clone(),
            started_ms: 1_000,
            ended_ms: matches!(state, State::Ended(_)).then_some(2_000 + k),
            why: why.map(Into::into),
            log: "/l".into(),
        });
        let gang = [(Rank::Worker(0), "a"), (Rank::Worker(1), "b")].map(|(rank, host)| (rank, host.to_string()));
        let run = ListedRun {
            run: "r".into(),
            host: host.into(),
            detached: true,
            command: "train".into(),
            gang: gang.into(),
            ranks: ranks.collect(),
        };
        Listing { version: LISTING_VERSION, node: host.into(), now_ms: 5_000, runs: vec![run], ids: vec![] }
    }

    const W0: Rank = Rank::Worker(0);
    const W1: Rank = Rank::Worker(1);

    #[test]
    fn what_a_run_is_follows_from_what_its_hosts_say() {
        let ended = |code| State::Ended(Ending::Exited(code));
        let stopped = State::Ended(Ending::Stopped(How::Signaled(15)));
        let why = Some("host b was lost: silent");
        for (a, b, state, said) in [
            (Some((State::Alive, None)), Some((State::Alive, None)), Standing::Running, None),
            (Some((ended(0), None)), Some((ended(0), None)), Standing::Finished, None),
            (Some((stopped.clone(), None)), Some((ended(0), None)), Standing::Stopped, None),
            (
                Some((stopped.clone(), None)),
                Some((ended(3), None)),
                Standing::Failed,
                Some("worker1 on b: exited with code 3"),
            ),
            (Some((stopped.clone(), why)), None, Standing::Failed, why),
            (Some((ended(0), None)), None, Standing::Unknown, Some("nothing is known from b")),
            (
                Some((ended(0), None)),
                Some((State::Elsewhere, None)),
                Standing::Unknown,
                Some("nothing is known from b"),
            ),
        ] {
            let a = a.map(|(state, why)| listing("a", &[(W0, state, why)]));
            let b = b.map(|(state, why)| listing("b", &[(W1, state, why)]));
            let views = runs(a.into_iter().chain(b));
            assert_eq!((views[0].state, views[0].why.as_deref()), (state, said));
            assert_eq!((views[0].total, views[0].age_ms), (2, 4_000));
        }
        let lost = runs([listing("a", &[(W0, State::Lost, None), (W1, ended(0), None)])]);
        assert_eq!(lost[0].state, Standing::Lost);
    }

    #[test]
    fn a_shared_home_does_not_count_twice_and_its_own_host_is_believed() {
        let views = runs([
            listing("a", &[(W0, State::Alive, None), (W1, State::Elsewhere, None)]),
            listing("b", &[(W0, State::Elsewhere, None), (W1, State::Alive, None)]),
        ]);
        assert_eq!((views.len(), views[0].alive, views[0].total), (1, 2, 2));
    }
}
