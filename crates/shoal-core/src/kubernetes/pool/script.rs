//! What happens inside a pod of a run? A script for any POSIX shell: images have one, and nothing else that we could count on.

use super::{BEGUN, CODE, END, LIMIT, NOT_BEGUN, OUT, STOP, TOLD, echo};
use crate::kubernetes::attach::ATTACHABLE;
use crate::quote::{is_variable_name, join, quote};

/// What a run's pod does.
#[derive(Debug, Clone, Copy)]
pub struct Inside<'a> {
    /// The run's folder among [`super::PODS`].
    pub notes: &'a str,
    /// Where it runs, and those entries of its own folder that were put there for it.
    pub room: &'a str,
    pub cwd: &'a str,
    pub ours: &'a [String],
    pub env: &'a [(String, String)],
    pub virtualenv: Option<&'a str>,
    pub setup: &'a [String],
    pub argv: &'a [String],
    /// How long its program may take, and its grace after that, in seconds.
    pub limit: Option<(u64, u32)>,
}

/// Says why this can never run.
pub fn fault(inside: &Inside) -> Option<String> {
    let named = |(name, _): &&(String, String)| !is_variable_name(name);
    if let Some((name, _)) = inside.env.iter().find(named) {
        return Some(format!("the environment variable `{}` cannot be set in a pod", name.escape_default()));
    }
    let texts = inside.argv.iter().chain(inside.env.iter().map(|(_, value)| value)).chain(inside.setup);
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Some("a zero byte is in its words or its environment".into());
    }
    inside.argv.is_empty().then(|| "the command is empty".into())
}

/// Its exit code is written beside its output before the pod ends, so that it is known even if somebody removes the pod first (QUEUE-2). Not so
/// where the pod was told to end: that is not the program's doing, and the server says whose it was. A program that then ended with 0 may have saved
/// its work and gone, or may have been done: a mark says so, since the server will call it a success. Time is counted from the program's beginning:
/// an image may take its time to come. A pod that was
/// evicted is followed by another of the same index: that one clears away what its forerunner left, and begins anew.
pub fn of(inside: &Inside) -> String {
    let file = |name: &str| quote(&format!("{}/{name}", inside.notes)).into_owned();
    let (out, code, begun, stop) = (file(OUT), file(CODE), file(BEGUN), file(STOP));
    let (told, limit, end) = (file(TOLD), file(LIMIT), file(END));
    let mut text = format!("{ATTACHABLE}\numask 077\naround() {{\n");
    text.push_str(&format!("cd {} || exit {NOT_BEGUN}\n", quote(inside.cwd)));
    for (name, value) in inside.env {
        text.push_str(&format!("export {name}={}\n", quote(value)));
    }
    if let Some(root) = inside.virtualenv {
        text.push_str(&format!("export VIRTUAL_ENV={root}\nexport PATH={root}/bin:\"$PATH\"\n", root = quote(root)));
    }
    text.push_str("}\n[ \"$1\" = attach ] && shift && around && exec \"$@\"\n");
    text.push_str(&format!("{{ [ -e {stop} ] || [ -e {end} ]; }} && exit 143\n"));
    // Somebody asks the server again, or a controller makes a second pod: what is over is over.
    text.push_str(&format!("[ -e {code} ] && exit \"$(cat {code})\"\n"));
    text.push_str(&format!("cd {} || exit {NOT_BEGUN}\n", quote(inside.room)));
    text.push_str(&echo::beginning(&out));
    text.push_str(&format!("if [ -e {begun} ]; then\n  echo 'shoal: its pod was taken away; it begins anew'\n"));
    text.push_str("  for left in * .[!.]* ..?*; do\n    case \"$left\" in\n");
    if !inside.ours.is_empty() {
        let ours: Vec<String> = inside.ours.iter().map(|name| format!("'{}'", name.replace('\'', r"'\''"))).collect();
        text.push_str(&format!("      {}) ;;\n", ours.join("|")));
    }
    text.push_str("      *) rm -rf -- \"$left\" ;;\n    esac\n  done\nfi\n");
    text.push_str(&format!("rm -f {told} {limit}\n: >{begun}\n"));
    let keep = format!(
        "if [ -z \"$told\" ]; then\n    echo \"$1\" >{code}.new && mv {code}.new {code}\n  elif [ \"$1\" = 0 ]; then\n    : >{told}\n  fi"
    );
    let stop_clock = "[ -z \"$clock\" ] || kill \"$clock\" 2>/dev/null";
    text.push_str(&format!(
        "told= clock=\nover() {{\n  {keep}\n  {stop_clock}\n{}  exit \"$1\"\n}}\naround\n",
        echo::END
    ));
    for line in inside.setup {
        let failed = quote(line).into_owned();
        text.push_str(&format!(
            "{{\n{line}\n}} {} || {{ echo 'shoal: this line of setup failed:' {failed}; over 1; }}\n",
            echo::ALONE
        ));
    }
    // The shell stays as the first process: a program that were it would not hear the signal that asks it to end.
    text.push_str(&format!("{} {} &\nchild=$!\n", join(inside.argv), echo::ALONE));
    if let Some((seconds, grace)) = inside.limit {
        text.push_str(&clock(seconds, grace, &limit));
    }
    text.push_str("trap 'told=1; kill -TERM \"$child\" 2>/dev/null' TERM\nwait \"$child\"\ncode=$?\n");
    text.push_str("while kill -0 \"$child\" 2>/dev/null; do\n  wait \"$child\"\n  code=$?\ndone\nover \"$code\"\n");
    text
}

