//! Clusters from a file: brought up, looked at, used and taken down. What is not a verb of its own lives here.
//!
//! | file | question |
//! |---|---|
//! | `file`, `summary` | what does the file say |
//! | `provider`, `aws`, `helper` | where do machines come from, what becomes of them |
//! | `lock` | who works on a cluster from this machine |
//! | `session` | how do we speak with a node that is set up |
//! | `node` | how are the steps of one node carried out |
//! | `push`, `synced`, `mesh` | how do files, files of the head, and the nodes' own key get there |
//! | `crew` | how are many nodes attended to at once |
//! | `up`, `down`, `status` | what is done in which order |
//! | `account` | what is said in the end |
//! | `table` | what do people see meanwhile |
//! | `confirm` | who has to agree first |
//! | `nodes` | which nodes does a command mean |
//! | `remote`, `marked` | how does a command run on a node without a terminal, and where does its output begin |
//! | `terminal` | how does it run in a terminal |
//! | `everywhere` | how does it run on all nodes, and what came of it |
//! | `around` | what happens to the cluster before and after it |
//! | `transfer`, `transfer_screen` | which files go to which nodes, and what do people see of it |
//! | `contained` | how do they get into the containers of nodes, and out of them |
//! | `watch` | what changed, and when is it quiet enough to send it |

pub mod account;
pub mod around;
pub mod aws;
pub mod confirm;
pub mod contained;
pub mod crew;
pub mod down;
pub mod everywhere;
pub mod file;
pub mod helper;
pub mod lock;
pub mod marked;
mod mesh;
pub mod node;
pub mod nodes;
pub mod provider;
mod push;
pub mod remote;
pub mod session;
pub mod status;
pub mod summary;
mod synced;
pub mod table;
pub mod terminal;
pub mod transfer;
pub mod transfer_screen;
pub mod up;
pub mod watch;
