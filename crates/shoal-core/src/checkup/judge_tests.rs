//! Tables of facts and what they mean.

use super::super::Level::{self, Green, Red, Yellow};
use super::super::facts::{Gpu, tests::healthy};
use super::*;
use crate::job::Prepare;

fn level(check: Check, change: impl FnOnce(&mut Facts, &mut Wants)) -> Level {
    let (mut facts, mut wants) = (healthy(), Wants { shoal: "0.1.0".into(), ..Wants::default() });
    change(&mut facts, &mut wants);
    let findings = host(&facts, &wants);
    let finding = findings.iter().find(|f| f.check == check).expect("a finding");
    assert_eq!(finding.hint.is_some(), finding.level > Level::Unknown, "{finding:?}");
    finding.level
}

fn space(free: u64, writable: bool) -> Item<Space> {
    Ok(Space { path: "/p".into(), total_bytes: 100 * GIB, free_bytes: free, writable })
}

#[test]
fn a_healthy_host_is_green_all_over() {
    let findings = host(&healthy(), &Wants { shoal: "0.1.0".into(), ..Wants::default() });
    assert!(findings.iter().all(|f| f.level == Green && f.cell.len() <= 14), "{findings:?}");
}

#[test]
fn disks() {
    for (home, tmp, expected) in [
        (space(50 * GIB, true), space(50 * GIB, true), Green),
        (space(10 * GIB, true), space(50 * GIB, true), Green),
        (space(10 * GIB - 1, true), space(50 * GIB, true), Yellow),
        (space(50 * GIB, true), space(GIB, true), Yellow),
        (space(50 * GIB, true), space(GIB - 1, true), Red),
        (space(0, true), space(50 * GIB, true), Red),
        (space(50 * GIB, false), space(50 * GIB, true), Red),
        (Err("hangs".into()), space(50 * GIB, true), Red),
    ] {
        assert_eq!(
            level(Check::Disk, |f, _| (f.home, f.tmp) = (home.clone(), tmp.clone())),
            expected,
            "{home:?} {tmp:?}"
        );
    }
}

#[test]
fn the_words_of_df() {
    let text = "Welcome\nFilesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 2048 2040 8 100% /root\n\
                /dev/vda 263174212 21000000 74000000 23% /\n";
    let finding = disks_of_df(text).expect("a finding");
    assert_eq!((finding.level, finding.text.as_str()), (Red, "8.0 KiB of 2.0 MiB free in /root"));
    assert_eq!(disks_of_df("df: not found"), None);
}

#[test]
fn shared_folders() {
    for (folder, expected) in [
        (space(50 * GIB, true), Green),
        (space(5 * GIB, true), Yellow),
        (space(5, true), Red),
        (space(50 * GIB, false), Red),
        (Err("/p does not exist".into()), Red),
    ] {
        assert_eq!(level(Check::Shared, |f, _| f.shared = Some(folder.clone())), expected, "{folder:?}");
    }
}

#[test]
fn memory_and_cpus() {
    for (total, available, wanted, expected) in [
        (64, 60, None, Green),
        (64, 60, Some(64), Green),
        (63, 60, Some(64), Green),
        (32, 30, Some(64), Red),
        (64, 1, None, Yellow),
    ] {
        let memory = Memory { total_bytes: total * GIB, available_bytes: available * GIB };
        let found = level(Check::Memory, |f, w| {
            f.memory = Ok(memory.clone());
            w.slots.memory_bytes = wanted.map(|gib: u64| gib * GIB);
        });
        assert_eq!(found, expected, "{memory:?} {wanted:?}");
    }
    assert_eq!(level(Check::Memory, |f, _| f.memory = Err("no /proc".into())), Yellow);
    for (cpus, load, wanted, expected) in
        [(8, 1.0, None, Green), (8, 12.1, None, Yellow), (8, 0.0, Some(8), Green), (8, 0.0, Some(16), Red)]
    {
        let found = level(Check::Cpus, |f, w| {
            (f.cpus, f.load) = (cpus, load);
            w.slots.cpus = wanted;
        });
        assert_eq!(found, expected, "{cpus} {load} {wanted:?}");
    }
}

#[test]
fn graphics() {
    let gpu = |used| Gpu { name: "RTX".into(), driver: "550.1".into(), total_bytes: 24 * GIB, used_bytes: used * GIB };
    for (gpus, wanted, expected) in [
        (Ok(vec![]), None, Green),
        (Ok(vec![]), Some(0), Green),
        (Ok(vec![]), Some(1), Red),
        (Ok(vec![gpu(0), gpu(1)]), Some(2), Green),
        (Ok(vec![gpu(0)]), Some(2), Red),
        (Ok(vec![gpu(0), gpu(20)]), None, Yellow),
        (Err("no answer within 5 s".to_string()), None, Yellow),
        (Err("driver/library version mismatch".to_string()), Some(1), Red),
    ] {
        let found = level(Check::Gpus, |f, w| {
            f.gpus = gpus.clone();
            w.slots.gpus = wanted;
        });
        assert_eq!(found, expected, "{gpus:?} {wanted:?}");
    }
}

#[test]
fn limits() {
    for (soft, expected) in [(1024, Green), (u64::MAX, Green), (1023, Yellow), (255, Red)] {
        assert_eq!(level(Check::Files, |f, _| f.open_files = Ok(OpenFiles { soft, hard: soft })), expected, "{soft}");
    }
    for (taken, expected) in [(64, Green), (3, Yellow), (0, Red)] {
        let ports = Ports { tried: 64, taken, low: 1, high: 2 };
        assert_eq!(level(Check::Ports, |f, _| f.ports = Ok(ports)), expected, "{taken}");
    }
    for sudo in [Sudo::Root, Sudo::Free, Sudo::Asks, Sudo::Missing] {
        assert_eq!(level(Check::Sudo, |f, _| f.sudo = Ok(sudo)), Green, "{sudo:?}");
    }
}

#[test]
fn pythons() {
    let venv = Prepare { virtualenv: Some("~/venv".into()), ..Prepare::default() };
    let python = |version: &str, shoal: Option<&str>| {
        Ok(super::super::facts::Python { path: "/p".into(), version: version.into(), shoal: shoal.map(Into::into) })
    };
    for (found, prepare, expected) in [
        (python("3.11.2", None), Prepare::default(), Green),
        (python("3.11.2", Some("0.1.0")), venv.clone(), Green),
        (python("3.11.2", Some("0.0.9")), venv.clone(), Yellow),
        (python("3.8.1", None), venv.clone(), Yellow),
        (python("2.7.18", None), Prepare::default(), Yellow),
        (Err("no python3".to_string()), Prepare::default(), Yellow),
        (Err("~/venv/bin/python does not exist".to_string()), venv, Red),
    ] {
        let got = level(Check::Python, |f, w| {
            f.python = found.clone();
            w.prepare = prepare;
        });
        assert_eq!(got, expected, "{found:?}");
    }
}

#[test]
fn sizes_are_short() {
    for (bytes, text) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (71 * GIB, "71 GiB"),
        (GIB * 2048, "2.0 TiB"),
        (u64::MAX, "16384 PiB"),
    ] {
        assert_eq!(size(bytes), text);
    }
}
