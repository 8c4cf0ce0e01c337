//! `ps_master` is `shoal` under another name (see `src/programs.rs`): one file to build, to link and to send to hosts.

include!("as_shoal.in");
