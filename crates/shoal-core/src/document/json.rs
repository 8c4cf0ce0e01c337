//! How is JSON text read into a tree? Strictly, as JSON; then by the YAML reader, which knows places.
//!
//! JSON is YAML but for one thing: tabs. Where JSON is valid they stand between tokens only, and so can be read as blanks.

use super::node::Node;
use super::reader::Fault;
use super::yaml;
use crate::diagnostic::Place;
use serde::de::IgnoredAny;

pub fn parse(text: &str) -> Result<Node, Fault> {
    if text.len() <= yaml::MOST_BYTES {
        serde_json::from_str::<IgnoredAny>(text).map_err(|e| syntax_fault(text, &e))?;
    }
    yaml::parse(&text.replace('\t', " "))
}

fn syntax_fault(text: &str, error: &serde_json::Error) -> Fault {
    // serde_json counts bytes and points at the last one it took; 0 stands for the end of the line before.
    let line = error.line().max(1);
    let source = text.lines().nth(line - 1).unwrap_or("");
    let bytes = error.column().saturating_sub(1).min(source.len());
    let column = source.char_indices().take_while(|(at, _)| *at < bytes).count() + 1;
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    let closes = source.chars().nth(column - 1).is_some_and(|c| matches!(c, ']' | '}'));
    let (why, help) = match why {
        "trailing comma" | "expected value" if closes => ("a comma with nothing after it", Some("remove the comma")),
        "EOF while parsing a list" => ("the file ends within a list", Some("close it with `]`")),
        "EOF while parsing an object" => ("the file ends within an object", Some("close it with `}`")),
        "key must be a string" => (why, Some("put the name in double quotes; JSON has no comments")),
        "expected value" => (why, Some("put text in double quotes; JSON has no comments")),
        _ => (why, None),
    };
    let fault = Fault::new(Place { line, column, width: 1 }, format!("this is not JSON: {why}"));
    Fault { help: help.map(Into::into), ..fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_tabs_and_escapes_is_read() {
        let root = parse("{\n\t\"a\": \"x\\/\\u0041\",\n\t\"b\":\"y\"}").expect("valid");
        let texts: Vec<String> = ["a", "b"].iter().filter_map(|n| root.get(n)).map(Node::description).collect();
        assert_eq!(texts, ["the text \"x/A\"", "the text \"y\""]);
        assert_eq!(root.get("b").map(|n| (n.at.line, n.at.column)), Some((3, 6)));
    }

    #[test]
    fn what_only_yaml_allows_is_refused_at_its_place() {
        for (text, line, column) in [
            ("{'a': 1}", 1, 2),
            ("{a: 1}", 1, 2),
            ("{\"a\": [1, 2,]}", 1, 13),
            ("{\n  \"a\": 1\n", 3, 1),
            ("# words\n{}", 1, 1),
            ("{} {}", 1, 4),
        ] {
            let fault = parse(text).expect_err(text);
            assert_eq!((fault.at.line, fault.at.column), (line, column), "{text}: {}", fault.message);
        }
    }
}
