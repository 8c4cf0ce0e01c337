//! `shoal up` on bad days: commands that fail or ask, nodes that are not there or go away, people who are impatient.

mod support;

use support::clusters::{Lab, signal};

#[test]
fn a_failing_command_is_summed_up_and_resumed() {
    let Some(lab) = Lab::new("fails", 3) else { return };
    let name = lab.name(2).to_string();
    let file = |third: &str| {
        lab.file(3, &format!("setup_commands:\n  - echo one >> ~/ran\n  - {third:?}\n  - echo three >> ~/ran\n"));
    };
    file(&format!(
        "echo two >> ~/ran; if [ $(uname -n) = {name} ]; then seq 1 30; echo no such package >&2; exit 3; fi"
    ));
    lab.up(&["--redirect-command-output"]).exits(4).says("no such package").looks_like("up_fails");
    assert_eq!((lab.ran(0), lab.ran(2)), ("one two three".into(), "one two".into()));
    lab.shoal(&["status", "lab.yaml"]).exits(4).looks_like("status_failed");
    // Nothing changed: it goes on with the step that failed, there and nowhere else.
    lab.up(&[]).exits(4).says(&format!(
        "{name}: runs setup 2 (last time: exit code 3); setup 3 (never ran here); skips setup 1 (unchanged)"
    ));
    assert_eq!((lab.ran(0), lab.ran(2)), (String::new(), "two".into()));
    file("echo better >> ~/ran");
    lab.up(&[]).exits(0);
    assert_eq!((lab.ran(0), lab.ran(2)), ("better three".into(), "better three".into()));
}

#[test]
fn a_command_that_waits_for_input_fails() {
    let Some(lab) = Lab::new("asks", 1) else { return };
    lab.file(1, "setup_commands:\n  - 'read -p \"Do you want to continue? \" answer && echo $answer'\n");
    lab.up(&[]).exits(1).says("setup 1: exit code 1").looks_like("up_asks");
    // Nor is there a terminal to ask at.
    lab.file(1, "setup_commands:\n  - 'read answer < /dev/tty'\n");
    lab.up(&[]).exits(1).says("/dev/tty");
    // One that never ends is ended, where somebody says when.
    lab.file(1, "setup_commands:\n  - sleep 4321\n");
    lab.up(&["--step-timeout", "1"]).exits(1).says("not over after 1 s").says("--step-timeout");
    lab.down().exits(0);
    lab.is_clean(0);
}

#[test]
fn one_of_eight_cannot_be_reached_and_one_refuses_the_key() {
    let Some(lab) = Lab::new("eight", 8) else { return };
    lab.file(8, "setup_commands: [echo one >> ~/ran]\nworker_start_ray_commands: [echo start >> ~/ran]\n");
    lab.link(5, "down");
    lab.on(6, ": > /root/.ssh/authorized_keys");
    let out = lab.up(&["--json"]).exits(4);
    let over = out.json();
    let states: Vec<&str> =
        over["nodes"].as_array().expect("nodes").iter().filter_map(|n| n["state"].as_str()).collect();
    assert_eq!(states, ["up", "up", "up", "up", "up", "unreachable", "unreachable", "up"]);
    assert!(over["nodes"][5]["what"].as_str().is_some_and(|what| what.contains("does not answer")), "{over}");
    assert!(over["nodes"][6]["what"].as_str().is_some_and(|what| what.contains("refused the key")), "{over}");
    for i in [1, 2, 3, 4, 7] {
        assert_eq!(lab.ran(i), "one start", "host {i}");
    }
    lab.up(&[]).exits(4).says("6 of 8 nodes are up").says(&format!("  {}: it refused the key", lab.name(6)));
    lab.shoal(&["status", "lab.yaml"]).exits(4);
    // When it is back, only what is missing is done.
    lab.link(5, "up");
    lab.up(&[]).exits(4).says(&format!("{}: runs setup 1, start 1 (never ran here)", lab.name(5)));
    assert_eq!(lab.ran(5), "one start");
    lab.down().exits(4).says("7 of 8 nodes are down");
    (0..8).filter(|i| *i != 6).for_each(|i| lab.is_clean(i));
}

