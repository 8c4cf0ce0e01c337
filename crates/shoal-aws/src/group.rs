//! Who may reach the nodes: ssh from the allowed addresses, everything from each other, what the file adds.

use crate::cloud::{Cloud, specification, tag_map};
use crate::failure::{Outcome, Said, cannot, id_of, wrong};
use crate::fields::Fields;
use crate::find::filter;
use aws_sdk_ec2::types::{IpPermission, IpRange, Ipv6Range, ResourceType, SecurityGroup, UserIdGroupPair};
use shoal_core::cluster::cloud::want::{Group, NODES, STORE};
use shoal_core::cluster::cloud::{CLUSTER, Kind, LEDGER, PART};
use std::cell::RefCell;

/// Only rules with these words are ever taken back.
const SSH: &str = "shoal: ssh";
const NFS: u16 = 2049;

/// One way in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `-1`: all.
    protocol: String,
    ports: Option<(i32, i32)>,
    source: Source,
    description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Network(String),
    /// `None`: this very group.
    Group(Option<String>),
}

impl Rule {
    fn tcp(port: u16, source: Source, description: &str) -> Rule {
        let ports = Some((i32::from(port), i32::from(port)));
        Rule { protocol: "tcp".into(), ports, source, description: Some(description.into()) }
    }

    /// The same way in, whatever it is called.
    fn same(&self, other: &Rule) -> bool {
        (&self.protocol, self.ports, &self.source) == (&other.protocol, other.ports, &other.source)
    }

    fn permission(&self, own: &str) -> IpPermission {
        let base = IpPermission::builder().ip_protocol(&self.protocol);
        let base = base.set_from_port(self.ports.map(|p| p.0)).set_to_port(self.ports.map(|p| p.1));
        let description = self.description.clone();
        match &self.source {
            Source::Network(v6) if v6.contains(':') => {
                base.ipv6_ranges(Ipv6Range::builder().cidr_ipv6(v6).set_description(description).build())
            }
            Source::Network(v4) => base.ip_ranges(IpRange::builder().cidr_ip(v4).set_description(description).build()),
            Source::Group(group) => {
                let pair = UserIdGroupPair::builder().group_id(group.as_deref().unwrap_or(own));
                base.user_id_group_pairs(pair.set_description(description).build())
            }
        }
        .build()
    }
}

/// The ways into a group that is there.
fn rules_of(group: &SecurityGroup) -> Vec<Rule> {
    let own = group.group_id().unwrap_or_default();
    let mut rules = Vec::new();
    for permission in group.ip_permissions() {
        let protocol = permission.ip_protocol().unwrap_or("-1").to_string();
        let ports = (protocol != "-1").then(|| Some((permission.from_port()?, permission.to_port()?))).flatten();
        let mut add = |source: Source, description: Option<&str>| {
            let description = description.map(Into::into);
            rules.push(Rule { protocol: protocol.clone(), ports, source, description });
        };
        for range in permission.ip_ranges() {
            add(Source::Network(range.cidr_ip().unwrap_or_default().into()), range.description());
        }
        for range in permission.ipv6_ranges() {
            add(Source::Network(range.cidr_ipv6().unwrap_or_default().into()), range.description());
        }
        for pair in permission.user_id_group_pairs() {
            let id = pair.group_id().unwrap_or_default();
            add(Source::Group((id != own).then(|| id.into())), pair.description());
        }
    }
    rules
}

/// What to add, what to take back.
fn difference(wanted: &[Rule], found: &[Rule]) -> (Vec<Rule>, Vec<Rule>) {
    let missing = wanted.iter().filter(|rule| !found.iter().any(|there| there.same(rule)));
    let ours = |rule: &&Rule| rule.description.as_deref() == Some(SSH);
    let stale = found.iter().filter(ours).filter(|there| !wanted.iter().any(|rule| rule.same(there)));
    (missing.cloned().collect(), stale.cloned().collect())
}

