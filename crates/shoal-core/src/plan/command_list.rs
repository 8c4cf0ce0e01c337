//! Is this one command for all workers, or Poseidon's list of quoted commands, one for each: `"python a.py", "python b.py"`?

use crate::job::Program;

/// The commands in a text, each a shell line. A text that is not wholly quoted commands between commas is one command.
///
/// Within a quoted command, `\"` and `\\` stand for `"` and `\` (in single quotes, `\'`); any other backslash stays, for the shell.
pub fn parse(text: &str) -> Vec<String> {
    quoted_list(text).unwrap_or_else(|| vec![text.trim().to_string()])
}

/// The same, as programs: shell lines, to which a run may append flags.
pub fn programs(text: &str) -> Vec<Program> {
    parse(text).into_iter().map(|line| Program::Shell { line, append: Vec::new() }).collect()
}

fn quoted_list(text: &str) -> Option<Vec<String>> {
    let mut commands = Vec::new();
    let mut rest = text.trim();
    loop {
        let (command, after) = quoted(rest)?;
        commands.push(command);
        rest = after.trim_start();
        if rest.is_empty() {
            // One alone may as well be the shell's quoting of a program's name: that is left to the shell.
            return (commands.len() > 1).then_some(commands);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

/// The quoted text at the start, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut command = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next_if(|(_, next)| *next == quote || *next == '\\') {
                Some((_, escaped)) => command.push(escaped),
                None => command.push(c),
            },
            c if c == quote => {
                let command = command.trim();
                return (!command.is_empty()).then(|| (command.to_string(), &text[at + 1..]));
            }
            c => command.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_single_commands_are_told_apart() {
        for (text, commands) in [
            ("python train.py", vec!["python train.py"]),
            ("python train.py --names a,b,c", vec!["python train.py --names a,b,c"]),
            (r#""python a.py", "python b.py""#, vec!["python a.py", "python b.py"]),
            (r#" 'python a.py' ,"python b.py" "#, vec!["python a.py", "python b.py"]),
            (r#""python a.py --x=\"1, 2\"", "python b.py""#, vec![r#"python a.py --x="1, 2""#, "python b.py"]),
            (r#""grep \d, \\n", "b""#, vec![r"grep \d, \n", "b"]),
            (r#""my program" --flag"#, vec![r#""my program" --flag"#]),
            (r#""my program""#, vec![r#""my program""#]),
            (r#""a", "b" c"#, vec![r#""a", "b" c"#]),
            (r#""a", """#, vec![r#""a", """#]),
            (r#""a", "#, vec![r#""a","#]),
            (r#""a", "b"#, vec![r#""a", "b"#]),
            ("", vec![""]),
        ] {
            assert_eq!(parse(text), commands, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_commands_can_be_written_as_a_list(commands in prop::collection::vec("[a-z\"'\\\\, ]{0,8}[a-z]", 2..5)) {
            let quoted = |c: &String| format!("\"{}\"", c.trim().replace('\\', "\\\\").replace('"', "\\\""));
            let list = commands.iter().map(quoted).collect::<Vec<_>>().join(",");
            let trimmed: Vec<&str> = commands.iter().map(|c| c.trim()).collect();
            prop_assert_eq!(parse(&list), trimmed);
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            prop_assert!(!parse(&text).is_empty());
        }
    }
}
