//! Container images: how they are named, what makes them, and what their engines say (pure).
//!
//! | file | question |
//! |---|---|
//! | `reference` | what is an image called, here and in a registry |
//! | `engine` | which words make docker, podman and buildah do it |
//! | `generate` | the Dockerfile of a project that has none |
//! | `dockerfile` | what is wrong in one, and where a step is in it |
//! | `login` | which file knows a registry |
//! | `explain` | what an engine's failure means |

pub mod dockerfile;
pub mod engine;
pub mod explain;
pub mod generate;
pub mod login;
pub mod reference;

pub use engine::Engine;
pub use reference::Reference;
