//! What the verbs of `shoal k8s` share.
//!
//! | file | question |
//! |---|---|
//! | `files` | what do template and runs say |
//! | `reach` | which cluster is meant, and what does it mean that it cannot be reached |
//! | `follow` | how are the runs, until they are as far as asked |
//! | `table` | how is that shown |

pub mod files;
pub mod follow;
pub mod reach;
pub mod table;
