//! What `shoal up` brought up takes sweeps at once, too.

mod support;

use serde_json::Value;
use std::process::Child;
use support::clusters::Lab;
use support::{LONG, until};

const AGENTS: &str = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'shoal [h]ost' || true";

/// Also where an assertion fails.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_cluster_takes_sweeps_as_soon_as_it_is_up() {
    let Some(lab) = Lab::new("upqueue", 3) else { return };
    lab.file(3, "setup_commands:\n  - echo was set up > ~/mark\n");
    lab.up(&[]).exits(0).says("shoal serve -f lab.yaml");

    let mut daemon = Ends(lab.start("serve", &mut lab.command(&["serve", "-f", "lab.yaml"])));
    let connected = || {
        // There is no queue until the daemon answers.
        let said: Value = serde_json::from_str(&lab.shoal(&["hosts", "--json"]).text).ok()?;
        let hosts = said["hosts"].as_array()?;
        (hosts.len() == 3 && hosts.iter().all(|host| host["connected"] == true)).then_some(())
    };
    until(LONG, "all nodes to be hosts of the queue", connected);
    lab.write("proj/look.sh", "cat ~/mark; uname -n\n");
    for i in 0..3 {
        let (name, on) = (format!("on{i}"), lab.name(i));
        let look = ["sweep", "--name", &name, "--on", on, "--source", "proj", "--wait", "--", "sh", "look.sh"];
        lab.shoal(&look).exits(0);
        assert_eq!(lab.shoal(&["logs", &format!("{name}:0.0")]).exits(0).text, format!("was set up\n{on}\n"));
    }
    // What a queue keeps on a host is said, and goes when the host leaves the queue.
    for i in 1..3 {
        lab.shoal(&["hosts", "--remove", lab.name(i)]).exits(0);
        lab.until(i, "its agent to have left", "! test -e ~/.cache/shoal/queue");
    }
    lab.shoal(&["serve", "--stop", "--stop-runs"]).exits(0);
    lab.ends("serve", &mut daemon.0).exits(0);
    until(LONG, "nobody to need the program", || (lab.on(0, AGENTS) == "0").then_some(()));
    let down = lab.down().exits(0).says("what a queue keeps there stays: `shoal hosts --remove`");
    assert_eq!(down.errors.matches("what a queue keeps").count(), 1, "{}", down.errors);
    (1..3).for_each(|i| lab.is_clean(i));
    assert_eq!(lab.on(0, "ls ~/.cache/shoal"), "queue");
}