/// The group of the nodes; `None` if all node types name their own.
pub async fn ensure(cloud: &Cloud, want: &Group, vpc: &str, allowed: &[String]) -> Outcome<Option<String>> {
    let (name, more) = match want {
        Group::Given => return Ok(None),
        Group::Made { name } => (name, Vec::new()),
        Group::Named { name, rules } => (name, from_file(rules)?),
    };
    let port = cloud.cluster.auth.port.unwrap_or(22);
    let mut wanted = vec![Rule { protocol: "-1".into(), ports: None, source: Source::Group(None), description: None }];
    wanted.extend(allowed.iter().map(|network| Rule::tcp(port, Source::Network(network.clone()), SSH)));
    wanted.extend(more);
    match find(cloud, name, vpc).await? {
        Some(group) if !is_ours(cloud, &group) => {
            // It is somebody's who knows who may come in.
            cloud.tell(format!("using security group {name} as it is"));
            Ok(group.group_id().map(Into::into))
        }
        found => settle(cloud, found, name, NODES, vpc, &wanted).await.map(Some),
    }
}

/// The group of the file system: nodes may mount it, nobody else.
pub async fn ensure_store(cloud: &Cloud, name: &str, vpc: &str, nodes: &[String]) -> Outcome<String> {
    let rules = nodes.iter().map(|group| Rule::tcp(NFS, Source::Group(Some(group.clone())), "shoal: nfs"));
    let found = find(cloud, name, vpc).await?;
    settle(cloud, found, name, STORE, vpc, &rules.collect::<Vec<_>>()).await
}

fn is_ours(cloud: &Cloud, group: &SecurityGroup) -> bool {
    let tags = tag_map(group.tags());
    let id = &cloud.book.borrow().ledger.id;
    tags.get(CLUSTER).is_some_and(|name| name == cloud.name())
        && tags.contains_key(PART)
        && (cloud.take_over || tags.get(LEDGER) == Some(id))
}

async fn find(cloud: &Cloud, name: &str, vpc: &str) -> Outcome<Option<SecurityGroup>> {
    let asked = cloud
        .ec2
        .describe_security_groups()
        .filters(filter("group-name", vec![name.into()]))
        .filters(filter("vpc-id", vec![vpc.into()]))
        .send()
        .await;
    let all = asked.map_err(cannot(format!("look for the security group {name}")))?;
    Ok(all.security_groups().first().cloned())
}

async fn settle(
    cloud: &Cloud,
    found: Option<SecurityGroup>,
    name: &str,
    part: &str,
    vpc: &str,
    wanted: &[Rule],
) -> Outcome<String> {
    let (id, there) = match found {
        Some(group) => (group.group_id().unwrap_or_default().to_string(), rules_of(&group)),
        None => (make(cloud, name, part, vpc).await?, Vec::new()),
    };
    let (missing, stale) = difference(wanted, &there);
    if !missing.is_empty() {
        cloud.stop.check()?;
        let permissions = missing.iter().map(|rule| rule.permission(&id)).collect();
        let added = cloud.ec2.authorize_security_group_ingress().group_id(&id).set_ip_permissions(Some(permissions));
        if let Err(error) = added.send().await {
            let said = Said::of(&error);
            // Another look was quicker.
            if !said.is(&["InvalidPermission.Duplicate"]) {
                return Err(said.explained(&format!("open the security group {name}")));
            }
        }
    }
    if !stale.is_empty() {
        cloud.tell(format!("this machine's address has changed: closing {name} for the old one"));
        let permissions = stale.iter().map(|rule| rule.permission(&id)).collect();
        let closed = cloud.ec2.revoke_security_group_ingress().group_id(&id).set_ip_permissions(Some(permissions));
        closed.send().await.map_err(cannot(format!("close the security group {name} for an old address")))?;
    }
    Ok(id)
}

