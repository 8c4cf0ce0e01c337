//! Which files does a run find, and which environment?

use super::Folder;
use super::fields::texts;
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::job::Prepare;

pub const ENVIRONMENT_FIELDS: [&str; 5] = ["virtualenv", "conda", "modules", "setup", "requirements"];
pub const FOLDER_FIELDS: [&str; 3] = ["path", "at", "ignore"];

#[derive(Debug, Default)]
pub struct Folders {
    pub source: Vec<Folder>,
    pub data: Vec<Folder>,
    pub folder: Option<String>,
    pub setup: Vec<String>,
    pub virtualenv: Option<String>,
    pub requirements: Option<String>,
}

pub fn read(reader: &mut Reader, fields: Fields) -> Folders {
    let mut folders = Folders::default();
    if let Some(node) = fields.get("folder") {
        folders.folder = on_hosts(reader, node, "`folder`");
    }
    let nothing = matches!(fields.get("source").map(|node| &node.value), Some(Value::Scalar { text, plain: true }) if text == "none");
    match fields.get("source") {
        _ if nothing => {}
        Some(node) => folders.source = trees(reader, node, "`source`", true),
        None if folders.folder.is_some() => {}
        None => folders.source = vec![Folder { path: ".".into(), at: String::new(), ignore: Vec::new() }],
    }
    if let (Some(at), true, false) = (fields.key("folder"), fields.get("source").is_some(), nothing) {
        let wrong = reader.at(at, "both `source` and `folder` are given");
        reader.report(
            wrong.help("a run starts either in a folder of its own, into which `source` is copied, or in `folder`"),
        );
    }
    folders.data = fields.get("data").map(|node| trees(reader, node, "`data`", false)).unwrap_or_default();
    one_of_a_name(reader, fields, &folders);
    if let Some(node) = fields.get("environment") {
        environment(reader, node, &mut folders);
    }
    folders
}

/// One folder, or a list. What stands alone as `source` is the run's own folder; all others are found under their names.
fn trees(reader: &mut Reader, node: &Node, what: &str, alone_is_own: bool) -> Vec<Folder> {
    let (items, alone) = match &node.value {
        Value::List(items) => (items.as_slice(), false),
        _ => (std::slice::from_ref(node), alone_is_own),
    };
    items.iter().filter_map(|item| tree(reader, item, what, alone)).collect()
}

fn tree(reader: &mut Reader, node: &Node, what: &str, alone: bool) -> Option<Folder> {
    let (path, at, ignore) = match &node.value {
        Value::Scalar { .. } => (reader.text(node, what)?, None, Vec::new()),
        Value::Map(_) => {
            let fields = reader.fields(node, what, &FOLDER_FIELDS)?;
            let path = fields.get("path").map_or(Some("."), |node| reader.text(node, "`path`"));
            let at = fields.get("at").map(|node| (node, reader.any_text(node, "`at`").unwrap_or_default()));
            let ignore = fields.get("ignore").map(|node| texts(reader, node, "`ignore`", "patterns"));
            (path?, at, ignore.unwrap_or_default())
        }
        Value::List(_) => {
            reader.mismatch(node, what, "a path, or a map of `path`, `at` and `ignore`");
            return None;
        }
    };
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let own = matches!(name, "" | "." | "..");
    let at = match at {
        Some((node, at)) if !at.is_empty() && !is_inner_path(at) => {
            reader.mismatch(node, "`at`", "a path within the run's folder");
            return None;
        }
        Some((_, at)) => at.trim_matches('/').to_string(),
        None if alone || (own && what == "`source`") => String::new(),
        None if own => {
            reader.report(
                reader
                    .at(node.at, format!("`{path}` has no name that runs could find it under"))
                    .help("say where: `{path: .., at: name}`"),
            );
            return None;
        }
        None => name.to_string(),
    };
    Some(Folder { path: path.into(), at, ignore })
}

fn is_inner_path(text: &str) -> bool {
    !text.starts_with('/') && text.trim_end_matches('/').split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn one_of_a_name(reader: &mut Reader, fields: Fields, folders: &Folders) {
    let all: Vec<&Folder> = folders.source.iter().chain(&folders.data).collect();
    for (index, folder) in all.iter().enumerate() {
        if let Some(first) = all[..index].iter().find(|other| other.at == folder.at) {
            let field = if index < folders.source.len() { "source" } else { "data" };
            let place = if folder.at.is_empty() { "the run's own folder".into() } else { format!("`{}`", folder.at) };
            let wrong = reader.at(
                fields.key(field).unwrap_or(fields.at),
                format!("`{}` and `{}` would both be {place}", first.path, folder.path),
            );
            reader.report(wrong.help("give one another place: `{path: ..., at: name}`"));
        }
    }
}

/// A path on the hosts, where there is no folder that a relative path could start from.
fn on_hosts(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    if text.starts_with('/') || text == "~" || text.starts_with("~/") {
        return Some(text.into());
    }
    reader.mismatch(node, what, "a path that starts with `/` or `~/`");
    None
}

fn environment(reader: &mut Reader, node: &Node, folders: &mut Folders) {
    let Some(fields) = reader.fields(node, "`environment`", &ENVIRONMENT_FIELDS) else { return };
    folders.virtualenv = fields.get("virtualenv").and_then(|node| on_hosts(reader, node, "`virtualenv`"));
    if let (Some(_), Some(at)) = (fields.get("virtualenv"), fields.key("conda")) {
        reader.report(reader.at(at, "both `virtualenv` and `conda` are given").help("keep the one you use"));
    }
    let mut list = |field: &str, what: &str| {
        fields.get(field).map(|node| texts(reader, node, &format!("`{field}`"), what)).unwrap_or_default()
    };
    let (modules, setup) = (list("modules", "modules"), list("setup", "shell lines"));
    let conda = fields.get("conda").and_then(|node| reader.text(node, "`conda`")).map(Into::into);
    folders.setup = Prepare { virtualenv: None, conda, modules, setup }.lines();
    folders.requirements =
        fields.get("requirements").and_then(|node| reader.text(node, "`requirements`")).map(Into::into);
}
