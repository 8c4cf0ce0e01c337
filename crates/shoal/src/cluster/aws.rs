//! Machines of AWS, through `shoal-aws`.

use super::crew;
use super::down::KEPT;
use super::helper::{self, Helper};
use super::lock;
use super::provider::{End, Provider, Trouble};
use shoal_core::cluster::cloud::difference::{Instance, State};
use shoal_core::cluster::cloud::efs::{Shared, mount_command};
use shoal_core::cluster::cloud::ledger;
use shoal_core::cluster::cloud::preview::Preview;
use shoal_core::cluster::cloud::prices::{self, Meter};
use shoal_core::cluster::cloud::protocol::{Ask, Ending, Event, Request, VERSION};
use shoal_core::cluster::cloud::removal::{Remains, Scan};
use shoal_core::cluster::{Aws as Said, Cluster, Node, Role};
use shoal_core::fleet::{Host, HostKey, Reach, Slots};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KNOWN_HOSTS: &str = "known_hosts";
/// A new instance takes a minute or two until sshd answers; one that has not after this long is named as unreachable.
const FIRST_ANSWER: Duration = Duration::from_secs(300);

pub struct Aws {
    cluster: Cluster,
    said: Said,
    folder: PathBuf,
    helper: Helper,
    known: RefCell<Option<Known>>,
}

/// So many of another's objects are named; the lines before name all.
const NAMED: usize = 4;

/// What AWS said last.
struct Known {
    instances: Vec<Instance>,
    shared: Option<Shared>,
    key: Option<String>,
}

impl Aws {
    pub fn new(cluster: &Cluster, said: &Said) -> Result<Aws, Trouble> {
        let folder = lock::place(&cluster.name)?;
        Ok(Aws::in_folder(cluster, said, folder, Helper::find()))
    }

    /// As `new`, with ledger and key in that folder, through that program.
    pub fn in_folder(cluster: &Cluster, said: &Said, folder: PathBuf, helper: Helper) -> Aws {
        Aws { cluster: cluster.clone(), said: said.clone(), folder, helper, known: RefCell::default() }
    }

    fn ask(&self, ask: Ask, tell: &dyn Fn(&str)) -> Result<Event, Trouble> {
        let request = Request {
            version: VERSION,
            cluster: self.cluster.clone(),
            folder: self.folder.to_string_lossy().into_owned(),
            by: who(),
            take_over: is_set("SHOAL_TAKE_OVER"),
            ask,
        };
        helper::ask(&self.helper, &request, tell)
    }

    /// An image of the head under that name: its id.
    pub fn bake(&self, name: &str, reboot: bool, tell: &dyn Fn(&str)) -> Result<String, Trouble> {
        match self.ask(Ask::Bake { name: name.into(), reboot }, tell)? {
            Event::Baked { id, .. } => Ok(id),
            _ => Err(unexpected()),
        }
    }

    /// What is there of the cluster, without changing anything.
    pub fn scan(&self) -> Result<Scan, Trouble> {
        match self.ask(Ask::Scan, &|_| {})? {
            Event::Ended { scan, .. } => Ok(scan),
            _ => Err(unexpected()),
        }
    }

    fn learn(&self, event: Event) -> Result<Vec<Node>, Trouble> {
        let Event::Nodes { nodes: instances, shared, key } = event else { return Err(unexpected()) };
        let known = Known { instances, shared, key };
        let nodes = known.instances.iter().filter_map(|one| self.node(one, known.key.as_deref())).collect();
        *self.known.borrow_mut() = Some(known);
        Ok(nodes)
    }

    /// `None`: it does not run, or has no address yet.
    fn node(&self, instance: &Instance, made: Option<&str>) -> Option<Node> {
        if !matches!(instance.state, State::Running | State::Pending) {
            return None;
        }
        let internal = instance.internal.clone()?;
        let address = if self.said.use_internal_ips { None } else { instance.external.clone() };
        let address = address.unwrap_or_else(|| internal.clone());
        let auth = &self.cluster.auth;
        let key = auth.key.clone().or_else(|| self.named_key()).or_else(|| made.map(Into::into));
        let (user, jump, proxy) = (auth.user.clone(), auth.jump.clone(), auth.proxy_command.clone());
        // Addresses of a cloud go from one to another, instances do not.
        let known = HostKey { file: self.known_hosts().to_string_lossy().into_owned(), name: instance.id.clone() };
        let reach = Reach::Ssh { user, port: auth.port, key, jump, proxy, host_key: Some(known) };
        let groups = vec![if instance.role == Role::Head { "head" } else { "worker" }.to_string()];
        let (name, slots) = (address.clone(), Slots::default());
        let host = Host { name, address, internal: None, reach, groups, slots };
        Some(Node { role: instance.role, kind: instance.kind.clone(), host, internal })
    }

