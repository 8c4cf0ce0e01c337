//! Which device? Fractions are packed per device, by its UUID, and never add up to more than one (PLAN-2).

use super::room::{GpuMemory, Need};
use crate::fleet::pool::{ANY_MEMORY, node_of};
use crate::queue::host::{Gpu, Held};

pub(in crate::queue) const WHOLE: u32 = 1000;
/// What an idle driver, or a screen, may hold without the device being in use.
const FOREIGN_BYTES: u64 = 512 << 20;

#[derive(Debug, Clone)]
pub(in crate::queue) struct Device<'q> {
    pub uuid: &'q str,
    /// Which machine of its host it is in: a pool has many, and no process is on two.
    node: &'q str,
    pub milli: u32,
    memory_bytes: u64,
    whole_bytes: u64,
    sharers: u32,
    /// Of those, the ones that want nobody beside them.
    alone: u32,
    /// Nobody can look how much of its memory is used, so nobody will ever learn that: how many may share it is said beside it.
    unseen: bool,
    /// Somebody else's processes are on it.
    pub foreign: bool,
}

impl<'q> Device<'q> {
    pub fn new(gpu: &'q Gpu) -> Device<'q> {
        let unseen = gpu.memory_bytes >= ANY_MEMORY;
        Device {
            uuid: &gpu.uuid,
            node: if unseen { node_of(&gpu.uuid) } else { "" },
            milli: WHOLE,
            memory_bytes: gpu.memory_bytes.saturating_sub(gpu.foreign_bytes),
            whole_bytes: gpu.memory_bytes,
            sharers: 0,
            alone: 0,
            unseen,
            foreign: gpu.foreign_processes > 0 || gpu.foreign_bytes > FOREIGN_BYTES,
        }
    }

    /// What a process reserves of its memory. What was learned elsewhere may be more than this one has: then all of it.
    fn bytes(&self, need: &Need) -> u64 {
        match need.gpu_memory {
            GpuMemory::Bytes(bytes) => bytes.min(self.whole_bytes),
            GpuMemory::Alone => 0,
        }
    }

    fn is_alone(&self, need: &Need) -> bool {
        need.gpu_memory == GpuMemory::Alone && !self.unseen
    }

    pub fn has(&self, milli: u32, need: &Need) -> bool {
        let alone = self.is_alone(need);
        !self.foreign
            && need.least_gpu_bytes <= self.whole_bytes
            && self.milli >= milli
            && self.alone == 0
            && !(alone && self.sharers > 0)
            && (self.sharers == 0 || self.bytes(need) <= self.memory_bytes)
    }

    pub fn take(&mut self, milli: u32, need: &Need) {
        self.milli = self.milli.saturating_sub(milli);
        self.memory_bytes = self.memory_bytes.saturating_sub(self.bytes(need));
        self.sharers += 1;
        self.alone += u32::from(self.is_alone(need));
    }

    pub fn give_back(&mut self, milli: u32, need: &Need) {
        self.milli = (self.milli + milli).min(WHOLE);
        self.memory_bytes = (self.memory_bytes + self.bytes(need)).min(self.whole_bytes);
        self.sharers = self.sharers.saturating_sub(1);
        self.alone = self.alone.saturating_sub(u32::from(self.is_alone(need)));
    }
}

/// A part goes where the least is left over, so that whole devices stay whole; who wants more than one gets whole ones of one node, of
/// the node that has the fewest to spare. In PCI order, which is the order they come in.
pub(super) fn pick(devices: &[Device], need: &Need) -> Option<Vec<Held>> {
    let wanted = need.shape.gpus_milli;
    if wanted == 0 {
        return Some(Vec::new());
    }
    let held = |device: &Device, milli: u32| Held { uuid: device.uuid.to_string(), milli };
    if wanted <= WHOLE {
        let fit = devices.iter().filter(|device| device.has(wanted, need));
        return fit.min_by_key(|device| device.milli).map(|device| vec![held(device, wanted)]);
    }
    let count = wanted.div_ceil(WHOLE) as usize;
    let nodes = devices.chunk_by(|one, next| one.node == next.node);
    let whole = nodes.map(|node| -> Vec<Held> {
        let free = node.iter().filter(|device| device.milli == WHOLE && device.has(WHOLE, need));
        free.map(|device| held(device, WHOLE)).collect()
    });
    let mut chosen = whole.filter(|free| free.len() >= count).min_by_key(Vec::len)?;
    chosen.truncate(count);
    Some(chosen)
}
