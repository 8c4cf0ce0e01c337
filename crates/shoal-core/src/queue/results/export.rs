//! How does a table leave for other programs?

use super::numbers::Summary;
use super::table::{Cell, Kind, Table};
use crate::queue::render::text::word;
use serde_json::{Map, Value as Json, json};

impl Table {
    /// RFC 4180: commas, quotes where they are needed, CRLF. A mean is followed by half the width of its interval.
    pub fn csv(&self) -> String {
        let means: Vec<bool> =
            (0..self.columns.len()).map(|at| self.lines.iter().any(|line| matches!(line[at], Cell::Mean(_)))).collect();
        let mut text = String::new();
        let mut line = |cells: Vec<String>| {
            text.push_str(&cells.join(","));
            text.push_str("\r\n");
        };
        let mut heads = Vec::new();
        for (column, mean) in self.columns.iter().zip(&means) {
            heads.push(field(&column.name));
            if *mean {
                heads.push(field(&format!("{}_ci95", column.name)));
            }
        }
        line(heads);
        for cells in &self.lines {
            let mut fields = Vec::new();
            for (cell, mean) in cells.iter().zip(&means) {
                fields.push(field(&plain(cell)));
                if *mean {
                    let half = if let Cell::Mean(Summary { half, .. }) = cell { *half } else { None };
                    fields.push(half.map(number).unwrap_or_default());
                }
            }
            line(fields);
        }
        text
    }

    /// `{"runs": [{"run": "mlp:17.2", "params": {...}, "metrics": {...}, "seconds": 1.5, "host": "hebb"}]}`, or `cells` where copies are
    /// taken together: metrics are then `{"mean": .., "ci95": .., "n": ..}`.
    pub fn json(&self) -> String {
        let lines: Vec<Json> = self.lines.iter().map(|line| self.object(line)).collect();
        let key = if self.grouped { "cells" } else { "runs" };
        json!({ key: lines }).to_string() + "\n"
    }

    fn object(&self, line: &[Cell]) -> Json {
        let (mut object, mut params, mut metrics) = (Map::new(), Map::new(), Map::new());
        for (column, cell) in self.columns.iter().zip(line) {
            let value = json_cell(cell);
            match &column.kind {
                // Absent and null are different things to a parameter.
                Kind::Parameter(_) | Kind::Metric(_) if *cell == Cell::Nothing => {}
                Kind::Parameter(name) => drop(params.insert(name.clone(), value)),
                Kind::Metric(name) => drop(metrics.insert(name.clone(), value)),
                _ => drop(object.insert(column.name.clone(), value)),
            }
        }
        object.insert("params".into(), params.into());
        object.insert("metrics".into(), metrics.into());
        Json::Object(object)
    }
}

fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Nothing => String::new(),
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Value(value) => word(value),
        Cell::Number(value) | Cell::Mean(Summary { mean: value, .. }) => number(*value),
    }
}

/// All its digits, as programs read it.
fn number(number: f64) -> String {
    // Beyond that, a float does not know its last digit.
    const WHOLE: f64 = 9e15;
    match number.is_finite() {
        true if number.fract() == 0.0 && number.abs() < WHOLE => format!("{}", number as i64),
        true => serde_json::to_string(&number).unwrap_or_default(),
        false => super::numbers::digits(number, 1),
    }
}

fn json_cell(cell: &Cell) -> Json {
    match cell {
        Cell::Nothing => Json::Null,
        Cell::Text(text) => json!(text),
        Cell::Count(count) => json!(count),
        Cell::Value(value) => json!(value),
        // JSON has no word for what is no number.
        Cell::Number(number) => json!(number),
        Cell::Mean(Summary { n, mean, half }) => json!({"mean": mean, "ci95": half, "n": n}),
    }
}
