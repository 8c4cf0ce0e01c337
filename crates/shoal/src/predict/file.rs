//! Reading a description of a model: JSON with the fields of docs/reference/plan.md. What is wrong is said with its line and column.

use super::model::{Kind, LayerOf, Model};
use shoal_core::diagnostic::{Diagnostic, Diagnostics};
use shoal_core::document::json;
use shoal_core::document::node::{Node, Value};
use shoal_core::document::reader::{Fields, Reader};
use shoal_core::suggest::closest;

const MODEL_FIELDS: [&str; 5] = ["model", "batch", "matrix_flops", "optimizer_seconds", "layers"];
const LAYER_FIELDS: [&str; 8] =
    ["name", "kind", "shape", "bias", "rows", "flops", "forward_seconds", "backward_seconds"];
const KINDS: [(&str, Kind); 3] = [("linear", Kind::Linear), ("conv", Kind::Conv), ("other", Kind::Other)];
/// Of one dimension and of a whole layer; far above anything real, far below what would overflow.
const LARGEST: u64 = 1 << 44;
const MOST_ROWS: u64 = 1 << 32;

/// The model, and warnings to be shown.
pub fn read(file: &str, text: &str) -> Result<(Model, Vec<Diagnostic>), Diagnostics> {
    let mut reader = Reader::new(file, text);
    let model = reader.tree(json::parse(text)).and_then(|root| model(&mut reader, &root));
    reader.finish(model)
}

fn model(reader: &mut Reader<'_>, root: &Node) -> Option<Model> {
    let fields = reader.fields(root, "the description", &MODEL_FIELDS)?;
    let name = fields.get("model").and_then(|node| reader.text(node, "`model`")).unwrap_or("model").to_string();
    let batch = match fields.get("batch") {
        Some(node) => reader.integer(node, "`batch`", 1..=MOST_ROWS),
        None => missing(
            reader,
            &fields,
            "the description",
            "batch",
            &MODEL_FIELDS,
            "the samples that a worker takes in a step",
        ),
    };
    let speed = fields.get("matrix_flops").and_then(|node| number(reader, node, "`matrix_flops`", f64::MIN_POSITIVE));
    let optimizer = fields.get("optimizer_seconds").and_then(|node| number(reader, node, "`optimizer_seconds`", 0.0));
    let layers = match fields.get("layers") {
        Some(node) => reader.list(node, "`layers`", "layers").map(|items| (node, items)),
        None => missing(
            reader,
            &fields,
            "the description",
            "layers",
            &MODEL_FIELDS,
            "its layers, in the order of the forward pass",
        ),
    };
    let (node, items) = layers?;
    if items.is_empty() {
        reader.mismatch(node, "`layers`", "at least one layer");
    }
    let batch = batch?;
    let layers: Vec<LayerOf> = items.iter().filter_map(|item| layer(reader, item, batch)).collect();
    Some(Model { name, batch, matrix_flops: speed, optimizer_seconds: optimizer.unwrap_or(0.0), layers })
}

fn layer(reader: &mut Reader<'_>, node: &Node, batch: u64) -> Option<LayerOf> {
    if reader.is_full() {
        return None;
    }
    let fields = reader.fields(node, "a layer", &LAYER_FIELDS)?;
    let name = match fields.get("name") {
        Some(node) => reader.any_text(node, "`name`").map(str::to_string),
        None => missing(reader, &fields, "a layer", "name", &LAYER_FIELDS, "any name, by which you know it"),
    };
    let kind = match fields.get("kind") {
        Some(node) => kind(reader, node),
        None => missing(reader, &fields, "a layer", "kind", &LAYER_FIELDS, "`linear`, `conv` or `other`"),
    };
    let shape = match fields.get("shape") {
        Some(node) => shape(reader, node, kind),
        None if matches!(kind, None | Some(Kind::Other)) => Some(Vec::new()),
        None => missing(
            reader,
            &fields,
            "a layer",
            "shape",
            &LAYER_FIELDS,
            "the weight's: outputs, inputs, and a kernel's sides",
        ),
    };
    let bias = fields.get("bias").and_then(|node| boolean(reader, node, "`bias`")).unwrap_or(false);
    let rows = fields.get("rows").map_or(Some(batch), |node| reader.integer(node, "`rows`", 1..=MOST_ROWS));
    let mut amount = |name: &str| fields.get(name).and_then(|node| number(reader, node, &format!("`{name}`"), 0.0));
    let (flops, forward, backward) = (amount("flops"), amount("forward_seconds"), amount("backward_seconds"));
    let (name, kind, shape, rows) = (name?, kind?, shape?, rows?);
    if kind == Kind::Conv && flops.is_none() && (forward.is_none() || backward.is_none()) {
        let help = "give `flops` of its forward pass for one batch, or `forward_seconds` and `backward_seconds`";
        reader.warn(fields.at, format!("layer `{name}` says nothing of its compute, which so counts as none"), help);
    }
    Some(LayerOf { name, kind, shape, bias, rows, flops, forward_seconds: forward, backward_seconds: backward })
}

/// Reports a field that is not there, unless it is, misspelt.
fn missing<T>(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    what: &str,
    name: &str,
    known: &[&str],
    help: &str,
) -> Option<T> {
    if !fields.has_misspelt(name, known) {
        let diagnostic = reader.at(fields.at, format!("`{name}` is missing in {what}")).help(help);
        reader.report(diagnostic);
    }
    None
}

