//! What does the file say about Amazon: where, whose key, which doors, and what is made beside the instances?

use super::provider::warn_of_unknown;
use super::{raw, take};
use crate::cluster::{Aws, Efs};
use crate::document::node::Node;
use crate::document::reader::{Fields, Reader};

pub const FIELDS: [&str; 14] = [
    "type",
    "region",
    "availability_zone",
    "cache_stopped_nodes",
    "use_internal_ips",
    "use_external_head_ip",
    "security_group",
    "key_pair",
    "cloudwatch",
    "aws_credentials",
    "disable_node_updaters",
    // Ours.
    "efs",
    "placement",
    "allow_from",
];
pub const EFS_FIELDS: [&str; 3] = ["create", "id", "mount"];

pub fn read(reader: &mut Reader, provider: Fields) -> Option<Aws> {
    warn_of_unknown(reader, provider, &FIELDS);
    let region = match take::present(provider, "region") {
        Some(node) => name(reader, node, "`region`"),
        None => {
            let missing = reader.at(provider.at, "`provider` has no `region`");
            reader.report(missing.expected("a region, such as `region: us-west-2`"));
            None
        }
    };
    let zones = take::present(provider, "availability_zone")
        .and_then(|node| reader.text(node, "`availability_zone`"))
        .map(|text| text.split(',').map(str::trim).filter(|zone| !zone.is_empty()).map(Into::into).collect());
    refuse_credentials(reader, provider);
    if let Some(at) = provider.key("cloudwatch") {
        reader.warn(at, "`cloudwatch` is not used", "`shoal status` shows what the nodes do");
    }
    if take::boolean(reader, provider, "use_external_head_ip") == Some(true) {
        let at = provider.key("use_external_head_ip").unwrap_or(provider.at);
        reader.warn(
            at,
            "`use_external_head_ip` is not used",
            "nodes are dialled by public address unless `use_internal_ips` is true",
        );
    }
    let efs = take::present(provider, "efs").map(|node| read_efs(reader, node));
    let flag = |reader: &mut Reader, name: &str| take::boolean(reader, provider, name).unwrap_or(false);
    let cache_stopped_nodes = flag(reader, "cache_stopped_nodes");
    let use_internal_ips = flag(reader, "use_internal_ips");
    let key_name = read_key_pair(reader, provider);
    let security_group = read_security_group(reader, provider);
    let placement_group = read_placement(reader, provider);
    let allow_from =
        take::texts(reader, provider, "allow_from", "addresses such as 203.0.113.7/32").unwrap_or_default();
    Some(Aws {
        region: region?,
        zones: zones.unwrap_or_default(),
        cache_stopped_nodes,
        use_internal_ips,
        key_name,
        security_group,
        efs: match efs {
            Some(efs) => Some(efs?),
            None => None,
        },
        placement_group,
        allow_from,
    })
}

/// A file that names an account must not be used with another one, and a secret does not belong into a file that
/// people share (SEC-2).
fn refuse_credentials(reader: &mut Reader, provider: Fields) {
    if let Some(at) = provider.key("aws_credentials") {
        let wrong = reader.at(at, "credentials in the cluster file are not supported");
        reader.report(wrong.help("remove them; use AWS_PROFILE, `aws configure` or what else Amazon's tools look at"));
    }
}

fn read_key_pair(reader: &mut Reader, provider: Fields) -> Option<String> {
    let node = take::present(provider, "key_pair")?;
    let pair = reader.fields(node, "`key_pair`", &["key_name"])?;
    take::text(reader, pair, "key_name")
}

fn read_security_group(reader: &mut Reader, provider: Fields) -> Option<serde_json::Value> {
    let node = take::present(provider, "security_group")?;
    reader.fields(node, "`security_group`", &["GroupName", "IpPermissions"])?;
    Some(raw::json(reader, node, "`security_group`"))
}

fn read_efs(reader: &mut Reader, node: &Node) -> Option<Efs> {
    let efs = reader.fields(node, "`efs`", &EFS_FIELDS)?;
    let create = take::boolean(reader, efs, "create").unwrap_or(false);
    let id = take::present(efs, "id").map(|node| name(reader, node, "`id`"));
    let mount = match take::present(efs, "mount") {
        None => Some("~/efs".to_string()),
        Some(node) => reader.text(node, "`mount`").map(String::from).and_then(|path| {
            let good = path.starts_with('/') || path.starts_with("~/");
            if !good {
                reader.mismatch(node, "`mount`", "a path that begins with `/` or `~/`");
            }
            good.then_some(path)
        }),
    };
    match (create, id) {
        (true, None) => Some(Efs { id: None, mount: mount? }),
        (false, Some(id)) => Some(Efs { id: Some(id?), mount: mount? }),
        (true, Some(_)) => {
            reader
                .report(reader.at(node.at, "`efs` has both `create` and `id`").help("keep `id` to use what is there"));
            None
        }
        (false, None) => {
            reader
                .report(reader.at(node.at, "`efs` says neither `create: true` nor which `id`").help("say one of them"));
            None
        }
    }
}

fn read_placement(reader: &mut Reader, provider: Fields) -> bool {
    let Some(node) = take::present(provider, "placement") else { return false };
    match reader.text(node, "`placement`") {
        Some("cluster") => true,
        Some(_) => {
            reader.mismatch(node, "`placement`", "`cluster`");
            false
        }
        None => false,
    }
}

/// A name of Amazon's: a region, a file system.
fn name(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Some(text.into());
    }
    reader.mismatch(node, what, "letters, digits and `-`");
    None
}
