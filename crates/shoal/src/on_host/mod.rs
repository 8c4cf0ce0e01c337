//! What `shoal` does on a host for one elsewhere that examines it (`shoal doctor`) or sends it files.
//! What `shoal` does on a host for somebody elsewhere: `shoal doctor`, which examines it, and `shoal up`, which sets it up.
//!
//! | file | question |
//! |---|---|
//! | `probe` | how do facts and times get to the asker |
//! | `items`, `gpus`, `python` | what is this host like |
//! | `bounded` | how does something that hangs not hang us |
//! | `peer` | how is it told whom to dial, and how does it answer |
//! | `listen`, `dial` | the two ends of a measurement |
//! | `pod` | how is a run of a pool waited for |
//! | `files` | how are files taken and given |
//! | `setup` | how is this host set up as a node of a cluster |

pub(crate) mod bounded;
mod dial;
pub mod files;
mod gpus;
mod items;
mod listen;
pub mod peer;
pub mod pod;
pub mod probe;
mod python;
pub mod setup;

use std::time::Duration;

/// Whoever started us has gone without closing the line, or has hung: we go all the same.
fn end_after(life: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(life);
        std::process::exit(1);
    });
}
