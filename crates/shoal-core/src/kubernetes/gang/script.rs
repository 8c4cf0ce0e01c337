//! What happens inside a pod of a gang? Two scripts for any POSIX shell: one is there before the pod and waits for the others, the other is
//! what the rank runs, written when all are up and their addresses known.

use super::objects::POD_IP;
use super::{GO, HEART, PROGRAM, STOP};
use crate::job::{Program, RankJob};
use crate::kubernetes::attach::ATTACHABLE;
use crate::kubernetes::pool::{BEGUN, CODE, NOT_BEGUN, OUT, echo};
use crate::quote::{is_variable_name, join, quote};
use crate::variables;

/// Until all are up, then as long as the rank runs. Ends it when it is told to, and when nothing has been heard of the launcher for so long
/// (GANG-1): its heart beats in a file, read anew every second, since no two machines' clocks are the same. A pod that comes second, after an
/// eviction say, does nothing.
pub fn waiting(folder: &str, silence_seconds: u64, grace_seconds: u64) -> String {
    let silence = silence_seconds.max(2);
    format!(
        r#"umask 077
cd {folder} || exit {NOT_BEGUN}
{beginning}over() {{
  echo "$1" >{CODE}.new && mv {CODE}.new {CODE}
{end}  exit "$1"
}}
[ -e ../{STOP} ] && over 143
if [ -e {BEGUN} ]; then
  echo 'shoal: this rank has begun once, and a gang does not begin anew'
  exit {NOT_BEGUN}
fi
echo "${POD_IP}" >{BEGUN}.new && mv {BEGUN}.new {BEGUN} || exit {NOT_BEGUN}
trap 'over 143' TERM
last= silent=0
heard() {{
  now=
  read -r now <../{HEART}
  if [ -n "$now" ] && [ "$now" != "$last" ]; then last=$now silent=0; else silent=$((silent + 1)); fi
  [ "$silent" -lt {silence} ]
}} 2>/dev/null
until [ -e ../{GO} ]; do
  [ -e ../{STOP} ] && over 143
  heard || {{ echo 'shoal: nothing was heard of the launcher for {silence} s'; over 143; }}
  sleep 1
done
/bin/sh ./{PROGRAM} {alone} &
child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM
(
  while sleep 1; do
    if [ ! -e ../{STOP} ]; then
      heard && continue
      echo 'shoal: nothing was heard of the launcher for {silence} s; this rank ends'
    fi
    kill -TERM "$child" 2>/dev/null
    sleep {grace_seconds}
    kill -KILL "$child" 2>/dev/null
    exit
  done
) {alone} &
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  code=$?
done
over "$code"
"#,
        folder = quote(folder),
        beginning = echo::beginning(OUT),
        end = echo::END,
        alone = echo::ALONE,
    )
}

/// Says why this can never run in a pod.
pub fn fault(job: &RankJob) -> Option<String> {
    if job.prepare.conda.is_some() || !job.prepare.modules.is_empty() {
        let hint = "what a pod finds is in its image; a virtualenv on the volume and lines of `setup` work";
        return Some(format!("`conda` and `modules` of the fleet's environment are for hosts\n  hint: {hint}"));
    }
    let name = job.env.keys().find(|name| !is_variable_name(name));
    name.map(|name| format!("the environment variable `{}` cannot be set in a pod", name.escape_default()))
}

