//! In which subnets may nodes of a type stand, in which order are they tried?

use crate::cloud::Cloud;
use crate::failure::{Outcome, cannot, wrong};
use crate::find::filter;
use crate::node_config::Launch;
use aws_sdk_ec2::types::Subnet as Ec2Subnet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    pub id: String,
    pub zone: String,
    pub vpc: String,
    pub block: String,
    /// Whether instances get a public address there.
    pub public: bool,
}

/// The subnets of each type. All lie in one network (VPC): the nodes talk to each other, and the security group belongs to it.
pub async fn subnets(cloud: &Cloud, launches: &[Launch]) -> Outcome<Vec<Vec<Subnet>>> {
    let given: Vec<String> = launches.iter().flat_map(|launch| launch.subnets.clone()).collect();
    let mut request = cloud.ec2.describe_subnets();
    if !given.is_empty() {
        request = request.filters(filter("subnet-id", given.clone()));
    }
    let all = request.send().await.map_err(cannot("list the subnets"))?;
    let mut known: Vec<Subnet> = all.subnets().iter().filter_map(of).collect();
    if given.is_empty() {
        let vpc = default_vpc(cloud).await?;
        known.retain(|subnet| subnet.vpc == vpc);
    } else if launches.iter().any(|launch| launch.subnets.is_empty()) {
        let text = "some node types name subnets and others do not";
        return Err(wrong(text, "give SubnetIds in the node_config of all of them, or of none"));
    }
    known.sort_unstable_by(|a, b| (&a.zone, &a.id).cmp(&(&b.zone, &b.id)));
    let chosen: Outcome<Vec<_>> = launches.iter().map(|launch| choose(cloud, launch, &known)).collect();
    let chosen = chosen?;
    let mut networks: Vec<&str> = chosen.iter().flatten().map(|subnet| subnet.vpc.as_str()).collect();
    networks.sort_unstable();
    networks.dedup();
    if networks.len() > 1 {
        let text = format!("the subnets of the node types are in different networks: {}", networks.join(", "));
        return Err(wrong(text, "nodes of one cluster must be in one VPC"));
    }
    Ok(chosen)
}

fn of(subnet: &Ec2Subnet) -> Option<Subnet> {
    Some(Subnet {
        id: subnet.subnet_id()?.into(),
        zone: subnet.availability_zone()?.into(),
        vpc: subnet.vpc_id()?.into(),
        block: subnet.cidr_block().unwrap_or_default().into(),
        public: subnet.map_public_ip_on_launch().unwrap_or_default(),
    })
}

/// In the order of the file's subnets, else in the order of its zones.
fn choose(cloud: &Cloud, launch: &Launch, known: &[Subnet]) -> Outcome<Vec<Subnet>> {
    let region = &cloud.aws.region;
    let zones: Vec<String> = launch.zone.iter().cloned().chain(cloud.aws.zones.iter().cloned()).collect();
    let zones = if launch.zone.is_some() { &zones[..1] } else { &zones[..] };
    if let Some(zone) = zones.iter().find(|zone| !zone.starts_with(region.as_str())) {
        return Err(wrong(format!("zone `{zone}` is not in region `{region}`"), "a cluster is in one region"));
    }
    let mut chosen: Vec<Subnet> = Vec::new();
    if launch.subnets.is_empty() {
        let usable = |subnet: &&Subnet| cloud.aws.use_internal_ips || launch.asks_public || subnet.public;
        if zones.is_empty() {
            chosen = known.iter().filter(usable).cloned().collect();
        }
        for zone in zones {
            chosen.extend(known.iter().filter(usable).filter(|subnet| subnet.zone == *zone).cloned());
        }
    } else {
        for id in &launch.subnets {
            let found = known.iter().find(|subnet| subnet.id == *id);
            let found =
                found.ok_or_else(|| wrong(format!("there is no subnet `{id}` in {region}"), "check SubnetIds"))?;
            chosen.push(found.clone());
        }
        chosen.retain(|subnet| zones.is_empty() || zones.contains(&subnet.zone));
    }
    if chosen.is_empty() {
        let place = if zones.is_empty() { region.clone() } else { zones.join(", ") };
        let mut have: Vec<&str> = known.iter().map(|subnet| subnet.zone.as_str()).collect();
        have.dedup();
        let text =
            format!("no subnet for node type `{}` in {place}; there are some in: {}", launch.kind, have.join(", "));
        let hint = "check availability_zone and SubnetIds; subnets that give no public address serve only with `use_internal_ips: true`";
        return Err(wrong(text, hint));
    }
    Ok(chosen)
}

async fn default_vpc(cloud: &Cloud) -> Outcome<String> {
    let question = filter("is-default", vec!["true".into()]);
    let all = cloud.ec2.describe_vpcs().filters(question).send().await.map_err(cannot("list the networks (VPCs)"))?;
    let vpc = all.vpcs().first().and_then(|vpc| vpc.vpc_id());
    vpc.map(Into::into).ok_or_else(|| {
        let text = format!("the account has no default network (VPC) in {}", cloud.aws.region);
        wrong(text, "name SubnetIds in each node_config, or make one: `aws ec2 create-default-vpc`")
    })
}
