//! What fills the slots: `--set NAME=VALUE`, and the file of `--values`, a YAML map.

use super::slots::tidy;
use crate::diagnostic::Diagnostics;
use crate::document::reader::Reader;
use crate::document::yaml;
use std::collections::BTreeMap;

/// One `--set`.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !tidy(name).is_empty() && !value.trim().is_empty() => {
            Ok((tidy(name), value.trim().into()))
        }
        Some((name, _)) if !tidy(name).is_empty() => Err(format!("`{}` is given no value", tidy(name))),
        _ => Err("expected NAME=VALUE, such as 'AMI ID=ami-0123'".into()),
    }
}

/// A file of values.
pub fn of_file(file: &str, text: &str) -> Result<BTreeMap<String, String>, Diagnostics> {
    let text = super::without_mark(text);
    let mut reader = Reader::new(file, text);
    let root = reader.tree(yaml::parse(text));
    let values = root.and_then(|root| {
        let map = reader.map(&root, "the file of values")?;
        let mut values = BTreeMap::new();
        for (key, node) in map.entries() {
            let value = reader.any_text(node, &format!("`{}`", key.text))?;
            values.insert(tidy(&key.text), value.to_string());
        }
        Some(values)
    });
    reader.finish(values).map(|(values, _)| values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_come_apart() {
        assert_eq!(assignment("AMI ID = ami-1"), Ok(("AMI ID".into(), "ami-1".into())));
        assert_eq!(assignment("a=b=c"), Ok(("a".into(), "b=c".into())));
        for text in ["AMI ID", "=x", "AMI ID="] {
            assert!(assignment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_of_values_is_a_map_of_texts() {
        let values = of_file("v.yaml", "AMI ID: ami-1\nHow many: 4\n").expect("valid");
        assert_eq!(values.get("How many").map(String::as_str), Some("4"));
        assert!(of_file("v.yaml", "- x\n").is_err());
        assert!(of_file("v.yaml", "AMI ID: { other }\n").is_err());
    }
}
