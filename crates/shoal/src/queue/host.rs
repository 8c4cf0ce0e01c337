//! Which host does a word mean?

use super::connect::Queue;
use crate::commands::run::NotBegun;
use shoal_core::queue::request::HostRow;
use shoal_core::suggest::closest;

pub fn find(queue: &mut Queue, name: &str) -> Result<HostRow, NotBegun> {
    let rows = queue.hosts()?;
    if let Some(row) = rows.iter().find(|row| row.name == name) {
        return Ok(row.clone());
    }
    let near = closest(name, rows.iter().map(|row| row.name.as_str()));
    let near =
        near.map_or_else(|| "`shoal hosts` lists those there are".into(), |near| format!("did you mean {near}?"));
    Err(NotBegun::Wrong(format!("no host {name} in the queue; {near}")))
}
