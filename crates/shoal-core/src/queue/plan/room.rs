//! What is free on a host, and what of it would a run take? (PLAN-2)

use super::devices::Device;
use crate::queue::host::Held;
use crate::queue::state::hosts::HostState;
use crate::queue::state::live::{HeldSeat, Live, Shape};
use crate::queue::state::sweeps::SweepState;
use crate::queue::state::{Queue, RunKey};

/// What one process of a run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) struct Need {
    pub shape: Shape,
    pub gpu_memory: GpuMemory,
    /// What a device has to have at all. Only what was declared: what was learned on a large device may be all a program
    /// could get, and less may do.
    pub least_gpu_bytes: u64,
    pub ranks: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) enum GpuMemory {
    Bytes(u64),
    /// Nobody knows yet: it has its device for itself until one has finished.
    Alone,
}

/// What is learned may be a little more the next time.
const HEADROOM_PERCENT: u64 = 115;

impl Need {
    pub fn of(state: &SweepState) -> Need {
        let wants = &state.sweep.wants;
        let learned = state.measured.peak_gpu_bytes.map(|peak| peak.saturating_mul(HEADROOM_PERCENT) / 100);
        let gpu_memory = match wants.gpu_memory_bytes.or(learned) {
            Some(bytes) => GpuMemory::Bytes(bytes),
            None if wants.gpus_milli == 0 => GpuMemory::Bytes(0),
            None => GpuMemory::Alone,
        };
        let least_gpu_bytes = wants.gpu_memory_bytes.unwrap_or(0);
        Need { shape: Shape::of(wants), gpu_memory, least_gpu_bytes, ranks: wants.ranks.max(1) }
    }
}

/// What is free on a host.
#[derive(Debug, Clone)]
pub(in crate::queue) struct HostRoom<'q> {
    pub key: u32,
    pub host: &'q HostState,
    pub slots: u32,
    pub cpus_milli: u64,
    pub memory_bytes: u64,
    pub devices: Vec<Device<'q>>,
}

impl<'q> HostRoom<'q> {
    /// As if nothing ran there. Devices that somebody else uses stay theirs.
    pub fn empty(key: u32, host: &'q HostState) -> HostRoom<'q> {
        HostRoom {
            key,
            host,
            slots: host.slots(),
            cpus_milli: u64::from(host.cpus()) * 1000,
            memory_bytes: host.memory_bytes(),
            devices: host.facts.iter().flat_map(|facts| &facts.gpus).map(Device::new).collect(),
        }
    }

    pub fn now(queue: &'q Queue, key: u32, host: &'q HostState) -> HostRoom<'q> {
        let mut room = HostRoom::empty(key, host);
        room.slots = room.slots.saturating_sub(host.used.slots);
        room.cpus_milli = room.cpus_milli.saturating_sub(host.used.cpus_milli);
        room.memory_bytes = room.memory_bytes.saturating_sub(host.used.memory_bytes);
        if !room.devices.is_empty() {
            for (seat, need) in seats_on(queue, key, host).map(|(seat, need, ..)| (seat, need)) {
                room.take_devices(&seat.devices, &need);
            }
        }
        room
    }

    /// The devices that a process would get, if there is room for it.
    pub fn pick(&self, need: &Need) -> Option<Vec<Held>> {
        let shape = &need.shape;
        let room =
            self.slots > 0 && self.cpus_milli >= u64::from(shape.cpus_milli) && self.memory_bytes >= shape.memory_bytes;
        room.then(|| super::devices::pick(&self.devices, need)).flatten()
    }

    /// Whether exactly these devices, and the rest of it, are free.
    pub fn has(&self, need: &Need, devices: &[Held]) -> bool {
        let shape = &need.shape;
        let free =
            |held: &Held| self.devices.iter().any(|device| device.uuid == held.uuid && device.has(held.milli, need));
        self.slots > 0
            && self.cpus_milli >= u64::from(shape.cpus_milli)
            && self.memory_bytes >= shape.memory_bytes
            && devices.iter().all(free)
    }

    pub fn take(&mut self, need: &Need, devices: &[Held]) {
        self.slots = self.slots.saturating_sub(1);
        self.cpus_milli = self.cpus_milli.saturating_sub(u64::from(need.shape.cpus_milli));
        self.memory_bytes = self.memory_bytes.saturating_sub(need.shape.memory_bytes);
        self.take_devices(devices, need);
    }

    pub fn give_back(&mut self, need: &Need, devices: &[Held]) {
        self.slots += 1;
        self.cpus_milli += u64::from(need.shape.cpus_milli);
        self.memory_bytes += need.shape.memory_bytes;
        for held in devices {
            if let Some(device) = self.devices.iter_mut().find(|device| device.uuid == held.uuid) {
                device.give_back(held.milli, need);
            }
        }
    }

    fn take_devices(&mut self, devices: &[Held], need: &Need) {
        for held in devices {
            if let Some(device) = self.devices.iter_mut().find(|device| device.uuid == held.uuid) {
                device.take(held.milli, need);
            }
        }
    }

    /// How many such processes fit, up to `most`.
    pub fn count(&self, need: &Need, most: u32) -> u32 {
        let mut room = self.clone();
        let mut count = 0;
        while count < most
            && let Some(devices) = room.pick(need)
        {
            room.take(need, &devices);
            count += 1;
        }
        count
    }
}

/// Processes that hold a seat on a host, what each needs as far as is known now, and whose it is.
pub(in crate::queue) fn seats_on<'q>(
    queue: &'q Queue,
    key: u32,
    host: &'q HostState,
) -> impl Iterator<Item = (&'q HeldSeat, Need, &'q SweepState, &'q Live, RunKey)> {
    host.live.iter().flat_map(move |run| {
        let live = queue.live.get(run).filter(|live| live.since.is_some());
        let both = live.and_then(|live| Some((live, queue.sweeps.get(&run.0)?)));
        both.into_iter().flat_map(move |(live, state)| {
            let need = Need { shape: live.shape, ..Need::of(state) };
            let here = live.seats.iter().filter(move |seat| seat.host == key && seat.holds());
            here.map(move |seat| (seat, need, state, live, *run))
        })
    })
}
