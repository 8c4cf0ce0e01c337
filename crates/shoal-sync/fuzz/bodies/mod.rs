//! What is done with each input; shared by the fuzz targets and by `tests/fuzz_corpus.rs`.
#![allow(dead_code)] // every target uses its own

pub mod header;
pub mod input;
pub mod node_frames;
// The handshake and the master's control messages come here, one file each.
