//! How is a command of a cluster file run on a node? As in the terminal of somebody who has logged in there (pure).
//!
//! The shell is bash, login and interactive, so that what people have in `.bash_profile` and `.bashrc` counts, also below the usual
//! guard (`case $- in *i*)`): PATH, conda, aliases, functions. Unlike Ray nothing is set behind the command's back: `OMP_NUM_THREADS=1`
//! makes NumPy and PyTorch slow without a word. Commands reach the shell through `eval`, as one exactly quoted word: a comment at the
//! end, an open bracket or a line break in it stay its own business.

use super::Docker;
use crate::quote::{join, quote};
use thiserror::Error;

/// Longer commands do not fit into one argument of a program (128 KiB on Linux, and some of it is ours).
pub const LONGEST: usize = 64 << 10;

/// What a bash that is login and interactive shall do after its start-up files. The command gets a subshell: `exit` ends that one
/// without a word, and a signal meets a shell that does not ignore it. The outer one only passes the code on; it would complain about
/// the terminal that is not there.
pub fn body(command: &str, env: &[(String, String)]) -> String {
    format!("{}trap : INT; exec 9>&2 2>/dev/null; ( exec 2>&9 9>&-; eval {} ); exit $?", exports(env), quoted(command))
}

/// Environment for the shell, each value exactly as it is.
fn exports(env: &[(String, String)]) -> String {
    env.iter().map(|(name, value)| format!("export {name}={}; ", quoted(value))).collect()
}

/// Always in quotes, so that it looks the same whatever it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The program and its arguments that run a command where no terminal is: what the start-up files say there, and bash's complaint
/// that it has no job control, are not the command's output.
pub fn login_shell(command: &str, env: &[(String, String)]) -> Vec<String> {
    let start = r#"exec bash --login -i -c "$0" 8>&1 9>&2 >/dev/null 2>&1"#;
    let body = format!("exec >&8 2>&9 8>&- 9>&-; {}", body(command, env));
    ["bash", "-c", start, &body].map(Into::into).into()
}

/// The same without start-up files (`--use-normal-shells`).
pub fn normal_shell(command: &str, env: &[(String, String)]) -> Vec<String> {
    ["bash".into(), "-c".into(), format!("{}eval {}", exports(env), quoted(command))].into()
}

/// What keeps a session on the node when nobody is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplexer {
    Tmux,
    Screen,
}

impl Multiplexer {
    pub fn name(self) -> &'static str {
        match self {
            Multiplexer::Tmux => "tmux",
            Multiplexer::Screen => "screen",
        }
    }
}

/// The command that starts another one in a session of its own and comes back at once. A shell stays there when it is over, so that
/// one can see how it went.
pub fn detached(by: Multiplexer, command: &str, env: &[(String, String)]) -> String {
    let inner = format!("{}eval {}; exec bash", exports(env), quoted(command));
    let start = match by {
        Multiplexer::Tmux => "tmux new-session -d",
        Multiplexer::Screen => "screen -L -dm",
    };
    format!("{}; {start} bash --login -i -c {}", is_there(by), quoted(&inner))
}

/// The command that brings one into such a session: the last one, or a new one.
pub fn attaching(by: Multiplexer, new: bool) -> String {
    let attach = match (by, new) {
        (Multiplexer::Tmux, false) => "tmux attach 2>/dev/null || exec tmux new",
        (Multiplexer::Tmux, true) => "exec tmux new",
        (Multiplexer::Screen, false) => "exec screen -L -xRR",
        (Multiplexer::Screen, true) => "exec screen -L",
    };
    format!("{}; {attach}", is_there(by))
}

fn is_there(by: Multiplexer) -> String {
    let name = by.name();
    format!("command -v {name} >/dev/null || {{ echo 'shoal: {name} is not installed on this node' >&2; exit 127; }}")
}

/// Where commands run on a node: beside its container, or in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunEnv {
    /// In the container if the file has one, unless the command is the container program's own.
    #[default]
    Auto,
    Host,
    Docker,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`--run-env docker` needs a `docker` block with an image in the cluster file")]
pub struct NoContainer;

/// The container that a command is meant for.
pub fn container<'d>(
    run_env: RunEnv,
    docker: Option<&'d Docker>,
    command: &str,
) -> Result<Option<&'d Docker>, NoContainer> {
    let of_the_program =
        |name: &str| command.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(char::is_whitespace));
    match run_env {
        RunEnv::Host => Ok(None),
        RunEnv::Docker => docker.ok_or(NoContainer).map(Some),
        RunEnv::Auto if of_the_program("docker") || of_the_program("podman") => Ok(None),
        RunEnv::Auto => Ok(docker),
    }
}

