//! The ranks of one host sum tensors through its memory.
//!
//! The lowest rank hosts ([`Hosting`]), the others [`connect`](LocalGroup::connect); they share a memfd that holds who has
//! arrived where and which chunks are taken. Tensors stay in the ranks' own memory: whoever is awake takes
//! the next chunk, reads the other ranks' parts of it (`process_vm_readv`), sums them in rank order in its
//! cache, and writes the result to all (`process_vm_writev`). Small tensors go through the shared memory itself,
//! and tensors in a [`SharedBuffer`] are summed in place without any system call.
//!
//! | file | question |
//! |---|---|
//! | `op` | what can be asked for, and how is it cut |
//! | `keys` | which slot is a key's |
//! | `layout`, `area` | what lies where in the shared memory, and how is it mapped |
//! | `state`, `cause` | how do ranks agree on arrival, chunks, end and failure without a lock |
//! | `bell` | how does one sleep and wake |
//! | `group`, `wait` | what does a rank do to bring an operation, and to wait for it |
//! | `work`, `kernel`, `vm` | how is a chunk done |
//! | `arena`, `heap` | small tensors that pass through shared memory, and tensors that live in it |
//! | `host`, `connect`, `proof`, `enter` | how do the ranks find, trust and try each other |

mod area;
mod arena;
mod bell;
mod cause;
mod connect;
mod enter;
mod error;
mod group;
mod heap;
mod host;
mod kernel;
mod keys;
mod layout;
mod op;
mod proof;
mod state;
mod vm;
mod wait;
mod work;

pub use error::{Difference, LocalError, Result};
pub use group::{LocalGroup, Ticket};
pub use heap::SharedBuffer;
pub use host::{Hosting, Options};
pub use layout::{MAX_MEMBERS, SLOTS};
pub use op::{Action, LocalOp, Scale};
