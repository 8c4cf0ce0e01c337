//! What has to happen to the instances for the cluster to be as the file says?

use super::want::Nodes;
use crate::cluster::Role;
use serde::{Deserialize, Serialize};

/// One instance of the cluster, as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub id: String,
    pub role: Role,
    pub kind: String,
    pub state: State,
    /// What it was launched as.
    pub launch: String,
    pub zone: String,
    pub instance_type: String,
    pub spot: bool,
    /// Seconds since 1970.
    pub since: u64,
    pub internal: Option<String>,
    pub external: Option<String>,
}

/// How long an instance may answer before it knows the key that opens it: its first start puts the key there, and sshd may be faster.
pub const YOUNG_S: u64 = 300;

impl Instance {
    /// Whether a refused key may still mean "not yet". Clocks agree well enough: the cloud refuses calls of those whose clock is minutes off.
    pub fn is_young(&self, now_s: u64) -> bool {
        now_s < self.since.saturating_add(YOUNG_S)
    }
}

/// Instances that end are as good as gone: they are not among these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Pending,
    Running,
    Stopping,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// A stopped instance that is as the file asks: cheaper and faster than a new one.
    Start {
        id: String,
    },
    Launch {
        nodes: usize,
        count: u32,
    },
    /// Runs, but was launched as something else.
    Replace {
        id: String,
        role: Role,
        kind: String,
    },
    /// More of a type than asked for, or of a type that the file no longer has. They are left alone: somebody may use them.
    Spare {
        id: String,
        kind: String,
    },
}

