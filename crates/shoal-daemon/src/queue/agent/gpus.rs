//! Which devices are there, and who else is on them?

use super::nvml::{NOT_AVAILABLE, Nvml, Seen};
use crate::proc;
use shoal_core::queue::host::Gpu;
use std::collections::HashMap;

/// Steps from a process to the keeper above it, at most.
const DEEPEST: usize = 64;

#[derive(Default)]
pub struct Gpus {
    nvml: Option<Nvml>,
    /// Memory of our own processes at the last look.
    pub ours: HashMap<u32, u64>,
}

impl Gpus {
    /// `SHOAL_NVML` names another library, for tests; empty: none.
    pub fn find() -> Gpus {
        let path = std::env::var("SHOAL_NVML").unwrap_or_else(|_| "libnvidia-ml.so.1".into());
        Gpus {
            nvml: Some(path).filter(|path| !path.is_empty()).and_then(|path| Nvml::load(&path)),
            ours: HashMap::new(),
        }
    }

    pub fn look(&mut self, keeper: u32) -> Vec<Gpu> {
        self.ours.clear();
        let Some(nvml) = &self.nvml else { return Vec::new() };
        nvml.look().into_iter().map(|seen| gpu(seen, &mut self.ours, |pid| is_below(pid, keeper))).collect()
    }
}

/// Whoever is not below our keeper is a stranger. Pure but for that question.
fn gpu(seen: Seen, ours: &mut HashMap<u32, u64>, is_ours: impl Fn(u32) -> bool) -> Gpu {
    let (mine, foreign): (Vec<_>, Vec<_>) = seen.processes.iter().partition(|(pid, _)| is_ours(*pid));
    let known =
        |list: &[(u32, u64)]| list.iter().map(|(_, bytes)| *bytes).filter(|bytes| *bytes != NOT_AVAILABLE).sum::<u64>();
    let unknown = foreign.iter().any(|(_, bytes)| *bytes == NOT_AVAILABLE);
    for (pid, bytes) in mine.iter().filter(|(_, bytes)| *bytes != NOT_AVAILABLE) {
        *ours.entry(*pid).or_default() += *bytes;
    }
    // Where the driver does not tell, all that is not known to be ours is theirs.
    let foreign_bytes = if unknown { seen.used.saturating_sub(known(&mine)) } else { known(&foreign) };
    Gpu {
        uuid: seen.uuid,
        pci: seen.pci,
        model: seen.model,
        memory_bytes: seen.total,
        foreign_bytes,
        foreign_processes: foreign.len() as u32,
    }
}

fn is_below(pid: u32, keeper: u32) -> bool {
    let mut at = pid;
    for _ in 0..DEEPEST {
        match proc::stat(at) {
            Some(stat) if stat.parent == keeper && keeper != 0 => return true,
            Some(stat) if stat.parent > 1 => at = stat.parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(processes: &[(u32, u64)]) -> Seen {
        let text = |t: &str| t.to_string();
        Seen { uuid: text("u"), pci: text("p"), model: text("m"), total: 100, used: 60, processes: processes.into() }
    }

    #[test]
    fn strangers_are_told_from_ours() {
        let mut ours = HashMap::new();
        let gpu = |processes: &[(u32, u64)], ours: &mut _| gpu(seen(processes), ours, |pid| pid < 10);
        let one = gpu(&[(1, 20), (11, 5), (12, 7)], &mut ours);
        assert_eq!((one.foreign_bytes, one.foreign_processes, ours.get(&1)), (12, 2, Some(&20)));
        let one = gpu(&[(1, 20), (11, NOT_AVAILABLE)], &mut ours);
        assert_eq!((one.foreign_bytes, one.foreign_processes), (40, 1));
        let one = gpu(&[(1, NOT_AVAILABLE)], &mut ours);
        assert_eq!((one.foreign_bytes, one.foreign_processes), (0, 0));
    }
}
