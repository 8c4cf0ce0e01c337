//! What is done with each input; shared by the fuzz targets and by `tests/fuzz_corpus.rs`.
#![allow(dead_code)] // every target uses its own

pub mod control;
pub mod handshake;
pub mod header;
pub mod input;
pub mod node_frames;
