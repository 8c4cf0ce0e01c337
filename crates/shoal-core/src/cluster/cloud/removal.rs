//! In which order do a cluster's objects go, and what does it mean that one is still there?

use super::ledger::{Fate, Ledger};
use super::{BAKED, Kind, Object, PART, RAY_ROLE, Whose, want, whose};
use serde::{Deserialize, Serialize};

/// What is removed together: everything in one wave may go at once, and is waited for before the next wave begins.
pub fn waves(objects: &[Object]) -> Vec<Vec<Object>> {
    let mut waves: Vec<Vec<Object>> = Vec::new();
    for wave in 0..=LAST_WAVE {
        let mut these: Vec<Object> = objects.iter().filter(|o| wave_of(o) == Some(wave)).cloned().collect();
        these.sort_unstable();
        if !these.is_empty() {
            waves.push(these);
        }
    }
    waves
}

const LAST_WAVE: u8 = 4;

/// `None`: not removed with the cluster. A disk that outlives its instance does so because the file says that it shall.
fn wave_of(object: &Object) -> Option<u8> {
    let store = object.tags.get(PART).is_some_and(|part| part == want::STORE);
    match object.kind {
        Kind::Instance | Kind::MountTarget => Some(0),
        Kind::FileSystem => Some(1),
        // Its rules name the group of the nodes, which cannot go before it.
        Kind::SecurityGroup if store => Some(2),
        Kind::SecurityGroup | Kind::PlacementGroup => Some(3),
        Kind::KeyPair => Some(4),
        Kind::Volume | Kind::Image => None,
    }
}

/// What was found after all was done: only what is still there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// Should not be there.
    pub left: Vec<Remains>,
    /// Is there on purpose.
    pub kept: Vec<Remains>,
    /// Bears the cluster's name, but is another's.
    pub others: Vec<Remains>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remains {
    pub object: Object,
    pub why: String,
}

/// What may stay, because it was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed<'a> {
    /// Stopped instances, and with them all that they need to start again.
    pub stopped: bool,
    /// The head and all that it needs.
    pub head: bool,
    /// Workers that the file wants at least, by their ids.
    pub spared: &'a [String],
}

/// The verdict over what a scan by tags and by the ledger's ids has found.
pub fn verdict(found: &[Object], cluster: &str, ledger: &Ledger, take_over: bool, allowed: Allowed) -> Scan {
    let mut scan = Scan::default();
    for object in found {
        let remains = |why: String| Remains { object: object.clone(), why };
        let item = ledger.by_id(&object.id);
        let whose = if item.is_some() { Whose::Ours } else { whose(object, cluster, ledger) };
        match (whose, object.kind) {
            (Whose::Strangers, _) => {}
            (_, Kind::Image) if object.tags.contains_key(BAKED) || item.is_some_and(|i| i.fate == Fate::Kept) => {
                scan.kept.push(remains("baked on purpose; `aws ec2 deregister-image` removes it".into()));
            }
            (Whose::Elsewhere(by), _) if !take_over => {
                scan.others.push(remains(format!("made by {by} for a cluster of the same name")));
            }
            (_, Kind::Volume) if !in_use(object) => {
                scan.kept.push(remains("the file says DeleteOnTermination: false for this disk".into()));
            }
            _ => match stays(object, allowed) {
                Ok(why) => scan.kept.push(remains(why.into())),
                Err(why) => scan.left.push(remains(why.into())),
            },
        }
    }
    scan
}

/// Whether what is ours may be there, and why or why not. A node only in its role and state: whatever else runs costs money that nobody asked for.
fn stays(object: &Object, allowed: Allowed) -> Result<&'static str, &'static str> {
    const NEXT: &str = "kept for the next `shoal up`";
    match object.kind {
        Kind::Instance if allowed.head && object.tags.get(RAY_ROLE).is_some_and(|role| role == "head") => {
            Ok("the head stays")
        }
        Kind::Instance if allowed.spared.contains(&object.id) => Ok("the file wants it at least"),
        Kind::Instance if allowed.stopped && object.state == "stopped" => Ok(NEXT),
        Kind::Instance if allowed.stopped => Err("should have stopped, or be gone"),
        Kind::Instance => Err("should be gone"),
        // What nodes use stays with them.
        _ if allowed.head => Ok("the head stays"),
        _ if allowed.stopped => Ok(NEXT),
        _ => Err("should be gone"),
    }
}

