//! Which hosts would a gang's pods be? One a rank, by the names that the headless Service gives them: then a gang on a pool is planned, printed
//! and followed as one on hosts (PLAN-1).

use super::objects::{job_name, object_name};
use crate::fleet::pool::{Pool, Share};
use crate::fleet::{Environment, Fleet, Host, Placement, Reach, Slots};
use crate::plan::{GangPlan, PlanError, Port, RunSpec};
use crate::rank::Rank;
use std::collections::BTreeMap;

/// Pods have all ports to themselves: these are as good as any.
const FIRST_PORT: u16 = 29500;

/// The pool that a run is meant for; none: hosts are.
pub fn chosen<'f>(fleet: &'f Fleet, on: &[String]) -> Result<Option<&'f Pool>, String> {
    let is = |pool: &Pool, name: &String| pool.name == *name || pool.groups.contains(name);
    let pools: Vec<&Pool> = match on {
        [] if fleet.hosts.is_empty() => fleet.pools.iter().collect(),
        names => fleet.pools.iter().filter(|pool| names.iter().any(|name| is(pool, name))).collect(),
    };
    let host = fleet.hosts.iter().find(|host| on.iter().any(|name| host.name == *name || host.groups.contains(name)));
    match (pools.as_slice(), host) {
        ([], _) => Ok(None),
        ([pool, ..], Some(host)) => {
            let hint = "say --on with either";
            Err(format!(
                "a gang is on hosts or on a pool, and {} is a host and {} a pool\n  hint: {hint}",
                host.name, pool.name
            ))
        }
        ([pool], None) => match on.iter().find(|name| !is(pool, name)) {
            Some(name) => Err(format!("`{name}` is neither a host nor a pool nor a group of the fleet")),
            None => Ok(Some(pool)),
        },
        (pools, None) => {
            let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
            Err(format!(
                "a gang is on one pool, and there are {}\n  hint: say which with --on NAME",
                names.join(" and ")
            ))
        }
    }
}

/// GPUs of a worker, as its pod asks for them: the device plugin's name, and how many.
pub fn gpus(pool: &Pool, count: u32) -> Result<Option<(String, u32)>, String> {
    if count == 0 {
        return Ok(None);
    }
    let Some(gpus) = &pool.kubernetes.gpus else {
        return Err(format!("the pool {} has no GPUs\n  hint: add `gpus:` to it, or leave out --gpus", pool.name));
    };
    match gpus.share {
        Share::Whole => Ok(Some((gpus.resource.clone(), count))),
        Share::Slices | Share::Mps => Ok(Some((gpus.resource.clone(), count.saturating_mul(gpus.runs)))),
        Share::Pinned => Err(format!(
            "the GPUs of the pool {} are pinned: its queue alone knows which are free\n  hint: submit it as a sweep, or have the device plugin count them (`share: whole`)",
            pool.name
        )),
    }
}

/// The pods as a fleet, and the wish as one for it.
pub fn fleet(base: &Fleet, pool: &Pool, spec: &RunSpec) -> Result<(Fleet, RunSpec), PlanError> {
    let workers = spec.workers.unwrap_or(pool.slots);
    if workers > pool.slots && !spec.oversubscribe {
        return Err(PlanError::NotEnoughSlots { wanted: workers as usize, slots: pool.slots as usize });
    }
    let servers = spec.servers.unwrap_or(0);
    let most = u64::from(crate::plan::MOST_WORKERS);
    for (what, wanted) in [("workers", workers), ("servers", servers)] {
        if u64::from(wanted) > most {
            return Err(PlanError::TooMany { what, wanted: wanted.into(), most });
        }
    }
    let master = spec.master.then(|| host_name(&spec.run, Rank::Master));
    let servers: Vec<String> = (0..servers).map(|k| host_name(&spec.run, Rank::Server(k))).collect();
    let workers: Vec<String> = (0..workers).map(|k| host_name(&spec.run, Rank::Worker(k))).collect();
    let names = master.iter().chain(&servers).chain(&workers);
    let fleet = Fleet {
        name: pool.name.clone(),
        hosts: names.map(|name| pod(name)).collect(),
        environment: Environment { prepare: base.environment.prepare.clone(), env: base.environment.env.clone() },
        shared: None,
        placement: Placement { master, servers, workers },
        pools: Vec::new(),
    };
    let spec = RunSpec { on: Vec::new(), workers: None, servers: None, ..spec.clone() };
    Ok((fleet, spec))
}

fn pod(name: &str) -> Host {
    let reach = Reach::Ssh { user: None, port: None, key: None, jump: None, proxy: None, host_key: None };
    Host { name: name.into(), address: name.into(), internal: None, reach, groups: Vec::new(), slots: Slots::default() }
}

/// As the Service calls the pod, within the namespace.
pub fn host_name(run: &str, rank: Rank) -> String {
    let (role, index) = super::objects::seat(rank);
    format!("{}-{index}.{}", job_name(run, role), object_name(run))
}

