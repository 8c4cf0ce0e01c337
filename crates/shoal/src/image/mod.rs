//! Container images, the part that touches files and engines. What is decided is in `shoal_core::image`.
//!
//! | file | question |
//! |---|---|
//! | `engines` | which engine is here and works |
//! | `run` | what an engine says while it works, and at the end |
//! | `context` | which files go into an image that we write the Dockerfile of |
//! | `logins` | which file has a login for a registry |
//! | `last` | what was built from this folder before |

pub mod context;
pub mod engines;
pub mod last;
pub mod logins;
pub mod run;
