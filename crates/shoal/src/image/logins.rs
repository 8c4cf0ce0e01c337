//! Which file has a login for a registry? Files are read; what they know stays in them (SEC-2).

use crate::queue::snapshot::plainly;
use shoal_core::image::login::{knows, places};

pub fn find(registry: &str, path: &str) -> Option<String> {
    let user = rustix::process::getuid().as_raw();
    let places = places(&|name| std::env::var(name).ok(), user);
    places.into_iter().find(|place| {
        let known = match std::fs::read_to_string(place) {
            Ok(text) => knows(&text, registry, path),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(plainly(&e)),
        };
        known.unwrap_or_else(|why| {
            eprintln!("logins in {place} cannot be used: {why}");
            false
        })
    })
}
