//! How a rank ends is told, whatever the way (GANG-2), and nobody is left (GANG-1).

mod common;

use common::*;
use shoal_core::job::{Prepare, Program};
use shoal_daemon::protocol::{FromWarden, ToWarden};
use shoal_daemon::{Ending, How};

fn ending_of(test: &str, job: shoal_core::job::RankJob) -> (Ending, String) {
    let mut launcher = Launcher::new(test);
    launcher.start(vec![job]);
    let (ending, _, tail) = launcher.ended();
    launcher.bye();
    (ending, tail)
}

fn why_not(test: &str, job: shoal_core::job::RankJob) -> (String, Option<String>) {
    match ending_of(test, job).0 {
        Ending::NotStarted { why, hint } => (why, hint),
        other => panic!("{other:?}"),
    }
}

#[test]
fn codes_and_signals() {
    assert_eq!(ending_of("code0", rank(0, argv(&["true"]))).0, Ending::Exited(0));
    assert_eq!(ending_of("code3", rank(0, sh("exit 3"))).0, Ending::Exited(3));
    assert_eq!(ending_of("segv", rank(0, sh("kill -SEGV $$"))).0, Ending::Signaled(libc::SIGSEGV));
    assert_eq!(ending_of("kill9", rank(0, sh("kill -KILL $$"))).0, Ending::Signaled(libc::SIGKILL));
}

#[test]
fn a_command_that_cannot_be_executed_says_why() {
    let (why, hint) = why_not("missing", rank(0, argv(&["pyhton3", "train.py"])));
    assert!(why.contains("`pyhton3` was not found") && why.contains("PATH is "), "{why}");
    assert_eq!(hint.as_deref(), Some("did you mean `python3`?"));
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("train.sh");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let (why, _) = why_not("notexec", rank(0, argv(&[script.to_str().unwrap()])));
    assert!(why.contains("is not executable"), "{why}");
    write_executable(&script, "#!/old/venv/bin/python\n");
    let (why, _) = why_not("interp", rank(0, argv(&[script.to_str().unwrap()])));
    assert!(why.contains("wants the interpreter /old/venv/bin/python"), "{why}");
    let (why, _) = why_not("own", rank(0, Program::Own { name: "ps_nothing".into(), args: vec![] }));
    assert!(why.contains("ps_nothing"), "{why}");
}

#[test]
fn a_missing_folder_or_virtualenv_is_named() {
    let mut job = rank(0, argv(&["true"]));
    job.cwd = Some("~/no/such".into());
    let (why, _) = why_not("cwd", job.clone());
    assert!(why.contains("/no/such does not exist"), "{why}");
    job.cwd = None;
    job.prepare = Prepare { virtualenv: Some("~/venv".into()), ..Prepare::default() };
    let (why, _) = why_not("venv", job);
    assert!(why.contains("/venv is no virtualenv on this host: its bin/python does not exist"), "{why}");
}

#[test]
fn a_virtualenv_leads_the_path() {
    let venv = tempfile::tempdir().unwrap();
    std::fs::create_dir(venv.path().join("bin")).unwrap();
    write_executable(
        &venv.path().join("bin/python"),
        "#!/bin/sh\necho \"mine $VIRTUAL_ENV ${PYTHONHOME-unset} $PYTHONUNBUFFERED\"\n",
    );
    let mut job = rank(0, argv(&["python"]));
    job.env.insert("PYTHONHOME".into(), "/x".into());
    job.prepare.virtualenv = Some(venv.path().to_str().unwrap().into());
    let (ending, tail) = ending_of("venv-path", job);
    assert_eq!(ending, Ending::Exited(0));
    assert_eq!(tail, format!("mine {} unset 1\n", venv.path().display()));
}

