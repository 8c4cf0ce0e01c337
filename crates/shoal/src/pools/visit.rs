//! How is there a pod that reaches a pool's volumes, as long as a verb lasts?

use crate::cluster::transfer::Party;
use crate::commands::run::{NotBegun, parcel_for};
use crate::k8s::reach::not_begun;
use shoal_core::cluster::{Node, Role};
use shoal_core::fleet::pool::Pool;
use shoal_core::fleet::{Fleet, Host, Reach, Slots};
use shoal_core::kubernetes::helper::{self, Wish};
use shoal_hosts::files::Way;
use shoal_hosts::kubernetes::helper::{Helper, Plan, remove};
use shoal_hosts::kubernetes::{Connection, Failure, Wanted};
use shoal_hosts::ssh::Settings;
use std::sync::Arc;
use std::time::Duration;

/// How long the pod stays when this program was killed.
const IDLE_S: u32 = 120;

/// A way to a pool, and the name of the pod's Job; the pod is made when it is needed.
pub struct Visit {
    pub connection: Arc<Connection>,
    pub plan: Plan,
    /// As the one node of a transfer.
    pub party: Party,
}

impl Visit {
    pub fn to(pool: &Pool) -> Result<Visit, NotBegun> {
        let connection = Connection::open(&wanted(pool)).map_err(not_begun)?;
        Visit::over(Arc::new(connection), pool)
    }

    /// Over a connection that is there.
    pub fn over(connection: Arc<Connection>, pool: &Pool) -> Result<Visit, NotBegun> {
        let kubernetes = &pool.kubernetes;
        let mut random = [0u8; 5];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| NotBegun::Here(format!("no randomness: {e}")))?;
        let name = helper::name(&pool.name, &random);
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let job = helper::job(&Wish { pool, name: &name, user, group, idle_s: idle_s() });
        let claims = kubernetes.volumes.iter().map(|volume| volume.claim.clone()).collect();
        let plan = Plan { name, job, claims, idle: Duration::from_secs(idle_s().into()) };
        let party = Party {
            fleet: Fleet::local(),
            nodes: vec![node(&pool.name)],
            ssh: Settings::from_env(),
            parcel: parcel_for(true)?,
        };
        Ok(Visit { connection, plan, party })
    }

    /// The pod with our program in it.
    pub fn begin(&self, tell: &mut dyn FnMut(&str)) -> Result<Helper, Failure> {
        let helper = Helper::start(self.connection.clone(), &self.plan, tell)?;
        match helper.deliver(&self.party.parcel) {
            Ok(()) => Ok(helper),
            Err(failure) => {
                // The first failure is the one to tell; the pod's own end comes as well.
                let _ = helper.remove();
                Err(failure)
            }
        }
    }

    pub fn way<'w>(&'w self, helper: &'w Helper) -> Way<'w> {
        let mut way = self.party.ways().remove(0);
        way.through = Some(helper);
        way
    }

    /// When somebody stops us: nothing is to stay.
    pub fn clear(&self, program: &str) {
        if let Err(failure) = remove(&self.connection, &self.plan.name) {
            eprintln!("{program}: {failure}");
        }
    }
}

/// Where the pool is.
pub fn wanted(pool: &Pool) -> Wanted {
    let kubernetes = &pool.kubernetes;
    Wanted { kubeconfig: None, context: kubernetes.context.clone(), namespace: kubernetes.namespace.clone() }
}

/// Takes the pod away. What was to be done is done; what stays is said.
pub fn done(program: &str, helper: Helper) {
    if let Err(failure) = helper.remove() {
        eprintln!("{program}: {failure}");
    }
}

/// A pool's pod as a node that files go to; nobody logs in to it, so how it is reached means nothing.
fn node(name: &str) -> Node {
    let host = Host {
        name: name.into(),
        address: name.into(),
        internal: None,
        reach: Reach::Local,
        groups: Vec::new(),
        slots: Slots::default(),
    };
    Node { role: Role::Head, kind: String::new(), host, internal: name.into() }
}

/// Not in any help: tests cannot wait as long as networks may be away.
fn idle_s() -> u32 {
    let asked = std::env::var("SHOAL_HELPER_IDLE_S").ok().and_then(|text| text.parse().ok());
    asked.map_or(IDLE_S, |seconds: u32| seconds.clamp(3, 3600))
}