    /// Host keys of the cluster's instances, by instance.
    fn known_hosts(&self) -> PathBuf {
        self.folder.join(KNOWN_HOSTS)
    }

    /// The scan found nothing: neither ledger nor key is needed any more. As long as something is there, the ledger is what knows of it.
    fn forget(&self) {
        let ours =
            |name: &str| name.starts_with("ledger") && name.ends_with(".jsonl") || name == "key" || name == "key.pub";
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(ours) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Whether anything was ever made from here, as far as the ledger goes. One that cannot be read is named by whoever needs it.
    fn knows_of_something(&self) -> bool {
        let text = std::fs::read_to_string(self.folder.join("ledger.jsonl")).unwrap_or_default();
        ledger::read(&text).map_or(true, |ledger| ledger.is_some_and(|ledger| !ledger.items.is_empty()))
    }

    fn anothers(&self, others: &[Remains]) -> Option<Trouble> {
        anothers(&self.cluster.name, &self.said.region, others)
    }

    /// Ray keeps the private half of a named key pair there.
    fn named_key(&self) -> Option<String> {
        let name = self.said.key_name.as_ref()?;
        let file = Path::new(&std::env::var_os("HOME")?).join(".ssh").join(format!("{name}.pem"));
        file.is_file().then(|| file.to_string_lossy().into_owned())
    }
}

impl Provider for Aws {
    fn nodes(&self) -> Result<Vec<Node>, Trouble> {
        let event = self.ask(Ask::Nodes, &|_| {})?;
        self.learn(event)
    }

    fn ensure(&self, tell: &dyn Fn(&str)) -> Result<Vec<Node>, Trouble> {
        let event = self.ask(Ask::Ensure { replace: is_set("SHOAL_REPLACE") }, tell)?;
        self.learn(event)
    }

    fn end(&self, how: &End, tell: &dyn Fn(&str)) -> Result<Vec<String>, Trouble> {
        let End { workers_only, keep_min_workers, keep_stopped } = *how;
        let workers_only = workers_only || keep_min_workers;
        let how = Ending { keep_stopped, workers_only, keep_min_workers };
        // Asked beforehand: the helper opens a ledger where there is none.
        let knows = self.knows_of_something();
        let Event::Ended { gone, scan } = self.ask(Ask::End { how }, tell)? else { return Err(unexpected()) };
        let kept = scan.kept.iter().map(|remains| (remains, KEPT));
        for (remains, word) in kept.chain(scan.others.iter().map(|remains| (remains, "not ours: "))) {
            tell(&format!("{word}{} ({})", remains.object, remains.why));
        }
        // Nothing is forgotten then either: the key in our folder may be the only one that opens them.
        let lost = if knows || !scan.left.is_empty() { None } else { self.anothers(&scan.others) };
        if let Some(trouble) = lost {
            return Err(trouble);
        }
        if scan.left.is_empty() {
            let all = !(how.workers_only || how.keep_stopped || self.said.cache_stopped_nodes);
            if all {
                // No instance is left whose key they could be.
                for name in [KNOWN_HOSTS, "known_hosts.old"] {
                    let _ = std::fs::remove_file(self.folder.join(name));
                }
            }
            if all && scan.kept.is_empty() {
                self.forget();
            }
            return Ok(gone);
        }
        let left: Vec<String> = scan.left.iter().map(|remains| remains.object.to_string()).collect();
        Err(Trouble {
            what: format!(
                "{} objects of cluster `{}` are still there: {}",
                left.len(),
                self.cluster.name,
                left.join("; ")
            ),
            hint: "the lines above say why; `shoal down` again goes on with them".into(),
        })
    }

