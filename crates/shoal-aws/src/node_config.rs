//! `node_config`, in boto3's spelling, as the SDK wants it; what the SDK would not take is named.

use crate::failure::{Outcome, wrong};
use crate::fields::Fields;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesInputBuilder;
use aws_sdk_ec2::types::{
    BlockDeviceMapping, CapacityReservationSpecification, CapacityReservationTarget, CpuOptionsRequest,
    CreditSpecificationRequest, EbsBlockDevice, IamInstanceProfileSpecification, InstanceInterruptionBehavior,
    InstanceMarketOptionsRequest, InstanceMetadataOptionsRequest, InstanceNetworkInterfaceSpecification, InstanceType,
    MarketType, Placement, RunInstancesMonitoringEnabled, SpotInstanceType, SpotMarketOptions, Tenancy, VolumeType,
};
use shoal_core::cluster::NodeType;
use shoal_core::cluster::cloud::Tags;
use std::cell::RefCell;

/// How nodes of one type are launched. What is decided at launch (subnet, group, key, placement) stands apart.
#[derive(Debug, Clone)]
pub struct Launch {
    pub kind: String,
    /// An id, or the name of an image that was baked.
    pub image: String,
    pub subnets: Vec<String>,
    pub zone: Option<String>,
    pub key_name: Option<String>,
    pub groups: Vec<String>,
    pub placement: Option<Placement>,
    pub interfaces: Vec<InstanceNetworkInterfaceSpecification>,
    /// Its interface gets a public address, whatever the subnet says.
    pub asks_public: bool,
    pub spot: bool,
    /// Beside ours, for instances and for disks.
    pub tags: (Tags, Tags),
    pub rest: RunInstancesInputBuilder,
}

/// All types, or everything that is wrong in them.
pub fn launches(types: &[&NodeType]) -> Outcome<Vec<Launch>> {
    let errors = RefCell::new(Vec::new());
    let launches: Vec<_> = types.iter().filter_map(|kind| launch(kind, &errors)).collect();
    let errors = errors.into_inner();
    if errors.is_empty() {
        return Ok(launches);
    }
    let text = format!("the file's node_config cannot be used:\n  {}", errors.join("\n  "));
    Err(wrong(text, "it takes the arguments of boto3's create_instances"))
}

const OURS: &str = "is set by Shoal; say how many with min_workers";

fn launch(kind: &NodeType, errors: &RefCell<Vec<String>>) -> Option<Launch> {
    let path = format!("{}.node_config", kind.name);
    let fields = Fields::of(&path, &kind.node_config, errors)?;
    fields.refuse("MinCount", OURS);
    fields.refuse("MaxCount", OURS);
    for key in ["ClientToken", "DryRun"] {
        fields.refuse(key, "is set by Shoal");
    }
    let image = fields.text("ImageId");
    let instance_type = fields.text("InstanceType");
    if image.is_none() {
        fields.error("ImageId is missing (an id such as ami-..., or the name given to `shoal image bake`)");
    }
    if instance_type.is_none() {
        fields.error("InstanceType is missing");
    }
    let mut subnets = fields.texts("SubnetIds");
    subnets.extend(fields.text("SubnetId"));
    let interfaces: Vec<_> = fields.maps("NetworkInterfaces").iter().map(interface).collect();
    subnets.extend(interfaces.iter().filter_map(|one| one.subnet_id().map(String::from)));
    let (placement, zone) = placement(&fields);
    let (market, spot) = market(&fields);
    let rest = rest(&fields).instance_type(InstanceType::from(instance_type.unwrap_or_default().as_str()));
    let rest = rest.set_instance_market_options(market);
    let rest = capacity_reservation(&fields, rest);
    Some(Launch {
        kind: kind.name.clone(),
        image: image.unwrap_or_default(),
        subnets,
        zone,
        key_name: fields.text("KeyName"),
        groups: fields.texts("SecurityGroupIds"),
        placement,
        asks_public: interfaces.iter().any(|one| one.associate_public_ip_address() == Some(true)),
        interfaces,
        spot,
        tags: tags(&fields),
        rest,
    })
}

