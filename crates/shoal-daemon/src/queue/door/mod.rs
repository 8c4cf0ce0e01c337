//! Who comes in, and what may they do?
//!
//! | file | question |
//! |---|---|
//! | `unix` | people of this machine: the kernel says who they are |
//! | `tcp` | people and agents elsewhere: TLS, then a token, then words (SEC-1) |
//! | `tls` | the daemon's own authority, and bytes through it |
//! | `tokens` | who has which token, without having the tokens |
//! | `roles` | what a role may ask |
//! | `session` | one connection, request by request |
//! | `taken` | whether the place of a new sweep's results is free |
//! | `streams` | answers that go on: output of a run, the progress of a sweep |

pub(super) mod knock;
mod roles;
mod session;
mod streams;
mod taken;
pub(super) mod tcp;
pub mod tls;
mod tokens;
pub(super) mod unix;

pub use knock::{Kind, Token};
pub use roles::{changes, may};
pub use tokens::{Tokens, TokensError};

use shoal_core::queue::request::Role;

/// Connections of clients at a time; each costs a thread.
pub const MOST_CLIENTS: usize = 256;

/// Who asks, as the kernel or a token proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub user: String,
    pub role: Role,
    /// What proved it, so that a token that is taken away ends here too.
    pub token: Option<[u8; 32]>,
}
