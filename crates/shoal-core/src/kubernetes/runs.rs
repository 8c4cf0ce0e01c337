//! What does a file of runs say? Which run, on which GPU of which node, with which seeds.

use super::names;
use crate::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::document::yaml;
use crate::quote::is_variable_name;

/// Seeds as the file gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeds {
    /// So many; which they are follows from the entries above.
    Count(u64),
    These(Vec<u64>),
    /// As many as the template has replicas.
    AsTemplate,
}

/// What to run instead of the template's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line for the shell: the template's, where its command is one.
    Line(String),
    Words(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub at: Place,
    pub name: String,
    pub node: Option<String>,
    pub gpu: Option<String>,
    pub seeds: Seeds,
    pub command: Option<Command>,
    pub env: Vec<(String, String)>,
    pub save_path: Option<(Place, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    pub first_seed: u64,
    /// The most runs that one GPU may hold.
    pub per_gpu: Option<u64>,
    pub retries: u64,
    pub env: Vec<(String, String)>,
    pub save_path: Option<(Place, String)>,
    pub share_save_path: bool,
    pub entries: Vec<Entry>,
}

const TOP: [&str; 7] = ["runs", "first_seed", "per_gpu", "retries", "env", "save_path", "share_save_path"];
const OF_RUN: [&str; 8] = ["name", "node", "gpu", "seeds", "replicas", "cmd", "env", "save_path"];
/// More than anybody means; a slip of the keyboard should not fill a cluster.
const MOST_SEEDS: u64 = 10_000;
/// What the plan gives every run itself.
const OURS: [&str; 6] =
    ["SHOAL_SEED", "SHOAL_SAVE_PATH", "SHOAL_RUN", "SHOAL_LAUNCH", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"];

pub fn read(file: &str, text: &str) -> Result<(Runs, Vec<Diagnostic>), Diagnostics> {
    let mut reader = Reader::new(file, text);
    let tree = reader.tree(yaml::parse(text));
    let runs = tree.and_then(|tree| understand(&mut reader, &tree));
    reader.finish(runs)
}

fn understand(reader: &mut Reader, tree: &Node) -> Option<Runs> {
    // A bare list is the list of runs: what most people need to say.
    let (fields, list) = match &tree.value {
        Value::List(_) => (None, tree),
        _ => {
            let fields = reader.fields(tree, "the file of runs", &TOP)?;
            let Some(list) = fields.get("runs") else {
                let missing = reader.at(tree.at, "the file has no `runs`");
                reader.report(missing.help("`runs:` is a list; each item has a name, a node, a gpu and seeds"));
                return None;
            };
            (Some(fields), list)
        }
    };
    let get = |name: &str| fields.and_then(|fields| fields.get(name));
    let mut number = |name: &str, range| get(name).map(|node| reader.integer(node, &format!("`{name}`"), range));
    let first_seed = number("first_seed", 0..=u64::from(u32::MAX)).unwrap_or(Some(0));
    let per_gpu = number("per_gpu", 1..=1000).unwrap_or(None);
    let retries = number("retries", 0..=100).unwrap_or(Some(0));
    let env = get("env").map_or_else(Vec::new, |node| environment(reader, node));
    let share = get("share_save_path").is_some_and(|node| boolean(reader, node, "`share_save_path`"));
    let save_path = get("save_path").and_then(|node| path(reader, node));
    let items = reader.list(list, "`runs`", "runs")?;
    if items.is_empty() {
        reader.error(list.at, "`runs` is empty: there is nothing to launch");
    }
    let entries: Vec<Entry> = items.iter().filter_map(|item| entry(reader, item)).collect();
    unlike(reader, &entries);
    let (first_seed, retries) = (first_seed?, retries?);
    Some(Runs { first_seed, per_gpu, retries, env, save_path, share_save_path: share, entries })
}

fn entry(reader: &mut Reader, item: &Node) -> Option<Entry> {
    let fields = reader.fields(item, "the run", &OF_RUN)?;
    let name = name(reader, &fields)?;
    let node = fields.get("node").and_then(|node| node_name(reader, node));
    let gpu = fields.get("gpu").and_then(|node| gpu(reader, node));
    let seeds = seeds(reader, &fields)?;
    let command = fields.get("cmd").and_then(|node| command(reader, node));
    let env = fields.get("env").map_or_else(Vec::new, |node| environment(reader, node));
    let save_path = fields.get("save_path").and_then(|node| path(reader, node));
    Some(Entry { at: item.at, name, node, gpu, seeds, command, env, save_path })
}

fn name(reader: &mut Reader, fields: &Fields) -> Option<String> {
    let Some(node) = fields.get("name") else {
        if !fields.has_misspelt("name", &OF_RUN) {
            reader.error(fields.at, "the run has no `name`");
        }
        return None;
    };
    let name = reader.any_text(node, "`name`")?;
    if let Some(fault) = names::label_fault(name) {
        reader.error(node.at, format!("`{name}` cannot be the name of a run: {fault}"));
        return None;
    }
    Some(name.into())
}

fn node_name(reader: &mut Reader, node: &Node) -> Option<String> {
    let text = reader.any_text(node, "`node`")?;
    let label = |part: &str| names::label_fault(part).is_none();
    if text.len() > 253 || !text.split('.').all(label) {
        let wrong = reader.at(node.at, format!("`{text}` is no name of a node"));
        reader.report(wrong.help("it is what `kubectl get nodes -L kubernetes.io/hostname` shows in the last column"));
        return None;
    }
    Some(text.into())
}

fn gpu(reader: &mut Reader, node: &Node) -> Option<String> {
    let text = reader.any_text(node, "`gpu`")?;
    let index = text.len() <= 2 && !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let id = text
        .strip_prefix("GPU-")
        .is_some_and(|id| id.len() >= 8 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-'));
    if !index && !id {
        reader.mismatch(node, "`gpu`", "one GPU's number on its node, such as 0, or its id (`GPU-...`)");
        return None;
    }
    let index = text.parse::<u32>().map(|index| index.to_string());
    Some(index.unwrap_or_else(|_| text.into()))
}

fn seeds(reader: &mut Reader, fields: &Fields) -> Option<Seeds> {
    match (fields.get("seeds"), fields.get("replicas")) {
        (Some(_), Some(node)) => {
            let both = reader.at(node.at, "both `seeds` and `replicas` are given");
            reader.report(both.help("a list of `seeds` says how many; keep one of the two"));
            None
        }
        (None, None) => Some(Seeds::AsTemplate),
        (None, Some(node)) => reader.integer(node, "`replicas`", 1..=MOST_SEEDS).map(Seeds::Count),
        (Some(node), None) => match &node.value {
            Value::List(items) if !items.is_empty() => {
                let mut these = Vec::new();
                for item in items {
                    let seed = reader.integer(item, "the seed", 0..=u64::from(u32::MAX))?;
                    if these.contains(&seed) {
                        reader.error(item.at, format!("seed {seed} is given twice"));
                        return None;
                    }
                    these.push(seed);
                }
                Some(Seeds::These(these))
            }
            Value::Scalar { .. } => reader.integer(node, "`seeds`", 1..=MOST_SEEDS).map(Seeds::Count),
            _ => {
                reader.mismatch(node, "`seeds`", "how many, or a list of them");
                None
            }
        },
    }
}

fn command(reader: &mut Reader, node: &Node) -> Option<Command> {
    match &node.value {
        Value::List(items) if !items.is_empty() => {
            let words = items.iter().map(|item| reader.any_text(item, "the word").map(Into::into));
            words.collect::<Option<_>>().map(Command::Words)
        }
        Value::Scalar { .. } => reader.any_text(node, "`cmd`").map(|text| Command::Line(text.into())),
        _ => {
            reader.mismatch(node, "`cmd`", "a line for the shell, or a list of words");
            None
        }
    }
}

fn environment(reader: &mut Reader, node: &Node) -> Vec<(String, String)> {
    let Some(fields) = reader.map(node, "`env`") else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in fields.entries() {
        if OURS.contains(&key.text.as_str()) {
            let taken = reader.at(key.at, format!("`{}` is set by the launch itself", key.text));
            reader.report(taken.help("`seeds`, `gpu` and `save_path` say what it is"));
        } else if !is_variable_name(&key.text) {
            reader.error(key.at, format!("`{}` cannot be the name of a variable", key.text));
        } else if let Some(value) = reader.any_text(value, "the variable") {
            found.push((key.text.clone(), value.to_string()));
        }
    }
    found
}

fn path(reader: &mut Reader, node: &Node) -> Option<(Place, String)> {
    reader.text(node, "`save_path`").map(|text| (node.at, text.to_string()))
}

fn boolean(reader: &mut Reader, node: &Node, what: &str) -> bool {
    match &node.value {
        Value::Scalar { text, plain: true } if text == "true" => true,
        Value::Scalar { text, plain: true } if text == "false" => false,
        _ => {
            reader.mismatch(node, what, "`true` or `false`");
            false
        }
    }
}

/// The same name on the same GPU of the same node is one run written twice.
fn unlike(reader: &mut Reader, entries: &[Entry]) {
    for (index, entry) in entries.iter().enumerate() {
        let same = |other: &&Entry| (&other.name, &other.node, &other.gpu) == (&entry.name, &entry.node, &entry.gpu);
        if let Some(first) = entries[..index].iter().find(same) {
            let message = format!("run `{}` is given twice for the same GPU and node", entry.name);
            let help = format!("the first is in line {}; give it more seeds, or another name", first.at.line);
            reader.report(reader.at(entry.at, message).help(help));
        }
    }
}
