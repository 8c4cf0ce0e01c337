use super::*;
use crate::queue::sweep::Dimension;
use crate::queue::testing::{axis, grid, sweep};
use proptest::prelude::*;

fn text(config: &Config) -> String {
    serde_json::to_string(config).unwrap()
}

fn listed(names: &[&str], rows: Vec<Vec<Option<Value>>>) -> Dimension {
    Dimension { names: names.iter().map(ToString::to_string).collect(), rows }
}

#[test]
fn numbers_run_through_the_parts_and_the_last_axis_turns_fastest() {
    let mut it = sweep("s", "ann", 1, 1);
    let mut conditional = grid(vec![axis("a", 0..10), axis("b", 0..10)]);
    conditional.only = Some(vec![3, 42, 99]);
    conditional.fixed = BTreeMap::from([("c".into(), Value::Bool(true)), ("a".into(), Value::Null)]);
    it.parts = vec![grid(vec![axis("a", 0..2), axis("b", 0..3)]), conditional, grid(vec![])];
    let all: Vec<String> = (0..11).filter_map(|cell| config(&it, cell)).map(|config| text(&config)).collect();
    let expected = [
        r#"{"a":0,"b":0}"#,
        r#"{"a":0,"b":1}"#,
        r#"{"a":0,"b":2}"#,
        r#"{"a":1,"b":0}"#,
        r#"{"a":1,"b":1}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":0,"b":3,"c":true}"#,
        r#"{"a":4,"b":2,"c":true}"#,
        r#"{"a":9,"b":9,"c":true}"#,
        "{}",
    ];
    assert_eq!(all, expected);
    assert_eq!(total(&it), 10);
}

#[test]
fn a_configuration_of_a_list_may_lack_a_parameter() {
    let mut it = sweep("s", "ann", 1, 1);
    let rows = vec![vec![Some(Value::Int(1)), None], vec![None, Some(Value::Text("b".into()))]];
    it.parts = vec![grid(vec![listed(&["x", "y"], rows)])];
    it.parts[0].fixed.insert("x".into(), Value::Int(7));
    let all: Vec<String> = (0..2).filter_map(|cell| config(&it, cell)).map(|config| text(&config)).collect();
    assert_eq!(all, [r#"{"x":1}"#, r#"{"x":7,"y":"b"}"#]);
    assert_eq!(values(&it, 1, &["y".into(), "z".into(), "x".into()]).len(), 2);
}

#[test]
fn names_by_content_are_the_same_everywhere() {
    let config = BTreeMap::from([("lr".into(), Value::Float(0.1)), ("width".into(), Value::Int(64))]);
    // As sha256 of {"lr":0.1,"width":64} says.
    assert_eq!(config_id(&config), "49d67f9fa9640560");
    let float = BTreeMap::from([("lr".into(), Value::Float(1.0))]);
    let int = BTreeMap::from([("lr".into(), Value::Int(1))]);
    assert_ne!(config_id(&float), config_id(&int));
}

#[test]
fn what_differs_comes_from_the_axes() {
    let mut it = sweep("s", "ann", 1, 1);
    let mut first = grid(vec![axis("a", [1, 2]), axis("same", [5, 5]), axis("late", [1])]);
    first.fixed = BTreeMap::from([("f".into(), Value::Int(1)), ("g".into(), Value::Int(1))]);
    let mut second = grid(vec![axis("late", [2])]);
    second.fixed =
        BTreeMap::from([("f".into(), Value::Int(1)), ("same".into(), Value::Int(5)), ("a".into(), Value::Int(1))]);
    it.parts = vec![first, second];
    assert_eq!(differing(&it), ["a", "late", "g"]);
    it.parts.truncate(1);
    assert_eq!(differing(&it), ["a"]);
}

#[test]
fn parts_that_cannot_be_are_named() {
    let with = |only: &[u32]| Axes { only: Some(only.to_vec()), ..grid(vec![axis("a", 0..3)]) };
    let mut short = grid(vec![axis("a", 0..3)]);
    short.dimensions[0].rows[1].clear();
    let huge = grid((0..5).map(|k| axis(&format!("a{k}"), 0..1000)).collect());
    let twice = grid(vec![axis("a", 0..2), axis("a", 0..2)]);
    for (part, word) in [
        (with(&[1, 1]), "ascending"),
        (with(&[3]), "of this part"),
        (short, "length"),
        (huge, "most"),
        (twice, "two axes"),
    ] {
        assert!(problem(&part).is_some_and(|problem| problem.contains(word)), "{word}");
    }
    assert_eq!(problem(&with(&[0, 2])), None);
}

proptest! {
    /// Two configurations have the same mark exactly if they are the same, whatever axes they come from.
    #[test]
    fn marks_stand_for_configurations(
        a in proptest::collection::vec(0i64..3, 1..4), b in proptest::collection::vec(0i64..3, 1..3),
        lacks in proptest::bool::ANY, fixed in proptest::option::of(0i64..3)
    ) {
        let mut it = sweep("s", "ann", 1, 1);
        let mut part = grid(vec![axis("a", a.clone()), axis("b", b.clone())]);
        if lacks {
            part.dimensions[1].rows.push(vec![None]);
        }
        part.fixed.extend(fixed.map(|value| ("b".to_string(), Value::Int(value))));
        let pairs: Vec<Vec<Option<Value>>> =
            a.iter().map(|x| vec![Some(Value::Int(b[0])), Some(Value::Int(*x))]).collect();
        it.parts = vec![part, grid(vec![listed(&["b", "a"], pairs)])];
        let all: Vec<Mark> = it.parts.iter().flat_map(|part| marks(part).unwrap()).collect();
        prop_assert_eq!(all.len() as u64, total(&it));
        let configs: Vec<Config> = (0..all.len() as u32).filter_map(|cell| config(&it, cell)).collect();
        for (mark, one) in all.iter().zip(&configs) {
            for (other_mark, other) in all.iter().zip(&configs) {
                prop_assert_eq!(mark == other_mark, one == other);
                prop_assert_eq!(config_id(one) == config_id(other), one == other);
            }
        }
    }
}
