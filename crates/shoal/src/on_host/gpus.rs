//! The GPUs, as the driver's own tool tells of them.

use super::bounded::program;
use shoal_core::checkup::facts::{Gpu, Item};
use std::process::Command;
use std::time::Duration;

pub fn gpus(limit: Duration) -> Item<Vec<Gpu>> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=name,driver_version,memory.total,memory.used", "--format=csv,noheader,nounits"]);
    match program(command, limit)? {
        None => Ok(Vec::new()),
        Some(said) if said.code == Some(0) => read(&said.output),
        Some(said) => Err(said.complaint()),
    }
}

/// Its lines (pure).
fn read(text: &str) -> Item<Vec<Gpu>> {
    let gpu = |line: &str| {
        let mut words = line.split(',').map(str::trim);
        let (name, driver) = (words.next()?.to_string(), words.next()?.to_string());
        // Where memory is shared with the CPU there is no number.
        let mut bytes = || Some(words.next()?.parse::<u64>().unwrap_or(0) << 20);
        Some(Gpu { name, driver, total_bytes: bytes()?, used_bytes: bytes()? })
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| gpu(line).ok_or_else(|| format!("nvidia-smi said something odd: {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_nvidia_smi() {
        let text = "NVIDIA GeForce RTX 3090, 550.54.15, 24576, 310\nNVIDIA GB10, 580.1, [N/A], [N/A]\n";
        let gpus = read(text).expect("gpus");
        assert_eq!(gpus[0].total_bytes, 24 << 30);
        assert_eq!((gpus[0].driver.as_str(), gpus[0].used_bytes), ("550.54.15", 310 << 20));
        assert_eq!((gpus[1].name.as_str(), gpus[1].total_bytes), ("NVIDIA GB10", 0));
        assert!(read("Unable to determine the device handle").is_err());
        assert_eq!(read(""), Ok(Vec::new()));
    }
}
