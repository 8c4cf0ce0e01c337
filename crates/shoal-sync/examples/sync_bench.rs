//! A quick look at the engine alone: four processes, sums of one tensor, median milliseconds. For tuning; the
//! side-by-side figures come from `cargo xtask bench sync`.

use shoal_sync::master::serve::{Master, Options};
use shoal_sync::{DType, Engine, Op, Settings, TensorSpec};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const SIZES: [(usize, usize); 5] = [(1024, 300), (1 << 18, 60), (4 << 20, 15), (16 << 20, 7), (64 << 20, 5)];

fn main() {
    if std::env::var_os("SHOAL_CLIENT_ID").is_some() {
        return worker();
    }
    let workers = 4;
    let options =
        Options { address: "tcp://127.0.0.1:0".into(), workers: Some(workers), servers: 0, token: "bench".into() };
    let master = Master::bind(&options).expect("bind");
    let address = format!("tcp://{}", master.local_addr().expect("address"));
    let serving = std::thread::spawn(move || master.run(&AtomicBool::new(false)));
    let me = std::env::current_exe().expect("own path");
    let children: Vec<_> = (0..workers)
        .map(|id| {
            Command::new(&me)
                .args(std::env::args().skip(1))
                .env("SHOAL_CLIENT_ID", id.to_string())
                .env("SHOAL_MASTER_ADDRESS", &address)
                .env("SHOAL_TOKEN", "bench")
                .stdout(if id == 0 { Stdio::inherit() } else { Stdio::null() })
                .spawn()
                .expect("spawn")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("wait").success());
    }
    serving.join().expect("no panic").expect("master");
}

fn worker() {
    let engine = Engine::connect(Settings::from_env(|n| std::env::var(n).ok()).expect("settings")).expect("connect");
    let only: Option<usize> = std::env::args().nth(1).and_then(|a| a.parse().ok());
    for (elements, rounds) in SIZES {
        if only.is_some_and(|o| o != elements * 4 / 1024) {
            continue;
        }
        let mut data = vec![1.0f32; elements];
        let spec = TensorSpec { dtype: DType::F32, shape: vec![elements], priority: 0 };
        let key = engine.register(&format!("x{elements}"), spec).expect("register");
        let at: *mut u8 = data.as_mut_ptr().cast();
        let run = || {
            // SAFETY: `data` outlives the call and is not touched during it.
            unsafe { engine.push_pull(&key, at, Op::Mean) }.expect("submit").wait().expect("sum");
        };
        run();
        run();
        engine.barrier().expect("barrier");
        let cpu = cpu_seconds();
        let mut times: Vec<f64> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                run();
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        assert!(data.iter().all(|x| *x == 1.0), "wrong mean");
        let cpu = (cpu_seconds() - cpu) / rounds as f64 * 1e3;
        let (kb, median, best) = (elements * 4 / 1024, times[times.len() / 2], times[0]);
        println!("{kb:>8} KB  median {median:8.3} ms  best {best:8.3}  cpu {cpu:8.3} ms per worker and sum");
    }
    engine.shutdown().expect("shutdown");
}

fn cpu_seconds() -> f64 {
    let usage = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let fields: Vec<&str> = usage.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().expect("utime") + fields[12].parse::<f64>().expect("stime");
    ticks / 100.0
}
