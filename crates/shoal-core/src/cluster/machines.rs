//! Which nodes and which fleet are the machines of a `local` cluster?

use super::{Auth, Local, Machine, Node, Role, read};
use crate::fleet::target::{self, is_this_machine};
use crate::fleet::{Fleet, Host, Reach, Slots};

/// The head first, then the workers in the order of the file.
pub fn nodes(auth: &Auth, local: &Local) -> Vec<Node> {
    let workers = local.workers.iter().map(|machine| (machine, Role::Worker));
    let all: Vec<(&Machine, Role)> = std::iter::once((&local.head, Role::Head)).chain(workers).collect();
    let shared = |machine: &Machine| all.iter().filter(|(other, _)| other.address == machine.address).count() > 1;
    let node = |(machine, role): &(&Machine, Role)| {
        let (kind, group) = match role {
            Role::Head => (read::HEAD_TYPE, "head"),
            Role::Worker => (read::WORKER_TYPE, "worker"),
        };
        let address = match (&local.external_head, role) {
            (Some(external), Role::Head) => external.clone(),
            _ => machine.address.clone(),
        };
        // Several machines behind one address are told apart by their ports.
        let name = match machine.port {
            Some(port) if shared(machine) => format!("{}-{port}", machine.address),
            _ => machine.address.clone(),
        };
        let reach = reach(auth, machine);
        let (groups, slots) = (vec![group.into()], Slots::default());
        let host = Host { name, address, internal: None, reach, groups, slots };
        Node { role: *role, kind: kind.into(), host, internal: machine.address.clone() }
    };
    all.iter().map(node).collect()
}

fn reach(auth: &Auth, machine: &Machine) -> Reach {
    // A machine that is itself the gate is not reached through itself.
    let jump = machine.jump.clone().or_else(|| auth.jump.clone());
    let jump = jump.filter(|jump| target::parse(jump).map_or(true, |target| target.host != machine.address));
    let own = machine.user.is_some() || machine.port.is_some() || machine.key.is_some() || machine.jump.is_some();
    if is_this_machine(&machine.address) && !own && auth.port.is_none() {
        return Reach::Local;
    }
    Reach::Ssh {
        user: machine.user.clone().or_else(|| auth.user.clone()),
        port: machine.port.or(auth.port),
        key: machine.key.clone().or_else(|| auth.key.clone()),
        jump,
        proxy: auth.proxy_command.clone(),
        host_key: None,
    }
}

/// The nodes as a fleet, together with the hosts they are reached through, which take no ranks and are called what the nodes call them.
pub fn fleet(name: &str, nodes: &[Node]) -> Fleet {
    let mut fleet = super::fleet(name, nodes);
    let mut gates: Vec<Host> = Vec::new();
    for host in &fleet.hosts {
        let Reach::Ssh { jump: Some(jump), key, .. } = &host.reach else { continue };
        let known = nodes.iter().any(|node| node.host.name == *jump) || gates.iter().any(|gate| gate.name == *jump);
        let Ok(target) = target::parse(jump) else { continue };
        if !known {
            let (user, port, key) = (target.user, target.port, key.clone());
            let reach = Reach::Ssh { user, port, key, jump: None, proxy: None, host_key: None };
            let slots = Slots { ranks: 0, ..Slots::default() };
            let (name, groups) = (jump.clone(), vec!["gate".into()]);
            gates.push(Host { name, address: target.host, internal: None, reach, groups, slots });
        }
    }
    fleet.hosts.extend(gates);
    fleet
}

/// The same for a file of its own: hosts in between are called by their addresses.
pub fn plainly_named(mut fleet: Fleet) -> Fleet {
    let gates: Vec<(String, String)> = fleet
        .hosts
        .iter()
        .filter(|host| host.groups == ["gate"])
        .map(|host| (host.name.clone(), host.address.clone()))
        .collect();
    for (name, address) in gates {
        if fleet.hosts.iter().any(|host| host.name == address) {
            continue;
        }
        for host in &mut fleet.hosts {
            if host.name == name {
                host.name.clone_from(&address);
            }
            if let Reach::Ssh { jump: Some(jump), .. } = &mut host.reach
                && *jump == name
            {
                jump.clone_from(&address);
            }
        }
    }
    fleet
}
