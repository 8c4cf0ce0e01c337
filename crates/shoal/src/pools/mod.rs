//! The verbs of people on pools of a fleet file: files of their volumes, and shells.
//!
//! | file | question |
//! |---|---|
//! | `choose` | is a pool meant, and which |
//! | `visit` | how is there a pod that reaches its volumes, as long as a verb lasts |
//! | `up`, `down` | how do files get to a volume, and back |

pub mod choose;
pub mod down;
pub mod up;
pub mod visit;
