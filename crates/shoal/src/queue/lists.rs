//! How do sweeps, runs and hosts look as tables? (pure)

use super::dry_run::shown;
use super::table::{self, Column, left, right};
use super::times;
use crate::launch::screen::{fold, size};
use shoal_core::fleet::pool::{ANY_CPUS, ANY_MEMORY};
use shoal_core::queue::Moment;
use shoal_core::queue::host::Gpu;
use shoal_core::queue::request::{HostRow, RunRow, RunState, SweepRow};
use shoal_core::queue::results::numbers::digits;

pub fn sweeps(rows: &[SweepRow], now: Moment, width: usize) -> String {
    let columns = [
        left("SWEEP", 0, 64),
        left("OWNER", 5, 20),
        right("FINISHED", 0),
        right("RUNNING", 0),
        right("WAITING", 0),
        right("FAILED", 0),
        right("STOPPED", 0),
        left("LEFT", 2, 20),
        left("AGE", 6, 20),
        left("", 3, 100),
    ];
    let many = |n: u64| if n == 0 { String::new() } else { n.to_string() };
    let cells = rows.iter().map(|row| {
        let wanted = u64::from(row.cells) * u64::from(row.reps);
        vec![
            row.name.clone(),
            row.owner.clone(),
            format!("{}/{wanted}", row.finished),
            many(row.running),
            many(row.waiting),
            many(row.failed),
            many(row.stopped),
            times::left(row.done_at, now),
            times::since(Some(row.submitted), now),
            remark(row),
        ]
    });
    table::render(&columns, &cells.collect::<Vec<_>>(), width)
}

/// What else there is to know of a sweep.
fn remark(row: &SweepRow) -> String {
    let mut words = Vec::new();
    if row.paused {
        words.push("paused".to_string());
    }
    words.extend(row.stuck.clone());
    if row.priority != 0 {
        words.push(format!("priority {}", row.priority));
    }
    words.join("; ")
}

pub fn runs(rows: &[RunRow], now: Moment, width: usize) -> String {
    let columns = [
        left("RUN", 0, 90),
        left("STATE", 0, 60),
        left("HOST", 2, 30),
        left("TIME", 3, 20),
        left("LEFT", 3, 20),
        right("TRY", 5),
        left("PARAMETERS", 1, 60),
        left("METRICS", 4, 60),
    ];
    let cells = rows.iter().map(|row| {
        let parameters: Vec<String> =
            row.differs.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
        let metrics: Vec<String> = row.metrics.iter().map(|(name, value)| format!("{name}={}", short(value))).collect();
        vec![
            row.run.to_string(),
            state(row),
            row.hosts.join(","),
            match (row.began, row.ended) {
                (Some(began), Some(ended)) => times::coarse(ended.saturating_sub(began)),
                (began, None) => times::since(began, now),
                (None, Some(_)) => String::new(),
            },
            times::left(row.done_at.filter(|_| row.state == RunState::Running), now),
            if row.attempt > 1 { row.attempt.to_string() } else { String::new() },
            parameters.join(" "),
            metrics.join(" "),
        ]
    });
    table::render(&columns, &cells.collect::<Vec<_>>(), width)
}

/// A number without the digits that nobody reads; `--json` has them all.
fn short(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() && value.len() > 7 => digits(number, 5),
        _ => value.into(),
    }
}

fn state(row: &RunRow) -> String {
    match (row.state, &row.ending) {
        (RunState::Failed, Some(ending)) => format!("failed: {ending}"),
        (state, _) => {
            let word = if row.stopping && state == RunState::Running { "stopping" } else { word(state) };
            row.trouble.as_ref().map_or_else(|| word.into(), |trouble| format!("{word}: {trouble}"))
        }
    }
}

pub fn word(state: RunState) -> &'static str {
    match state {
        RunState::Waiting => "waiting",
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::Failed => "failed",
        RunState::Stopped => "stopped",
    }
}

