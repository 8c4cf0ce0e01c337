use super::*;
use crate::queue::sweep::Value;
use proptest::prelude::*;

fn holds(text: &str) -> Result<bool, Wrong> {
    let condition = parse(text)?;
    let values: Vec<Value> = condition
        .names
        .iter()
        .map(|(name, _)| match name.as_str() {
            "lr" => Value::Float(0.1),
            "width" => Value::Int(64),
            "opt" => Value::Text("adam".into()),
            "tied" => Value::Bool(true),
            "layers" => Value::List(vec![Value::Int(1), Value::Int(2)]),
            "a-b" => Value::Int(5),
            _ => Value::Null,
        })
        .collect();
    condition.holds(&values.iter().collect::<Vec<_>>())
}

#[test]
fn conditions_mean_what_python_means() {
    for (text, expected) in [
        ("width > 64 or lr < 0.05", false),
        ("width >= 64 and lr == 0.1", true),
        ("not tied", false),
        ("not not tied", true),
        ("not width == 64 or tied", true),
        ("width == 64.0", true),
        ("1 < width <= 64", true),
        ("1 < width < 64", false),
        ("opt == 'adam'", true),
        ("opt != \"sgd\"", true),
        ("opt in ['sgd', \"adam\"]", true),
        ("opt not in ['sgd', 'adam']", false),
        ("2 in layers and 3 not in layers", true),
        ("layers == [1, 2]", true),
        ("width * lr > 6.3 and width * 2 + 1 == 129", true),
        ("width / 2 == 32 and width % 10 == 4 and -width < 0", true),
        ("10 - 4 - 3 == 3", true),
        ("(tied or width > 100) and (lr < 1)", true),
        ("x == null and x is_not", false),
        ("`a-b` == 5", true),
        ("1e-1 == lr and 1.0E+1 > 9", true),
        ("x == None and True", true),
        ("'a' < 'b'", true),
        ("tied == (width > 5)", true),
        ("opt == 'it\\'s'", false),
        ("false and 1 / 0 == 1", false),
        ("[] == []", true),
    ] {
        if text.contains("is_not") {
            assert!(holds(text).is_err());
            continue;
        }
        assert_eq!(holds(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_at_its_place() {
    for (text, at, says) in [
        ("", 0, "expected a parameter"),
        ("lr <", 4, "expected a parameter"),
        ("lr = 0.1", 3, "write `==`"),
        ("lr < 1 && tied", 7, "write `and` and `or`"),
        ("(lr < 1", 0, "`)` is missing"),
        ("[1, 2", 0, "`]` is missing"),
        ("lr < 1 tied", 7, "expected `and`"),
        ("opt == 'adam", 7, "not closed"),
        ("lr < 12x", 5, "is no number"),
        ("lr not 5", 7, "expected `in`"),
        ("width", 0, "a number, not true or false"),
        ("tied and width + 1", 9, "a number, not true or false"),
        ("opt < 5", 6, "text and a number have no order"),
        ("opt + 1 > 2", 0, "cannot be reckoned with"),
        ("width in 5", 9, "holds nothing"),
        ("1 / (width - 64) > 1", 0, "division by zero"),
        ("!tied", 0, "write `not`"),
        ("lr < 5 ?", 7, "means nothing"),
        ("lr.__class__()", 12, "expected `and`"),
    ] {
        let wrong = holds(text).expect_err(text);
        assert!(wrong.at == at && wrong.why.contains(says), "{text}: {wrong:?}");
    }
    for deep in ["(".repeat(5000), "not ".repeat(1000), "-".repeat(4000), format!("{}1", "[".repeat(60))] {
        assert!(parse(&deep).is_err());
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in "\\PC{0,80}") {
        let _ = holds(&text);
    }

    #[test]
    fn no_order_of_its_words_is_too_odd(words in proptest::collection::vec(
        prop_oneof!["and", "or", "not", "in", "lr", "width", "opt", "layers", "[0-9.e]{1,4}", "'a", "\"", "`", "[-+*/%()<>=!,\\[\\]]", "==", "9223372036854775807"], 0..40)) {
        let _ = holds(&words.join(" "));
        let _ = holds(&words.concat());
    }
}
