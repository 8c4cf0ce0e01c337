//! How words are written for a POSIX shell so that it reads exactly them.

use std::borrow::Cow;

/// One word, quoted only where it must be, in any position of a command. A word cannot hold NUL: no argument can.
pub fn quote(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !means_something_up_front(word) {
        return Cow::Borrowed(word);
    }
    // Inside single quotes nothing is special but the single quote itself, which has to stand outside of them.
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// A whole command.
pub fn join<I: IntoIterator<Item = S>, S: AsRef<str>>(words: I) -> String {
    words.into_iter().map(|word| quote(word.as_ref()).into_owned()).collect::<Vec<_>>().join(" ")
}

/// As the first word of a command these would be an assignment or a keyword.
fn means_something_up_front(word: &str) -> bool {
    const KEYWORDS: [&str; 17] = [
        "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
        "time", "until", "while",
    ];
    let assigns = word.split_once('=').is_some_and(|(name, _)| is_variable_name(name.trim_end_matches('+')));
    assigns || KEYWORDS.contains(&word)
}

/// Whether an environment variable can have this name and be used in a shell.
pub fn is_variable_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_they_must_be() {
        for (word, written) in [
            ("train.py", "train.py"),
            ("--lr=0.1", "--lr=0.1"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("~", "'~'"),
            ("A=b", "'A=b'"),
            ("A+=b", "'A+=b'"),
            ("while", "'while'"),
            ("a\nb", "'a\nb'"),
            ("-", "-"),
        ] {
            assert_eq!(quote(word), written);
        }
        assert_eq!(join(["python", "my train.py", "--x=1"]), "python 'my train.py' --x=1");
    }
}
