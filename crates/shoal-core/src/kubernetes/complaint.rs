//! What does the server find wrong, and where does that stand in the template?

use super::place;
use super::template::{Kind, Template};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::reader::Reader;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The field, where the server names one.
    pub path: Option<String>,
    pub message: String,
}

/// From the `Status` that a server answers with.
pub fn of(status: &Value) -> Vec<Complaint> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let of_cause = |cause: &Value| Some((cause["field"].as_str()?.to_string(), cause["message"].as_str()?.to_string()));
    let caused: Vec<Complaint> = causes
        .filter_map(of_cause)
        .filter(|(field, _)| field.starts_with("spec") || field.starts_with("metadata"))
        .map(|(field, message)| Complaint { path: Some(field), message })
        .collect();
    let said = status["message"].as_str().unwrap_or_default();
    match caused.is_empty() {
        false => caused,
        true => of_text(said),
    }
}

/// Unknown fields and wrong types come as text: `unknown field "spec.x"`, or `.spec.x: expected numeric, got ...`.
fn of_text(said: &str) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (at, _) in said.match_indices("unknown field \"") {
        let path = said[at..].split('"').nth(1).unwrap_or_default();
        found.push(Complaint { path: Some(path.into()), message: format!("the server knows no field `{path}`") });
    }
    let mut rest = said;
    while let Some(at) = rest.find(" .spec").or_else(|| rest.find(" .metadata")) {
        let text = &rest[at + 2..];
        rest = text;
        let Some((path, message)) = text.split_once(": ") else { break };
        let message = message.lines().next().unwrap_or_default().trim();
        if !path.contains(char::is_whitespace) && !message.is_empty() {
            found.push(Complaint { path: Some(path.into()), message: message.into() });
        }
    }
    if found.is_empty() {
        found.push(Complaint { path: None, message: said.into() });
    }
    found
}

/// At their places in the template; `None` where none of them has one.
pub fn in_template(
    complaints: &[Complaint],
    template: &Template,
    made: Kind,
    file: &str,
    text: &str,
) -> Option<Diagnostics> {
    let reader = Reader::new(file, text);
    let mut all: Vec<Diagnostic> = Vec::new();
    for complaint in complaints {
        let path = complaint.path.as_deref()?.trim_start_matches('.');
        // A pod became a Job: what it is made of lies deeper there.
        let path = match (template.kind, made) {
            (Kind::Pod, Kind::Job) => path.strip_prefix("spec.template.").unwrap_or(path),
            _ => path,
        };
        let (at, whole) = place::of(&template.tree, path)?;
        let message = format!("the server refuses it: {}", complaint.message);
        let diagnostic = reader.at(at, message);
        let diagnostic = if whole { diagnostic } else { diagnostic.help(format!("it is about `{path}`")) };
        if !all.contains(&diagnostic) {
            all.push(diagnostic);
        }
    }
    (!all.is_empty()).then_some(Diagnostics(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_server_says_names_a_field() {
        let typed = "failed to create typed patch object (n/a; batch/v1, Kind=Job): .spec.template.spec.containers[name=\"w\"].imagee: field not declared in schema";
        let strict = "strict decoding error: unknown field \"spec.template.spec.nodes\"";
        let cause = json!({"message": "Job is invalid", "details": {"causes": [{"field": "spec.template.spec.containers[0].name", "message": "Invalid value"}]}});
        for (status, path, says) in [
            (json!({"message": typed}), Some("spec.template.spec.containers[name=\"w\"].imagee"), "not declared"),
            (json!({"message": strict}), Some("spec.template.spec.nodes"), "no field"),
            (cause, Some("spec.template.spec.containers[0].name"), "Invalid value"),
            (json!({"message": "no"}), None, "no"),
        ] {
            let complaints = of(&status);
            assert_eq!(complaints.len(), 1, "{complaints:?}");
            assert_eq!(complaints[0].path.as_deref(), path);
            assert!(complaints[0].message.contains(says), "{complaints:?}");
        }
    }
}
