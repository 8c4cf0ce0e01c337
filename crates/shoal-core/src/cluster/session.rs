//! Which line does ssh carry so that a command runs on a node, and ends when the client does? Pure; the line itself is a small program
//! for bash (`session.sh`), so that a node needs nothing of ours for it and one round trip is enough.
//!
//! Without a terminal the command itself comes through stdin: it is not in anybody's list of processes on the way (SEC-2), and no login shell
//! gets to interpret it. Its outputs lie between **marks** that the client made up: whatever logins and start-up files print comes before the
//! first, and the last has the exit code (ssh's own word of the end may overtake the output). Both ends of this are in one program: the
//! node's is sent anew each time, so it needs no version (WIRE-1). Two ways to use stdin:
//!
//! | | after the command stdin carries | the client's end is seen by |
//! |---|---|---|
//! | `Words` | signals for the command, one a line | the end of stdin |
//! | `Data` | the command's own stdin | a second session that carries the words (`lifeline`) |

use super::docker;
use super::{Docker, shell};
use crate::quote::join;

/// What stdin is for, once the command has come through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    Words,
    Data,
}

/// Said last by a client that goes in peace.
pub const DONE: &str = "done";

/// The line that runs a command which comes through stdin.
pub fn line(mark: &str, stdin: Stdin, container: Option<&Docker>) -> String {
    let stdin = match stdin {
        Stdin::Words => "words",
        Stdin::Data => "data",
    };
    let script = flat(include_str!("session.sh")).replace("WORDS", &flat(include_str!("words.sh")));
    placed(["bash", "-c", &script, "shoal", mark, stdin].map(Into::into).into(), container, false)
}

/// The line that carries words for a command which was started with `Stdin::Data`: `group` is the number behind its mark.
pub fn lifeline(group: u32, container: Option<&Docker>) -> String {
    let script = format!("exec 2>/dev/null; pid={group}; {}", flat(include_str!("words.sh")));
    placed(["bash".into(), "-c".into(), script].into(), container, false)
}

/// What goes through stdin first: the command, and how long it is.
pub fn opening(command: &str, env: &[(String, String)]) -> Vec<u8> {
    // The mark is not for the command to see.
    let marks = r#"mark=$SHOAL_MARK; unset SHOAL_MARK; echo "$mark"; echo "$mark $$" >&2; "#;
    let body = format!("{marks}{}", shell::body(command, env));
    [format!("{}\n", body.len()).as_bytes(), body.as_bytes()].concat()
}

/// The line that runs a command in a terminal. Here stdin is the terminal, so the command is in the line, in a form that no shell reads
/// anything into.
pub fn terminal_line(command: &str, env: &[(String, String)], container: Option<&Docker>) -> String {
    let start = r#"exec bash --login -i -c "$(echo "$0" | base64 -d)""#;
    let body = base64(shell::body(command, env).as_bytes());
    placed(["bash".into(), "-c".into(), start.into(), body].into(), container, true)
}

/// The line of a person's shell in a container; on the node itself none is needed.
pub fn shell_line(container: &Docker) -> String {
    placed(["bash".into(), "--login".into(), "-i".into()].into(), Some(container), true)
}

fn placed(argv: Vec<String>, container: Option<&Docker>, terminal: bool) -> String {
    let argv = match container {
        Some(docker) => docker::in_container(docker, &argv, terminal),
        None => argv,
    };
    format!("exec {}", join(argv))
}

/// One line of it, without remarks.
fn flat(script: &str) -> String {
    script.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |chunk: &[u8]| {
        let bits = chunk.iter().chain([0, 0].iter()).take(3).fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let digit = |i: usize| char::from(DIGITS[(bits >> (18 - 6 * i)) as usize & 63]);
        (0..4).map(|i| if i <= chunk.len() { digit(i) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_nothing_that_a_login_shell_could_mistake() {
        let docker = Docker { container_name: "it's".into(), ..Docker::default() };
        for line in [
            line("m", Stdin::Words, None),
            line("m", Stdin::Data, None),
            lifeline(7, None),
            terminal_line("echo 'it'\n\\ ! $x", &[("A".into(), "'".into())], None),
        ] {
            assert!(!line.contains(['\n', '\\', '!']), "{line}");
            assert!(line.starts_with("exec bash -c '") && line.matches('\'').count() == 2, "{line}");
        }
        let inside = line("m", Stdin::Data, Some(&docker));
        assert!(inside.contains(r"exec -i 'it'\''s' bash -c"), "{inside}");
    }

    #[test]
    fn the_command_comes_with_its_length() {
        let sent = opening("echo ä", &[]);
        let text = String::from_utf8(sent).expect("text");
        let (size, body) = text.split_once('\n').expect("a size");
        assert_eq!(size.parse(), Ok(body.len()));
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy"), ("ÿ>?", "w78+Pw==")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
