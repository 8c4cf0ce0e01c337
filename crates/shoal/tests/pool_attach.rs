//! `shoal attach` into a pod of a pool, in a real terminal.

#[path = "support/namespace.rs"]
mod namespace;

use namespace::{CLAIM, Namespace, SHOAL, out_of, plane};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(180);

#[test]
fn a_shell_has_the_volume_and_goes_with_its_pod() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "shell");
    let text = format!(
        "pools:\n  - name: cloud\n    slots: 4\n    kubernetes:\n      namespace: shell\n      image: here\n      volumes: [{{claim: {CLAIM}, at: /mnt, here: /nowhere}}]\n"
    );
    let file = here.write("lab.yaml", &text);
    let shoal = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env("HOME", here.folder.path()).env("KUBECONFIG", &here.kubeconfig).env("TERM", "xterm");
        command.env("SHOAL_HELPER_IDLE_S", "10").stdin(Stdio::null());
        command
    };
    out_of(&mut shoal(SHOAL, &["attach", &file])).expect(2, &["a shell needs a terminal"]);
    here.assert_empty();

    let line = format!("{SHOAL} attach {file} --pool cloud");
    let mut script = shoal("timeout", &["--kill-after=5", "240", "script", "-qefc", &line, "/dev/null"]);
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script");
    let (mut out, mut keys) = (child.stdout.take().expect("stdout"), child.stdin.take().expect("stdin"));
    let shown = Arc::new(Mutex::new(Vec::new()));
    let keep = shown.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = out.read(&mut bytes) {
            keep.lock().expect("no panic").extend_from_slice(&bytes[..n]);
        }
    });
    let shows = |words: &str| {
        let end = Instant::now() + LONG;
        loop {
            let text = String::from_utf8_lossy(&shown.lock().expect("no panic")).into_owned();
            if text.contains(words) {
                return;
            }
            assert!(Instant::now() < end, "`{words}` is not shown:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    keys.write_all(b"echo in $(pwd) $((40 + 2)); tty; echo typed >there; exit 6\n").expect("keys");
    shows("in /mnt 42");
    shows("/dev/pts/");
    assert_eq!(child.wait().expect("it ends").code(), Some(6));
    assert_eq!(std::fs::read_to_string(here.volume.join("there")).expect("a file"), "typed\n");
    here.assert_empty();
}
