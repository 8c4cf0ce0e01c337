//! What the queue's verbs share.
//!
//! | file | question |
//! |---|---|
//! | `connect` | which queue is it, and how is it asked |
//! | `whose`, `target`, `host` | what does a word on the command line mean |
//! | `amounts` | what do `0.25`, `4G` and `30m` there mean |
//! | `draft` | what does `shoal sweep` ask for |
//! | `dry_run`, `length` | what would it submit; does it fit into a message |
//! | `snapshot/` | which files does a run find, and what is their digest |
//! | `trees` | how do they get into the store |
//! | `provenance`, `inherit` | what has to be known to do it again; what does a run find of the submitting shell |
//! | `wait`, `still` | how does a sweep go on, as long as somebody looks; why does it not |
//! | `ps`, `logs` | the queue's side of verbs that know other runs too |
//! | `lists`, `table`, `times` | how do lists, tables and times look |
//! | `reach`, `call` | how does the daemon get to the agents of other machines; how do agents get to it |
//! | `pool/` | how are runs done by a Kubernetes cluster |
//! | `unit` | what does systemd have to know |

pub mod amounts;
pub mod call;
pub mod connect;
pub mod draft;
pub mod dry_run;
pub mod host;
pub mod inherit;
pub mod length;
pub mod lists;
pub mod logs;
pub mod pool;
pub mod provenance;
pub mod ps;
pub mod reach;
pub mod snapshot;
pub mod still;
pub mod table;
pub mod target;
pub mod times;
pub mod trees;
pub mod unit;
pub mod wait;
pub mod whose;