fn rest(fields: &Fields<'_>) -> RunInstancesInputBuilder {
    let mappings: Vec<_> = fields.maps("BlockDeviceMappings").iter().map(mapping).collect();
    let profile = fields.map("IamInstanceProfile").map(|map| {
        IamInstanceProfileSpecification::builder().set_arn(map.text("Arn")).set_name(map.text("Name")).build()
    });
    let monitoring = fields.map("Monitoring").and_then(|map| map.flag("Enabled"));
    let cpus = fields.map("CpuOptions").map(|map| {
        let options = CpuOptionsRequest::builder().set_core_count(map.number("CoreCount"));
        options.set_threads_per_core(map.number("ThreadsPerCore")).build()
    });
    let credit = fields.map("CreditSpecification").and_then(|map| map.text("CpuCredits"));
    let metadata = fields.map("MetadataOptions").map(|map| {
        InstanceMetadataOptionsRequest::builder()
            .set_http_tokens(map.text("HttpTokens").map(|text| text.as_str().into()))
            .set_http_endpoint(map.text("HttpEndpoint").map(|text| text.as_str().into()))
            .set_instance_metadata_tags(map.text("InstanceMetadataTags").map(|text| text.as_str().into()))
            .set_http_put_response_hop_limit(map.number("HttpPutResponseHopLimit"))
            .build()
    });
    // boto3 encodes it on the way; so do we.
    let user_data = fields.text("UserData").map(aws_smithy_types::base64::encode);
    RunInstancesInputBuilder::default()
        .set_block_device_mappings((!mappings.is_empty()).then_some(mappings))
        .set_iam_instance_profile(profile)
        .set_monitoring(monitoring.map(|on| RunInstancesMonitoringEnabled::builder().enabled(on).build()))
        .set_cpu_options(cpus)
        .set_credit_specification(credit.map(|kind| CreditSpecificationRequest::builder().cpu_credits(kind).build()))
        .set_metadata_options(metadata)
        .set_user_data(user_data)
        .set_ebs_optimized(fields.flag("EbsOptimized"))
        .set_disable_api_termination(fields.flag("DisableApiTermination"))
        .set_disable_api_stop(fields.flag("DisableApiStop"))
        .set_instance_initiated_shutdown_behavior(
            fields.text("InstanceInitiatedShutdownBehavior").map(|text| text.as_str().into()),
        )
}

fn mapping(map: &Fields<'_>) -> BlockDeviceMapping {
    let ebs = map.map("Ebs").map(|ebs| {
        EbsBlockDevice::builder()
            .set_volume_size(ebs.number("VolumeSize"))
            .set_volume_type(ebs.text("VolumeType").map(|text| VolumeType::from(text.as_str())))
            .set_iops(ebs.number("Iops"))
            .set_throughput(ebs.number("Throughput"))
            // A disk that outlives its instance is one that somebody asked for.
            .set_delete_on_termination(ebs.flag("DeleteOnTermination").or(Some(true)))
            .set_encrypted(ebs.flag("Encrypted"))
            .set_kms_key_id(ebs.text("KmsKeyId"))
            .set_snapshot_id(ebs.text("SnapshotId"))
            .build()
    });
    BlockDeviceMapping::builder()
        .set_device_name(map.text("DeviceName"))
        .set_virtual_name(map.text("VirtualName"))
        .set_no_device(map.text("NoDevice"))
        .set_ebs(ebs)
        .build()
}

fn interface(map: &Fields<'_>) -> InstanceNetworkInterfaceSpecification {
    let groups = map.texts("Groups");
    InstanceNetworkInterfaceSpecification::builder()
        .set_associate_public_ip_address(map.flag("AssociatePublicIpAddress"))
        .set_delete_on_termination(map.flag("DeleteOnTermination"))
        .set_description(map.text("Description"))
        .set_device_index(map.number("DeviceIndex"))
        .set_network_card_index(map.number("NetworkCardIndex"))
        .set_interface_type(map.text("InterfaceType"))
        .set_subnet_id(map.text("SubnetId"))
        .set_groups((!groups.is_empty()).then_some(groups))
        .build()
}

fn placement(fields: &Fields<'_>) -> (Option<Placement>, Option<String>) {
    let Some(map) = fields.map("Placement") else { return (None, None) };
    let zone = map.text("AvailabilityZone");
    let placement = Placement::builder()
        .set_group_name(map.text("GroupName"))
        .set_partition_number(map.number("PartitionNumber"))
        .set_tenancy(map.text("Tenancy").map(|text| Tenancy::from(text.as_str())))
        .set_host_id(map.text("HostId"))
        .set_affinity(map.text("Affinity"))
        .build();
    (Some(placement), zone)
}