    fn costs(&self, now_ms: u64) -> Option<String> {
        if self.known.borrow().is_none() {
            self.nodes().ok()?;
        }
        let known = self.known.borrow();
        let running = known.as_ref()?.instances.iter().filter(|one| one.state == State::Running);
        let meters: Vec<Meter<'_>> =
            running.map(|one| Meter { instance_type: &one.instance_type, spot: one.spot, since: one.since }).collect();
        prices::line(&self.said.region, &meters, now_ms / 1000)
    }

    fn machines_stay(&self, how: &End) -> bool {
        how.keep_stopped || self.said.cache_stopped_nodes
    }

    fn preview(&self) -> Result<Option<Preview>, Trouble> {
        match self.ask(Ask::Preview, &|_| {})? {
            Event::Preview { preview } => Ok(Some(preview)),
            _ => Err(unexpected()),
        }
    }

    fn not_from_here(&self) -> Option<Trouble> {
        self.anothers(&self.scan().ok()?.others)
    }

    fn made(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join("ledger.jsonl")).unwrap_or_default();
        // A ledger that cannot be read is named by whoever needs it.
        let Ok(Some(ledger)) = ledger::read(&text) else { return Vec::new() };
        ledger.open().map(ToString::to_string).collect()
    }

    fn is_young(&self, node: &Node) -> bool {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let known = self.known.borrow();
        let mut all = known.iter().flat_map(|known| &known.instances);
        all.any(|one| one.internal.as_deref() == Some(&node.internal) && one.is_young(now))
    }

    fn patience(&self) -> Duration {
        crew::patience("SHOAL_UP_FIRST_PATIENCE_S", FIRST_ANSWER)
    }

    fn efs(&self) -> Option<String> {
        let known = self.known.borrow();
        let known = known.as_ref()?;
        let place = |one: &Instance| Some((one.internal.clone()?, one.zone.clone()));
        let places: Vec<(String, String)> = known.instances.iter().filter_map(place).collect();
        let places: Vec<(&str, &str)> =
            places.iter().map(|(address, zone)| (address.as_str(), zone.as_str())).collect();
        known.shared.as_ref().map(|shared| mount_command(shared, &places))
    }
}

/// A cluster of this name is there, and nothing here knows of it: another's, or ours whose ledger is lost. Whoever takes it for nothing pays for it
/// (pure).
fn anothers(cluster: &str, region: &str, others: &[Remains]) -> Option<Trouble> {
    if others.is_empty() {
        return None;
    }
    let named: Vec<String> = others.iter().take(NAMED).map(|remains| remains.object.to_string()).collect();
    let more = others.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Some(Trouble {
        what: format!("a cluster `{cluster}` is in {region} that was not made from here: {}{more}", named.join("; ")),
        hint: "if it is yours and its ledger is lost, SHOAL_TAKE_OVER=1 treats it as yours, for `shoal down` too; \
               else it is used from where it was made"
            .into(),
    })
}

fn unexpected() -> Trouble {
    Trouble {
        what: "shoal-aws gave an answer to another question".into(),
        hint: "install shoal and shoal-aws of one release".into(),
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

/// user@machine.
fn who() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
    let machine = rustix::system::uname();
    format!("{user}@{}", machine.nodename().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::cluster::cloud::{Kind, Object};

    fn remains(kind: Kind, id: &str) -> Remains {
        let (name, state, tags) = (String::new(), String::new(), shoal_core::cluster::cloud::Tags::new());
        Remains { object: Object { kind, id: id.into(), name, state, tags }, why: "made by bob@desk".into() }
    }

    #[test]
    fn a_cluster_that_nothing_here_knows_of_is_named() {
        assert_eq!(anothers("paper", "us-west-2", &[]), None);
        let all: Vec<Remains> = (0..6).map(|i| remains(Kind::Instance, &format!("i-{i}"))).collect();
        let trouble = anothers("paper", "us-west-2", &all).expect("it is there");
        let said = "a cluster `paper` is in us-west-2 that was not made from here: instance i-0; instance i-1; instance i-2; instance i-3; and 2 more";
        assert_eq!(trouble.what, said);
        assert!(trouble.hint.contains("SHOAL_TAKE_OVER=1") && !trouble.hint.contains("  "), "{}", trouble.hint);
    }
}
