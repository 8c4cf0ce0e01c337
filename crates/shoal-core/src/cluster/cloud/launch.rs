//! When is an instance still the one the file asks for?

use crate::cluster::{Auth, Aws, NodeType};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// A digest of all that is fixed when an instance starts: what kind of machine, from which image, who may log in, where it stands.
/// Keys are compared by what they say, not by their order.
pub fn hash(kind: &NodeType, auth: &Auth, aws: &Aws) -> String {
    let said = json!({
        "v": 1,
        "node_config": without_nulls(&kind.node_config),
        "user": auth.user,
        "key_name": aws.key_name,
        "key": auth.key,
        "placement": aws.placement_group,
    });
    let digest = Sha256::digest(canonical(&said).as_bytes());
    digest.iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A field without a value says as much as no field.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_unstable_by_key(|(key, _)| *key);
            let pairs: Vec<_> = pairs.into_iter().map(|(k, v)| format!("{}:{}", json!(k), canonical(v))).collect();
            format!("{{{}}}", pairs.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::want::tests::{aws, kind};
    use super::*;

    #[test]
    fn it_differs_when_the_machine_would() {
        let node = json!({"ImageId": "ami-1", "InstanceType": "t3.micro", "UserData": null});
        let auth = Auth::default();
        let base = hash(&kind("a", node.clone(), 1), &auth, &aws());
        assert_eq!(base.len(), 32);
        // Neither name nor count of the type, nor a field without a value, nor where the region's zones are tried.
        let same = kind("b", json!({"InstanceType": "t3.micro", "ImageId": "ami-1"}), 7);
        let mut elsewhere = aws();
        elsewhere.zones = vec!["us-west-2b".into()];
        assert_eq!(base, hash(&same, &auth, &elsewhere));
        let mut other = node.clone();
        other["ImageId"] = json!("ami-2");
        assert_ne!(base, hash(&kind("a", other, 1), &auth, &aws()));
        let user = Auth { user: Some("x".into()), ..Auth::default() };
        assert_ne!(base, hash(&kind("a", node.clone(), 1), &user, &aws()));
        let mut placed = aws();
        placed.placement_group = true;
        assert_ne!(base, hash(&kind("a", node, 1), &auth, &placed));
    }
}
