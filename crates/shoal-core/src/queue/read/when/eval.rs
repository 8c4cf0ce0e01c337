//! What is a condition for one configuration?

use super::Wrong;
use super::parse::{Condition, Node, Relation, Sign, What};
use crate::queue::sweep::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

type Evaluated<'v> = Result<Cow<'v, Value>, Wrong>;

impl Condition {
    /// `values` are those of `self.names`, in their order.
    pub fn holds(&self, values: &[&Value]) -> Result<bool, Wrong> {
        truth(&self.root, values)
    }
}

fn wrong<T>(node: &Node, why: String) -> Result<T, Wrong> {
    Err(Wrong { at: node.at, width: node.width, why })
}

fn truth(node: &Node, values: &[&Value]) -> Result<bool, Wrong> {
    match &node.what {
        What::Not(inner) => Ok(!truth(inner, values)?),
        What::And(left, right) => Ok(truth(left, values)? && truth(right, values)?),
        What::Or(left, right) => Ok(truth(left, values)? || truth(right, values)?),
        What::Compare(first, rest) => compare(first, rest, values),
        _ => match &*value(node, values)? {
            Value::Bool(yes) => Ok(*yes),
            other => wrong(node, format!("this is {}, not true or false; compare it with something", kind(other))),
        },
    }
}

fn value<'v>(node: &'v Node, values: &[&'v Value]) -> Evaluated<'v> {
    match &node.what {
        What::Literal(value) => Ok(Cow::Borrowed(value)),
        What::Parameter(number) => match values.get(*number) {
            Some(value) => Ok(Cow::Borrowed(value)),
            None => wrong(node, "this configuration has no such parameter".into()),
        },
        What::List(items) => {
            let items: Result<Vec<Value>, Wrong> = items.iter().map(|n| Ok(value(n, values)?.into_owned())).collect();
            Ok(Cow::Owned(Value::List(items?)))
        }
        What::Minus(inner) => match &*value(inner, values)? {
            Value::Int(number) => {
                Ok(Cow::Owned(number.checked_neg().map_or(Value::Float(-(*number as f64)), Value::Int)))
            }
            Value::Float(number) => Ok(Cow::Owned(Value::Float(-number))),
            other => wrong(node, format!("{} has no negative", kind(other))),
        },
        What::Arithmetic(sign, left, right) => {
            let (a, b) = (value(left, values)?, value(right, values)?);
            match arithmetic(*sign, &a, &b) {
                Ok(result) => Ok(Cow::Owned(result)),
                Err(why) => wrong(node, why),
            }
        }
        What::Not(_) | What::And(..) | What::Or(..) | What::Compare(..) => {
            Ok(Cow::Owned(Value::Bool(truth(node, values)?)))
        }
    }
}

fn compare(first: &Node, rest: &[(Relation, Node)], values: &[&Value]) -> Result<bool, Wrong> {
    let mut left = value(first, values)?;
    for (relation, node) in rest {
        let right = value(node, values)?;
        let holds = match relation {
            Relation::Equal => equal(&left, &right),
            Relation::NotEqual => !equal(&left, &right),
            Relation::In | Relation::NotIn => match &*right {
                Value::List(items) => items.iter().any(|item| equal(&left, item)) == (*relation == Relation::In),
                other => return wrong(node, format!("{} holds nothing; write a list such as [1, 2]", kind(other))),
            },
            _ => match order(&left, &right) {
                Ok(order) => match relation {
                    Relation::Less => order.is_lt(),
                    Relation::LessOrEqual => order.is_le(),
                    Relation::Greater => order.is_gt(),
                    _ => order.is_ge(),
                },
                Err(why) => return wrong(node, why),
            },
        };
        if !holds {
            return Ok(false);
        }
        left = right;
    }
    Ok(true)
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => *a as f64 == *b,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        _ => a == b,
    }
}

fn order(a: &Value, b: &Value) -> Result<Ordering, String> {
    let ordered = match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        _ => numbers(a, b).and_then(|(a, b)| a.partial_cmp(&b)),
    };
    ordered.ok_or_else(|| format!("{} and {} have no order", kind(a), kind(b)))
}

fn numbers(a: &Value, b: &Value) -> Option<(f64, f64)> {
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    Some((number(a)?, number(b)?))
}

fn arithmetic(sign: Sign, a: &Value, b: &Value) -> Result<Value, String> {
    let whole = match (sign, a, b) {
        (Sign::Plus, Value::Int(a), Value::Int(b)) => a.checked_add(*b),
        (Sign::Minus, Value::Int(a), Value::Int(b)) => a.checked_sub(*b),
        (Sign::Times, Value::Int(a), Value::Int(b)) => a.checked_mul(*b),
        (Sign::Modulo, Value::Int(a), Value::Int(b)) => a.checked_rem_euclid(*b),
        _ => None,
    };
    if let Some(whole) = whole {
        return Ok(Value::Int(whole));
    }
    let (x, y) = numbers(a, b).ok_or_else(|| format!("{} and {} cannot be reckoned with", kind(a), kind(b)))?;
    let result = match sign {
        Sign::Plus => x + y,
        Sign::Minus => x - y,
        Sign::Times => x * y,
        Sign::Over | Sign::Modulo if y == 0.0 => return Err("a division by zero".into()),
        Sign::Over => x / y,
        Sign::Modulo => x.rem_euclid(y),
    };
    Ok(Value::Float(result))
}

pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Int(_) | Value::Float(_) => "a number",
        Value::Text(_) => "text",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
    }
}
