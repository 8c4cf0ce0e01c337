//! A Kubernetes namespace: asking its API server, applying objects, following what becomes of them, and taking them away again. What the
//! objects are is decided in `shoal_core::kubernetes`.
//!
//! | file | question |
//! |---|---|
//! | `connection` | which server, who are we there, which namespace |
//! | `explain` | what does a complaint of the server or of the way there mean, and what can be done about it |
//! | `resource` | under which path does the server keep a kind of object |
//! | `request` | how is one question asked, within a bound |
//! | `watch` | what is there now, and what changes, whatever happens to the line |
//! | `apply` | how do many objects get there |
//! | `clear` | how does everything of one run go, and is it gone |
//! | `examine` | what does a cluster say about itself |
//! | `remove` | how do they go, and what is left of them |
//! | `exec` | how does a command run in a pod, with its three pipes here |
//! | `helper` | how is there a pod in which a pool's volumes can be reached, and how does it go |

pub mod apply;
pub mod clear;
pub mod connection;
pub mod examine;
pub mod exec;
pub mod explain;
pub mod helper;
pub mod remove;
pub mod request;
pub mod resource;
pub mod watch;

pub use connection::{Connection, Wanted};
pub use explain::{Failure, Trouble};