/// Ends the program when its time is over.
fn clock(seconds: u64, grace: u32, mark: &str) -> String {
    format!(
        "(
  trap 'kill \"$!\" 2>/dev/null; exit 0' TERM
  sleep {seconds} &
  wait $!
  : >{mark}
  kill -TERM \"$child\" 2>/dev/null
  sleep {grace} &
  wait $!
  kill -KILL \"$child\" 2>/dev/null
) {alone} 2>/dev/null &
clock=$!
",
        alone = echo::ALONE
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::attach;
    use std::fs;
    use std::process::{Command, Stdio};

    struct Scene {
        folder: std::path::PathBuf,
    }

    impl Scene {
        fn new(name: &str) -> Scene {
            let folder = std::env::temp_dir().join(format!("shoal-script-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            for inner in ["notes", "room"] {
                fs::create_dir_all(folder.join(inner)).expect("a folder");
            }
            Scene { folder }
        }

        fn script(&self, command: &str, setup: &[String]) -> String {
            self.limited(command, setup, None)
        }

        fn limited(&self, command: &str, setup: &[String], limit: Option<(u64, u32)>) -> String {
            let text = |name: &str| self.folder.join(name).display().to_string();
            let (notes, room) = (text("notes"), text("room"));
            let argv: Vec<String> = ["sh", "-c", command].map(Into::into).into();
            let env = [("A".to_string(), "it's \"here\"\n$HOME".to_string())];
            let ours = ["given".to_string(), "it's".to_string()];
            let inside = Inside {
                notes: &notes,
                room: &room,
                cwd: &room,
                ours: &ours,
                env: &env,
                virtualenv: None,
                setup,
                argv: &argv,
                limit,
            };
            assert_eq!(fault(&inside), None);
            of(&inside)
        }

        fn run(&self, script: &str) -> Option<i32> {
            self.shown(script).0
        }

        /// Its code, and what it says where the pod's log is.
        fn shown(&self, script: &str) -> (Option<i32>, String) {
            let ended = Command::new("/bin/sh").arg("-c").arg(script).stdin(Stdio::null()).output().expect("a shell");
            (ended.status.code(), String::from_utf8(ended.stdout).expect("text"))
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.folder.join(name)).unwrap_or_default()
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn a_script_runs_its_command_and_leaves_its_code() {
        let scene = Scene::new("runs");
        let script = scene.script("printf %s \"$A\" >left; echo words; exit 3", &["B=1".into()]);
        assert_eq!(scene.shown(&script), (Some(3), "words\n".into()));
        assert_eq!(scene.read("room/left"), "it's \"here\"\n$HOME");
        assert_eq!((scene.read("notes/out").as_str(), scene.read("notes/code").as_str()), ("words\n", "3\n"));
        // Whoever attaches to it finds its folder and its variables, and changes nothing.
        fs::write(scene.folder.join("sh"), &script).expect("written");
        let at = scene.folder.join("sh").display().to_string();
        let look = attach::words(&at, &["sh", "-c", "pwd; echo \"$A\"; exit 4"].map(String::from), None);
        let looked = Command::new(&look[0]).args(&look[1..]).output().expect("a shell");
        let room = scene.folder.join("room").canonicalize().expect("a folder");
        let wanted = format!("{}\nit's \"here\"\n$HOME\n", room.display());
        assert_eq!((looked.status.code(), String::from_utf8_lossy(&looked.stdout).into_owned()), (Some(4), wanted));
        assert_eq!(scene.read("notes/out"), "words\n");
        // A second pod of the same index does nothing any more.
        assert_eq!(scene.run(&script), Some(3));
        assert_eq!(scene.read("notes/out"), "words\n");
    }

    #[test]
    fn one_that_was_evicted_begins_anew_and_one_that_was_stopped_does_not_begin() {
        let scene = Scene::new("evicted");
        for name in ["notes/begun", "room/given", "room/it's", "room/half", "room/.hidden"] {
            fs::write(scene.folder.join(name), "x").expect("written");
        }
        assert_eq!(scene.run(&scene.script("ls -A >../list", &[])), Some(0));
        assert_eq!(scene.read("list"), "given\nit's\n");
        for name in ["notes/stop", "notes/end"] {
            let scene = Scene::new("stopped");
            fs::write(scene.folder.join(name), "10").expect("written");
            assert_eq!(scene.run(&scene.script("touch ../ran", &[])), Some(143));
            assert!(!scene.folder.join("ran").exists());
        }
    }

    /// One of an earlier version would begin anew, and clear away what is there.
    #[test]
    fn a_script_that_does_not_know_how_is_not_executed_by_whoever_attaches() {
        let scene = Scene::new("old");
        fs::write(scene.folder.join("sh"), "umask 077\ntouch \"$0.ran\"\n").expect("written");
        let at = scene.folder.join("sh").display().to_string();
        let look = attach::words(&at, &["echo".into(), "here".into()], Some("vt100"));
        let looked = Command::new(&look[0]).args(&look[1..]).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&looked.stdout), "here\n");
        assert!(!scene.folder.join("sh.ran").exists());
    }

    #[test]
    fn all_of_a_long_output_is_in_the_pods_log_once() {
        let scene = Scene::new("echo");
        let script = scene.script("seq 1 60000; sleep 2.2; seq 1 5; printf end", &[]);
        let (code, log) = scene.shown(&script);
        assert_eq!((code, log.as_str()), (Some(0), scene.read("notes/out").as_str()));
        assert!(log.ends_with("5\nend") && log.lines().count() == 60_006);
    }

    #[test]
    fn a_line_of_setup_that_fails_is_named() {
        let scene = Scene::new("setup");
        assert_eq!(scene.run(&scene.script("touch ../ran", &["false # no module".into()])), Some(1));
        assert!(scene.read("notes/out").contains("false # no module") && !scene.folder.join("ran").exists());
    }

    #[test]
    fn where_nothing_can_be_written_the_program_does_not_begin_and_is_not_blamed() {
        let scene = Scene::new("unwritable");
        fs::create_dir(scene.folder.join("notes/out")).expect("a folder in its place");
        assert_eq!(scene.run(&scene.script("touch ../ran", &[])), Some(NOT_BEGUN as i32));
        assert!(!scene.folder.join("ran").exists());
    }

    #[test]
    fn a_program_has_its_time_from_its_own_beginning() {
        let scene = Scene::new("limit");
        assert_eq!(scene.run(&scene.limited("exit 3", &[], Some((60, 60)))), Some(3));
        assert!(!scene.folder.join("notes/limit").exists());
        let scene = Scene::new("late");
        let script =
            scene.limited("trap 'echo heard; exit 0' TERM; while true; do sleep 0.05; done", &[], Some((1, 60)));
        assert_eq!(scene.run(&script), Some(0));
        assert_eq!((scene.read("notes/out").as_str(), scene.read("notes/code").as_str()), ("heard\n", "0\n"));
        assert!(scene.folder.join("notes/limit").exists());
        let scene = Scene::new("deaf");
        let script = scene.limited("trap '' TERM; while true; do sleep 0.05; done", &[], Some((0, 0)));
        assert_eq!(scene.run(&script), Some(137));
        assert!(scene.folder.join("notes/limit").exists());
    }

    #[test]
    fn a_program_hears_the_signal_that_asks_it_to_end() {
        for (code, mark) in [(5, false), (0, true)] {
            hears(code, mark);
        }
    }

    fn hears(code: i32, mark: bool) {
        let scene = Scene::new("signal");
        let script = scene
            .script(&format!("trap 'echo heard; exit {code}' TERM; echo up; while true; do sleep 0.05; done"), &[]);
        let mut child = Command::new("/bin/sh").arg("-c").arg(script).stdin(Stdio::null()).spawn().expect("a shell");
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while scene.read("notes/out") != "up\n" {
            assert!(std::time::Instant::now() < end, "it does not begin");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
        assert!(told.success());
        assert_eq!(child.wait().expect("an end").code(), Some(code));
        // Whoever told it knows why it ended; a pod that comes after an eviction begins anew.
        assert_eq!((scene.read("notes/out").as_str(), scene.read("notes/code").as_str()), ("up\nheard\n", ""));
        // Whether a success that somebody asked for is one, nobody knows.
        assert_eq!(scene.folder.join("notes/told").exists(), mark);
    }
}
