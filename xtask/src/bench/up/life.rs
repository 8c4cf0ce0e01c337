//! One cluster from its first `up` to its `down`, and how long each took.

use super::census::{Census, status_shows};
use super::ground::{Ground, Starts, Tools, Who};
use super::table::{FLOOR, Time, stats};
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// Ray's nodes go on starting things after they have joined; what is timed next should not pay for that.
const SETTLE: Duration = Duration::from_secs(5);
const MARKED: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(5);
/// Short commands are taken so often, and their median counts for the round.
const SHORT: usize = 3;

/// Everything that is timed, on hosts that are made for it and gone afterwards.
pub fn live(tools: &Tools, who: Who, count: usize, round: usize, tell: &mut dyn FnMut(Time)) -> Result<()> {
    let nodes = if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
    let mut add = |case, size: &str, seconds| {
        eprintln!("{:<6} {case:<8} {size:<22} {:>9.0} ms (round {round})", who.name(), seconds * 1e3);
        tell(Time { case, size: size.to_owned(), seconds });
    };
    add("launch", &nodes, until_marked(tools, who, count, round)?);
    let ground = Ground::fresh(tools, who, Starts::Ray, count, round)?;
    add("first", &nodes, until_ray_runs(&ground, &[])?);
    std::thread::sleep(SETTLE);
    add("repeat", &format!("{nodes}, --no-restart"), median(&ground, &["up", "cluster.yaml", "-y", "--no-restart"])?);
    add("exec", &nodes, median(&ground, &["exec", "cluster.yaml", "true"])?);
    // That commands do arrive, and where.
    ground.timed(&["exec", "cluster.yaml", "touch /root/was-here"])?;
    let seen = ground.hosts.ssh(0).arg("test -f /root/was-here").status().context("ssh")?;
    anyhow::ensure!(seen.success(), "`exec` ended well, and its command did not run on the head");
    if count > 1 {
        let seconds = send(&ground)?;
        add("rsync", &format!("{} MB, {nodes}", tools.data_mb), seconds);
    }
    // The same command once more; Ray's starts everything anew, ours leaves alone what runs, unless it is asked to.
    let again = until_ray_runs(&ground, &[])?;
    add("repeat", &nodes, again);
    let restart = if who == Who::Ours { until_ray_runs(&ground, &["--restart"])? } else { again };
    add("restart", &nodes, restart);
    std::thread::sleep(SETTLE);
    add("down", &nodes, ground.timed(&["down", "cluster.yaml", "-y"])?);
    if who == Who::Ours {
        add(FLOOR, &nodes, ground.commands_alone()?);
    }
    Ok(())
}

fn median(ground: &Ground, args: &[&str]) -> Result<f64> {
    let all: Result<Vec<f64>> = (0..SHORT).map(|_| ground.timed(args)).collect();
    Ok(stats(&all?).0)
}

/// A first `up` with start commands that cost nothing, until all nodes have run them: the launcher alone, however few cores the nodes share.
fn until_marked(tools: &Tools, who: Who, count: usize, round: usize) -> Result<f64> {
    let ground = Ground::fresh(tools, who, Starts::Mark, count, round)?;
    let marks = || std::fs::read_dir(tools.marks()).map(|all| all.flatten().map(|one| one.path()).collect::<Vec<_>>());
    let began = Instant::now();
    ground.timed(&["up", "cluster.yaml", "-y"])?;
    while marks().context("the marks of nodes")?.len() < count {
        anyhow::ensure!(began.elapsed() < MARKED, "not all nodes have run their start commands after {MARKED:?}");
        std::thread::sleep(LOOK);
    }
    let took = began.elapsed().as_secs_f64();
    for mark in marks().context("the marks of nodes")? {
        std::fs::remove_file(mark).context("a mark")?;
    }
    ground.timed(&["down", "cluster.yaml", "-y"])?;
    Ok(took)
}

/// `up`, until Ray has all nodes: with ours they are there when the command ends, Ray's own workers come later.
fn until_ray_runs(ground: &Ground, flags: &[&str]) -> Result<f64> {
    let (hosts, count) = (&ground.hosts, ground.hosts.len());
    let census = Census::ready(hosts, &ground.tools.ray, count)?;
    let began = Instant::now();
    ground.timed(&[&["up", "cluster.yaml", "-y"], flags].concat())?;
    census.complete()?;
    let took = began.elapsed().as_secs_f64();
    status_shows(hosts, &ground.tools.ray, count)?;
    let files = ground.everywhere("ls /root/code | wc -l")?;
    anyhow::ensure!(files.iter().all(|n| n == "200"), "files on the nodes: {files:?}");
    Ok(took)
}

/// The same bytes to all nodes; they have to arrive.
fn send(ground: &Ground) -> Result<f64> {
    let known = introduce_workers(ground)?;
    let data = ground.tools.data.to_string_lossy().into_owned();
    let took = ground.timed(&["rsync-up", "-A", "cluster.yaml", &data, "/root/data.bin"])?;
    let digests = ground.everywhere("sha256sum < /root/data.bin | cut -d ' ' -f 1; rm -f /root/data.bin")?;
    let wrong = digests.iter().filter(|digest| **digest != ground.tools.digest).count();
    anyhow::ensure!(wrong == 0, "{wrong} of {} nodes have not the bytes that were sent", digests.len());
    if let Some((file, text)) = known {
        std::fs::write(file, text).context("Ray's state")?;
    }
    Ok(took)
}

/// With its local provider Ray's client does not know of the workers, only the head does: `-A` would reach the head alone and call it done.
/// It is told what the head knows. Gives what it knew before.
fn introduce_workers(ground: &Ground) -> Result<Option<(std::path::PathBuf, String)>> {
    if ground.who == Who::Ours {
        return Ok(None);
    }
    let name = format!("ray/cluster-{}.state", ground.cluster);
    let mine = ground.home.join("tmp").join(&name);
    let before = std::fs::read_to_string(&mine).context("Ray's state")?;
    let of_head = ground.hosts.ssh(0).arg(format!("cat /tmp/{name}")).output().context("ssh")?;
    anyhow::ensure!(of_head.status.success(), "the head has no state of the cluster");
    std::fs::write(&mine, &of_head.stdout).context("Ray's state")?;
    Ok(Some((mine, before)))
}
