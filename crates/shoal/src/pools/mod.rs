//! The verbs of people on pools of a fleet file: files of their volumes, shells, what is there, and its end.
//!
//! | file | question |
//! |---|---|
//! | `choose` | is a pool meant, and which |
//! | `visit` | how is there a pod that reaches its volumes, as long as a verb lasts |
//! | `attach`, `shell` | how does somebody sit at a shell in such a pod |
//! | `within` | how does somebody get into the pod of a run |
//! | `inventory`, `show` | what has Shoal in the namespace of a pool |
//! | `clear` | how does all of that go |
//! | `up`, `down` | how do files get to a volume, and back |

pub mod attach;
pub mod choose;
pub mod clear;
pub mod down;
mod inventory;
pub mod shell;
pub mod show;
pub mod up;
pub mod visit;
pub mod within;