/// A disk that hangs on an instance goes or stays with it.
fn in_use(volume: &Object) -> bool {
    volume.state == "in-use"
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Entry;
    use super::super::tests::{ledger, object};
    use super::super::{CLUSTER, tags};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_goes_before_what_needs_it() {
        let ledger = ledger();
        let one = |kind, id: &str, part: &str| object(kind, id, tags("demo", &ledger, part));
        let all = [
            one(Kind::KeyPair, "key", "nodes"),
            one(Kind::Image, "ami", "nodes"),
            one(Kind::SecurityGroup, "sg-n", "nodes"),
            one(Kind::FileSystem, "fs", "efs"),
            one(Kind::SecurityGroup, "sg-e", "efs"),
            one(Kind::Volume, "vol", "nodes"),
            one(Kind::MountTarget, "mt", "efs"),
            one(Kind::PlacementGroup, "pg", "nodes"),
            one(Kind::Instance, "i", "nodes"),
        ];
        let order: Vec<Vec<String>> =
            waves(&all).into_iter().map(|wave| wave.into_iter().map(|o| o.id).collect()).collect();
        assert_eq!(order, [vec!["i", "mt"], vec!["fs"], vec!["sg-e"], vec!["sg-n", "pg"], vec!["key"]]);
    }

    #[test]
    fn what_is_found_afterwards_is_left_kept_or_anothers() {
        let ours = ledger();
        let mut theirs = ledger();
        theirs.id = "ffff".into();
        theirs.by = "bob@desk".into();
        let group = object(Kind::SecurityGroup, "sg-1", tags("demo", &ours, "nodes"));
        let other = object(Kind::SecurityGroup, "sg-2", tags("demo", &theirs, "nodes"));
        let stranger = object(Kind::SecurityGroup, "sg-3", Default::default());
        let mut image = object(Kind::Image, "ami-1", tags("demo", &ours, "nodes"));
        image.tags.insert(BAKED.into(), "paper".into());
        let mut disk = object(Kind::Volume, "vol-1", tags("demo", &ours, "nodes"));
        disk.state = "available".into();
        let found = [group, other, stranger, image, disk];
        let ids = |remains: &[Remains]| remains.iter().map(|r| r.object.id.clone()).collect::<Vec<_>>();

        let scan = verdict(&found, "demo", &ours, false, Allowed::default());
        assert_eq!(ids(&scan.left), ["sg-1"]);
        assert_eq!(ids(&scan.kept), ["ami-1", "vol-1"]);
        assert_eq!(ids(&scan.others), ["sg-2"]);
        assert!(scan.others[0].why.contains("bob@desk"));

        let scan = verdict(&found, "demo", &ours, true, Allowed::default());
        assert_eq!(ids(&scan.left), ["sg-1", "sg-2"]);
        let scan = verdict(&found, "demo", &ours, false, Allowed { stopped: true, ..Allowed::default() });
        assert_eq!((ids(&scan.left).len(), ids(&scan.kept).len()), (0, 3));
    }

    /// Whatever still is there although it was to go or stop is left, and `down` does not end well.
    #[test]
    fn nodes_stay_by_role_and_state() {
        let ours = ledger();
        let node = |id: &str, role: &str, state: &str| {
            let mut tags = tags("demo", &ours, "nodes");
            tags.insert(RAY_ROLE.into(), role.into());
            Object { state: state.into(), ..object(Kind::Instance, id, tags) }
        };
        let found = [
            node("head", "head", "running"),
            node("awake", "worker", "running"),
            node("asleep", "worker", "stopped"),
            node("ending", "worker", "stopping"),
            object(Kind::KeyPair, "key", tags("demo", &ours, "nodes")),
        ];
        let spared = ["awake".to_string()];
        let all = ["head", "awake", "asleep", "ending", "key"];
        for (stopped, head, spared, kept) in [
            (false, false, &[][..], &[][..]),
            (false, true, &[], &["head", "key"]),
            (false, true, &spared, &["head", "awake", "key"]),
            (true, false, &[], &["asleep", "key"]),
            (true, true, &[], &["head", "asleep", "key"]),
            (true, true, &spared, &["head", "awake", "asleep", "key"]),
        ] {
            let scan = verdict(&found, "demo", &ours, false, Allowed { stopped, head, spared });
            let ids = |remains: &[Remains]| remains.iter().map(|r| r.object.id.clone()).collect::<Vec<_>>();
            let left: Vec<&str> = all.into_iter().filter(|id| !kept.contains(id)).collect();
            assert_eq!(
                (ids(&scan.kept), ids(&scan.left)),
                (kept.iter().map(|id| id.to_string()).collect(), left.iter().map(|id| id.to_string()).collect()),
                "stopped {stopped}, head {head}, {spared:?}"
            );
        }
    }

    #[test]
    fn the_ledger_knows_its_own_even_without_tags() {
        let mut ours = ledger();
        ours.take(1, &Entry::Will { n: 1, kind: Kind::SecurityGroup, name: "g".into() }).unwrap();
        ours.take(2, &Entry::Made { n: 1, id: "sg-1".into() }).unwrap();
        let bare = object(Kind::SecurityGroup, "sg-1", Default::default());
        assert_eq!(verdict(&[bare], "demo", &ours, false, Allowed::default()).left.len(), 1);
    }

    /// A cloud in memory: it refuses to delete what is still needed.
    #[derive(Default)]
    struct Cloud(Vec<Object>);

    impl Cloud {
        fn remove(&mut self, gone: &Object) -> Result<(), String> {
            let others = |kind: Kind| self.0.iter().any(|o| o.kind == kind && o.id != gone.id);
            let needed = match gone.kind {
                Kind::SecurityGroup => {
                    let store = gone.tags[PART] == "efs";
                    let referred = self.0.iter().any(|o| o.kind == Kind::SecurityGroup && o.tags[PART] == "efs");
                    (store && others(Kind::MountTarget)) || (!store && (others(Kind::Instance) || referred))
                }
                Kind::PlacementGroup => others(Kind::Instance),
                Kind::FileSystem => others(Kind::MountTarget),
                _ => false,
            };
            if needed {
                return Err(format!("{gone} is in use"));
            }
            self.0.retain(|o| o.id != gone.id);
            Ok(())
        }
    }

    proptest! {
        /// However far `up` came, and whether or not the ledger heard how its last step ended, `down` leaves nothing.
        #[test]
        fn any_beginning_of_up_followed_by_down_leaves_nothing(
            done in 0usize..12, heard in proptest::bool::ANY, shuffle in proptest::collection::vec(0usize..100, 12)
        ) {
            let mut book = ledger();
            let steps = [
                (Kind::KeyPair, "nodes"), (Kind::SecurityGroup, "nodes"), (Kind::PlacementGroup, "nodes"),
                (Kind::SecurityGroup, "efs"), (Kind::FileSystem, "efs"), (Kind::MountTarget, "efs"),
                (Kind::MountTarget, "efs"), (Kind::Instance, "nodes"), (Kind::Instance, "nodes"), (Kind::Instance, "nodes"),
            ];
            let mut cloud = Cloud::default();
            cloud.0.push(object(Kind::KeyPair, "stranger", [(CLUSTER.to_string(), "other".to_string())].into()));
            for (i, (kind, part)) in steps.iter().enumerate().take(done) {
                let n = book.next();
                book.take(0, &Entry::Will { n, kind: *kind, name: String::new() }).unwrap();
                let made = object(*kind, &format!("o-{i}"), tags("demo", &book, part));
                cloud.0.push(made);
                if heard || i + 1 < done.min(steps.len()) {
                    book.take(0, &Entry::Made { n, id: format!("o-{i}") }).unwrap();
                }
            }
            // What a cloud lists, it lists in any order.
            let mut listed = cloud.0.clone();
            for (i, other) in shuffle.iter().enumerate() {
                if !listed.is_empty() { let n = listed.len(); listed.swap(i % n, other % n); }
            }
            let ours: Vec<Object> = listed.into_iter().filter(|o| whose(o, "demo", &book) == Whose::Ours).collect();
            for gone in waves(&ours).iter().flatten() {
                prop_assert_eq!(cloud.remove(gone), Ok(()));
            }
            let scan = verdict(&cloud.0, "demo", &book, false, Allowed::default());
            prop_assert_eq!(scan, Scan::default());
            prop_assert_eq!(cloud.0.len(), 1);
        }
    }
}
