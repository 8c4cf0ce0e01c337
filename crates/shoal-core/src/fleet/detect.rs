//! Which form does a file have? Its content says so; its name only where the content says nothing.

use crate::document::node::Node;
use crate::document::yaml;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `shoal.yaml`.
    Native,
    /// `psd_run`'s JSON.
    Poseidon,
    /// `ray up`'s YAML.
    Ray,
}

const POSEIDON_FIELDS: [&str; 4] = ["worker_nodes", "server_nodes", "master_node", "pem_file"];
const RAY_FIELDS: [&str; 6] =
    ["cluster_name", "provider", "auth", "available_node_types", "head_node_type", "setup_commands"];

pub fn form(file: &str, text: &str) -> Form {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let has = |root: &Node, fields: &[&str]| fields.iter().any(|field| root.get(field).is_some());
    // A file that does not parse is told apart by its words, so that its error is shown in the right terms.
    let (poseidon, ray) = match yaml::parse(&text.replace('\t', " ")) {
        // Ray's old dialect has `worker_nodes` as well, but never without a provider.
        Ok(root) => (has(&root, &POSEIDON_FIELDS), has(&root, &RAY_FIELDS)),
        Err(_) => {
            let word = |fields: &[&str]| fields.iter().any(|field| text.contains(field));
            (word(&POSEIDON_FIELDS[..2]), word(&RAY_FIELDS[..2]))
        }
    };
    let looks_like_json = text.trim_start().starts_with('{') || file.to_lowercase().ends_with(".json");
    match (ray, poseidon) {
        (true, _) => Form::Ray,
        (false, true) => Form::Poseidon,
        (false, false) if looks_like_json && !text.contains("hosts") && !text.contains("pools") => Form::Poseidon,
        (false, false) => Form::Native,
    }
}

/// `labs/our lab.yaml` is the fleet `our-lab`.
pub fn name_from_file(file: &str) -> String {
    let last = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = match last.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => last,
    };
    let safe: String = stem.chars().map(|c| if is_safe_in_names(c) { c } else { '-' }).collect();
    let safe = safe.trim_matches(['-', '.']);
    if safe.is_empty() { "fleet".into() } else { safe.into() }
}

/// Whether text can be the name of a fleet or group, and so of a file.
pub fn is_safe_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 100 && !text.starts_with(['-', '.']) && text.chars().all(is_safe_in_names)
}

fn is_safe_in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        for (file, text, expected) in [
            ("config.json", r#"{"worker_nodes": ["a"], "server_nodes": ["a"]}"#, Form::Poseidon),
            ("cluster", "{\n\t\"worker_nodes\": [\"a\"]}", Form::Poseidon),
            ("config.json", r#"{"worker_nodes": ["a",]"#, Form::Poseidon),
            ("config.json", "{}", Form::Poseidon),
            ("c.yaml", "cluster_name: x\nprovider: {type: local}\nworker_nodes: {}\n", Form::Ray),
            ("c.yaml", "provider: {type: local\n", Form::Ray),
            ("shoal.yaml", "hosts: [a]\n", Form::Native),
            ("shoal.json", r#"{"hosts": ["a"]}"#, Form::Native),
            ("x", "", Form::Native),
            ("x", ": : :", Form::Native),
        ] {
            assert_eq!(form(file, text), expected, "{file} {text}");
        }
    }

    #[test]
    fn fleets_are_named_after_their_files() {
        for (file, name) in [
            ("a/our lab.yaml", "our-lab"),
            ("config.json", "config"),
            (".hidden", "hidden"),
            ("", "fleet"),
            ("..", "fleet"),
        ] {
            assert_eq!(name_from_file(file), name);
            assert!(is_safe_name(name));
        }
    }
}
