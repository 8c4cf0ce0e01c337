//! Hundreds of runs at once on a pool: few Jobs, few requests, and all of it goes again.

mod support;

use shoal_testkit::kubernetes::NodeSpec;
use std::time::Instant;
use support::pools::{LONG, Lab, USUAL};
use support::until;

const RUNS: u32 = 500;
/// Runs that come together are of one Job; they come in several waves on a machine that is busy.
const MOST_JOBS: u64 = 20;

/// How often the server was asked to apply a Job: nobody else here does.
fn applied(lab: &Lab) -> u64 {
    let metrics = lab.kubectl().text(&["get", "--raw", "/metrics"]);
    let is = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && line.contains("resource=\"jobs\"")
            && line.contains("verb=\"APPLY\"")
    };
    let count = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    metrics.lines().filter(is).filter_map(count).sum::<f64>() as u64
}

#[test]
fn five_hundred_runs_are_few_jobs_and_few_requests() {
    let pool = format!("{{name: cloud, slots: {RUNS}, kubernetes: {{{USUAL}}}}}");
    // Without nodes: what is looked at is the queue, not how fast pods start.
    let Some(mut lab) = Lab::new(std::iter::empty::<NodeSpec>(), None, &[&pool]) else { return };
    lab.serve();
    let began = Instant::now();
    lab.sweep("many", RUNS, "true\n", &[]);
    println!("acknowledged after {:?}", began.elapsed());
    let jobs = until(LONG, "an index for each run", || {
        let jobs = lab.of_sweep("jobs", "many");
        let indexes: u64 = jobs.iter().filter_map(|job| job["spec"]["completions"].as_u64()).sum();
        (indexes == u64::from(RUNS)).then_some(jobs.len() as u64)
    });
    println!("at the server after {:?}, in {jobs} Jobs", began.elapsed());
    lab.until_counts("many", "running", RUNS);
    let asked = Instant::now();
    lab.desk.says(&["ps", "many"]);
    println!("`shoal ps` of {RUNS}: {:?}", asked.elapsed());
    let applied = applied(&lab);
    assert!(jobs <= MOST_JOBS && (jobs..=2 * jobs).contains(&applied), "{jobs} Jobs, {applied} applied");

    let told = Instant::now();
    lab.desk.says(&["stop", "many"]);
    lab.until_counts("many", "stopped", RUNS);
    println!("all stopped after {:?}", told.elapsed());
    lab.until_empty();
    println!("nothing left after {:?}", told.elapsed());
}
