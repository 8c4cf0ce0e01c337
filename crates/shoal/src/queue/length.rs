//! Does a sweep fit into the one message that it is sent in? Said before anything is sent, and in words of whoever wrote it.

use crate::commands::run::NotBegun;
use serde::Serialize;
use shoal_core::queue::line::JSON_LIMIT;
use shoal_core::queue::read::Draft;
use std::io::{self, Write};

/// For all but configurations and the lock file: command, environment, rules.
const REST: usize = 256 << 10;

/// Counts what is written, and keeps nothing.
#[derive(Default)]
struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn length(of: &impl Serialize) -> usize {
    let mut counter = Counter::default();
    let _ = serde_json::to_writer(&mut counter, of);
    counter.0
}

pub fn fits(draft: &Draft, requirements: Option<&str>) -> Result<(), NotBegun> {
    let bytes = length(&draft.parts) + length(&requirements) + REST;
    if bytes <= JSON_LIMIT {
        return Ok(());
    }
    let longest = draft.parts.iter().flat_map(|part| &part.dimensions).max_by_key(|dimension| dimension.rows.len());
    let (names, values) = longest.map_or((String::new(), 0), |it| (it.names.join("`, `"), it.rows.len()));
    let chosen = draft.parts.iter().filter_map(|part| part.only.as_ref()).map(Vec::len).max().unwrap_or(0);
    let (what, hint) = match chosen > values {
        true => (
            format!("its conditions leave {chosen} configurations, which are sent one by one"),
            "without the condition only the axes are sent; or submit it in parts, each under a name of its own",
        ),
        false => (
            format!("`{names}` has {values} values"),
            "let two shorter axes count it (`--grid block=0..999 --grid of_block=0..999` is a million), of which the program makes one number; \
             or submit it in parts, each under a name of its own",
        ),
    };
    let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let why =
        format!("the sweep is too long to be sent: {what}; it takes {}, at most {} go", mib(bytes), mib(JSON_LIMIT));
    Err(NotBegun::Wrong(format!("{why}\n  hint: {hint}")))
}