#[test]
fn without_the_head_workers_are_set_up_and_not_started() {
    let Some(lab) = Lab::new("head", 2) else { return };
    lab.file(2, "setup_commands: [echo one >> ~/ran]\nhead_start_ray_commands: ['exit 7']\nworker_start_ray_commands: [echo start >> ~/ran]\n");
    lab.up(&[]).exits(1).says("start 1: exit code 7").says("set up, but not started: the head is not up");
    assert_eq!(lab.ran(1), "one");
}

/// A real restart: processes, connections, `/tmp` and the boot id are gone, the disk stays, and sshd takes a while to answer again.
#[test]
fn a_node_that_restarts_during_set_up_is_waited_for() {
    let Some(mut lab) = Lab::new("reboot", 3) else { return };
    let wait = "echo two >> ~/ran; if [ ! -e ~/went ]; then touch ~/went /tmp/went; sleep 4321; fi";
    lab.file(3, &format!("setup_commands:\n  - echo one >> ~/ran\n  - {wait:?}\n  - echo three >> ~/ran\n"));
    for i in [0, 2] {
        lab.on(i, "touch ~/went");
    }
    let mut up = lab.start("up", lab.command(&["up", "lab.yaml", "-y"]).env("SHOAL_UP_PATIENCE_S", "60"));
    lab.until(1, "the second command", "test -e ~/went");
    lab.hosts.power_off(1).expect("power off");
    support::until(support::LONG, "it to be missed", || {
        lab.heard("up").contains("went away during setup 2").then_some(())
    });
    // It is away for longer than an attempt to reach it takes.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(up.try_wait().expect("up").is_none(), "{}", lab.heard("up"));
    lab.hosts.power_on(1).expect("power on");
    lab.ends("up", &mut up).exits(0).says("is back, started anew").says("3 nodes");
    assert_eq!((lab.ran(0), lab.ran(1)), ("one two three".into(), "one two two three".into()));
    lab.on(1, "test ! -e /tmp/went");

    // A command that restarts the machine, every time, is not repeated for ever.
    let again = "if [ $(uname -n) = reboot-1 ]; then touch ~/again; sleep 4321; fi";
    lab.file(2, &format!("setup_commands: [{again:?}]\n"));
    let mut up = lab.start("again", &mut lab.command(&["up", "lab.yaml", "-y"]));
    for _ in 0..2 {
        lab.until(1, "the command", "test -e ~/again");
        lab.on(1, "rm ~/again");
        lab.hosts.power_off(1).expect("power off");
        lab.hosts.power_on(1).expect("power on");
    }
    lab.ends("again", &mut up).exits(4).says("the node went away again").says("does this command restart the machine");
}

/// The line alone: cut while a command runs, and back, or not.
#[test]
fn a_node_whose_link_is_cut_is_waited_for() {
    let Some(lab) = Lab::new("cut", 3) else { return };
    let wait = "echo two >> ~/ran; if [ ! -e ~/went ]; then touch ~/went; sleep 4321; fi";
    let mut command = lab.command(&["up", "lab.yaml", "-y"]);
    command.env("SHOAL_UP_PATIENCE_S", "60").env("SHOAL_UP_SILENCE_S", "3");
    for i in [0, 2] {
        lab.on(i, "touch ~/went");
    }
    // What ran there for us ends, as nobody waits for it any more.
    lab.file(3, &format!("setup_commands:\n  - {wait:?}\n"));
    let mut up = lab.start("up", &mut command);
    lab.until(1, "the command", "test -e ~/went");
    lab.link(1, "down");
    support::until(support::LONG, "it to be missed", || lab.heard("up").contains("went away").then_some(()));
    lab.until(1, "the command to be ended", "! cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep [4]321'");
    lab.link(1, "up");
    lab.ends("up", &mut up).exits(0).says("is back");

    // And one that does not come back is named.
    lab.on(1, "rm ~/went");
    let wait = format!("{wait} # again");
    lab.file(3, &format!("setup_commands:\n  - {wait:?}\n"));
    command.env("SHOAL_UP_PATIENCE_S", "2");
    let mut up = lab.start("up", &mut command);
    lab.until(1, "the command", "test -e ~/went");
    lab.link(1, "down");
    lab.ends("up", &mut up).exits(4).says("did not come back within 2 s");
    lab.link(1, "up");
}

