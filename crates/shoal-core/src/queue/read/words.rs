//! Into which words does a shell take a line apart? Quotes and backslashes count; what only a shell could do is refused.

/// Why a line is no list of words, and at which of its characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotWords {
    pub at: usize,
    pub why: String,
}

pub fn split(line: &str) -> Result<Vec<String>, NotWords> {
    let letters: Vec<char> = line.chars().collect();
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut at = 0;
    while let Some(&c) = letters.get(at) {
        match c {
            _ if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => at = quoted(&letters, at, word.get_or_insert_default())?,
            '\\' => match letters.get(at + 1) {
                Some(&next) => {
                    word.get_or_insert_default().push(next);
                    at += 1;
                }
                None => return Err(NotWords { at, why: "nothing follows this backslash".into() }),
            },
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' => return Err(only_a_shell(at, c)),
            '~' if word.is_none() => return Err(only_a_shell(at, c)),
            _ => word.get_or_insert_default().push(c),
        }
        at += 1;
    }
    words.extend(word);
    Ok(words)
}

fn only_a_shell(at: usize, c: char) -> NotWords {
    NotWords { at, why: format!("`{c}` is for a shell, and none is between; put the line into `[sh, -c, \"...\"]`") }
}

/// What is between quotes goes to the word; gives the place of the closing one.
fn quoted(letters: &[char], start: usize, word: &mut String) -> Result<usize, NotWords> {
    let quote = letters[start];
    let mut at = start + 1;
    while let Some(&c) = letters.get(at) {
        let next = letters.get(at + 1);
        match c {
            _ if c == quote => return Ok(at),
            '\\' if quote == '"' && next.is_some_and(|next| "\"\\$`".contains(*next)) => {
                word.extend(next);
                at += 1;
            }
            '$' | '`' if quote == '"' => return Err(only_a_shell(at, c)),
            _ => word.push(c),
        }
        at += 1;
    }
    Err(NotWords { at: start, why: "this quote is not closed".into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quote::join;
    use proptest::prelude::*;

    #[test]
    fn lines_come_apart_as_in_a_shell() {
        for (line, words) in [
            ("", vec![]),
            ("  python  train.py\n--lr {lr} ", vec!["python", "train.py", "--lr", "{lr}"]),
            ("a 'b c' \"d e\" f\\ g", vec!["a", "b c", "d e", "f g"]),
            ("'' \"\"x''", vec!["", "x"]),
            ("x=\"it's \\\"so\\\" \\n\" '\\n$'", vec!["x=it's \"so\" \\n", "\\n$"]),
            ("--layers [64,64] a~b #c", vec!["--layers", "[64,64]", "a~b", "#c"]),
        ] {
            assert_eq!(split(line).as_deref(), Ok(words.into_iter().map(String::from).collect::<Vec<_>>().as_slice()));
        }
        for (line, at) in [
            ("é | x", 2),
            ("a && b", 2),
            ("$HOME/x", 0),
            ("~/x", 0),
            ("\"$X\"", 1),
            ("a 'b", 2),
            ("a\\", 1),
            ("a > b", 2),
        ] {
            assert_eq!(split(line).expect_err(line).at, at, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_for_a_shell_comes_back(words in proptest::collection::vec("[^\\x00]{0,12}", 0..5)) {
            prop_assert_eq!(split(&join(&words)), Ok(words));
        }
    }
}
