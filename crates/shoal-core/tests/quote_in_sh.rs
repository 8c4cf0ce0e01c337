//! Quoting is right if a real shell says so: what goes in comes out, in every position of a command.

use proptest::prelude::*;
use shoal_core::quote::{join, quote};
use std::process::Command;

/// What `sh` takes a line to mean: its words, as a function that prints them would get them.
fn words_in_sh(line: &str) -> Vec<u8> {
    let out = Command::new("sh").arg("-c").arg(line).output().expect("sh runs");
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn words_arrive_as_they_are(words in prop::collection::vec("[\\PC\\n\\t'\"$`\\\\!~*?;&|<>(){}=# ]{0,12}", 1..6)) {
        let line = format!("printf '%s\\0' {}", join(&words));
        let wanted: Vec<u8> = words.iter().flat_map(|word| word.bytes().chain([0])).collect();
        prop_assert_eq!(words_in_sh(&line), wanted);
    }
}

#[test]
fn the_first_word_is_a_program_whatever_it_looks_like() {
    for word in ["while", "A=b", "if", "~", "!", "{", "a b", "#x"] {
        let out = Command::new("sh").arg("-c").arg(quote(word).as_ref()).output().expect("sh runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(127), "{word} is looked for as a program: {said}");
    }
}
