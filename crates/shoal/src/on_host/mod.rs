//! What `shoal` does on a host that is being examined by `shoal doctor` elsewhere.
//!
//! | file | question |
//! |---|---|
//! | `probe` | how do facts and times get to the asker |
//! | `items`, `gpus`, `python` | what is this host like |
//! | `bounded` | how does something that hangs not hang us |
//! | `peer` | how is it told whom to dial, and how does it answer |
//! | `listen`, `dial` | the two ends of a measurement |

mod bounded;
mod dial;
mod gpus;
mod items;
mod listen;
pub mod peer;
pub mod probe;
mod python;

use std::time::Duration;

/// Whoever started us has gone without closing the line, or has hung: we go all the same.
fn end_after(life: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(life);
        std::process::exit(1);
    });
}
