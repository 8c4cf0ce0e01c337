//! What is in a Dockerfile, as far as one has to know before an engine reads it: its instructions, with their lines.

use crate::diagnostic::{Diagnostic, Diagnostics, Place, Severity};
use crate::suggest::closest;

const WORDS: [&str; 18] = [
    "FROM",
    "RUN",
    "CMD",
    "LABEL",
    "MAINTAINER",
    "EXPOSE",
    "ENV",
    "ADD",
    "COPY",
    "ENTRYPOINT",
    "VOLUME",
    "USER",
    "WORKDIR",
    "ARG",
    "ONBUILD",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "SHELL",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Counted from 1.
    pub line: usize,
    /// In capitals.
    pub word: String,
    /// What follows it, continued lines joined.
    pub rest: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dockerfile {
    /// As people know it.
    pub name: String,
    pub text: String,
    pub instructions: Vec<Instruction>,
}

impl Dockerfile {
    pub fn read(name: &str, text: &str) -> Dockerfile {
        Dockerfile { name: name.into(), text: text.into(), instructions: instructions(text) }
    }

    /// What no engine would take.
    pub fn check(&self) -> Result<(), Diagnostics> {
        // Another syntax may have other words.
        let is_ours = !directives(&self.text).any(|(key, _)| key == "syntax");
        let mut wrong = Vec::new();
        let known = |word: &str| WORDS.contains(&word);
        for one in self.instructions.iter().filter(|one| is_ours && !known(&one.word)) {
            let what = self.fault(one.line, &format!("`{}` is no instruction of a Dockerfile", one.word));
            wrong.push(what.suggestion(closest(&one.word, WORDS)));
        }
        if let Some(first) = self.instructions.iter().find(|one| one.word != "ARG" && known(&one.word)) {
            if first.word != "FROM" {
                let what = self.fault(first.line, &format!("`{}` comes before any FROM", first.word));
                wrong.push(what.help("begin with `FROM` and the image to build on"));
            }
        } else if wrong.is_empty() {
            wrong.push(self.fault(1, "there is no FROM in it").help("begin with `FROM` and the image to build on"));
        }
        for one in self.instructions.iter().filter(|one| known(&one.word) && one.rest.is_empty()) {
            wrong.push(self.fault(one.line, &format!("`{}` says nothing", one.word)));
        }
        wrong.sort_by_key(|what| what.at.line);
        if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong)) }
    }

    /// An error at a line of it.
    pub fn fault(&self, line: usize, message: &str) -> Diagnostic {
        let source = self.text.lines().nth(line - 1).unwrap_or_default().to_string();
        let width = source.split_whitespace().next().map_or(1, |word| word.chars().count());
        let column = source.chars().take_while(|c| c.is_whitespace()).count() + 1;
        Diagnostic {
            severity: Severity::Error,
            file: self.name.clone(),
            at: Place { line, column, width },
            source,
            message: message.into(),
            expected: None,
            found: None,
            suggestion: None,
            help: None,
        }
    }

    /// The images it begins with: neither its own stages nor nothing at all.
    pub fn bases(&self) -> Vec<&str> {
        let mut stages: Vec<&str> = vec!["scratch"];
        let mut bases = Vec::new();
        for one in self.instructions.iter().filter(|one| one.word == "FROM") {
            let words: Vec<&str> = one.rest.split_whitespace().filter(|word| !word.starts_with("--")).collect();
            if let Some(base) = words.first().filter(|base| !stages.contains(base)) {
                bases.push(*base);
            }
            if let [_, word, stage] = words[..]
                && word.eq_ignore_ascii_case("as")
            {
                stages.push(stage);
            }
        }
        bases
    }

    /// The line of the step that an engine calls the `number`th of `all`, or by its text.
    pub fn line_of_step(&self, number: usize, all: usize, text: &str) -> Option<usize> {
        let begin = self.instructions.iter().position(|one| one.word == "FROM").unwrap_or(0);
        let steps = &self.instructions[begin..];
        let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
        let is_it = |one: &&Instruction| bare(&format!("{}{}", one.word, one.rest)) == bare(text);
        let by_number = steps.get(number.wrapping_sub(1)).filter(|_| steps.len() == all);
        by_number.or_else(|| steps.iter().find(is_it)).map(|one| one.line)
    }
}

