//! Which files go into an image that we write the Dockerfile of? Those of a source, as a sweep sends it; the engine leaves out what .dockerignore names.

use crate::queue::snapshot::walk::{Listing, What};
use crate::queue::snapshot::{Kind, Root, list, pack};
use shoal_core::image::generate;
use std::io::Write;
use std::path::Path;

const IGNORE: &str = ".dockerignore";

pub struct Context {
    listing: Listing,
    ignore: String,
}

impl Context {
    pub fn of(folder: &Path) -> Result<Context, String> {
        let root = Root { from: folder.into(), at: String::new(), ignore: Vec::new(), without: Vec::new() };
        let mut listing = list(&[root], Kind::Source)?;
        if listing.files() == 0 {
            return Err(format!("there is nothing in {} to make an image of", folder.display()));
        }
        // Links that leave the folder were made absolute (see `walk`).
        let leads_out = |what: &What| matches!(what, What::Link { to } if to.is_absolute());
        let astray = listing.entries.iter().filter(|(_, entry)| leads_out(&entry.what));
        let astray: Vec<String> =
            astray.map(|(name, _)| format!("{name} leads out of the folder; in the image it leads nowhere")).collect();
        listing.odd.extend(astray);
        // It goes along with our own lines in it, whoever else leaves it out.
        listing.entries.remove(IGNORE);
        let mut ignore = std::fs::read_to_string(folder.join(IGNORE)).unwrap_or_default();
        ignore.push_str(&format!("\n{}\n{IGNORE}\n", generate::NAME));
        Ok(Context { listing, ignore })
    }

    /// The text of a file that goes along.
    pub fn text(&self, name: &str) -> Option<String> {
        let entry = self.listing.entries.get(name).filter(|entry| !matches!(entry.what, What::Folder))?;
        std::fs::read_to_string(&entry.from).ok()
    }

    pub fn odd(&self) -> &[String] {
        &self.listing.odd
    }

    /// Files and bytes.
    pub fn amount(&self) -> (usize, u64) {
        (self.listing.files(), self.listing.bytes())
    }

    /// As a tar, with the Dockerfile in it.
    pub fn write(&self, dockerfile: &str, to: &mut dyn Write) -> Result<(), String> {
        let own = [(generate::NAME, dockerfile.as_bytes()), (IGNORE, self.ignore.as_bytes())];
        pack::write_with(&self.listing, &own, to)
    }
}
