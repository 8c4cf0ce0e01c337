//! What do start commands leave running, and does it still run?

use super::ray;
use shoal_core::cluster::steps::list::MARK;
use shoal_core::cluster::steps::record::{Left, NodeRecord};
use shoal_core::cluster::steps::stop::is_of_ray;
use shoal_daemon::proc::{self, Process, Stat};
use std::collections::BTreeSet;

/// What start commands left behind, by the mark they gave it. Processes of other users cannot be looked into, nor ended.
pub fn marked(cluster: &str) -> Vec<Stat> {
    let mark = format!("{MARK}={cluster}");
    let bears = |stat: &Stat| {
        let environ = std::fs::read(format!("/proc/{}/environ", stat.process.pid)).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let me = std::process::id();
    let all = proc::scan().into_iter().filter(|stat| !stat.is_zombie() && stat.process.pid != me);
    all.filter(bears).collect()
}

/// What the start commands of one session left, each beside what was there before it.
#[derive(Default)]
pub struct Watch {
    before: Vec<Stat>,
    steps: Vec<(String, Vec<Stat>)>,
}

impl Watch {
    /// A start command begins.
    pub fn begin(&mut self, cluster: &str) {
        self.before = marked(cluster);
    }

    /// It has ended: what it left.
    pub fn of(&mut self, id: &str, cluster: &str) -> Option<Left> {
        let now = marked(cluster);
        let left = left(&self.before, &now);
        self.steps.push((id.into(), std::mem::take(&mut self.before)));
        left
    }

    /// The same some time later, for all of them. What the last of them started meanwhile is its own.
    pub fn again(&self, cluster: &str) -> Vec<(String, Option<Left>)> {
        if self.steps.is_empty() {
            return Vec::new();
        }
        let mut now = marked(cluster);
        let mut steps = Vec::new();
        for (id, before) in self.steps.iter().rev() {
            steps.push((id.clone(), left(before, &now)));
            now.retain(|stat| before.iter().any(|old| old.process == stat.process));
        }
        steps
    }
}

fn left(before: &[Stat], now: &[Stat]) -> Option<Left> {
    let roots = roots(before, now);
    // Of Ray the node itself counts. It is well without those who watch it and show it to people.
    let of_ray: Vec<Process> =
        roots.iter().copied().filter(|process| is_of_ray(&ray::command_line(*process))).collect();
    let counting = if of_ray.is_empty() { roots } else { of_ray };
    let processes: Vec<(u32, u64)> = counting.iter().map(|process| (process.pid, process.start)).collect();
    (!processes.is_empty()).then(|| Left { boot: proc::machine().boot, processes })
}

/// Those that nobody among them looks after: what these start and end by themselves, such as a pool's workers, comes and goes (pure).
fn roots(before: &[Stat], now: &[Stat]) -> Vec<Process> {
    let pids: BTreeSet<u32> = now.iter().map(|stat| stat.process.pid).collect();
    let is_new = |stat: &&Stat| before.iter().all(|old| old.process != stat.process);
    let roots = now.iter().filter(is_new).filter(|stat| !pids.contains(&stat.parent));
    roots.map(|stat| stat.process).collect()
}

/// The steps of which everything that they left still runs.
pub fn alive(record: &NodeRecord, boot: &str) -> BTreeSet<String> {
    let lives = |(pid, start): &(u32, u64)| proc::is_alive(Process { pid: *pid, start: *start });
    let all_live = |left: &Left| left.boot == boot && left.processes.iter().all(lives);
    let steps = record.steps.iter().filter(|(_, step)| step.left.as_ref().is_some_and(all_live));
    steps.map(|(id, _)| id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, start: u64, parent: u32) -> Stat {
        Stat { process: Process { pid, start }, parent, state: b'S', cpu_ticks: 0, rss_pages: 0 }
    }

    #[test]
    fn what_is_new_and_has_nobody_above_it_was_left() {
        let before = [stat(10, 1, 1), stat(11, 1, 10)];
        let now = [stat(10, 1, 1), stat(11, 9, 1), stat(20, 5, 1), stat(21, 6, 20), stat(22, 7, 10)];
        let found = |before: &[Stat]| roots(before, &now).iter().map(|p| (p.pid, p.start)).collect::<Vec<_>>();
        assert_eq!(found(&before), [(11, 9), (20, 5)]);
        assert_eq!(found(&now), []);
    }

    #[test]
    fn of_another_boot_nothing_lives() {
        let me = proc::process(std::process::id()).expect("this process");
        let kept = |boot: &str, start: u64| {
            let left = format!(r#"{{"boot":"{boot}","processes":[[{},{start}]]}}"#, me.pid);
            let stamp = r#"{"hash":"h","own":"o","files":""}"#;
            let step = format!(r#"{{"stamp":{stamp},"outcome":"done","at_ms":1,"left":{left}}}"#);
            NodeRecord::read("lab", &format!(r#"{{"version":1,"cluster":"lab","steps":{{"start 1":{step}}}}}"#))
        };
        let steps = |record: Result<NodeRecord, String>| alive(&record.expect("a record"), "b").len();
        assert_eq!(steps(kept("b", me.start)), 1);
        assert_eq!(steps(kept("b", me.start + 1)), 0, "its number was given to somebody else");
        assert_eq!(steps(kept("a", me.start)), 0);
    }
}
