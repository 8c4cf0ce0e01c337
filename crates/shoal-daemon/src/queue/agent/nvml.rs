//! What does NVIDIA's management library say? It is looked for at run time: most machines have none, and one program serves all.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::mem::MaybeUninit;

type Device = *mut c_void;
type Plain = unsafe extern "C" fn() -> c_int;
type GetCount = unsafe extern "C" fn(*mut c_uint) -> c_int;
type GetDevice = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type GetText = unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int;
type GetMemory = unsafe extern "C" fn(Device, *mut Memory) -> c_int;
type GetPci = unsafe extern "C" fn(Device, *mut Pci) -> c_int;
type GetProcesses = unsafe extern "C" fn(Device, *mut c_uint, *mut Process) -> c_int;

const SUCCESS: c_int = 0;
const TOO_SMALL: c_int = 7;
/// Where a driver cannot tell the memory of a process.
pub const NOT_AVAILABLE: u64 = u64::MAX;
const MOST_PROCESSES: usize = 4096;

#[repr(C)]
#[derive(Clone, Copy)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Pci {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    id: c_uint,
    subsystem: c_uint,
    bus_id: [c_char; 32],
}

/// As the second and third versions of the calls give it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    pid: c_uint,
    memory: c_ulonglong,
    instance: c_uint,
    compute_instance: c_uint,
}

/// One device, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub uuid: String,
    pub pci: String,
    pub model: String,
    pub total: u64,
    pub used: u64,
    /// Processes that compute or draw on it, and their memory.
    pub processes: Vec<(u32, u64)>,
}

pub struct Nvml {
    count: GetCount,
    device: GetDevice,
    uuid: GetText,
    name: GetText,
    pci: GetPci,
    memory: GetMemory,
    processes: Vec<GetProcesses>,
}

// SAFETY: functions of a library that stays loaded, and that says of itself that it may be called from any thread.
unsafe impl Send for Nvml {}

impl Nvml {
    /// Nothing if there is no library, or it finds no driver.
    pub fn load(path: &str) -> Option<Nvml> {
        let path = CString::new(path).ok()?;
        // SAFETY: a string that ends in zero. The library's own initialisers run; it is never unloaded.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        let find = |names: &[&CStr]| {
            // SAFETY: an open library and strings that end in zero.
            names.iter().map(|name| unsafe { libc::dlsym(library, name.as_ptr()) }).find(|at| !at.is_null())
        };
        let compute = find(&[c"nvmlDeviceGetComputeRunningProcesses_v3", c"nvmlDeviceGetComputeRunningProcesses_v2"]);
        let graphics =
            find(&[c"nvmlDeviceGetGraphicsRunningProcesses_v3", c"nvmlDeviceGetGraphicsRunningProcesses_v2"]);
        // SAFETY: each name is that of a function of this shape, as the library documents them.
        unsafe {
            let init: Plain = std::mem::transmute(find(&[c"nvmlInit_v2"])?);
            let nvml = Nvml {
                count: std::mem::transmute::<*mut c_void, GetCount>(find(&[c"nvmlDeviceGetCount_v2"])?),
                device: std::mem::transmute::<*mut c_void, GetDevice>(find(&[c"nvmlDeviceGetHandleByIndex_v2"])?),
                uuid: std::mem::transmute::<*mut c_void, GetText>(find(&[c"nvmlDeviceGetUUID"])?),
                name: std::mem::transmute::<*mut c_void, GetText>(find(&[c"nvmlDeviceGetName"])?),
                pci: std::mem::transmute::<*mut c_void, GetPci>(find(&[c"nvmlDeviceGetPciInfo_v3"])?),
                memory: std::mem::transmute::<*mut c_void, GetMemory>(find(&[c"nvmlDeviceGetMemoryInfo"])?),
                processes: [compute, graphics]
                    .into_iter()
                    .flatten()
                    .map(|at| std::mem::transmute::<*mut c_void, GetProcesses>(at))
                    .collect(),
            };
            (init() == SUCCESS).then_some(nvml)
        }
    }

    /// All devices, in the order of their places on the bus. One that does not answer is left out: nothing can run on it.
    pub fn look(&self) -> Vec<Seen> {
        let mut count = 0;
        // SAFETY: a place for the number.
        if unsafe { (self.count)(&mut count) } != SUCCESS {
            return Vec::new();
        }
        let mut seen: Vec<Seen> = (0..count.min(64)).filter_map(|k| self.one(k)).collect();
        seen.sort_by(|a, b| a.pci.cmp(&b.pci));
        seen
    }

    fn one(&self, number: c_uint) -> Option<Seen> {
        let mut device = std::ptr::null_mut();
        // SAFETY: a place for the handle.
        if unsafe { (self.device)(number, &mut device) } != SUCCESS {
            return None;
        }
        let mut memory = Memory { total: 0, free: 0, used: 0 };
        let mut pci = MaybeUninit::<Pci>::zeroed();
        // SAFETY: a handle that was just given, and places for what is asked.
        let answered =
            unsafe { (self.memory)(device, &mut memory) == SUCCESS && (self.pci)(device, pci.as_mut_ptr()) == SUCCESS };
        // SAFETY: zeros are a valid value, and the library has written over them.
        let pci = unsafe { pci.assume_init() };
        answered.then_some(())?;
        Some(Seen {
            uuid: self.text(self.uuid, device)?,
            pci: chars(&pci.bus_id),
            model: self.text(self.name, device)?,
            total: memory.total,
            used: memory.used,
            processes: self.processes(device),
        })
    }

    fn text(&self, get: GetText, device: Device) -> Option<String> {
        let mut buffer = [0 as c_char; 96];
        // SAFETY: a handle, and room of the length that is told.
        let done = unsafe { get(device, buffer.as_mut_ptr(), buffer.len() as c_uint) };
        (done == SUCCESS).then(|| chars(&buffer))
    }

    fn processes(&self, device: Device) -> Vec<(u32, u64)> {
        let mut all: Vec<(u32, u64)> = Vec::new();
        for get in &self.processes {
            let mut room = 64;
            loop {
                let mut list = vec![Process::default(); room];
                let mut count = room as c_uint;
                // SAFETY: a handle, and room for as many as are told.
                let done = unsafe { get(device, &mut count, list.as_mut_ptr()) };
                if done == TOO_SMALL && room < MOST_PROCESSES {
                    room *= 4;
                    continue;
                }
                if done == SUCCESS {
                    for one in list.iter().take(count as usize) {
                        // One that computes and draws is told twice.
                        if !all.iter().any(|(pid, _)| *pid == one.pid) {
                            all.push((one.pid, one.memory));
                        }
                    }
                }
                break;
            }
        }
        all
    }
}

/// Up to the zero that ends it, also if there is none.
fn chars(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
