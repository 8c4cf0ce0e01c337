//! Who has which token? Kept is only what is needed to check one: a salted digest of 32 random bytes.

use super::Caller;
use super::knock::Token;
use crate::queue::places::{hex, random, write_durable};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shoal_core::queue::Moment;
use shoal_core::queue::request::Role;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Changes whenever the meaning of a field does (WIRE-1).
const VERSION: u32 = 1;
const DAY_MS: u64 = 24 * 3600 * 1000;
const MOST: usize = 4096;

#[derive(Debug, Error)]
pub enum TokensError {
    #[error("{} can be read by others; take their rights away: chmod 600", .0.display())]
    Open(PathBuf),
    #[error("{} was written by a newer shoal (version {found}; this one knows {VERSION})", path.display())]
    Newer { path: PathBuf, found: u32 },
    #[error("{} cannot be understood: {why}", path.display())]
    Broken { path: PathBuf, why: String },
    #[error("{}: {why}", path.display())]
    Io { path: PathBuf, why: io::Error },
    #[error("{0}")]
    Refused(String),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct File {
    version: u32,
    tokens: Vec<Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    user: String,
    role: Role,
    salt: String,
    /// SHA-256 of salt and token, in digits.
    digest: String,
    expires: Option<Moment>,
}

/// All of them, in memory and in their file.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    tokens: Vec<Entry>,
}

impl Tokens {
    pub fn load(path: &Path) -> Result<Tokens, TokensError> {
        let fail = |why| TokensError::Io { path: path.into(), why };
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Tokens { path: path.into(), tokens: Vec::new() });
            }
            Err(e) => return Err(fail(e)),
        };
        if meta.mode() & 0o077 != 0 {
            return Err(TokensError::Open(path.into()));
        }
        let text = fs::read_to_string(path).map_err(fail)?;
        let broken = |e: serde_json::Error| TokensError::Broken { path: path.into(), why: e.to_string() };
        let version: serde_json::Value = serde_json::from_str(&text).map_err(broken)?;
        let version = version.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0) as u32;
        if version > VERSION {
            return Err(TokensError::Newer { path: path.into(), found: version });
        }
        let file: File = serde_json::from_str(&text).map_err(broken)?;
        Ok(Tokens { path: path.into(), tokens: file.tokens })
    }

    /// Whose it is. All are compared, each in the same time, so that the answer tells nothing but yes or no.
    pub fn check(&self, token: &Token, now: Moment) -> Option<Caller> {
        let mut found = None;
        for entry in &self.tokens {
            let digest = digest(&entry.salt, token);
            if bool::from(hex(&digest).as_bytes().ct_eq(entry.digest.as_bytes())) {
                found = Some((entry, digest));
            }
        }
        let (entry, digest) = found?;
        is_valid(entry, now).then(|| Caller { user: entry.user.clone(), role: entry.role, token: Some(digest) })
    }

    /// Whether what proved a caller still does.
    pub fn still(&self, caller: &Caller, now: Moment) -> bool {
        let Some(token) = &caller.token else { return true };
        let token = hex(token);
        self.tokens.iter().any(|entry| entry.digest == token && is_valid(entry, now))
    }

    /// A new one for a user, in place of the former; durable when it is returned, and told this once.
    pub fn add(&mut self, user: &str, role: Role, days: Option<u32>, now: Moment) -> Result<String, TokensError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
        if user.is_empty() || user.len() > 64 || !user.chars().all(plain) {
            return Err(TokensError::Refused(format!(
                "`{}` cannot be the name of a user or a host",
                user.escape_debug()
            )));
        }
        let fail = |why| TokensError::Io { path: self.path.clone(), why };
        let token = hex(&random::<32>().map_err(fail)?);
        let salt = hex(&random::<16>().map_err(fail)?);
        let secret = Token::new(&token).ok_or_else(|| TokensError::Refused("no token could be made".into()))?;
        let expires = days.map(|days| now.saturating_add(u64::from(days) * DAY_MS));
        let entry = Entry { user: user.into(), role, digest: hex(&digest(&salt, &secret)), salt, expires };
        let mut tokens = self.tokens.clone();
        tokens.retain(|entry| entry.user != user);
        if tokens.len() >= MOST {
            return Err(TokensError::Refused(format!("there are {MOST} tokens already; remove some")));
        }
        tokens.push(entry);
        self.keep(tokens)?;
        Ok(token)
    }

    /// Whether there was one.
    pub fn remove(&mut self, user: &str) -> Result<bool, TokensError> {
        let mut tokens = self.tokens.clone();
        tokens.retain(|entry| entry.user != user);
        let was_there = tokens.len() < self.tokens.len();
        if was_there {
            self.keep(tokens)?;
        }
        Ok(was_there)
    }

    pub fn list(&self) -> Vec<(String, Role, Option<Moment>)> {
        self.tokens.iter().map(|entry| (entry.user.clone(), entry.role, entry.expires)).collect()
    }

    fn keep(&mut self, tokens: Vec<Entry>) -> Result<(), TokensError> {
        let file = File { version: VERSION, tokens };
        let text = serde_json::to_vec_pretty(&file).map_err(|e| TokensError::Refused(e.to_string()))?;
        write_durable(&self.path, &text, 0o600).map_err(|why| TokensError::Io { path: self.path.clone(), why })?;
        self.tokens = file.tokens;
        Ok(())
    }
}

fn is_valid(entry: &Entry, now: Moment) -> bool {
    entry.expires.is_none_or(|expires| now < expires)
}

fn digest(salt: &str, token: &Token) -> [u8; 32] {
    Sha256::new().chain_update(salt.as_bytes()).chain_update(token.bytes()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_good_until_it_is_replaced_removed_or_expired() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let mut tokens = Tokens::load(&path).unwrap();
        let first = Token::new(&tokens.add("alice", Role::Submit, None, 0).unwrap()).unwrap();
        let other = Token::new(&tokens.add("node3", Role::Host, Some(1), 0).unwrap()).unwrap();
        let alice = tokens.check(&first, 0).unwrap();
        assert_eq!((alice.user.as_str(), alice.role), ("alice", Role::Submit));
        assert!(tokens.check(&other, DAY_MS - 1).is_some());
        assert!(tokens.check(&other, DAY_MS).is_none());
        assert!(tokens.check(&Token::new(&"0".repeat(64)).unwrap(), 0).is_none());

        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(std::str::from_utf8(first.bytes()).unwrap()), "no secret in the file");
        let mut again = Tokens::load(&path).unwrap();
        assert_eq!(again.check(&first, 0), Some(alice.clone()));
        assert_eq!(again.list().len(), 2);
        let second = Token::new(&again.add("alice", Role::Read, None, 0).unwrap()).unwrap();
        assert!(again.check(&first, 0).is_none() && !again.still(&alice, 0));
        assert_eq!(again.check(&second, 0).unwrap().role, Role::Read);
        assert!(again.remove("alice").unwrap() && !again.remove("alice").unwrap());
        assert!(again.check(&second, 0).is_none());
        assert!(again.add("../x", Role::Read, None, 0).is_err());
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_newer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        Tokens::load(&path).unwrap().add("a", Role::Read, None, 0).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Tokens::load(&path), Err(TokensError::Open(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, r#"{"version": 9}"#).unwrap();
        assert!(matches!(Tokens::load(&path), Err(TokensError::Newer { found: 9, .. })));
        fs::write(&path, "{").unwrap();
        assert!(matches!(Tokens::load(&path), Err(TokensError::Broken { .. })));
    }
}
