//! How is the native form, `shoal.yaml`, read?
//!
//! ```yaml
//! name: lab
//! defaults: {user: alice, slots: 1}
//! hosts:
//!   - node[01-16].lab
//!   - bob@10.0.0.9:2222
//!   - {name: big, address: 10.0.0.20, groups: [gpu], slots: {ranks: 4, gpus: 4}}
//! environment: {virtualenv: ~/venv}
//! servers: [node01.lab]
//! ```

use super::cross_check;
use super::native_host::{self, Defaults, Entry};
use super::range::MOST_HOSTS;
use super::target::is_placeholder;
use super::{Environment, Fleet, Host, Placement, detect, native_pool};
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::document::yaml;
use crate::quote::is_variable_name;
use crate::variables;

pub use super::native_host::{DEFAULTS_FIELDS, HOST_FIELDS, SLOTS_FIELDS};

pub const FIELDS: [&str; 10] =
    ["name", "hosts", "pools", "defaults", "environment", "shared", "master", "servers", "workers", "queue"];
pub const ENVIRONMENT_FIELDS: [&str; 5] = ["virtualenv", "conda", "modules", "setup", "env"];

/// As many as the engine can number.
const MOST_RANKS: usize = 65_534;

pub(super) fn read(reader: &mut Reader, name: String, text: &str) -> Option<Fleet> {
    let root = reader.tree(yaml::parse(text))?;
    let fields = reader.fields(&root, "the file", &FIELDS)?;
    let name = fields.get("name").map_or(Some(name), |node| safe_name(reader, node, "`name`"));
    let defaults = fields.get("defaults").and_then(|node| native_host::read_defaults(reader, node)).unwrap_or_default();
    let entries = read_hosts(reader, fields, &defaults);
    let environment = fields.get("environment").and_then(|node| read_environment(reader, node)).unwrap_or_default();
    let shared = fields.get("shared").and_then(|node| path(reader, node, "`shared`"));
    let (hosts, complete) = cross_check::hosts(reader, entries);
    // A name that is missing only because its own entry is wrong is not worth a second message.
    let placement = if complete { read_placement(reader, fields, &hosts) } else { Placement::default() };
    let pools = fields.get("pools").map(|node| native_pool::read(reader, node, &hosts)).unwrap_or_default();
    if let Some(node) = fields.get("queue").filter(|_| complete) {
        // What it means is for `shoal serve` to ask; that it is right is for everybody to know.
        super::queue::read(reader, node, &hosts);
    }
    Some(Fleet { name: name?, hosts, environment, shared, placement, pools })
}

fn read_hosts(reader: &mut Reader, fields: Fields, defaults: &Defaults) -> Vec<Option<Entry>> {
    let Some(node) = fields.get("hosts") else {
        // A queue may have pools alone.
        if fields.get("pools").is_some() {
            return Vec::new();
        }
        if !fields.has_misspelt("hosts", &FIELDS) {
            let missing = reader.at(fields.at, "the file has no `hosts`");
            reader.report(missing.expected("a list of hosts").help("add for example `hosts: [node01, node02]`"));
        }
        return vec![None];
    };
    let Some(items) = reader.list(node, "`hosts`", "hosts") else { return vec![None] };
    if items.is_empty() {
        reader.mismatch(node, "`hosts`", "at least one host");
        return vec![None];
    }
    let mut entries = Vec::new();
    for item in items {
        entries.extend(native_host::read(reader, item, defaults));
        if reader.is_full() {
            break;
        }
        if entries.len() > MOST_HOSTS {
            reader.error(item.at, format!("the fleet has more than {MOST_HOSTS} hosts"));
            entries.push(None);
            break;
        }
    }
    entries
}

