//! Which queue is it?
//!
//! `SHOAL_QUEUE=shoal://host:port#fingerprint` names one elsewhere, with its token in `SHOAL_QUEUE_TOKEN`; or both are in
//! `~/.config/shoal/queue.json`, which nobody else may read: `{"queue": "shoal://...", "token": "..."}`. Otherwise it is the one of this
//! machine, in the usual store.

use super::ClientError;
use crate::queue::door::knock::Token;
use crate::queue::places::Store;
use serde::Deserialize;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where a queue without a port listens.
pub const PORT: u16 = 7420;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    Here(Store),
    There(Remote),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub host: String,
    pub port: u16,
    /// SHA-256 of the certificate of its authority.
    pub fingerprint: String,
    pub token: Token,
}

#[derive(Deserialize)]
struct File {
    queue: String,
    token: String,
}

fn wrong(text: impl Into<String>) -> ClientError {
    ClientError::Wrong(text.into())
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Where {
    /// What the environment and the user's file say.
    pub fn usual() -> Result<Where, ClientError> {
        if var("SHOAL_STORE").is_none() || var("SHOAL_QUEUE").is_some() {
            let file = config().map(|path| read(&path)).transpose()?.flatten();
            if let Some(queue) = var("SHOAL_QUEUE").or_else(|| file.as_ref().map(|file| file.queue.clone())) {
                // A token for one queue is not given to another.
                let kept = file.filter(|file| file.queue == queue).map(|file| file.token);
                let token = var("SHOAL_QUEUE_TOKEN").or(kept).ok_or_else(|| {
                    wrong("SHOAL_QUEUE names a queue elsewhere, and SHOAL_QUEUE_TOKEN is not set; `shoal token add` on its machine makes one")
                })?;
                return Ok(Where::There(Remote::parse(&queue, &token)?));
            }
        }
        let store = Store::usual();
        store
            .map(Where::Here)
            .ok_or_else(|| wrong("there is no place for a queue: neither SHOAL_STORE nor HOME is set"))
    }
}

impl Remote {
    pub fn parse(queue: &str, token: &str) -> Result<Remote, ClientError> {
        let shape = || wrong(format!("`{queue}` names no queue; it looks like shoal://host:{PORT}#fingerprint"));
        let rest = queue.strip_prefix("shoal://").ok_or_else(shape)?;
        let (address, fingerprint) = rest.split_once('#').ok_or_else(shape)?;
        let address = address.trim_end_matches('/');
        let (host, port) = match address.rsplit_once(':') {
            // The colons of an address without a port are its own.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| shape())?)
            }
            _ => (address, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let plain = fingerprint.len() == 64 && fingerprint.chars().all(|c| c.is_ascii_hexdigit());
        if !plain && !fingerprint.is_empty() {
            let why = format!(
                "`{queue}`: a fingerprint has 64 hexadecimal digits, this one has {} characters",
                fingerprint.chars().count()
            );
            return Err(wrong(format!(
                "{why}; `shoal token add` and the first lines of `shoal serve --listen` show all of it"
            )));
        }
        if host.is_empty() || !plain {
            return Err(shape());
        }
        let token = Token::new(token).ok_or_else(|| wrong("the token of the queue has not the length of one"))?;
        Ok(Remote { host: host.into(), port, fingerprint: fingerprint.to_ascii_lowercase(), token })
    }
}

fn config() -> Option<PathBuf> {
    let base =
        var("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(var("HOME")?).join(".config")))?;
    Some(base.join("shoal/queue.json"))
}

fn read(path: &Path) -> Result<Option<File>, ClientError> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(wrong(format!("{}: {e}", path.display()))),
    };
    if meta.mode() & 0o077 != 0 {
        return Err(wrong(format!("{0} has a token in it and others can read it; chmod 600 {0}", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("{}: {e}", path.display())))?;
    // The text of the error would show what is in the file.
    let shape = r#"{"queue": "shoal://host:port#fingerprint", "token": "..."}"#;
    serde_json::from_str(&text).map(Some).map_err(|_| wrong(format!("{} has to be {shape}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn queues_elsewhere_are_read_and_mistakes_named() {
        let (print, token) = ("ab".repeat(32), "1".repeat(64));
        for (text, host, port) in [
            ("shoal://lab.example:7421#", "lab.example", 7421),
            ("shoal://lab#", "lab", PORT),
            ("shoal://10.0.0.1:99/#", "10.0.0.1", 99),
            ("shoal://[::1]:99#", "::1", 99),
            ("shoal://[::1]#", "::1", PORT),
        ] {
            let remote = Remote::parse(&format!("{text}{print}"), &token).unwrap();
            assert_eq!((remote.host.as_str(), remote.port), (host, port), "{text}");
        }
        for text in ["lab:7420", "shoal://lab:7420", "shoal://lab:x#", "shoal://#", "shoal://lab#12"] {
            let print = if text.ends_with('#') { print.as_str() } else { "" };
            assert!(Remote::parse(&format!("{text}{print}"), &token).is_err(), "{text}");
        }
        assert!(Remote::parse(&format!("shoal://lab#{print}"), "short").is_err());
        let shown = format!("{:?}", Remote::parse(&format!("shoal://lab#{print}"), &token).unwrap());
        assert!(!shown.contains(&token), "{shown}");
    }

    #[test]
    fn a_file_with_a_token_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.json");
        assert!(read(&path).unwrap().is_none());
        std::fs::write(&path, r#"{"queue": "shoal://lab#x", "token": "secret"}"#).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&path).err().unwrap().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().token, "secret");
        std::fs::write(&path, r#"{"token": "secret""#).unwrap();
        assert!(!read(&path).err().unwrap().to_string().contains("secret"));
    }
}
