//! A real Ray cluster on test hosts from one file. Needs Ray: `SHOAL_TEST_RAY` names its virtual environment; skipped without it.

mod support;

use shoal_testkit::HostsSpec;
use std::path::PathBuf;
use support::clusters::Lab;

#[test]
fn ray_confirms_four_nodes_runs_a_job_and_is_gone() {
    let Some(venv) = std::env::var_os("SHOAL_TEST_RAY").map(PathBuf::from).filter(|venv| venv.is_dir()) else {
        shoal_testkit::skip(format_args!("no Ray here (SHOAL_TEST_RAY names the folder of its virtual environment)"));
        return;
    };
    // The Python that the environment was made with may lie where hosts do not look.
    let python = std::fs::canonicalize(venv.join("bin/python")).expect("its Python");
    let behind = python.parent().and_then(|bin| bin.parent()).map(PathBuf::from);
    let share: Vec<PathBuf> = std::iter::once(venv.clone()).chain(behind).collect();
    let Some(lab) = Lab::with(HostsSpec { share, ..HostsSpec::new("ray", 4) }) else { return };
    let ray = venv.join("bin/ray").display().to_string();
    let python = venv.join("bin/python").display().to_string();
    // Ray wants addresses; and this machine is small: little memory, no dashboard on workers.
    let address = |i: usize| lab.hosts.host(i).address.to_string();
    let limits = "--num-cpus=1 --object-store-memory=80000000 --disable-usage-stats";
    let workers: Vec<String> = (1..4).map(address).collect();
    lab.write(
        "lab.yaml",
        &format!(
            "cluster_name: lab\nprovider:\n  type: local\n  head_ip: {}\n  worker_ips: [{}]\n\
             head_start_ray_commands:\n  - {ray} stop\n  - {ray} start --head --port=6379 {limits} --include-dashboard=false\n\
             worker_start_ray_commands:\n  - {ray} stop\n  - {ray} start --address=$RAY_HEAD_IP:6379 {limits}\n",
            address(0),
            workers.join(", ")
        ),
    );
    lab.up(&[]).exits(0).says("4 nodes");
    let alive = format!(
        "{python} -c \"import ray; ray.init(address='auto', log_to_driver=False); print(sum(n['Alive'] for n in ray.nodes()))\""
    );
    support::until(support::LONG, "Ray to see four nodes", || {
        let out = lab.hosts.host(0).command("sh").args(["-c", &alive]).env("HOME", "/root").output().ok()?;
        let seen = String::from_utf8_lossy(&out.stdout).trim().to_string();
        eprintln!("alive: {seen}");
        (seen == "4").then_some(())
    });
    // What it prints is some seconds old.
    support::until(support::LONG, "`ray status` to show four nodes", || {
        let status = lab.on(0, &format!("{ray} status"));
        eprintln!("{status}");
        (status.matches("1 node_").count() == 4).then_some(())
    });
    // Unchanged, and Ray runs: what people run on it goes on. A node whose Ray has ended gets it again, alone.
    lab.up(&[]).exits(0).says("all 4 nodes: skips start 1, start 2 (unchanged, and what it started runs)");
    lab.on(2, "pkill -9 -x raylet");
    lab.up(&[]).exits(0).says("runs start 1 (with start 2); start 2 (what it started has ended)");
    support::until(support::LONG, "Ray to see four nodes again", || {
        let out = lab.hosts.host(0).command("sh").args(["-c", &alive]).env("HOME", "/root").output().ok()?;
        (String::from_utf8_lossy(&out.stdout).trim() == "4").then_some(())
    });
    let job = format!(
        "{python} -c \"
import ray, socket
ray.init(address='auto', log_to_driver=False)
@ray.remote(num_cpus=1, scheduling_strategy='SPREAD')
def where(i):
    import time; time.sleep(0.5)
    return socket.gethostname()
print(len(set(ray.get([where.remote(i) for i in range(8)]))))
\""
    );
    let places: usize = lab.on(0, &job).lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
    assert!(places > 1, "the job ran on {places} node(s)");
    lab.down().exits(0).says("nothing is left");
    for i in 0..4 {
        lab.is_clean(i);
        let processes = lab.on(i, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '");
        assert!(!processes.contains("raylet") && !processes.contains("gcs_server"), "{processes}");
    }
}