/// In the order of the types; `Launch::nodes` is the place in `want`. Instances that will be replaced count as missing.
pub fn moves(want: &[Nodes], found: &[Instance]) -> Vec<Move> {
    let mut moves = Vec::new();
    for (place, nodes) in want.iter().enumerate() {
        let mine = || found.iter().filter(|i| i.role == nodes.role && i.kind == nodes.kind);
        let awake = |i: &&Instance| matches!(i.state, State::Pending | State::Running);
        let alike = |i: &&Instance| i.launch == nodes.launch;
        for old in mine().filter(awake).filter(|i| !alike(i)) {
            moves.push(Move::Replace { id: old.id.clone(), role: nodes.role, kind: nodes.kind.clone() });
        }
        let mut running: Vec<&Instance> = mine().filter(awake).filter(alike).collect();
        // The oldest stay; by id where they are of one age, so that everybody decides alike.
        running.sort_unstable_by_key(|i| (i.since, i.id.as_str()));
        let count = nodes.count as usize;
        for spare in running.iter().skip(count) {
            moves.push(Move::Spare { id: spare.id.clone(), kind: nodes.kind.clone() });
        }
        let missing = count.saturating_sub(running.len());
        let mut asleep: Vec<&Instance> = mine().filter(|i| !awake(i)).filter(alike).collect();
        asleep.sort_unstable_by_key(|i| (i.since, i.id.as_str()));
        asleep.truncate(missing);
        moves.extend(asleep.iter().map(|i| Move::Start { id: i.id.clone() }));
        if let Ok(count @ 1..) = u32::try_from(missing - asleep.len()) {
            moves.push(Move::Launch { nodes: place, count });
        }
    }
    let known = |i: &&Instance| want.iter().any(|nodes| nodes.role == i.role && nodes.kind == i.kind);
    let strangers = found.iter().filter(|i| !known(i) && i.state != State::Stopped);
    moves.extend(strangers.map(|i| Move::Spare { id: i.id.clone(), kind: i.kind.clone() }));
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(role: Role, kind: &str, count: u32) -> Nodes {
        Nodes { role, kind: kind.into(), count, launch: "now".into() }
    }

    fn instance(id: &str, role: Role, kind: &str, state: State, launch: &str) -> Instance {
        Instance {
            id: id.into(),
            role,
            kind: kind.into(),
            state,
            launch: launch.into(),
            zone: "us-west-2a".into(),
            instance_type: "t3.micro".into(),
            spot: false,
            since: 0,
            internal: None,
            external: None,
        }
    }

    fn wanted() -> Vec<Nodes> {
        vec![nodes(Role::Head, "h", 1), nodes(Role::Worker, "w", 2)]
    }

    #[test]
    fn what_is_there_is_used_and_the_rest_is_made() {
        let head = || instance("i-h", Role::Head, "h", State::Running, "now");
        let worker = |id: &str, state, launch: &str| instance(id, Role::Worker, "w", state, launch);
        let launch = |nodes, count| Move::Launch { nodes, count };
        let start = |id: &str| Move::Start { id: id.into() };
        for (found, wanted_moves) in [
            (vec![], vec![launch(0, 1), launch(1, 2)]),
            (vec![head()], vec![launch(1, 2)]),
            (vec![head(), worker("i-1", State::Pending, "now"), worker("i-2", State::Running, "now")], vec![]),
            (
                vec![head(), worker("i-1", State::Stopped, "now"), worker("i-2", State::Stopping, "now")],
                vec![start("i-1"), start("i-2")],
            ),
            // A stopped one that was something else is of no use, and costs no machine.
            (vec![head(), worker("i-1", State::Stopped, "before")], vec![launch(1, 2)]),
            (
                vec![head(), worker("i-1", State::Running, "before"), worker("i-2", State::Running, "now")],
                vec![Move::Replace { id: "i-1".into(), role: Role::Worker, kind: "w".into() }, launch(1, 1)],
            ),
            (
                vec![
                    head(),
                    worker("i-1", State::Running, "now"),
                    worker("i-2", State::Running, "now"),
                    worker("i-3", State::Running, "now"),
                    instance("i-9", Role::Worker, "old", State::Running, "now"),
                ],
                vec![
                    Move::Spare { id: "i-3".into(), kind: "w".into() },
                    Move::Spare { id: "i-9".into(), kind: "old".into() },
                ],
            ),
        ] {
            assert_eq!(moves(&wanted(), &found), wanted_moves, "{found:?}");
        }
    }

    /// Does what the moves say, as a cloud would.
    fn apply(want: &[Nodes], mut found: Vec<Instance>, moves: &[Move]) -> Vec<Instance> {
        for one in moves {
            match one {
                Move::Start { id } => {
                    found.iter_mut().filter(|i| i.id == *id).for_each(|i| i.state = State::Running);
                }
                Move::Replace { id, .. } => found.retain(|i| i.id != *id),
                Move::Launch { nodes, count } => {
                    let Nodes { role, kind, launch, .. } = &want[*nodes];
                    for k in 0..*count {
                        found.push(instance(&format!("new-{nodes}-{k}"), *role, kind, State::Running, launch));
                    }
                }
                Move::Spare { .. } => {}
            }
        }
        found
    }

    proptest! {
        #[test]
        fn afterwards_there_is_nothing_left_to_do(
            kinds in proptest::collection::vec((0..3u8, 0..4u8, proptest::bool::ANY), 0..12)
        ) {
            let states = [State::Pending, State::Running, State::Stopping, State::Stopped];
            let found: Vec<Instance> = kinds.iter().enumerate().map(|(i, (kind, state, now))| {
                let (role, kind) = [(Role::Head, "h"), (Role::Worker, "w"), (Role::Worker, "old")][*kind as usize];
                let launch = if *now { "now" } else { "before" };
                instance(&format!("i-{i}"), role, kind, states[*state as usize], launch)
            }).collect();
            let first = moves(&wanted(), &found);
            let after = apply(&wanted(), found, &first);
            for nodes in wanted() {
                let usable = |i: &&Instance| i.kind == nodes.kind && i.launch == nodes.launch
                    && matches!(i.state, State::Pending | State::Running);
                prop_assert!(after.iter().filter(usable).count() >= nodes.count as usize);
            }
            let second = moves(&wanted(), &after);
            prop_assert!(second.iter().all(|one| matches!(one, Move::Spare { .. })), "{second:?}");
        }
    }
}
