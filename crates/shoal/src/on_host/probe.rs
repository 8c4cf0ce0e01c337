//! `shoal host probe`: reads what is asked, prints facts as one line, then tells the time whenever it gets a line, until its stdin ends.

use super::bounded::begin;
use super::{end_after, gpus, items, python};
use shoal_core::checkup::facts::{self, Ask, FACTS_VERSION, Facts};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For one thing that is looked at; all are looked at together.
const PATIENCE: Duration = Duration::from_secs(5);
/// A module system or conda on a network drive needs a while.
const PYTHON_PATIENCE: Duration = Duration::from_secs(10);
const LIFE: Duration = Duration::from_secs(120);
/// Begins the line with the time.
pub const CLOCK_MARK: &str = "shoal-clock ";

pub fn main() -> ExitCode {
    end_after(LIFE);
    match converse() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("shoal host probe: {why}");
            ExitCode::FAILURE
        }
    }
}

fn converse() -> Result<(), String> {
    let mut lines = std::io::stdin().lock().lines();
    let first = lines.next().ok_or("nobody asked anything")?.map_err(|e| e.to_string())?;
    let ask: Ask = serde_json::from_str(&first).map_err(|e| format!("the question cannot be read: {e}"))?;
    if ask.version != FACTS_VERSION {
        return Err(format!("the question is of version {}, not {FACTS_VERSION}", ask.version));
    }
    let mut out = std::io::stdout().lock();
    let mut say = |line: &str| out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|e| e.to_string());
    say(&facts::line(&look(ask)))?;
    for line in lines {
        line.map_err(|e| e.to_string())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        say(&format!("{CLOCK_MARK}{}\n", now.as_nanos()))?;
    }
    Ok(())
}

fn look(ask: Ask) -> Facts {
    let home = begin(PATIENCE, || items::space(&items::home()));
    let tmp = begin(PATIENCE, || items::space(&std::env::temp_dir()));
    let shared = ask.shared.map(|path| begin(PATIENCE, move || items::space(&items::expand(&path))));
    let python = begin(PYTHON_PATIENCE * 2, move || python::python(&ask.prepare, &ask.env, PYTHON_PATIENCE));
    let gpus = begin(PATIENCE * 2, || gpus::gpus(PATIENCE));
    let sudo = begin(PATIENCE * 2, || items::sudo(PATIENCE));
    let ports = begin(PATIENCE, move || items::ports(ask.ports.min(1024)));
    let (system, info) = (rustix::system::uname(), rustix::system::sysinfo());
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    Facts {
        version: FACTS_VERSION,
        shoal: env!("CARGO_PKG_VERSION").into(),
        machine: text(system.nodename()),
        user: user.unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string()),
        system: format!("{} {} {}", text(system.sysname()), text(system.release()), text(system.machine())),
        uptime_s: u64::try_from(info.uptime).unwrap_or(0),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        load: info.loads[0] as f64 / 65536.0,
        memory: items::memory(),
        home: home.end(),
        tmp: tmp.end(),
        shared: shared.map(super::bounded::Pending::end),
        python: python.end(),
        gpus: gpus.end(),
        sudo: sudo.end(),
        open_files: Ok(items::open_files()),
        ports: ports.end(),
        server: items::connection(2),
        client: items::connection(0),
    }
}