#[test]
fn two_at_once_down_during_up_and_ctrl_c() {
    let Some(lab) = Lab::new("two", 2) else { return };
    lab.file(2, "setup_commands:\n  - echo one >> ~/ran\n  - touch ~/began; sleep 4321\n");
    let mut up = lab.start("up", &mut lab.command(&["up", "lab.yaml", "-y"]));
    lab.until(1, "the second command", "test -e ~/began");
    // From here, and from another machine: refused, and told by whom.
    let pid = format!("`shoal up` of ann@{} (pid {})", lab.on_this_machine(), up.id());
    lab.up(&[]).exits(3).says(&pid);
    let other = lab.laptop.path().join("other");
    std::fs::create_dir_all(&other).expect("a folder");
    let mut elsewhere = lab.command(&["up", "lab.yaml", "-y"]);
    lab.run(elsewhere.env("XDG_STATE_HOME", &other)).exits(1).says(&pid);
    // Ctrl-C: what runs is ended, what was done is remembered.
    signal(&up, "INT");
    lab.ends("up", &mut up).exits(130).says("what was done is remembered").says("goes on where it stopped");
    lab.until(1, "the command to be ended", "! cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep [4]321'");
    lab.on(1, "rm ~/began");
    assert_eq!(lab.ran(1), "one");

    // Again, and this time somebody takes it down meanwhile.
    let mut up = lab.start("again", &mut lab.command(&["up", "lab.yaml", "-y"]));
    lab.until(1, "the second command", "test -e ~/began");
    lab.down().exits(0).says("is told to stop").says("nothing is left");
    lab.ends("again", &mut up).exits(130).says("setup 2 (it was cut off last time)");
    assert_eq!(lab.ran(1), "");
    (0..2).for_each(|i| lab.is_clean(i));
}

/// `--start --stop`: what was brought up for a command goes down again, whatever came of it; a cluster that was there is not touched by a mistake.
#[test]
fn what_was_brought_up_for_a_command_goes_down_again() {
    let Some(lab) = Lab::new("around", 2) else { return };
    lab.file(2, "setup_commands: [echo one >> ~/ran]\n");
    let typo = ["exec", "lab.yaml", "--node", "arond-1", "--stop", "true"];
    lab.shoal(&[&typo[..], &["--start"]].concat()).exits(2).says("did you mean `around-1`").says("goes down again");
    (0..2).for_each(|i| lab.is_clean(i));
    let both = ["exec", "lab.yaml", "--start", "--stop", "echo here; exit 5"];
    assert_eq!(lab.shoal(&both).exits(5).text, "here\n");
    (0..2).for_each(|i| lab.is_clean(i));
    // It does not come up whole.
    lab.file(2, "setup_commands: [test $(uname -n) = around-0]\n");
    lab.shoal(&both)
        .exits(1)
        .says("1 of 2 nodes are up")
        .says("goes down again")
        .says("`shoal up lab.yaml` did not end");
    (0..2).for_each(|i| lab.is_clean(i));

    lab.file(2, "setup_commands: [echo one >> ~/ran]\n");
    lab.up(&[]).exits(0);
    lab.shoal(&typo).exits(2).does_not_say("goes down");
    lab.shoal(&["status", "lab.yaml"]).exits(0);
}

#[test]
fn a_record_that_cannot_be_read_is_put_aside() {
    let Some(lab) = Lab::new("corrupt", 2) else { return };
    lab.file(2, "setup_commands: [echo one >> ~/ran]\n");
    lab.up(&[]).exits(0);
    lab.ran(1);
    lab.on(1, "for f in ~/.cache/shoal/clusters/lab/*/state.json; do echo '{\"version\": 1, \"clu' > $f; done");
    lab.shoal(&["status", "lab.yaml"]).exits(4);
    lab.up(&[]).exits(0).says("its record cannot be used").says("everything runs again");
    assert_eq!((lab.ran(0), lab.ran(1)), ("one".into(), "one".into()));
    lab.on(1, "ls ~/.cache/shoal/clusters/lab/*/state.json.corrupt");
    lab.up(&[]).exits(0).does_not_say("cannot be used");
}