/// `submit`'s command: the script in the home folder, with its arguments exactly as they were given.
pub fn script(name: &str, args: &[String]) -> String {
    // The tilde stands outside of the quotes: it is for the node's shell to know where home is.
    let words = join(args);
    format!("python ~/{}{}{words}", quote(name), if words.is_empty() { "" } else { " " })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    /// Runs an argv in a home of its own.
    fn said(argv: &[String], bashrc: &str) -> (String, String, Option<i32>) {
        let home =
            std::env::temp_dir().join(format!("shoal-shell-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&home).expect("a home");
        std::fs::write(home.join(".bashrc"), bashrc).expect("start-up file");
        std::fs::write(home.join(".bash_profile"), ". ~/.bashrc\n").expect("start-up file");
        // Tests may run where Ctrl-C is ignored, which shells pass on.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").args(argv).env("HOME", &home).stdin(std::process::Stdio::null());
        let output = command.output().expect("bash");
        std::fs::remove_dir_all(&home).expect("a home");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr), output.status.code())
    }

    const GUARDED: &str = "echo noise; echo noise >&2\ncase $- in *i*) ;; *) return;; esac\nexport AFTER=guard\nalias greet='echo hello'\n";

    #[test]
    fn commands_arrive_as_they_are_and_nothing_else_is_heard() {
        for (command, out, err, code) in [
            ("echo $AFTER", "guard\n", "", 0),
            ("greet world", "hello world\n", "", 0),
            ("echo hi # a comment", "hi\n", "", 0),
            ("echo 'it'\"'\"'s' \"$ODD\"", "it's a 'b' \"c\" $d\ne\n", "", 0),
            ("exit 3", "", "", 3),
            ("echo '!!' \\! `echo x` $(echo y); false", "!! ! x y\n", "", 1),
            ("for i in 1 2\ndo echo $i\ndone", "1\n2\n", "", 0),
            ("echo oops >&2; kill -TERM $BASHPID", "", "oops\n", 143),
            ("kill -INT $BASHPID", "", "", 130),
            ("kill -9 $BASHPID", "", "", 137),
            ("printf '%s|' \"${OMP_NUM_THREADS-unset}\"", "unset|", "", 0),
            ("cat", "", "", 0),
        ] {
            let argv = login_shell(command, &env(&[("ODD", "a 'b' \"c\" $d\ne")]));
            assert_eq!(said(&argv, GUARDED), (out.into(), err.into(), Some(code)), "{command}");
        }
        let (out, err, code) = said(&login_shell("syntax ((", &[]), "");
        assert!(out.is_empty() && err.contains("syntax error") && code == Some(2), "{out} {err} {code:?}");
    }

    #[test]
    fn normal_shells_read_no_start_up_files() {
        let argv = normal_shell("echo ${AFTER-none} $X # end", &env(&[("X", "a b")]));
        assert_eq!(said(&argv, GUARDED), ("none a b\n".into(), String::new(), Some(0)));
    }

    #[test]
    fn the_container_is_meant_unless_the_command_is_its_programs_own() {
        let docker = Docker { container_name: "c".into(), ..Docker::default() };
        let meant = |run_env, docker, command| container(run_env, docker, command).map(|d| d.is_some());
        for (run_env, there, command, expected) in [
            (RunEnv::Auto, true, "nvidia-smi", Ok(true)),
            (RunEnv::Auto, true, "docker ps", Ok(false)),
            (RunEnv::Auto, true, "dockerize x", Ok(true)),
            (RunEnv::Auto, false, "true", Ok(false)),
            (RunEnv::Host, true, "true", Ok(false)),
            (RunEnv::Docker, true, "docker ps", Ok(true)),
            (RunEnv::Docker, false, "true", Err(NoContainer)),
        ] {
            assert_eq!(meant(run_env, there.then_some(&docker), command), expected, "{run_env:?} {command}");
        }
    }

    #[test]
    fn scripts_keep_their_arguments() {
        let args = ["--lr=0.1".to_string(), "it's two".into(), String::new()];
        assert_eq!(script("my train.py", &args), r"python ~/'my train.py' --lr=0.1 'it'\''s two' ''");
        assert_eq!(script("train.py", &[]), "python ~/train.py");
    }
}
