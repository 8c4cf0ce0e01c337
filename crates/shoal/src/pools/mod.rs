//! The verbs of people on pools of a fleet file: files of their volumes, and shells.
//!
//! | file | question |
//! |---|---|
//! | `choose` | is a pool meant, and which |
//! | `visit` | how is there a pod that reaches its volumes, as long as a verb lasts |
//! | `attach`, `shell` | how does somebody sit at a shell in such a pod |
//! | `within` | how does somebody get into the pod of a run |
//! | `up`, `down` | how do files get to a volume, and back |

pub mod attach;
pub mod choose;
pub mod down;
pub mod shell;
pub mod up;
pub mod visit;
pub mod within;
