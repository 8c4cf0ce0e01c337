//! Ranks as real processes: the test is rank 0, and runs itself again as each of the others.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use shoal_sync::dtype::DType;
use shoal_sync::local::{Action, Hosting, LocalGroup, LocalOp, Options, Result, Scale};

pub const SECRET: [u8; 32] = [42; 32];
/// How long anything may take before it counts as hanging; this machine may be busy.
pub const LONG: Duration = Duration::from_secs(60);
const CHILD: &str = "SHOAL_LOCAL_GROUP_CHILD";

/// One rank of a scenario.
pub struct Rank {
    pub group: LocalGroup,
    pub rank: u32,
    pub ranks: u32,
    /// The processes of ranks 1.., known to rank 0.
    pub others: Vec<Child>,
}

pub type Scenario = (&'static str, fn(&Rank));

/// Runs a scenario with `ranks` processes and fails if any of them does.
pub fn run(scenario: Scenario, ranks: u32) {
    let hosting = Hosting::bind().unwrap();
    let members: Vec<u32> = (0..ranks).collect();
    let others = (1..ranks).map(|rank| start(scenario.0, hosting.name(), rank, ranks)).collect();
    let options = Options { heap_bytes: 64 << 20, ..Options::default() };
    let group = hosting.accept_all(&members, 0, &SECRET, options, Instant::now() + LONG).unwrap();
    let mut this = Rank { group, rank: 0, ranks, others };
    (scenario.1)(&this);
    for (i, child) in this.others.iter_mut().enumerate() {
        let status = wait_for(|| child.try_wait().unwrap());
        assert!(status.success() || status.to_string().contains("signal: 9"), "rank {}: {status}", i + 1);
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // No process outlives its test, whatever failed (GANG-1).
        for child in &mut self.others {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts this test binary as another rank.
pub fn start(scenario: &str, socket: &str, rank: u32, ranks: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(CHILD, format!("{scenario} {socket} {rank} {ranks}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What this process is to do if it was started by [`start`]: scenario, socket, rank, ranks.
pub fn as_child() -> Option<(String, String, u32, u32)> {
    let told = std::env::var(CHILD).ok()?;
    let mut words = told.split(' ');
    let (scenario, socket) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some((scenario, socket, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

pub fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "nothing happened in {LONG:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Rank {
    /// Brings an operation and waits for it; the list of contributors when it is done.
    pub fn now(&self, slot: u32, step: u64, action: Action) -> Result<Vec<u32>> {
        // SAFETY: the callers' memory outlives this call, which ends with the operation.
        let ticket = unsafe { self.group.submit(slot, step, LocalOp { fingerprint: slot.into(), action }) }?;
        let done = self.group.wait(&ticket, Some(LONG))?;
        assert!(done, "rank {} waited too long for {:?}", self.rank, self.group.missing(&ticket));
        Ok(self.group.contributors(&ticket))
    }

    pub fn sum(&self, slot: u32, step: u64, data: &mut [f32]) -> Result<Vec<u32>> {
        self.now(slot, step, reduce(DType::F32, Scale::Sum, data))
    }

    pub fn barrier(&self, slot: u32, step: u64) {
        self.now(slot, step, Action::Barrier).unwrap();
    }
}

pub fn reduce<T>(dtype: DType, scale: Scale, data: &mut [T]) -> Action {
    Action::Reduce { dtype, scale, addr: data.as_mut_ptr().cast(), bytes: size_of_val(data) }
}

/// Small whole numbers that every type holds exactly, different for every rank and place.
pub fn number(rank: u32, i: usize) -> f32 {
    ((i * 7 + rank as usize * 3) % 16) as f32
}

pub fn expected_sum(ranks: u32, i: usize) -> f32 {
    (0..ranks).map(|rank| number(rank, i)).sum()
}

/// Random bits, the same for the same seed.
pub fn noise(seed: u64, i: usize) -> f32 {
    let mut x = (seed << 32 | i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((x >> 40) as f32 / (1 << 23) as f32 - 1.0) * 10f32.powi((x & 15) as i32 - 8)
}