fn kind(reader: &mut Reader<'_>, node: &Node) -> Option<Kind> {
    let text = reader.text(node, "`kind`")?;
    let found = KINDS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
    if found.is_none() {
        let meant = closest(text, KINDS.iter().map(|(name, _)| *name));
        let diagnostic = reader.at(node.at, format!("`{text}` is no kind of layer")).suggestion(meant);
        reader.report(diagnostic.expected("`linear`, `conv` or `other`"));
    }
    found
}

fn shape(reader: &mut Reader<'_>, node: &Node, kind: Option<Kind>) -> Option<Vec<u64>> {
    let items = reader.list(node, "`shape`", "whole numbers")?;
    let sides: Vec<u64> =
        items.iter().filter_map(|item| reader.integer(item, "a side of `shape`", 1..=LARGEST)).collect();
    if sides.len() != items.len() {
        return None;
    }
    if kind == Some(Kind::Linear) && sides.len() != 2 {
        let diagnostic = reader.at(node.at, format!("a linear layer's shape has 2 sides, not {}", sides.len()));
        reader.report(
            diagnostic.help("[outputs, inputs], as torch.nn.Linear's weight has it; without them it is `other`"),
        );
        return None;
    }
    let fits = sides.iter().try_fold(1u64, |all, n| all.checked_mul(*n)).is_some_and(|all| all <= LARGEST);
    if !fits {
        reader.error(node.at, "a layer of this shape would fill all memory there is");
    }
    fits.then_some(sides)
}

fn number(reader: &mut Reader<'_>, node: &Node, what: &str, least: f64) -> Option<f64> {
    let value = match &node.value {
        Value::Scalar { text, plain: true } => text.parse::<f64>().ok(),
        _ => None,
    };
    let value = value.filter(|value| *value >= least && value.is_finite());
    if value.is_none() {
        reader.mismatch(node, what, if least > 0.0 { "a number above 0" } else { "a number, 0 or more" });
    }
    value
}

fn boolean(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<bool> {
    match &node.value {
        Value::Scalar { text, plain: true } if text == "true" => Some(true),
        Value::Scalar { text, plain: true } if text == "false" => Some(false),
        _ => {
            reader.mismatch(node, what, "true or false");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read() {
        let text = r#"{"model": "mlp", "batch": 32, "matrix_flops": 5e10, "layers": [
            {"name": "fc1", "kind": "linear", "shape": [1024, 512], "bias": true, "rows": 64},
            {"name": "conv", "kind": "conv", "shape": [8, 3, 3, 3], "flops": 1e6},
            {"name": "gelu", "kind": "other", "forward_seconds": 0.5, "backward_seconds": 1}]}"#;
        let (model, warnings) = read("m.json", text).expect("a model");
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!((model.elements(), model.batch), (1024 * 513 + 216, 32));
        let layers = model.layers(64, 1e9);
        assert_eq!(layers[0].tensor.map(|t| (t.rows, t.elements)), Some((128, 1024 * 513)));
        assert_eq!((layers[1].forward, layers[1].backward), (2e-3, 4e-3));
        assert_eq!((layers[2].tensor, layers[2].forward, layers[2].backward), (None, 1.0, 2.0));
    }

    #[test]
    fn what_is_wrong_is_shown_at_its_place() {
        let layer = |fields: &str| format!("{{\"batch\": 1, \"layers\": [{{{fields}}}]}}");
        for (text, said) in [
            ("".to_string(), "not JSON"),
            ("[]".into(), "the description has a wrong value"),
            ("{\"layers\": []}".into(), "`batch` is missing"),
            ("{\"batch\": 0, \"layers\": []}".into(), "a whole number from 1"),
            ("{\"batch\": 1}".into(), "`layers` is missing"),
            ("{\"batch\": 1, \"layers\": []}".into(), "at least one layer"),
            ("{\"batch\": 1, \"layres\": []}".into(), "did you mean `layers`?"),
            (layer("\"name\": \"a\", \"kind\": \"liner\", \"shape\": [1, 2]"), "did you mean `linear`?"),
            (layer("\"name\": \"a\", \"kind\": \"linear\", \"shape\": [1]"), "2 sides, not 1"),
            (layer("\"name\": \"a\", \"kind\": \"linear\""), "`shape` is missing"),
            (layer("\"kind\": \"other\""), "`name` is missing"),
            (layer("\"name\": \"a\""), "`kind` is missing"),
            (layer("\"name\": \"a\", \"kind\": \"other\", \"shape\": [-1]"), "found the number -1"),
            (layer("\"name\": \"a\", \"kind\": \"other\", \"shape\": 5"), "a list of whole numbers"),
            (layer("\"name\": \"a\", \"kind\": \"other\", \"flops\": -1"), "0 or more"),
            (layer("\"name\": \"a\", \"kind\": \"other\", \"bias\": 1"), "true or false"),
            (layer("\"name\": \"a\", \"kind\": \"other\", \"shape\": [99999999, 99999999]"), "all memory"),
            (layer("\"name\": \"a\", \"kind\": \"other\", \"flop\": 1"), "did you mean `flops`?"),
        ] {
            let error = read("m.json", &text).expect_err(&text).to_string();
            assert!(error.contains(said) && error.contains("--> m.json:1:"), "{text}\n{error}");
        }
        let silent = layer("\"name\": \"a\", \"kind\": \"conv\", \"shape\": [1, 1, 1, 1]");
        let (_, warnings) = read("m.json", &silent).expect("a model");
        assert!(warnings[0].to_string().contains("counts as none"), "{warnings:?}");
    }
}
