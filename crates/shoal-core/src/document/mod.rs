//! Files as trees in which every value knows its place: what YAML and JSON have in common, before it means anything.

pub mod json;
pub mod node;
pub mod reader;
pub mod yaml;
