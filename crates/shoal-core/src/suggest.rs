//! Which known word did they mean? The closest candidate by edit distance, or none if nothing is close.

/// The candidate that a slip of the keyboard turns into `word`: at most a third of its letters wrong, never more than three.
pub fn closest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Nobody misspells a word this long; and the work grows with the square of its length.
    if word.len() > 100 {
        return None;
    }
    let limit = (word.chars().count().max(3) / 3).min(3);
    candidates
        .into_iter()
        // Cheap, and enough for most: a wrong letter changes the length by at most four bytes.
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= limit * 4)
        .map(|candidate| (distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(steps, candidate)| *steps <= limit && *candidate != word)
        .min_by_key(|(steps, _)| *steps)
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Three rows suffice: a swap looks two rows back.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let fields = ["name", "user", "port", "worker_nodes", "server_nodes"];
        for (word, meant) in [
            ("usr", Some("user")),
            ("Port", Some("port")),
            ("prot", Some("port")),
            ("workers_node", Some("worker_nodes")),
            ("serve_nodes", Some("server_nodes")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(word, fields), meant, "{word}");
        }
    }

    #[test]
    fn distances_are_those_of_the_textbook() {
        for (a, b, steps) in [("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 1), ("same", "same", 0)] {
            assert_eq!(distance(a, b), steps, "{a} {b}");
        }
    }
}