/// Ctrl-C and `down` while files travel, by rsync to one node and in a chain to two: nobody waits until all bytes are there, which would take
/// many minutes.
#[test]
fn files_on_their_way_stop_when_somebody_asks() {
    let Some(lab) = Lab::new("halfway", 2) else { return };
    let noise = |i: u64| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (i << 29)).to_le_bytes();
    let mut block: Vec<u8> = (0..1u64 << 17).flat_map(noise).collect();
    lab.write("data/000", "");
    for i in 0..=255 {
        block[0] = i;
        std::fs::write(lab.laptop.path().join(format!("data/{i:03}")), &block).expect("a file");
    }
    for count in [1, 2] {
        lab.file(count, "");
        // Our program is there beforehand: it goes over the same line.
        lab.up(&[]).exits(0);
        (0..count).for_each(|i| lab.slow(i, "4mbit"));
        lab.file(count, "file_mounts: {~/data: data}\nsetup_commands: [echo one >> ~/ran]\n");
        let under_way = |name: &str| {
            let mut up = lab.start(name, &mut lab.command(&["up", "lab.yaml", "-y"]));
            lab.until(0, "files on their way", "find ~/data -type f -size +0 2>/dev/null | grep -q .");
            assert_eq!(up.try_wait().expect("its state"), None, "{}", lab.heard(name));
            up
        };
        let mut up = under_way("up");
        signal(&up, "INT");
        lab.ends("up", &mut up).exits(130).says("goes on where it stopped").does_not_say("failed");
        // What came until then would look like what comes next.
        (0..count).for_each(|i| drop(lab.on(i, "rm -rf ~/data")));
        let mut up = under_way("again");
        lab.down().exits(0).says("is told to stop").says("nothing is left");
        lab.ends("again", &mut up).exits(130);
        for i in 0..count {
            assert_eq!(lab.ran(i), "", "host {i}");
            lab.is_clean(i);
            lab.slow(i, "1gbit");
            lab.on(i, "rm -rf ~/data");
        }
    }
}

/// Somebody leaves while the cluster is brought up for a command: what began goes down, whoever was told.
#[test]
fn a_command_that_is_not_waited_for_takes_its_cluster_down() {
    let Some(lab) = Lab::new("leave", 2) else { return };
    lab.file(2, "setup_commands: ['touch ~/began; sleep 4321']\n");
    for (verb, how) in [("exec", "INT"), ("submit", "TERM")] {
        lab.write("job.py", "print('here')");
        let what = if verb == "exec" { "true" } else { "job.py" };
        let mut both = lab.start("both", &mut lab.command(&[verb, "lab.yaml", "--start", "--stop", what]));
        lab.until(1, "the command", "test -e ~/began");
        signal(&both, how);
        lab.ends("both", &mut both).exits(130).says("goes down again").says("nothing is left");
        (0..2).for_each(|i| {
            lab.is_clean(i);
            lab.on(i, "rm -f ~/began");
        });
    }
    // Where nobody leaves, the script's own code is that of all of it.
    lab.on(0, "mkdir -p ~/bin; ln -s /usr/bin/python3 ~/bin/python; echo 'PATH=~/bin:$PATH' > ~/.profile");
    lab.file(2, "setup_commands: [echo one >> ~/ran]\n");
    lab.write("job.py", "import sys; print('here'); sys.exit(6)");
    let both = lab.shoal(&["submit", "lab.yaml", "--start", "--stop", "job.py"]).exits(6);
    assert_eq!((both.text.as_str(), lab.ran(0), lab.ran(1)), ("here\n", "one".into(), "one".into()));
    (0..2).for_each(|i| lab.is_clean(i));
}

/// The head is set up, waits for a worker, and restarts meanwhile: it starts when it is back, and the worker after it.
#[test]
fn a_head_that_restarts_between_set_up_and_start() {
    let Some(mut lab) = Lab::new("head", 2) else { return };
    let wait = "if [ $(uname -n) = head-1 ]; then until [ -e ~/go ]; do sleep 0.1; done; fi; echo set >> ~/ran";
    let start = "echo start >> ~/ran";
    lab.file(
        2,
        &format!(
            "setup_commands: [{wait:?}]\nhead_start_ray_commands: [{start:?}]\nworker_start_ray_commands: [{start:?}]\n"
        ),
    );
    let mut up = lab.start("up", lab.command(&["up", "lab.yaml", "-y"]).env("SHOAL_UP_PATIENCE_S", "60"));
    lab.until(0, "the head to be set up", "grep -q set ~/ran");
    lab.hosts.power_off(0).expect("power off");
    lab.hosts.power_on(0).expect("power on");
    assert!(up.try_wait().expect("up").is_none(), "{}", lab.heard("up"));
    lab.on(1, "touch ~/go");
    lab.ends("up", &mut up).exits(0).says("is back, started anew").says("2 nodes");
    assert_eq!((lab.ran(0), lab.ran(1)), ("set start".into(), "set start".into()));
}
