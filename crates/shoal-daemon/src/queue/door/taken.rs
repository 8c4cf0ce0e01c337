//! Is the place of a new sweep's results somebody else's? Looked at by the thread of whoever submits: a drive that hangs holds that one alone.

use crate::queue::serve::turn::refused;
use shoal_core::queue::cells::config;
use shoal_core::queue::render::text::param2val;
use shoal_core::queue::request::Answer;
use shoal_core::queue::sweep::Sweep;
use std::path::{Path, PathBuf};

/// Configurations whose places are looked at.
const LOOKED_AT: u32 = 200;

/// The refusal, if it is.
pub fn refusal(sweep: &Sweep, own: &Path) -> Option<Answer> {
    let other = taken(sweep, own)?;
    let hint = format!("give this one another --name, or move {} away", other.parent().unwrap_or(&other).display());
    let name = &sweep.name;
    let why = format!("{} is of another configuration: results of another sweep `{name}` are there", other.display());
    Some(refused(why, &hint))
}

/// What is in the way of the results of a new sweep, as far as this machine can see it: a folder of the same number and another
/// configuration, of a sweep that was forgotten or of another queue. Found before anything runs for nothing.
fn taken(sweep: &Sweep, own: &Path) -> Option<PathBuf> {
    let root = sweep.rules.results.as_deref().map_or(own, Path::new);
    let runs = root.join(&sweep.name).join("runs");
    let other = |cell: u32| {
        let file = runs.join(format!("param_{cell:03}")).join("param2val.yaml");
        let there = std::fs::read_to_string(&file).ok()?;
        (there != param2val(&config(sweep, cell)?)).then_some(file)
    };
    // Numbers begin at 0: where the first of them are free, so are the others.
    runs.is_dir().then(|| (0..LOOKED_AT).find_map(other)).flatten()
}