/// Counts of runs by something: what, and how many in each state.
pub fn groups(head: &'static str, rows: &[(String, [u64; 5])], width: usize) -> String {
    let columns: Vec<Column> = [left(head, 0, 64)]
        .into_iter()
        .chain(["WAITING", "RUNNING", "FINISHED", "FAILED", "STOPPED"].map(|head| right(head, 0)))
        .collect();
    let many = |n: &u64| if *n == 0 { String::new() } else { n.to_string() };
    let cells =
        rows.iter().map(|(what, counts)| std::iter::once(what.clone()).chain(counts.iter().map(many)).collect());
    table::render(&columns, &cells.collect::<Vec<Vec<String>>>(), width)
}

pub fn hosts(rows: &[HostRow], now: Moment, width: usize) -> String {
    let columns = [
        left("HOST", 0, 40),
        left("STATE", 0, 120),
        right("RUNS", 0),
        right("CPUS", 3),
        right("LOAD", 4),
        right("MEMORY", 5),
        left("GPUS", 2, 60),
        left("PEOPLE", 6, 40),
    ];
    let cells = rows.iter().map(|row| {
        let facts = row.facts.as_ref();
        let of = |value: Option<String>| value.unwrap_or_default();
        vec![
            row.name.clone(),
            host_state(row, now),
            format!("{}/{}", row.running, row.slots),
            of(facts.filter(|facts| facts.cpus < ANY_CPUS).map(|facts| facts.cpus.to_string())),
            of(facts.map(|facts| format!("{:.1}", facts.load1))),
            of(facts.filter(|facts| facts.memory_bytes < ANY_MEMORY).map(|facts| size(facts.memory_bytes))),
            of(facts.map(|facts| gpus(&facts.gpus))),
            of(facts.map(|facts| people(&facts.users, facts.idle_seconds))),
        ]
    });
    let mut out = table::render(&columns, &cells.collect::<Vec<_>>(), width);
    // What is wrong with a host is what people look for: it is said whole, if not in its column.
    for (row, state) in rows.iter().map(|row| (row, table::flat(&host_state(row, now)))) {
        if !out.contains(&state) {
            out.push_str(&fold(&format!("{}: {state}", row.name), "    ", width));
            out.push('\n');
        }
    }
    out
}

fn host_state(row: &HostRow, now: Moment) -> String {
    let mut words = vec![match (row.connected, row.heard) {
        (true, _) => "up".to_string(),
        (false, Some(heard)) => format!("silent for {}", times::coarse(now.saturating_sub(heard))),
        (false, None) => "never heard of".into(),
    }];
    words.extend(row.problem.clone());
    if row.paused {
        words.push("paused".into());
    }
    if let Some(why) = &row.drained {
        words.push(if why.is_empty() { "drained".into() } else { format!("drained: {why}") });
    }
    words.join("; ")
}

/// `2 x RTX 3090, 1 used by others`
fn gpus(gpus: &[Gpu]) -> String {
    let mut models: Vec<(&str, usize)> = Vec::new();
    for gpu in gpus {
        match models.iter_mut().find(|(model, _)| *model == gpu.model) {
            Some((_, n)) => *n += 1,
            None => models.push((&gpu.model, 1)),
        }
    }
    let mut words: Vec<String> =
        models.iter().map(|(model, n)| if *n == 1 { (*model).to_string() } else { format!("{n} x {model}") }).collect();
    let foreign = gpus.iter().filter(|gpu| gpu.foreign_processes > 0).count();
    if foreign > 0 {
        words.push(format!("{foreign} used by others"));
    }
    words.join(", ")
}