fn market(fields: &Fields<'_>) -> (Option<InstanceMarketOptionsRequest>, bool) {
    let Some(map) = fields.map("InstanceMarketOptions") else { return (None, false) };
    let kind = map.text("MarketType");
    let behaviour = |text: String| InstanceInterruptionBehavior::from(text.as_str());
    let options = map.map("SpotOptions").map(|spot| {
        SpotMarketOptions::builder()
            .set_max_price(spot.text("MaxPrice"))
            .set_spot_instance_type(spot.text("SpotInstanceType").map(|text| SpotInstanceType::from(text.as_str())))
            .set_instance_interruption_behavior(spot.text("InstanceInterruptionBehavior").map(behaviour))
            .build()
    });
    let spot = kind.as_deref() == Some("spot");
    let request = InstanceMarketOptionsRequest::builder()
        .set_market_type(kind.map(|text| MarketType::from(text.as_str())))
        .set_spot_options(options);
    (Some(request.build()), spot)
}

fn capacity_reservation(fields: &Fields<'_>, rest: RunInstancesInputBuilder) -> RunInstancesInputBuilder {
    let Some(map) = fields.map("CapacityReservationSpecification") else { return rest };
    let target = map.map("CapacityReservationTarget").map(|target| {
        CapacityReservationTarget::builder()
            .set_capacity_reservation_id(target.text("CapacityReservationId"))
            .set_capacity_reservation_resource_group_arn(target.text("CapacityReservationResourceGroupArn"))
            .build()
    });
    let specification = CapacityReservationSpecification::builder()
        .set_capacity_reservation_preference(map.text("CapacityReservationPreference").map(|text| text.as_str().into()))
        .set_capacity_reservation_target(target);
    rest.capacity_reservation_specification(specification.build())
}

fn tags(fields: &Fields<'_>) -> (Tags, Tags) {
    let (mut instances, mut volumes) = (Tags::new(), Tags::new());
    for specification in fields.maps("TagSpecifications") {
        let kind = specification.text("ResourceType").unwrap_or_default();
        let pairs: Vec<_> =
            specification.maps("Tags").iter().filter_map(|tag| Some((tag.text("Key")?, tag.text("Value")?))).collect();
        match kind.as_str() {
            "instance" => instances.extend(pairs),
            "volume" => volumes.extend(pairs),
            _ => specification.error("ResourceType is `instance` or `volume`"),
        }
    }
    (instances, volumes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(node_config: Value) -> NodeType {
        NodeType {
            name: "w".into(),
            node_config,
            resources: Value::Null,
            min_workers: 1,
            max_workers: 1,
            initialization_commands: Vec::new(),
            setup_commands: Vec::new(),
            start_commands: Vec::new(),
            docker: None,
        }
    }

    fn read(node_config: Value) -> Outcome<Launch> {
        launches(&[&node(node_config)]).map(|mut all| all.remove(0))
    }

    #[test]
    fn boto3s_words_arrive() {
        let launch = read(json!({
            "ImageId": "ami-1", "InstanceType": "p3.2xlarge", "SubnetIds": ["subnet-1"], "KeyName": null,
            "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 300, "VolumeType": "gp3"}}],
            "InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"MaxPrice": 1.5}},
            "Placement": {"AvailabilityZone": "us-west-2b", "Tenancy": "default"},
            "UserData": "#!/bin/sh\n",
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "project", "Value": "paper"}]}],
        }))
        .unwrap();
        assert_eq!((launch.image.as_str(), launch.spot, launch.zone.as_deref()), ("ami-1", true, Some("us-west-2b")));
        assert_eq!(launch.tags.0["project"], "paper");
        let rest = launch.rest.build().unwrap();
        assert_eq!(rest.block_device_mappings()[0].ebs().unwrap().volume_size(), Some(300));
        let spot = rest.instance_market_options().unwrap().spot_options().unwrap();
        assert_eq!((spot.max_price(), rest.user_data()), (Some("1.5"), Some("IyEvYmluL3NoCg==")));
    }

    #[test]
    fn all_that_is_wrong_is_named_with_its_path() {
        let error = read(json!({
            "InstanceTyp": "t3.micro", "MinCount": 1, "EbsOptimized": "yes",
            "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"Size": 300}}],
        }))
        .unwrap_err();
        for part in [
            "w.node_config: ImageId is missing",
            "w.node_config.InstanceTyp: unknown key; did you mean `InstanceType`?",
            "w.node_config.MinCount: is set by Shoal",
            "w.node_config.EbsOptimized: expected true or false, found a text",
            "w.node_config.BlockDeviceMappings[0].Ebs.Size: unknown key",
        ] {
            assert!(error.text.contains(part), "{part}\n{}", error.text);
        }
        assert!(read(json!([])).unwrap_err().text.contains("expected a map, found a list"));
    }
}
