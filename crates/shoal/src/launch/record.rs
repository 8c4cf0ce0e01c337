//! What the launcher did, for later: `poseidon_run.log` where it was started.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Lines with a time in front; nothing at all if there is no file.
pub struct Record(Option<File>);

impl Record {
    pub fn none() -> Record {
        Record(None)
    }

    /// Goes on below what is there from earlier runs.
    pub fn append(path: &Path) -> std::io::Result<Record> {
        File::options().create(true).append(true).open(path).map(|file| Record(Some(file)))
    }

    pub fn note(&mut self, text: &str) {
        if let Some(file) = &mut self.0 {
            let now = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S%.3f");
            // A full disk here must not end a run.
            let _ = writeln!(file, "{now} {text}");
        }
    }
}