/// Every port of the plan.
pub fn ports(plan: &GangPlan) -> BTreeMap<Port, u16> {
    let number = |port: &Port| FIRST_PORT.saturating_add(u16::try_from(port.index).unwrap_or(0));
    plan.ports.iter().map(|port| (port.clone(), number(port))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Program;
    use crate::plan::{self, Logs, Reserved, Secret};

    pub const LAB: &str = "hosts: [ada]\npools:\n  - {name: cloud, groups: [far], slots: 4, kubernetes: {image: i, volumes: [{claim: c, at: /mnt, here: /hot}], gpus: {count: 8}}}\n  - {name: sky, groups: [far], slots: 4, kubernetes: {image: i, volumes: [{claim: c, at: /mnt, here: /hot}], gpus: {share: slices, count: 2, runs: 4}}}\n  - {name: pins, slots: 4, kubernetes: {image: i, nodes: [n], volumes: [{claim: c, at: /mnt, here: /hot}], gpus: {share: pinned, count: 2, runs: 4}}}\n";

    fn lab(text: &str) -> Fleet {
        crate::fleet::read("lab.yaml", text).expect("a fleet").fleet
    }

    #[test]
    fn a_pool_is_chosen_by_name_or_by_being_all_there_is() {
        let (both, text) = (lab(LAB), LAB.replace("hosts: [ada]\n", ""));
        let pools = lab(&text);
        let one = lab(&format!("{}\n", text.lines().take(2).collect::<Vec<_>>().join("\n")));
        for (fleet, on, wanted) in [
            (&both, vec![], Ok(None)),
            (&both, vec!["ada"], Ok(None)),
            (&both, vec!["cloud"], Ok(Some("cloud"))),
            (&both, vec!["cloud", "ada"], Err("ada is a host and cloud a pool")),
            (&both, vec!["far"], Err("there are cloud and sky")),
            (&both, vec!["cloud", "nowhere"], Err("`nowhere` is neither")),
            (&both, vec!["nowhere"], Ok(None)),
            (&pools, vec![], Err("say which with --on")),
            (&one, vec![], Ok(Some("cloud"))),
        ] {
            let on: Vec<String> = on.into_iter().map(String::from).collect();
            match (chosen(fleet, &on), wanted) {
                (Ok(pool), Ok(name)) => assert_eq!(pool.map(|pool| pool.name.as_str()), name, "{on:?}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (got, wanted) => panic!("{on:?}: {got:?} instead of {wanted:?}"),
            }
        }
    }

    #[test]
    fn gpus_are_asked_of_the_device_plugin_alone() {
        let fleet = lab(LAB);
        let plugin = |count| Some(("nvidia.com/gpu".to_string(), count));
        assert_eq!(gpus(&fleet.pools[0], 2), Ok(plugin(2)));
        assert_eq!(gpus(&fleet.pools[1], 1), Ok(plugin(4)));
        assert_eq!(gpus(&fleet.pools[2], 0), Ok(None));
        assert!(gpus(&fleet.pools[2], 1).expect_err("refused").contains("pinned"));
    }

    #[test]
    fn a_gang_of_pods_is_planned_as_one_of_hosts() {
        let lab = lab(LAB);
        let logs = Logs { root: "logs".into(), folder: "run_r".into() };
        let mut spec = RunSpec::new("r", vec![Program::Argv(vec!["train".into()])], logs, Secret::new("t"));
        (spec.workers, spec.servers, spec.on) = (Some(5), Some(2), vec!["cloud".into()]);
        let refused = fleet(&lab, &lab.pools[0], &spec).expect_err("four slots");
        assert_eq!(refused, PlanError::NotEnoughSlots { wanted: 5, slots: 4 });
        spec.workers = Some(4);
        let (pods, spec) = fleet(&lab, &lab.pools[0], &spec).expect("a fleet");
        let plan = plan::gang(&pods, &spec).expect("a plan");
        let ranks: Vec<String> = plan.ranks.iter().map(|rank| rank.rank.to_string()).collect();
        assert_eq!(ranks, ["master", "server0", "server1", "worker0", "worker1", "worker2", "worker3"]);
        assert_eq!(plan.ranks[3].host, "run-r-worker-0.run-r");
        let addresses = [("run-r-master-0.run-r".to_string(), "10.0.0.9".to_string())].into();
        let reserved = Reserved { ports: ports(&plan), this_machine: None, addresses };
        let jobs = plan.bind(&reserved).expect("jobs");
        let worker = &jobs[4].ranks[0];
        assert_eq!(worker.env["SHOAL_MASTER_ADDRESS"], "tcp://10.0.0.9:29500");
        assert_eq!((&*worker.env["RANK"], &*worker.env["LOCAL_RANK"], &*worker.env["WORLD_SIZE"]), ("1", "0", "4"));
        assert_eq!(worker.env["MASTER_ADDR"], "run-r-worker-0.run-r");
    }
}
