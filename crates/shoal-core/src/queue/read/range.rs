//! Which values does `1..10` stand for, or `1e-4..1e-1:4log`?

use super::scalar::core;
use crate::queue::sweep::Value;

/// A longer axis is a slip.
pub const MOST_VALUES: usize = 1_000_000;

/// `None`: this is no range. Both ends belong to it. `:4` gives four values in even steps, `:4log` in even factors.
pub fn range(text: &str) -> Option<Result<Vec<Value>, String>> {
    let (from, rest) = text.split_once("..")?;
    let (to, count) = match rest.split_once(':') {
        Some((to, count)) => (to, Some(count)),
        None => (rest, None),
    };
    let (from, to) = (core(from).ok()?, core(to).ok()?);
    if ![&from, &to].iter().all(|end| matches!(end, Value::Int(_) | Value::Float(_))) {
        return None;
    }
    Some(match count {
        None => whole(&from, &to),
        Some(count) => spaced(&from, &to, count),
    })
}

fn whole(from: &Value, to: &Value) -> Result<Vec<Value>, String> {
    let (Value::Int(from), Value::Int(to)) = (from, to) else {
        return Err("say how many values it has: `0.1..0.9:5`, or `1e-4..1e-1:4log` for even factors".into());
    };
    let steps = from.abs_diff(*to);
    if steps >= MOST_VALUES as u64 {
        return Err(format!("it stands for more than {MOST_VALUES} values"));
    }
    let numbers: Vec<Value> = (*from.min(to)..=*from.max(to)).map(Value::Int).collect();
    Ok(if from <= to { numbers } else { numbers.into_iter().rev().collect() })
}

fn spaced(from: &Value, to: &Value, count: &str) -> Result<Vec<Value>, String> {
    let (digits, log) = match count.strip_suffix("log") {
        Some(digits) => (digits, true),
        None => (count, false),
    };
    let wrong = || format!("expected a number of values such as `4` or `4log` after the colon, found `{count}`");
    let count: usize = digits.parse().map_err(|_| wrong())?;
    if !(2..=MOST_VALUES).contains(&count) {
        return Err(format!("it has to have from 2 to {MOST_VALUES} values"));
    }
    let (Some(first), Some(last)) = (number(from), number(to)) else { return Err(wrong()) };
    if log && (first <= 0.0 || last <= 0.0) {
        return Err("even factors need both ends above zero".into());
    }
    let step = |index: usize| {
        let part = index as f64 / (count - 1) as f64;
        match log {
            true => (first.ln() + part * (last.ln() - first.ln())).exp(),
            false => first + part * (last - first),
        }
    };
    let inner = (1..count - 1).map(|index| rounded(step(index)));
    let all: Vec<f64> = std::iter::once(first).chain(inner).chain(std::iter::once(last)).collect();
    // Whole ends with whole steps between them are whole numbers: layers are counted.
    let whole = matches!((from, to), (Value::Int(_), Value::Int(_)))
        && all.iter().all(|number| number.fract() == 0.0 && number.abs() < 2f64.powi(53));
    Ok(all.into_iter().map(|n| if whole { Value::Int(n as i64) } else { Value::Float(n) }).collect())
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// What people would write: `0.001`, where logarithms give `0.0010000000000000002`.
fn rounded(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_what_people_would_write_out() {
        for (text, expected) in [
            ("1..4", "[1,2,3,4]"),
            ("3..1", "[3,2,1]"),
            ("-1..1", "[-1,0,1]"),
            ("5..5", "[5]"),
            ("1e-4..1e-1:4log", "[0.0001,0.001,0.01,0.1]"),
            ("0.1..0.5:5", "[0.1,0.2,0.3,0.4,0.5]"),
            ("1..10:4", "[1,4,7,10]"),
            ("1..2:3", "[1.0,1.5,2.0]"),
            ("16..256:5log", "[16,32,64,128,256]"),
            ("1..0.01:3log", "[1.0,0.1,0.01]"),
        ] {
            let values = range(text).expect(text).expect(text);
            assert_eq!(serde_json::to_string(&values).expect("JSON"), expected, "{text}");
        }
        for text in ["1..x", "a..b", "..", "1..", "x", "../data", "1.5", "true..false"] {
            assert_eq!(range(text), None, "{text}");
        }
        for text in ["0.1..0.5", "1..9:1", "1..9:x", "1..9:", "0..9:3log", "-1..9:3log", "0..9999999999"] {
            assert!(range(text).expect(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[-0-9e.:log]{0,24}") {
            if let Some(Ok(values)) = range(&text) {
                prop_assert!(!values.is_empty() && values.len() <= MOST_VALUES);
            }
        }
    }
}
