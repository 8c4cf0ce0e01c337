//! How long four processes of one host need to sum a tensor in place: `cargo run --release --example local_bench [ranks] [size]`.
//!
//! `malloc`: ordinary memory in 4 KiB pages. `huge`: the same after the group has put huge pages under it.
//! `shared`: memory from `LocalGroup::alloc`. Milliseconds a step: the median and the mean over the steps of rank 0,
//! and the processor time of all ranks together, which says more than the clock when the machine is shared.

use std::time::{Duration, Instant};

use shoal_sync::dtype::DType;
use shoal_sync::local::{Action, Hosting, LocalGroup, LocalOp, Options, Scale};

const SECRET: [u8; 32] = [7; 32];
const WARM_UP: u64 = 5;
const SIZES: [(&str, usize); 8] = [
    ("4 KB", 4 << 10),
    ("16 KB", 16 << 10),
    ("64 KB", 64 << 10),
    ("256 KB", 256 << 10),
    ("1 MB", 1 << 20),
    ("16 MB", 16 << 20),
    ("64 MB", 64 << 20),
    ("256 MB", 256 << 20),
];

fn main() {
    let mut args = std::env::args().skip(1);
    let ranks = args.next().and_then(|n| n.parse().ok()).unwrap_or(4);
    let only = args.next();
    let kinds = ["malloc", "huge", "shared"];
    println!("{ranks} ranks, f32 sum in place, ms a step: median, mean, cpu of all ranks");
    println!("{:8}{}", "", kinds.map(|k| format!(" {k:>30}")).concat());
    for (name, bytes) in SIZES.into_iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let row = kinds.map(|kind| {
            let [median, mean, cpu] = measure(ranks, kind, bytes);
            format!(" {median:10.4}{mean:10.4}{cpu:10.4}")
        });
        println!("{name:8}{}", row.concat());
    }
}

/// Runs one group of processes; rank 0 is this one.
fn measure(ranks: u32, kind: &str, bytes: usize) -> [f64; 3] {
    let hosting = Hosting::bind().unwrap();
    let name = hosting.name().to_owned();
    let members: Vec<u32> = (0..ranks).collect();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut children = vec![];
    for rank in 1..ranks {
        // SAFETY: this program has one thread.
        match unsafe { libc::fork() } {
            0 => {
                let group = LocalGroup::connect(&name, &members, rank, &SECRET, deadline).unwrap();
                steps(&group, rank, kind, bytes);
                std::process::exit(0);
            }
            pid => children.push(pid),
        }
    }
    let options = Options { huge_pages: kind == "huge", ..Options::default() };
    let group = hosting.accept_all(&members, 0, &SECRET, options, deadline).unwrap();
    let result = steps(&group, 0, kind, bytes);
    for pid in children {
        // SAFETY: our own child.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
    result
}

fn steps(group: &LocalGroup, rank: u32, kind: &str, bytes: usize) -> [f64; 3] {
    let shared = (kind == "shared").then(|| group.alloc(bytes).unwrap());
    let mut own = vec![0f32; if shared.is_some() { 0 } else { bytes / 4 }];
    let addr = shared.as_ref().map_or(own.as_mut_ptr().cast(), |s| s.as_ptr());
    // SAFETY: `bytes` bytes of our own, aligned to at least 4.
    unsafe { std::slice::from_raw_parts_mut(addr.cast::<f32>(), bytes / 4) }.fill(rank as f32);
    let count = (4 << 30) / (bytes + (1 << 18));
    let mut times = Vec::with_capacity(count);
    let (mut last, mut cpu) = (Instant::now(), cpu_ms());
    for step in 0..WARM_UP + count as u64 {
        if step == WARM_UP {
            (last, cpu) = (Instant::now(), cpu_ms());
        }
        reduce(group, 0, step, Action::Reduce { dtype: DType::F32, scale: Scale::Mean, addr, bytes });
        let now = Instant::now();
        if step >= WARM_UP {
            times.push((now - last).as_secs_f64() * 1e3);
        }
        last = now;
    }
    let mut cpu = cpu_ms() - cpu;
    let addr_of_cpu = (&raw mut cpu).cast();
    reduce(group, 1, 0, Action::Reduce { dtype: DType::F64, scale: Scale::Sum, addr: addr_of_cpu, bytes: 8 });
    let mean = group.members().iter().sum::<u32>() as f32 / group.members().len() as f32;
    // SAFETY: as above; nothing is in flight.
    assert!(unsafe { std::slice::from_raw_parts(addr.cast::<f32>(), bytes / 4) }.iter().all(|&x| x == mean));
    group.finish().unwrap();
    let average = times.iter().sum::<f64>() / count as f64;
    times.sort_by(f64::total_cmp);
    [times[count / 2], average, cpu / count as f64]
}

fn reduce(group: &LocalGroup, slot: u32, step: u64, action: Action) {
    // SAFETY: the callers' memory is their own and is left alone until the wait has ended.
    let ticket = unsafe { group.submit(slot, step, LocalOp { fingerprint: 1, action }) }.unwrap();
    assert!(group.wait(&ticket, Some(Duration::from_secs(60))).unwrap(), "waited for {:?}", group.missing(&ticket));
}

/// Processor time of this process so far.
fn cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 * 1e-6
}