fn read_environment(reader: &mut Reader, node: &Node) -> Option<Environment> {
    let fields = reader.fields(node, "`environment`", &ENVIRONMENT_FIELDS)?;
    let mut environment = Environment::default();
    let prepare = &mut environment.prepare;
    prepare.virtualenv = fields.get("virtualenv").and_then(|node| path(reader, node, "`virtualenv`"));
    prepare.conda = fields.get("conda").and_then(|node| text(reader, node, "`conda`"));
    if let (Some(_), Some(at)) = (fields.get("virtualenv"), fields.key("conda")) {
        reader.report(reader.at(at, "both `virtualenv` and `conda` are given").help("keep the one you use"));
    }
    prepare.modules = fields.get("modules").map(|node| texts(reader, node, "`modules`", "modules")).unwrap_or_default();
    prepare.setup = fields.get("setup").map(|node| texts(reader, node, "`setup`", "shell lines")).unwrap_or_default();
    if let Some(env) = fields.get("env").and_then(|node| reader.map(node, "`env`")) {
        for (key, value) in env.entries() {
            if !is_variable_name(&key.text) {
                let wrong = reader.at(key.at, format!("`{}` is no name of an environment variable", key.text));
                reader.report(wrong.expected("letters, digits and `_`, not starting with a digit"));
            } else if variables::is_set_by_the_plan(&key.text) {
                let wrong = reader.at(key.at, format!("`{}` is set by every run itself", key.text));
                reader.report(wrong.help("remove it"));
            } else if let Some(value) = reader.any_text(value, &format!("`{}`", key.text)) {
                environment.env.insert(key.text.clone(), value.into());
            }
        }
    }
    Some(environment)
}

fn read_placement(reader: &mut Reader, fields: Fields, hosts: &[Host]) -> Placement {
    let places = cross_check::Places::new(hosts);
    let mut placement = Placement::default();
    if let Some(node) = fields.get("master") {
        let names = reader.text(node, "`master`").map(|text| places.named(reader, node, text));
        match names.as_deref() {
            Some([name]) => placement.master = Some(name.clone()),
            Some([]) | None => {}
            Some(several) => {
                let wrong = reader.at(node.at, "a run has one master");
                reader.report(wrong.expected("one host").found(format!("{} hosts", several.len())));
            }
        }
    }
    for (field, list) in [("servers", &mut placement.servers), ("workers", &mut placement.workers)] {
        let Some(node) = fields.get(field) else { continue };
        let what = format!("`{field}`");
        for item in reader.list(node, &what, "hosts or groups").unwrap_or_default() {
            if let Some(text) = reader.text(item, &what) {
                list.extend(places.named(reader, item, text));
            }
            if list.len() > MOST_RANKS {
                reader.error(item.at, format!("{what} stands for more than {MOST_RANKS} ranks"));
            }
            if reader.is_full() || list.len() > MOST_RANKS {
                break;
            }
        }
    }
    placement
}

pub(crate) fn safe_name(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    if detect::is_safe_name(text) {
        return Some(text.into());
    }
    reader.mismatch(node, what, "letters, digits, `.`, `_` and `-`, starting with a letter or digit");
    None
}

pub(crate) fn text(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    if is_placeholder(text) {
        reader.error(node.at, format!("`{text}` is a placeholder that still has to be filled in"));
        return None;
    }
    Some(text.into())
}

/// A path on the hosts, where there is no folder that a relative path could start from.
pub(super) fn path(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = text(reader, node, what)?;
    if text.starts_with('/') || text == "~" || text.starts_with("~/") {
        return Some(text);
    }
    reader.mismatch(node, what, "a path that starts with `/` or `~/`");
    None
}

/// A list of texts, or one text by itself.
fn texts(reader: &mut Reader, node: &Node, what: &str, of: &str) -> Vec<String> {
    let items = match &node.value {
        Value::Scalar { .. } => std::slice::from_ref(node),
        _ => reader.list(node, what, of).unwrap_or_default(),
    };
    items.iter().filter_map(|item| reader.text(item, what)).map(Into::into).collect()
}