fn people(users: &[String], idle_seconds: Option<u64>) -> String {
    let idle = idle_seconds.filter(|_| !users.is_empty()).map(|s| format!(" (idle {})", times::coarse(s * 1000)));
    format!("{}{}", users.join(","), idle.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::RunId;
    use shoal_core::queue::host::HostFacts;
    use shoal_core::queue::sweep::Value;
    use shoal_core::queue::work::Ending;

    fn sweep() -> SweepRow {
        SweepRow {
            name: "mlp".into(),
            owner: "ann".into(),
            submitted: 0,
            cells: 4,
            reps: 3,
            waiting: 5,
            running: 2,
            finished: 4,
            failed: 1,
            stopped: 0,
            priority: 5,
            paused: true,
            done_at: Some(190_000),
            stuck: None,
        }
    }

    #[test]
    fn sweeps_on_wide_and_narrow_screens() {
        let wide = sweeps(&[sweep()], 100_000, 200);
        assert_eq!(
            wide,
            "SWEEP  OWNER  FINISHED  RUNNING  WAITING  FAILED  LEFT        AGE\n\
             mlp    ann        4/12        2        5       1  1 min 30 s  1 min 40 s  paused; priority 5\n"
        );
        let narrow = sweeps(&[sweep()], 100_000, 60);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("1 min 30 s") && !narrow.contains("ann"), "{narrow}");
    }

    #[test]
    fn a_failed_run_says_how() {
        let run = RunRow {
            run: RunId { sweep: "mlp".into(), cell: 3, rep: 1 },
            state: RunState::Failed,
            attempt: 2,
            hosts: vec!["node1".into()],
            began: Some(1_000),
            ended: Some(66_000),
            ending: Some(Ending::Exited(3)),
            differs: vec![("lr".into(), Value::Float(0.1)), ("net".into(), Value::Text("mlp".into()))],
            metrics: vec![("loss".into(), "0.5".into())],
            trouble: None,
            stopping: false,
            done_at: Some(190_000),
        };
        let goes_on = RunRow { state: RunState::Running, ending: None, ended: None, ..run.clone() };
        let text = runs(&[goes_on], 100_000, 200);
        assert!(text.contains("  TIME        LEFT  ") && text.contains("  1 min 39 s  1 min 30 s  "), "{text}");
        let ending = RunRow { state: RunState::Running, ending: None, stopping: true, ..run.clone() };
        assert!(runs(&[ending], 0, 200).contains("mlp:3.1  stopping  node1"));
        let waits = RunRow {
            state: RunState::Running,
            ending: None,
            trouble: Some("results wait on node1".into()),
            ..run.clone()
        };
        assert!(runs(&[waits], 0, 200).contains("running: results wait on node1"));
        let text = runs(&[run], 0, 200);
        assert_eq!(
            text.lines().last(),
            Some("mlp:3.1  failed: exit code 3  node1  1 min 5 s    2  lr=0.1 net=mlp  loss=0.5")
        );
    }

    #[test]
    fn hosts_say_who_sits_there_and_who_uses_their_devices() {
        let gpu = |foreign_processes| Gpu {
            uuid: "u".into(),
            pci: "p".into(),
            model: "RTX 3090".into(),
            memory_bytes: 1,
            foreign_bytes: 0,
            foreign_processes,
        };
        let facts = HostFacts {
            boot: "b".into(),
            cpus: 8,
            memory_bytes: 16 << 30,
            gpus: vec![gpu(0), gpu(1)],
            load1: 1.25,
            free_disk_bytes: 0,
            idle_seconds: Some(30),
            users: vec!["bob".into()],
            address: None,
            caller: None,
            ports: Vec::new(),
            place: None,
        };
        let host = HostRow {
            name: "desk".into(),
            connected: true,
            paused: false,
            drained: Some("its owner is back".into()),
            facts: Some(facts),
            running: 0,
            slots: 8,
            heard: Some(0),
            problem: None,
            prepared: false,
            pool: None,
        };
        let text = hosts(std::slice::from_ref(&host), 0, 300);
        let last = text.lines().last().expect("a line");
        assert_eq!(
            last,
            "desk  up; drained: its owner is back   0/8     8   1.2  16.0 GB  2 x RTX 3090, 1 used by others  bob (idle 30 s)"
        );
        // What does not fit beside the others is there all the same.
        let why =
            "ssh cannot log in as lab: Permission denied (publickey,password); add your key to its authorized_keys";
        let away = HostRow { connected: false, heard: None, drained: None, problem: Some(why.into()), ..host };
        let text = hosts(&[away], 0, 60);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&text).contains(&format!("desk: never heard of; {why}")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }
}
