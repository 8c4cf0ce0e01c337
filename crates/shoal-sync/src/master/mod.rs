//! `ps_master`: the table of nodes. Decisions in [`table`], sockets in [`serve`].

mod late;
pub mod serve;
pub mod status;
pub mod table;