async fn make(cloud: &Cloud, name: &str, part: &str, vpc: &str) -> Outcome<String> {
    cloud.tell(format!("making security group {name}"));
    let n = cloud.will(Kind::SecurityGroup, name)?;
    let made = cloud
        .ec2
        .create_security_group()
        .group_name(name)
        .description(format!("shoal cluster {}", cloud.name()))
        .vpc_id(vpc)
        .tag_specifications(specification(ResourceType::SecurityGroup, &cloud.tags(part)))
        .send()
        .await;
    let look = async || {
        let ours = find(cloud, name, vpc).await?.filter(|group| is_ours(cloud, group));
        Ok(ours.and_then(|group| group.group_id().map(Into::into)))
    };
    let id = id_of(made, |made| made.group_id(), look, format!("make the security group {name}")).await?;
    cloud.made(n, &id)?;
    Ok(id)
}

/// `security_group.IpPermissions`, in boto3's spelling.
fn from_file(said: &serde_json::Value) -> Outcome<Vec<Rule>> {
    let serde_json::Value::Array(items) = said else {
        return if said.is_null() { Ok(Vec::new()) } else { Err(wrong("security_group.IpPermissions is a list", "")) };
    };
    let errors = RefCell::new(Vec::new());
    let mut rules = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let path = format!("security_group.IpPermissions[{i}]");
        let Some(map) = Fields::of(&path, item, &errors) else { continue };
        let protocol = map.text("IpProtocol").unwrap_or_else(|| "-1".into());
        let (from, to) = (map.number("FromPort"), map.number("ToPort"));
        let ports = if protocol == "-1" { None } else { from.zip(to.or(from)) };
        let mut add = |source: Option<Source>, description: Option<String>| match source {
            Some(source) => rules.push(Rule { protocol: protocol.clone(), ports, source, description }),
            None => map.error("a source is missing"),
        };
        for (list, field) in [("IpRanges", "CidrIp"), ("Ipv6Ranges", "CidrIpv6")] {
            for range in map.maps(list) {
                add(range.text(field).map(Source::Network), range.text("Description"));
            }
        }
        for pair in map.maps("UserIdGroupPairs") {
            add(pair.text("GroupId").map(|id| Source::Group(Some(id))), pair.text("Description"));
        }
    }
    let errors = errors.into_inner();
    if errors.is_empty() {
        Ok(rules)
    } else {
        Err(wrong(format!("the file cannot be used:\n  {}", errors.join("\n  ")), ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_address_that_changed_is_let_in_and_the_old_one_kept_out() {
        let ssh = |network: &str| Rule::tcp(22, Source::Network(network.into()), SSH);
        let by_hand = Rule::tcp(22, Source::Network("9.9.9.9/32".into()), "the office");
        let (add, remove) = difference(&[ssh("2.2.2.2/32")], &[ssh("1.1.1.1/32"), by_hand.clone()]);
        assert_eq!((add, remove), (vec![ssh("2.2.2.2/32")], vec![ssh("1.1.1.1/32")]));
        let (add, remove) = difference(&[ssh("9.9.9.9/32")], &[by_hand]);
        assert_eq!((add.len(), remove.len()), (0, 0));
    }

    #[test]
    fn the_files_rules_are_read_and_checked() {
        let said =
            json!([{"FromPort": 8265, "ToPort": 8266, "IpProtocol": "tcp", "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}]);
        let rules = from_file(&said).unwrap();
        assert_eq!((rules.len(), rules[0].ports), (1, Some((8265, 8266))));
        let error = from_file(&json!([{"FromPrt": 1, "IpRanges": [{"CidrIp": 3.5}, {}]}])).unwrap_err();
        assert!(error.text.contains("[0].FromPrt: unknown key; did you mean `FromPort`?"), "{}", error.text);
        assert!(error.text.contains("a source is missing"), "{}", error.text);
    }
}
