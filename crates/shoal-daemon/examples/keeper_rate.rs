//! How many runs a second does a keeper start and see to their ends? Against `xargs -P`, which keeps nothing of them.
//!
//! `keeper_rate [runs] [seats] [words of a program]`. Run with `--release`, after `queue_host`.

use shoal_daemon::queue::framing::{read_message, write_message};
use shoal_daemon::queue::keeper;
use shoal_daemon::queue::keeper::folder::Folder;
use shoal_daemon::queue::keeper::words::{FromKeeper, KEEPER_VERSION, Run, ToKeeper};
use std::collections::{HashMap, HashSet};
use std::io::BufReader;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHAIN: usize = 64;

type Failure = Box<dyn std::error::Error>;

fn run(k: usize, seat: usize, argv: &[String], after: Option<String>) -> Run {
    Run {
        name: format!("rate_{k}.0_1"),
        note: format!(
            r#"{{"attempt":{{"run":{{"sweep":"rate","cell":{k},"rep":0}},"number":1}},"seat":{seat},"argv":["true"]}}"#
        ),
        program: argv[0].clone(),
        argv: argv.to_vec(),
        environment: 0,
        env: vec![("SHOAL_RUN".into(), format!("rate:{k}.0")), ("SHOAL_CELL".into(), k.to_string())],
        cwd: "/tmp".into(),
        after,
        time_limit_ms: None,
        grace_ms: 1000,
        memory_bytes: None,
        prepared: None,
        guarded: false,
        refused: None,
    }
}

fn keeper(runs: usize, seats: usize, argv: &[String]) -> Result<f64, Failure> {
    let base = tempfile::tempdir()?;
    let program = std::env::current_exe()?.with_file_name("queue_host");
    let start = Command::new(program)
        .args(["host", "queue-keeper", "--store", "rate"])
        .env("SHOAL_HOST_DIR", base.path())
        .status()?;
    assert!(start.success());
    let folder = Folder::below(base.path(), "rate")?;
    let stream = loop {
        if let Ok(stream) = keeper::connect(&folder) {
            break stream;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut to = &stream;
    let mut from = BufReader::new(stream.try_clone()?);
    write_message(&mut to, &ToKeeper::Hello { version: KEEPER_VERSION }, &[])?;
    let mut pid = 0;
    while let Some((message, _)) = read_message::<FromKeeper>(&mut from)? {
        match message {
            FromKeeper::Hello { pid: its, .. } => pid = its,
            FromKeeper::Ready => break,
            _ => {}
        }
    }
    let cpu_before = cpu(pid);
    let began = Instant::now();
    let environments = vec![std::env::vars().collect::<Vec<_>>()];
    let (mut next, mut last, mut seat_of) = (0, vec![None::<String>; seats], HashMap::new());
    let (mut due, mut over) = (vec![0usize; seats], HashSet::new());
    let mut fill = |due: &mut Vec<usize>, seat_of: &mut HashMap<String, usize>| -> Result<(), Failure> {
        let mut list = Vec::new();
        for seat in 0..seats {
            while due[seat] < CHAIN && next < runs {
                let run = run(next, seat, argv, last[seat].clone());
                last[seat] = Some(run.name.clone());
                seat_of.insert(run.name.clone(), seat);
                list.push(run);
                due[seat] += 1;
                next += 1;
            }
        }
        if !list.is_empty() {
            write_message(&mut to, &ToKeeper::Start { environments: environments.clone(), runs: list }, &[])?;
        }
        Ok(())
    };
    fill(&mut due, &mut seat_of)?;
    while over.len() < runs {
        let Some((FromKeeper::Over { runs: ended }, _)) = read_message(&mut from)? else { continue };
        let mut forget = Vec::new();
        for one in ended {
            assert!(one.ending.success(), "{one:?}");
            due[seat_of[&one.name]] -= 1;
            assert!(over.insert(one.name.clone()), "{} twice", one.name);
            forget.push(one.name);
        }
        write_message(&mut &stream, &ToKeeper::Forget { names: forget }, &[])?;
        fill(&mut due, &mut seat_of)?;
    }
    let rate = runs as f64 / began.elapsed().as_secs_f64();
    let mine = cpu(pid) - cpu_before;
    println!("keeper: {rate:.0}/s, its own time {:.0} us a run", mine * 1e6 / runs as f64);
    write_message(&mut &stream, &ToKeeper::Leave { stop_runs: true, grace_ms: 1000 }, &[])?;
    Ok(rate)
}

/// Seconds of processor that a process itself has used, without its children.
fn cpu(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest: Vec<&str> = text.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
    let ticks = |at: usize| rest.get(at).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn xargs(runs: usize, seats: usize, argv: &[String]) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut child = Command::new("xargs")
        .args(["-P", &seats.to_string(), "-n", "1"])
        .args(argv)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    {
        use std::io::Write;
        let mut to = child.stdin.take().ok_or("no stdin")?;
        for k in 0..runs {
            writeln!(to, "{k}")?;
        }
    }
    child.wait()?;
    let rate = runs as f64 / began.elapsed().as_secs_f64();
    println!("xargs:  {rate:.0}/s");
    Ok(rate)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| words.get(at).and_then(|w| w.parse().ok()).unwrap_or(or);
    let (runs, seats) = (number(0, 10_000), number(1, 2));
    let argv = if words.len() > 2 { words[2..].to_vec() } else { vec!["/bin/true".to_string()] };
    for _ in 0..3 {
        let (ours, theirs) = (keeper(runs, seats, &argv)?, xargs(runs, seats, &argv)?);
        println!("        {:.2} of xargs", ours / theirs);
    }
    Ok(())
}
