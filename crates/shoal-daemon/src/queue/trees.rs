//! Which files do runs need, and are they here? Packed trees by the digest of their content: sent to the store once, and from there to
//! each host once.

use super::places::{Store, hex, sync_folder};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Unpacked bytes of one tree, at most: a small file can say that it is endless.
const MOST_UNPACKED: u64 = 1 << 40;

#[derive(Debug, Error)]
pub enum TreeError {
    #[error("`{0}` is not the digest of a tree")]
    Digest(String),
    #[error("a piece of a tree came at byte {came}, not at {expected}")]
    Order { came: u64, expected: u64 },
    #[error("what came is not the tree {wanted}: its digest is {found}")]
    Other { wanted: String, found: String },
    #[error("what came cannot be unpacked: {0}")]
    Packed(io::Error),
    #[error("the tree cannot be kept in the queue's store: {0}")]
    Io(#[from] io::Error),
}

/// The trees of a store.
#[derive(Debug, Clone)]
pub struct Trees {
    folder: PathBuf,
    incoming: PathBuf,
}

/// One tree on its way here.
pub struct Incoming {
    digest: String,
    path: PathBuf,
    file: File,
    at: u64,
    trees: Trees,
}

pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl Trees {
    pub fn of(store: &Store) -> Trees {
        Trees { folder: store.trees(), incoming: store.incoming() }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.tar.zst"))
    }

    pub fn has(&self, digest: &str) -> bool {
        is_digest(digest) && self.path(digest).is_file()
    }

    pub fn open(&self, digest: &str) -> io::Result<File> {
        if !is_digest(digest) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        File::open(self.path(digest))
    }

    /// The content of one of its files, of at most so many bytes.
    pub fn file(&self, digest: &str, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let plain = zstd::stream::read::Decoder::new(self.open(digest)?)?.take(MOST_UNPACKED);
        for entry in tar::Archive::new(plain).entries()? {
            let entry = entry?;
            if entry.path()?.as_os_str() == name && entry.size() <= most {
                let mut content = Vec::new();
                entry.take(most).read_to_end(&mut content)?;
                return Ok(Some(content));
            }
        }
        Ok(None)
    }

    /// Begins to receive one.
    pub fn receive(&self, digest: &str) -> Result<Incoming, TreeError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if !is_digest(digest) {
            return Err(TreeError::Digest(digest.into()));
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.incoming.join(format!("tree-{}-{count}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Incoming { digest: digest.into(), path, file, at: 0, trees: self.clone() })
    }
}

impl Incoming {
    pub fn is_of(&self, digest: &str) -> bool {
        self.digest == digest
    }

    pub fn piece(&mut self, at: u64, bytes: &[u8]) -> Result<(), TreeError> {
        if at != self.at {
            return Err(TreeError::Order { came: at, expected: self.at });
        }
        self.file.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Checks it and gives it its name; durable when this returns.
    pub fn finish(self) -> Result<(), TreeError> {
        let found = digest_of(File::open(&self.path)?)?;
        if found != self.digest {
            return Err(TreeError::Other { wanted: self.digest.clone(), found });
        }
        self.file.sync_all()?;
        fs::rename(&self.path, self.trees.path(&self.digest))?;
        Ok(sync_folder(&self.trees.folder)?)
    }
}

/// What was not finished leaves nothing.
impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Of the unpacked tar.
fn digest_of(packed: File) -> Result<String, TreeError> {
    let mut plain = zstd::stream::read::Decoder::new(packed)?.take(MOST_UNPACKED);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match plain.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(n) => hash.update(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(TreeError::Packed(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        store.make().unwrap();
        (folder, store)
    }

    #[test]
    fn a_tree_is_there_when_it_is_whole_and_what_it_says_it_is() {
        let (_folder, store) = store();
        let trees = Trees::of(&store);
        let plain = b"some files".repeat(1000);
        let packed = zstd::stream::encode_all(&plain[..], 3).unwrap();
        let digest = hex(&Sha256::digest(&plain));
        let mut incoming = trees.receive(&digest).unwrap();
        incoming.piece(0, &packed[..5]).unwrap();
        assert!(matches!(incoming.piece(0, b"x"), Err(TreeError::Order { came: 0, expected: 5 })));
        assert!(!trees.has(&digest));
        incoming.piece(5, &packed[5..]).unwrap();
        incoming.finish().unwrap();
        assert!(trees.has(&digest));
        let mut kept = Vec::new();
        trees.open(&digest).unwrap().read_to_end(&mut kept).unwrap();
        assert_eq!(kept, packed);

        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        header.set_mode(0o644);
        tar.append_data(&mut header, "diff.patch", &b"+two\n"[..]).unwrap();
        let plain = tar.into_inner().unwrap();
        let digest = hex(&Sha256::digest(&plain));
        let mut incoming = trees.receive(&digest).unwrap();
        incoming.piece(0, &zstd::stream::encode_all(&plain[..], 3).unwrap()).unwrap();
        incoming.finish().unwrap();
        assert_eq!(trees.file(&digest, "diff.patch", 5).unwrap().as_deref(), Some(&b"+two\n"[..]));
        assert_eq!(trees.file(&digest, "diff.patch", 4).unwrap(), None);
        assert_eq!(trees.file(&digest, "other", 5).unwrap(), None);

        let other = "0".repeat(64);
        let mut incoming = trees.receive(&other).unwrap();
        incoming.piece(0, &packed).unwrap();
        assert!(matches!(incoming.finish(), Err(TreeError::Other { .. })));
        let mut incoming = trees.receive(&other).unwrap();
        incoming.piece(0, b"not packed").unwrap();
        assert!(matches!(incoming.finish(), Err(TreeError::Packed(_))));
        assert!(!trees.has(&other));
        assert!(trees.receive("../x").is_err() && trees.open("../x").is_err() && !trees.has("../x"));
        assert_eq!(fs::read_dir(store.incoming()).unwrap().count(), 0);
    }
}