#[test]
fn setup_runs_first_and_its_failure_is_not_the_programs() {
    let mut job = rank(0, argv(&["sh", "-c", "echo $A; exit 5"]));
    job.prepare.setup = vec!["A=setup; export A".into(), "cd /".into()];
    assert_eq!(ending_of("setup", job.clone()), (Ending::Exited(5), "setup\n".into()));
    job.prepare.setup = vec!["true".into(), "echo no such; (exit 4)".into(), "echo never".into()];
    let (ending, tail) = ending_of("setup-fails", job.clone());
    let Ending::NotStarted { why, .. } = ending else { panic!("{ending:?}") };
    assert_eq!(why, "setup line 2, `echo no such; (exit 4)`, failed (exited with code 4)");
    assert_eq!(tail, "no such\n");
    job.prepare.setup = vec!["false && true".into()];
    assert!(why_not("setup-and", job.clone()).0.contains("setup line 1"));
    job.prepare.setup = vec!["true".into()];
    job.program = argv(&["no-such-command"]);
    assert!(why_not("setup-missing", job.clone()).0.contains("`no-such-command` was not found after"));
    job.program = argv(&["true"]);
    job.prepare = Prepare { modules: vec!["cuda".into()], ..Prepare::default() };
    assert!(why_not("modules", job).0.contains("finding the `module` command"));
}

#[test]
fn conda_is_found_and_activated() {
    let conda = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(conda.path().join("etc/profile.d")).unwrap();
    let functions =
        "conda() { [ \"$2\" = \"my env\" ] || return 7; CONDA_DEFAULT_ENV=$2; export CONDA_DEFAULT_ENV; }\n";
    std::fs::write(conda.path().join("etc/profile.d/conda.sh"), functions).unwrap();
    let mut job = rank(0, sh("echo \"in $CONDA_DEFAULT_ENV ${SHOAL_PREPARE-unset}\""));
    job.env.insert("CONDA_EXE".into(), conda.path().join("bin/conda").to_str().unwrap().into());
    job.prepare.conda = Some("my env".into());
    assert_eq!(ending_of("conda", job.clone()), (Ending::Exited(0), "in my env unset\n".into()));
    job.prepare.conda = Some("other".into());
    assert!(why_not("conda-no", job).0.contains("`conda activate other` failed (exited with code 7)"));
}

#[test]
fn arguments_arrive_exactly() {
    let words = ["a b", "", "'", "\"", "$HOME", "`id`", "new\nline", "\\", "*", "ünïcödé 漢", "-n", "--"];
    let python = "import sys; sys.stdout.write('\\0'.join(sys.argv[1:]))";
    let expected = words.join("\0");
    let own: Vec<String> = words.iter().map(|s| s.to_string()).collect();
    let direct = argv(&[&["python3", "-c", python][..], &words].concat());
    let line = format!("X=1 python3 -c \"{python}\"");
    for (name, program, setup) in [
        ("argv", direct.clone(), vec![]),
        ("argv-setup", direct, vec!["true".to_string()]),
        ("shell", Program::Shell { line: line.clone(), append: own.clone() }, vec![]),
        ("shell-setup", Program::Shell { line, append: own }, vec!["true".to_string()]),
    ] {
        let mut job = rank(0, program);
        job.prepare.setup = setup;
        let mut launcher = Launcher::new(name);
        launcher.start(vec![job]);
        assert_eq!(launcher.ended().0, Ending::Exited(0), "{name}");
        launcher.bye();
        assert_eq!(launcher.text(W0), expected, "{name}");
    }
}

#[test]
fn a_rank_that_ignores_sigterm_is_killed_after_the_grace() {
    let mut launcher = Launcher::new("ignores");
    launcher.start(vec![
        rank(0, sh("trap '' TERM; echo ready; while :; do sleep 1; done")),
        rank(1, argv(&["sleep", "1000"])),
    ]);
    launcher.wait_output(W0, "ready");
    launcher.send(&ToWarden::Stop { grace_ms: 300 });
    let mut endings = vec![launcher.ended().0, launcher.ended().0];
    endings.sort_by_key(|e| e.exit_code());
    assert_eq!(endings, [Ending::Stopped(How::Signaled(9)), Ending::Stopped(How::Signaled(15))]);
    launcher.bye();
}

#[test]
fn usage_is_reported() {
    let mut launcher = Launcher::new("usage");
    launcher.start(vec![rank(0, sh("sleep 1000 & sleep 1000"))]);
    launcher.wait("usage", |m| matches!(m, FromWarden::Usage { processes: 2.., rss_bytes: 1.., .. }).then_some(()));
    launcher.send(&ToWarden::Kill);
    launcher.bye();
}