/// What the rank runs. `bin`: where our own programs are. The token is not in it: the pod has it from the Secret (SEC-2).
pub fn program(job: &RankJob, bin: &str) -> String {
    let mut text = format!("{ATTACHABLE}\numask 022\n");
    for (name, value) in job.env.iter().filter(|(name, _)| *name != variables::TOKEN) {
        text.push_str(&format!("export {name}={}\n", quote(value)));
    }
    if let Some(cwd) = &job.cwd {
        text.push_str(&format!("cd {} || exit 126\n", quote(cwd)));
    }
    if let Some(root) = &job.prepare.virtualenv {
        let root = quote(root);
        text.push_str(&format!("export VIRTUAL_ENV={root}\nexport PATH={root}/bin:\"$PATH\"\nunset PYTHONHOME\n"));
    }
    text.push_str("[ \"$1\" = attach ] && shift && exec \"$@\"\n");
    for line in &job.prepare.setup {
        let failed = quote(line);
        text.push_str(&format!(
            "{{\n{line}\n}} || {{ echo 'shoal: this line of setup failed:' {failed}; exit 126; }}\n"
        ));
    }
    let words = match &job.program {
        Program::Argv(words) => join(words),
        Program::Shell { line, append } => {
            let head = ["/bin/sh".to_string(), "-c".into(), format!("{line} \"$@\""), "sh".into()];
            join(head.iter().chain(append))
        }
        Program::Own { name, args } => join([format!("{bin}/{name}")].iter().chain(args)),
    };
    text.push_str(&format!("exec {words}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::attach;
    use crate::rank::Rank;
    use std::fs;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    struct Scene {
        folder: PathBuf,
    }

    impl Scene {
        fn new(name: &str, command: &str) -> Scene {
            let folder = std::env::temp_dir().join(format!("shoal-gang-script-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("worker0")).expect("a folder");
            let scene = Scene { folder };
            let words = ["sh", "-c", command].map(Into::into).into();
            scene.write("worker0/run", &program(&job(Program::Argv(words)), "/bin"));
            scene
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.join(name), text).expect("written");
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.folder.join(name)).unwrap_or_default()
        }

        fn start(&self, silence: u64) -> Child {
            let script = waiting(&self.folder.join("worker0").display().to_string(), silence, 1);
            let mut command = Command::new("/bin/sh");
            let log = fs::File::create(self.folder.join("log")).expect("a file");
            command.arg("-c").arg(script).env(POD_IP, "10.0.0.1").stdin(Stdio::null()).stdout(log);
            command.spawn().expect("a shell")
        }

        /// The heart beats meanwhile.
        fn until(&self, what: &str, is: impl Fn() -> bool) {
            let end = Instant::now() + Duration::from_secs(60);
            for beat in 0.. {
                self.write("heart", &format!("{beat}\n"));
                if is() {
                    return;
                }
                assert!(Instant::now() < end, "{what}: {}", self.read("worker0/out"));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    fn job(program: Program) -> RankJob {
        let env =
            [("A", "it's \"here\""), ("SHOAL_TOKEN", "secret")].map(|(k, v)| (k.to_string(), v.to_string())).into();
        RankJob { rank: Rank::Worker(0), program, env, cwd: None, log: "l".into(), prepare: Default::default() }
    }

    #[test]
    fn a_rank_starts_when_all_are_up_and_leaves_its_code() {
        let scene = Scene::new("starts", "echo \"$A\"; exit 3");
        let mut pod = scene.start(60);
        scene.until("its address", || scene.read("worker0/begun") == "10.0.0.1\n");
        assert_eq!(scene.read("worker0/out"), "");
        scene.write("go", "");
        scene.until("its code", || scene.read("worker0/code") == "3\n");
        assert_eq!(pod.wait().expect("an end").code(), Some(3));
        assert_eq!(scene.read("worker0/out"), "it's \"here\"\n");
        assert_eq!(scene.read("log"), "it's \"here\"\n");
        // Whoever attaches has the rank's variables, and nothing begins.
        let at = scene.folder.join("worker0/run").display().to_string();
        let look = attach::words(&at, &["sh", "-c", "echo \"$A\"; exit 4"].map(String::from), None);
        let looked = Command::new(&look[0]).args(&look[1..]).output().expect("a shell");
        assert_eq!((looked.status.code(), looked.stdout.as_slice()), (Some(4), "it's \"here\"\n".as_bytes()));
        // A second pod of the same rank does nothing.
        assert_eq!(scene.start(60).wait().expect("an end").code(), Some(125));
        assert_eq!(scene.read("worker0/code"), "3\n");
    }

    #[test]
    fn a_rank_whose_launcher_is_gone_ends() {
        let scene = Scene::new("silence", "trap 'echo told; exit 5' TERM; echo up; while :; do sleep 0.1; done");
        let mut pod = scene.start(3);
        scene.write("go", "");
        scene.until("output", || scene.read("worker0/out") == "up\n");
        // From here on the heart stands still.
        assert_eq!(pod.wait().expect("an end").code(), Some(5));
        assert!(
            scene.read("worker0/out").contains("nothing was heard of the launcher"),
            "{}",
            scene.read("worker0/out")
        );
        // Before it has begun, too.
        let scene = Scene::new("silence-before", "true");
        assert_eq!(scene.start(2).wait().expect("an end").code(), Some(143));
    }

    #[test]
    fn a_rank_that_is_told_to_end_does() {
        let scene = Scene::new("stopped", "true");
        scene.write("stop", "");
        assert_eq!(scene.start(60).wait().expect("an end").code(), Some(143));
        assert_eq!(scene.read("worker0/begun"), "");
        let scene = Scene::new("stops", "trap '' TERM; echo up; while :; do sleep 0.1; done");
        let mut pod = scene.start(60);
        scene.write("go", "");
        scene.until("output", || scene.read("worker0/out") == "up\n");
        scene.write("stop", "");
        scene.until("its code", || scene.read("worker0/code") == "137\n");
        assert_eq!(pod.wait().expect("an end").code(), Some(137));
    }

    #[test]
    fn what_is_written_down_holds_no_token() {
        let own = program(&job(Program::Own { name: "ps_master".into(), args: vec!["--workers=2".into()] }), "/b");
        assert!(own.ends_with("exec /b/ps_master --workers=2\n") && !own.contains("secret"), "{own}");
        let mut conda = job(Program::Argv(vec!["x".into()]));
        assert_eq!(fault(&conda), None);
        conda.prepare.conda = Some("c".into());
        assert!(fault(&conda).is_some_and(|why| why.contains("conda")));
    }
}
