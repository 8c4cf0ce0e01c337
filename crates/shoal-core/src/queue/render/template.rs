//! What is text in a word of a command, and what stands for something? `{name}` does; `{{` and `}}` are braces.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Name(String),
}

/// Why a word is no template, and at which of its characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    pub at: usize,
    pub width: usize,
    pub why: String,
}

/// What is known of every run without any parameter. A parameter of the same name is what is meant then.
pub const BUILT_IN: [&str; 4] = ["seed", "rep", "run", "run_dir"];

/// The longest name of a parameter, or of a key within one: YAML readers look no further than 1024 characters for a key's colon.
pub const LONGEST_NAME: usize = 100;

/// What a parameter can be called: it has to fit into flags, placeholders and names of variables.
pub fn is_parameter_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.len() <= LONGEST_NAME
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(inner)
}

pub fn pieces(word: &str) -> Result<Vec<Piece>, Odd> {
    let letters: Vec<char> = word.chars().collect();
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut at = 0;
    while let Some(&c) = letters.get(at) {
        let twice = letters.get(at + 1) == Some(&c);
        match c {
            '{' | '}' if twice => {
                text.push(c);
                at += 2;
            }
            '}' => {
                let why = "this `}` closes nothing; for the character itself write `}}`".into();
                return Err(Odd { at, width: 1, why });
            }
            '{' => {
                let length = letters[at + 1..].iter().take_while(|c| !matches!(c, '{' | '}')).count();
                let name: String = letters[at + 1..at + 1 + length].iter().collect();
                let closed = letters.get(at + 1 + length) == Some(&'}');
                if !closed || !is_parameter_name(&name) {
                    let why = match closed {
                        true => {
                            format!("`{{{name}}}` names no parameter; for braces themselves write `{{{{` and `}}}}`")
                        }
                        false => "this `{` is not closed; for the character itself write `{{`".into(),
                    };
                    return Err(Odd { at, width: length + 1 + usize::from(closed), why });
                }
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Name(name));
                at += length + 2;
            }
            _ => {
                text.push(c);
                at += 1;
            }
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    fn name(name: &str) -> Piece {
        Piece::Name(name.into())
    }

    #[test]
    fn words_come_apart() {
        for (word, expected) in [
            ("", vec![]),
            ("train.py", vec![text("train.py")]),
            ("{lr}", vec![name("lr")]),
            ("--lr={lr},{model.width}", vec![text("--lr="), name("lr"), text(","), name("model.width")]),
            ("{{lr}}", vec![text("{lr}")]),
            ("{{{lr}}}", vec![text("{"), name("lr"), text("}")]),
            ("é{a-b}", vec![text("é"), name("a-b")]),
        ] {
            assert_eq!(pieces(word), Ok(expected), "{word}");
        }
        for (word, at, width) in
            [("é{", 1, 1), ("{a", 0, 2), ("a}", 1, 1), ("{print $1}", 0, 10), ("{}", 0, 2), ("{1}", 0, 3)]
        {
            let odd = pieces(word).expect_err(word);
            assert_eq!((odd.at, odd.width), (at, width), "{word}: {}", odd.why);
        }
    }

    proptest! {
        #[test]
        fn braces_that_are_doubled_are_text(word in ".*") {
            let escaped = word.replace('{', "{{").replace('}', "}}");
            let whole = if word.is_empty() { vec![] } else { vec![Piece::Text(word)] };
            prop_assert_eq!(pieces(&escaped), Ok(whole));
        }

        #[test]
        fn no_word_is_too_odd(word in "[a{} é]*") {
            let _ = pieces(&word);
        }
    }
}
