//! Words that a shell would mangle, and proof that they arrive.

use super::launching::Case;

/// Everything a shell has a meaning for.
pub const WORDS: [&str; 12] = [
    "two words",
    "",
    "it's",
    "\"double\"",
    "$HOME `id` $(id)",
    "back\\slash\\n",
    "line\nbreak\n",
    "tab\there",
    "* ? [a] {b,c} ~",
    "!history #comment ;ls & | > <",
    "-n",
    "grüße 中文 🐟",
];

/// A value of a variable.
const ODD: &str = "a 'b' \"c\" $d\ne";
/// Prints what it gets, so that nothing in it can be mistaken.
pub const PRINT: &str = "import os, sys; print(sys.argv[1:], [os.environ.get('ODD')])";

/// What that prints for these words, started without a shell in between.
pub fn listed(words: &[&str]) -> String {
    let mut python = std::process::Command::new("/usr/bin/python3");
    let output = python.args(["-c", PRINT]).args(words).env("ODD", ODD).output().expect("python");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All of them through `shoal run` with these options.
pub fn check(case: &Case, options: &[&str]) {
    let (odd, print) = (format!("ODD={ODD}"), ["/usr/bin/python3", "-c", PRINT]);
    case.shoal(&[options, &["--env", &odd, "--"], &print, &WORDS].concat()).run().exits(0);
    assert_eq!(case.log("logs", "worker0"), listed(&WORDS));
}
