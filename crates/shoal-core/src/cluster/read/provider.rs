//! Who has the machines? `provider`, as far as it is the same for all of them.

use super::{aws, local, take};
use crate::cluster::Provider;
use crate::document::reader::{Fields, Reader};
use crate::suggest::closest;

/// What Ray knows beside these. `kubernetes` is what it knew in 2020.
const OTHERS: [&str; 9] =
    ["gcp", "azure", "vsphere", "aliyun", "spark", "kuberay", "kubernetes", "external", "readonly"];

/// Fields that Ray reads for every provider, or for others than ours: they may be there, and do nothing here.
const KNOWN_TO_RAY: [&str; 20] = [
    "module",
    "namespace",
    "location",
    "resource_group",
    "tags",
    "subscription_id",
    "msi_identity_id",
    "msi_identity_principal_id",
    "subnet_id",
    "autoscaler_service_account",
    "autoscaler_role",
    "autoscaler_role_binding",
    "project_id",
    "gcp_credentials",
    "disable_launch_config_check",
    "foreground_node_launch",
    "worker_liveness_check",
    "worker_rpc_drain",
    "use_internal_ips",
    "cache_stopped_nodes",
];

pub fn read(reader: &mut Reader, fields: Fields) -> Option<Provider> {
    let Some(node) = fields.get("provider") else {
        let missing = reader.at(fields.at, "the cluster file has no `provider`");
        reader.report(missing.expected("`provider` with its `type`"));
        return None;
    };
    let provider = reader.map(node, "`provider`")?;
    let Some(kind) = provider.get("type") else {
        reader.report(reader.at(node.at, "`provider` has no `type`").expected("`type: local` or `type: aws`"));
        return None;
    };
    match reader.text(kind, "`type`")? {
        "local" => local::read(reader, provider).map(Provider::Local),
        "aws" => aws::read(reader, provider).map(Provider::Aws),
        other if OTHERS.contains(&other) => {
            let wrong = reader.at(kind.at, format!("clusters of type `{other}` are not supported"));
            let help = "machines that are there already, wherever they are, can be listed under `type: local`";
            reader.report(wrong.expected("`local` or `aws`").help(help));
            None
        }
        other => {
            let wrong = reader.at(kind.at, format!("unknown provider `{other}`"));
            let meant = closest(other, ["local", "aws"]);
            reader.report(wrong.expected("`local` or `aws`").suggestion(meant));
            None
        }
    }
}

/// Ray takes whatever stands there, and so a file may hold what we have never heard of: it is said, and not refused.
pub fn warn_of_unknown(reader: &mut Reader, provider: Fields, known: &[&str]) {
    let strange = |name: &str| !known.contains(&name) && !KNOWN_TO_RAY.contains(&name);
    for (key, _) in provider.entries().iter().filter(|(key, _)| strange(&key.text)) {
        let help = match closest(&key.text, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "remove it if it is a slip".into(),
        };
        reader.warn(key.at, format!("`{}` in `provider` is not known, and does nothing", key.text), &help);
    }
    if take::boolean(reader, provider, "disable_node_updaters") == Some(true) {
        let at = provider.key("disable_node_updaters").unwrap_or(provider.at);
        reader.warn(
            at,
            "`disable_node_updaters` is not used: `shoal up` sets up every node",
            "remove the commands instead",
        );
    }
}
