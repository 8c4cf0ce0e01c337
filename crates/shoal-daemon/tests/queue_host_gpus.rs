//! Which devices does an agent see? With a library of our own in the place of NVIDIA's.

mod queue_host;

use queue_host::*;
use shoal_core::queue::host::{Gpu, HostFacts};
use shoal_core::queue::line::FromHost;
use std::fs;
use std::process::Command;

/// Two devices, the second first on the bus; processes come from a file with lines `device pid bytes`.
const LIBRARY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } Pci;
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } Process;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned k, void **d) { *d = (void *)(size_t)(k + 1); return 0; }
int nvmlDeviceGetUUID(void *d, char *t, unsigned n) { snprintf(t, n, "GPU-fake-%zu", (size_t)d - 1); return 0; }
int nvmlDeviceGetName(void *d, char *t, unsigned n) { snprintf(t, n, "Fake %zu", (size_t)d - 1); return 0; }
int nvmlDeviceGetPciInfo_v3(void *d, Pci *p) {
  memset(p, 0, sizeof *p);
  snprintf(p->bus_id, 32, "00000000:%02X:00.0", (size_t)d == 1 ? 9 : 5);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void *d, Memory *m) { m->total = 8ull << 30; m->used = 3ull << 30; m->free = 5ull << 30; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, Process *list) {
  unsigned room = *n, found = 0, device, pid; long long bytes;
  const char *path = getenv("FAKE_NVML");
  FILE *f = path ? fopen(path, "r") : NULL;
  while (f && fscanf(f, "%u %u %lld", &device, &pid, &bytes) == 3)
    if (device == (size_t)d - 1) {
      if (found < room) { list[found].pid = pid; list[found].memory = bytes; }
      found++;
    }
  if (f) fclose(f);
  *n = found;
  return found > room ? 7 : 0;
}
"#;

fn gpu(number: u32, bus: &str, foreign_bytes: u64, foreign_processes: u32) -> Gpu {
    Gpu {
        uuid: format!("GPU-fake-{number}"),
        pci: format!("00000000:{bus}:00.0"),
        model: format!("Fake {number}"),
        memory_bytes: 8 << 30,
        foreign_bytes,
        foreign_processes,
    }
}

#[test]
fn devices_are_in_bus_order_and_strangers_are_told_from_our_runs() {
    let mut place = Place::new();
    let (source, library) = (place.base.join("nvml.c"), place.base.join("nvml.so"));
    fs::write(&source, LIBRARY).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        return shoal_testkit::skip("there is no C compiler");
    }
    let processes = place.base.join("processes");
    // A stranger: this test. More than fit at once, too.
    let strangers: String = (0..100).map(|_| format!("1 {} 1048576\n", std::process::id())).collect();
    fs::write(&processes, &strangers).unwrap();
    place.env = vec![
        ("SHOAL_NVML".into(), library.to_str().unwrap().into()),
        ("FAKE_NVML".into(), processes.to_str().unwrap().into()),
    ];
    let mut line = Line::open(&place);
    assert_eq!(line.facts.gpus, [gpu(1, "05", 1 << 20, 1), gpu(0, "09", 0, 0)]);
    let pid_file = place.base.join("pid");
    line.start(vec![sh(
        0,
        &format!("sh -c 'echo $$ > {0}; while [ ! -e {0}.go ]; do sleep 0.05; done'; :", pid_file.display()),
    )]);
    let pid = until("its pid", || fs::read_to_string(&pid_file).ok().filter(|text| text.ends_with('\n')));
    fs::write(&processes, format!("0 {} 1073741824\n0 {} 2097152\n", pid.trim(), std::process::id())).unwrap();
    let facts: HostFacts = line.wait("new facts", |line| {
        line.seen.iter().find_map(|(m, _)| match m {
            FromHost::Facts { facts } if facts.gpus[1].foreign_processes == 1 => Some((**facts).clone()),
            _ => None,
        })
    });
    assert_eq!(facts.gpus, [gpu(1, "05", 0, 0), gpu(0, "09", 2 << 20, 1)], "what our run holds is not foreign");
    fs::write(place.base.join("pid.go"), "").unwrap();
    let ended = line.end_of(&attempt(0, 1));
    assert_eq!(ended.peak_gpu_bytes, 1 << 30);
}

#[test]
fn a_machine_without_the_library_has_no_devices() {
    let mut place = Place::new();
    place.env = vec![("SHOAL_NVML".into(), "/no/such/library.so".into())];
    let line = Line::open(&place);
    assert_eq!(line.facts.gpus, []);
    assert!(line.facts.cpus > 0 && line.facts.memory_bytes > 0 && !line.facts.boot.is_empty());
}