/// `# key=value` lines before anything else.
fn directives(text: &str) -> impl Iterator<Item = (String, &str)> {
    text.lines().map_while(|line| {
        let (key, value) = line.trim().strip_prefix('#')?.split_once('=')?;
        Some((key.trim().to_ascii_lowercase(), value.trim()))
    })
}

fn instructions(text: &str) -> Vec<Instruction> {
    let escape = directives(text).find(|(key, _)| key == "escape").map_or("\\", |(_, value)| value).to_string();
    let is_void = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let mut all: Vec<Instruction> = Vec::new();
    let mut lines = text.lines().enumerate().filter(|(_, line)| !is_void(line));
    while let Some((at, first)) = lines.next() {
        let mut whole = first.trim().to_string();
        while whole.ends_with(&escape) {
            whole.truncate(whole.len() - escape.len());
            let Some((_, more)) = lines.next() else { break };
            whole.push_str(more.trim());
        }
        let (word, rest) = whole.split_once(char::is_whitespace).unwrap_or((&whole, ""));
        let one = Instruction { line: at + 1, word: word.to_ascii_uppercase(), rest: rest.trim().into() };
        if matches!(one.word.as_str(), "RUN" | "COPY" | "ADD") {
            for end in heredocs(&one.rest) {
                // What is in it is no instruction.
                let _ = lines.by_ref().find(|(_, line)| line.trim() == end);
            }
        }
        all.push(one);
    }
    all
}

/// The words that end the texts which a line begins: `<<EOF`, `<<-"EOF"`.
fn heredocs(rest: &str) -> Vec<String> {
    let begins = rest.split_whitespace().filter_map(|word| word.strip_prefix("<<"));
    let word = |word: &str| word.trim_start_matches('-').trim_matches(['"', '\'']).to_string();
    let is_word = |word: &String| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    begins.map(word).filter(is_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Dockerfile {
        Dockerfile::read("Dockerfile-node", text)
    }

    #[test]
    fn instructions_have_lines() {
        let text = "# a note\nARG V=1\nFROM base:$V AS one\n\nRUN a && \\\n  # why\n  b\nrun <<EOF\nFORM x\nEOF\nFROM one\nCOPY --from=one /a /b\n";
        let file = read(text);
        let seen: Vec<(usize, &str, &str)> =
            file.instructions.iter().map(|one| (one.line, one.word.as_str(), one.rest.as_str())).collect();
        assert_eq!(
            seen,
            [
                (2, "ARG", "V=1"),
                (3, "FROM", "base:$V AS one"),
                (5, "RUN", "a && b"),
                (8, "RUN", "<<EOF"),
                (11, "FROM", "one"),
                (12, "COPY", "--from=one /a /b"),
            ]
        );
        assert_eq!(file.check(), Ok(()));
        assert_eq!(file.bases(), ["base:$V"]);
        assert_eq!(file.line_of_step(2, 5, ""), Some(5));
        assert_eq!(file.line_of_step(2, 9, "COPY --from=one  /a /b"), Some(12));
        assert_eq!(file.line_of_step(2, 9, "RUN c"), None);
        assert_eq!(file.line_of_step(0, 5, "x"), None);
    }

    #[test]
    fn what_is_wrong_has_a_line() {
        for (text, line, says) in [
            ("FROM a\n\nRNU ls\n", 3, "did you mean `RUN`?"),
            ("FROM a\nI have no idea\n", 2, "`I` is no instruction"),
            ("RUN ls\nFROM a\n", 1, "before any FROM"),
            ("FROM\n", 1, "`FROM` says nothing"),
            ("FROM a\nCOPY\n", 2, "`COPY` says nothing"),
            ("", 1, "no FROM"),
            ("# nothing\n", 1, "no FROM"),
        ] {
            let wrong = read(text).check().expect_err(text).to_string();
            assert!(wrong.contains(says) && wrong.contains(&format!("Dockerfile-node:{line}:")), "{text}: {wrong}");
        }
        assert_eq!(read("# syntax=some/other:1\nFROM a\nFROB b\n").check(), Ok(()));
        assert_eq!(read("# escape=`\nFROM a\nRUN b `\n  c\n").check(), Ok(()));
    }
}
