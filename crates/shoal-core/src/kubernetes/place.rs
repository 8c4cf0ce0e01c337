//! Where in the template does what the server complains about stand?

use crate::diagnostic::Place;
use crate::document::node::{Node, Value};

/// The place of a path such as `spec.template.spec.containers[0].image`, and how much of the path the file has. The server names fields that
/// may not be there (a required one is missing): then it is the nearest thing around.
pub fn of(root: &Node, path: &str) -> Option<(Place, bool)> {
    let mut node = root;
    let mut at = None;
    for step in steps(path) {
        let next = match (&node.value, &step) {
            (Value::Map(entries), Step::Name(name)) => {
                entries.iter().find(|(key, _)| key.text == *name).map(|(key, node)| (key.at, node))
            }
            (Value::List(items), Step::Index(index)) => items.get(*index).map(|node| (node.at, node)),
            (Value::List(items), Step::Name(key)) => keyed(items, key).map(|node| (node.at, node)),
            _ => None,
        };
        match next {
            Some((place, inner)) => (at, node) = (Some(place), inner),
            None => return at.map(|at| (at, false)),
        }
    }
    at.map(|at| (at, true))
}

/// `name="worker"`: how a server that merges lists tells their items apart.
fn keyed<'n>(items: &'n [Node], key: &str) -> Option<&'n Node> {
    let (field, wanted) = key.split(',').next()?.split_once('=')?;
    let wanted = wanted.trim_matches('"');
    items
        .iter()
        .find(|item| matches!(item.get(field).map(|n| &n.value), Some(Value::Scalar { text, .. }) if text == wanted))
}

enum Step {
    Name(String),
    Index(usize),
}

/// `a.b[0].c[key.with.dots]`.
fn steps(path: &str) -> Vec<Step> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        match c {
            '.' => found.extend(name(&mut word)),
            '[' => {
                found.extend(name(&mut word));
                let inner: String = chars.by_ref().take_while(|c| *c != ']').collect();
                found.push(inner.parse().map_or(Step::Name(inner), Step::Index));
            }
            c => word.push(c),
        }
    }
    found.extend(name(&mut word));
    found
}

fn name(word: &mut String) -> Option<Step> {
    (!word.is_empty()).then(|| Step::Name(std::mem::take(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::yaml;

    #[test]
    fn paths_of_the_server_are_found_in_the_file() {
        let text = "spec:\n  containers:\n    - name: a\n      image: b\n  labels:\n    a.b/c: d\n";
        let tree = yaml::parse(text).expect("valid");
        for (path, wanted) in [
            ("spec.containers[0].image", Some((4, 7, true))),
            ("spec.containers[0].command", Some((3, 7, false))),
            ("spec.labels[a.b/c]", Some((6, 5, true))),
            ("spec.containers[name=\"a\"].image", Some((4, 7, true))),
            (".spec.containers[name=\"b\"].image", Some((2, 3, false))),
            ("status", None),
        ] {
            let got = of(&tree, path).map(|(at, whole)| (at.line, at.column, whole));
            assert_eq!(got, wanted, "{path}");
        }
    }
}
