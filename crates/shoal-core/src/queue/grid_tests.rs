use super::*;
use crate::diagnostic::Diagnostics;
use proptest::prelude::*;

fn words(grid: &[&str]) -> Words {
    let given = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect();
    Words { grid: given(grid), argv: given(&["train"]), ..Words::default() }
}

fn axes(words: &Words) -> String {
    let draft = draft(words).unwrap_or_else(|e| panic!("{}", Diagnostics(e)));
    let part = &draft.parts[0];
    let dimension = |d: &crate::queue::sweep::Dimension| {
        format!("{}={}", d.names.join("+"), serde_json::to_string(&d.rows).expect("JSON"))
    };
    part.dimensions.iter().map(dimension).collect::<Vec<_>>().join(" ")
}

#[test]
fn words_become_axes() {
    for (grid, expected) in [
        (&["lr=0.1,0.01", "width=64,256"][..], "lr=[[0.1],[0.01]] width=[[64],[256]]"),
        (&["lr=1e-4..1e-1:4log"], "lr=[[0.0001],[0.001],[0.01],[0.1]]"),
        (&["n=1..3,10"], "n=[[1],[2],[3],[10]]"),
        (&["opt=adam,'sgd,fast',\"1\",true,null"], r#"opt=[["adam"],["sgd,fast"],["1"],[true],[null]]"#),
        (&["layers=[64,64],[128]"], "layers=[[[64,64]],[[128]]]"),
        (&["file=a=b,/x/y:z"], r#"file=[["a=b"],["/x/y:z"]]"#),
        (&["text=x,''"], r#"text=[["x"],[""]]"#),
        (&["text='x,'"], r#"text=[["x,"]]"#),
        (&["text=two words"], r#"text=[["two words"]]"#),
    ] {
        assert_eq!(axes(&words(grid)), expected);
    }
    let zip = Words {
        zip: vec!["depth=1,2".into(), "heads=2,4".into()],
        set: vec!["a=x,y".into(), "b=".into()],
        ..words(&["lr=1"])
    };
    assert_eq!(axes(&zip), "lr=[[1]] depth+heads=[[1,2],[2,4]]");
    let fixed = &draft(&zip).expect("valid").parts[0].fixed;
    assert_eq!(serde_json::to_string(fixed).expect("JSON"), r#"{"a":"x,y","b":""}"#);
    let when = Words { when: vec!["lr > 1".into()], ..words(&["lr=1,2,3"]) };
    assert_eq!(draft(&when).expect("valid").parts[0].only, Some(vec![1, 2]));
    let pass = Words { pass: Some(Pass { env: true, ..Pass::default() }), ..words(&["lr=1"]) };
    assert_eq!(draft(&pass).expect("valid").pass, Pass { env: true, ..Pass::default() });
    let none = Words { pass: Some(Pass::default()), ..words(&["lr=1"]) };
    assert_eq!(draft(&none).expect("valid").pass, Pass::default());
    assert_eq!(draft(&words(&[])).expect("valid").parts.len(), 1, "one configuration without parameters");
}

#[test]
fn what_is_wrong_is_shown_in_the_word() {
    for (grid, line, column, says) in [
        ("lr", 1, 8, "gives no value"),
        ("lr=", 1, 8, "has no values"),
        ("lr=0.1,0.1", 1, 15, "has 0.1 twice"),
        ("lr=0.1,.nan", 1, 15, "cannot be kept"),
        ("l r=1", 1, 8, "cannot be the name"),
        ("lr=1,[2", 1, 0, "cannot be read"),
        ("lr=0.1,", 1, 14, "nothing follows the last comma"),
        ("lr=,0.1", 1, 0, "cannot be read"),
        ("lr=0.1,,0.2", 1, 0, "cannot be read"),
        ("lr=0.1..0.9", 1, 11, "range that cannot be used"),
    ] {
        let found = draft(&words(&[grid])).expect_err(grid);
        let first = &found[0];
        assert!(first.message.contains(says), "{grid}: {first}");
        assert!(first.at.line == line && (column == 0 || first.at.column == column), "{grid}: {first}");
        assert!(first.to_string().contains(&format!("--grid {grid}")), "{first}");
    }
    let placeholder = Words { argv: vec!["train".into(), "--lr={rl}".into()], ..words(&["lr=1,2"]) };
    let found = draft(&placeholder).expect_err("unknown");
    assert_eq!(
        (found[0].at.line, found[0].at.column, found[0].suggestion.as_deref()),
        (3, 6, Some("lr")),
        "{}",
        found[0]
    );
    assert!(draft(&Words { argv: Vec::new(), ..words(&["lr=1"]) }).is_err());
    assert!(draft(&words(&["lr=1", "lr=2"])).is_err());
}

proptest! {
    #[test]
    fn no_word_is_too_odd(grid in "\\PC{0,20}", value in "[-0-9a-z.,:'\"\\[\\]{}# &*!|>%@`=é\\n\\t]{0,20}", set in any::<bool>()) {
        let given = vec![grid, format!("x={value}")];
        let words = if set { Words { set: given, ..words(&[]) } } else { Words { grid: given, ..words(&[]) } };
        if let Err(found) = draft(&words) {
            prop_assert!(!found.is_empty());
            prop_assert!(!Diagnostics(found).to_string().is_empty());
        }
    }

    #[test]
    fn numbers_and_quoted_text_come_through(numbers in proptest::collection::btree_set(any::<i32>(), 1..6), text in "[a-z,' =]{1,12}") {
        let list: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let quoted = format!("'{}'", text.replace('\'', "''"));
        let words = words(&[&format!("n={}", list.join(",")), &format!("t={quoted}")]);
        let expected: Vec<String> = numbers.iter().map(|n| format!("[{n}]")).collect();
        let text = serde_json::to_string(&text).expect("JSON");
        prop_assert_eq!(axes(&words), format!("n=[{}] t=[[{text}]]", expected.join(",")));
    }
}
