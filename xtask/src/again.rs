//! Second tries. Tests with real daemons, control planes and frameworks on two busy cores now and then meet a moment that says
//! nothing of the code; a landing should not be lost to it, nor should it be hidden. So what failed runs once more, by itself, and
//! the summary names it. What fails twice has failed.

/// More failures than this are no moment's doing.
const AT_MOST: usize = 4;

/// What to run once more; none if the command failed for another reason, or in too many places.
pub fn worth_it(failed: &[String]) -> Option<Vec<String>> {
    let mut failed = failed.to_vec();
    failed.sort();
    failed.dedup();
    (1..=AT_MOST).contains(&failed.len()).then_some(failed)
}

/// The words that run one target again, from the list that `cargo test --no-fail-fast` ends with.
pub fn target(line: &str) -> Option<String> {
    let words = line.trim().strip_prefix('`')?.strip_suffix('`')?;
    words.starts_with("-p ").then(|| words.to_owned())
}

/// What cargo is told to run it. By its package alone a file of tests would be built with the features of that package alone, and most of what
/// it needs with it: minutes. Among all packages it is as it was.
pub fn words(target: &str) -> Vec<&str> {
    match target.split_whitespace().collect::<Vec<_>>()[..] {
        ["-p", _, "--test", name] => vec!["--workspace", "--test", name],
        ref others => others.to_vec(),
    }
}

/// A test that pytest's summary names as failed.
pub fn python_test(line: &str) -> Option<String> {
    let plain = without_colours(line);
    let name = plain.strip_prefix("FAILED ")?.split(" - ").next()?.trim();
    name.contains("::").then(|| name.to_owned())
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, text)| text));
    std::iter::once(first).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_its_failed_targets() {
        assert_eq!(target("    `-p shoal --test aws_story`"), Some("-p shoal --test aws_story".into()));
        assert_eq!(target("error: test failed, to rerun pass `-p shoal --test aws_story`"), None);
        assert_eq!(words("-p shoal --test aws_story"), ["--workspace", "--test", "aws_story"]);
        assert_eq!(words("-p shoal-core --lib"), ["-p", "shoal-core", "--lib"]);
        assert_eq!(target("error: 2 targets failed:"), None);
        assert_eq!(target("`cargo test --workspace` ended"), None);
    }

    #[test]
    fn pytest_names_its_failed_tests() {
        let line = "FAILED python/tests/test_torch.py::test_two[4-adam] - AssertionError: a - b";
        assert_eq!(python_test(line), Some("python/tests/test_torch.py::test_two[4-adam]".into()));
        let line = "\u{1b}[31mFAILED\u{1b}[0m python/tests/test_numpy.py::\u{1b}[1mtest_sum\u{1b}[0m - assert 1 == 2";
        assert_eq!(python_test(line), Some("python/tests/test_numpy.py::test_sum".into()));
        assert_eq!(python_test("FAILED to start"), None);
    }

    #[test]
    fn a_few_are_tried_again_and_many_are_not() {
        let failed = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
        assert_eq!(worth_it(&[]), None);
        assert_eq!(worth_it(&["b".into(), "a".into(), "b".into()]), Some(vec!["a".into(), "b".into()]));
        assert_eq!(worth_it(&failed(4)), Some(failed(4)));
        assert_eq!(worth_it(&failed(5)), None);
    }
}
