//! Reading a fleet file from disk, with its warnings said.

use shoal_core::fleet::{self, Fleet};
use std::path::Path;

/// Larger files are not fleet files.
const LARGEST: u64 = 4 << 20;

/// The fleet, or what to print.
pub fn read(path: &Path) -> Result<Fleet, String> {
    let text = text_of(path)?;
    let name = path.display().to_string();
    match fleet::read(&name, &text) {
        Ok(reading) => {
            reading.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            Ok(reading.fleet)
        }
        Err(errors) => Err(errors.to_string()),
    }
}

pub fn text_of(path: &Path) -> Result<String, String> {
    let name = path.display();
    let why = |e: std::io::Error| {
        let text = e.to_string();
        format!("{name}: {}", text.split(" (os error").next().unwrap_or(&text))
    };
    let size = std::fs::metadata(path).map_err(why)?;
    if size.is_dir() {
        return Err(format!("{name} is a folder; a fleet file was expected"));
    }
    if size.len() > LARGEST {
        return Err(format!("{name} has {} bytes; no fleet file is larger than {LARGEST}", size.len()));
    }
    let bytes = std::fs::read(path).map_err(why)?;
    String::from_utf8(bytes).map_err(|e| format!("{name}: not UTF-8 from byte {} on", e.utf8_error().valid_up_to()))
}
