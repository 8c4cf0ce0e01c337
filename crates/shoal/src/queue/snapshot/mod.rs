//! What does a run find in its folder? The source as it is now, and data, packed so that the same files always give the same digest.
//!
//! | file | question |
//! |---|---|
//! | `walk` | which files belong to it |
//! | `skip` | which folders never do |
//! | `pack` | how they become a tar with a digest |
//! | `limit` | is it too large, and what makes it so |

pub mod limit;
pub mod pack;
pub mod skip;
pub mod walk;

use std::path::PathBuf;

/// What one tree is made of: paths on this machine, and the names they have in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    pub from: PathBuf,
    /// `""`: what is in the folder, without the folder itself.
    pub at: String,
    /// As lines of a `.gitignore` in it.
    pub ignore: Vec<String>,
    /// What is below it and belongs to another tree.
    pub without: Vec<PathBuf>,
}

/// Source leaves out what .gitignore names and what programs make; data is taken as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Source,
    Data,
}

/// Source is what people wrote. More than this is data that went astray.
const MOST_SOURCE: u64 = 512 << 20;
/// Data goes to every host once.
const MOST_DATA: u64 = 64 << 30;

impl Kind {
    fn most(self) -> u64 {
        match self {
            Kind::Source => MOST_SOURCE,
            Kind::Data => MOST_DATA,
        }
    }
}

/// The files of a tree, in the order of their names.
pub fn list(roots: &[Root], kind: Kind) -> Result<walk::Listing, String> {
    let listing = walk::walk(roots, kind)?;
    limit::check(&listing, kind.most(), kind)?;
    Ok(listing)
}

pub(crate) fn plainly(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).into()
}
