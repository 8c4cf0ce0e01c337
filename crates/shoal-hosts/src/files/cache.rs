//! The digests of files that were read before: an unchanged tree is known without reading it again.

use super::manifest::Hash;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// First bytes of the file; another form gets another number (WIRE-1).
const MAGIC: &[u8; 16] = b"shoal digests 1\n";
const RECORD: usize = 48 + 32;
/// Of files, of which the oldest knowledge is dropped when there are more.
const MOST: usize = 1 << 18;
/// A file that changed this recently may change again without its times showing it.
const SETTLED_NS: i128 = 2_000_000_000;

/// What changes whenever the content does: device, inode, size, and both times.
type Key = [u8; 48];

pub struct Cache {
    file: Option<PathBuf>,
    known: HashMap<Key, Hash>,
    fresh: Mutex<HashMap<Key, Hash>>,
}

fn key(meta: &std::fs::Metadata) -> Key {
    let mut key = [0u8; 48];
    let time = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
    let fields = [
        meta.dev(),
        meta.ino(),
        meta.size(),
        time(meta.mtime(), meta.mtime_nsec()).cast_unsigned(),
        time(meta.ctime(), meta.ctime_nsec()).cast_unsigned(),
        u64::from(meta.mode()),
    ];
    for (to, field) in key.chunks_exact_mut(8).zip(fields) {
        to.copy_from_slice(&field.to_le_bytes());
    }
    key
}

impl Cache {
    /// The user's own, or none where there is no home.
    pub fn of_user() -> Cache {
        let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")));
        Cache::open(base.map(|base| base.join("shoal/digests")))
    }

    /// What cannot be read is made again.
    pub fn open(file: Option<PathBuf>) -> Cache {
        let bytes = file.as_deref().and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        let records = bytes.strip_prefix(&MAGIC[..]).unwrap_or_default().chunks_exact(RECORD);
        let known = records.filter_map(|r| Some((*r.first_chunk::<48>()?, *r.last_chunk::<32>()?))).collect();
        Cache { file, known, fresh: Mutex::default() }
    }

    pub fn get(&self, meta: &std::fs::Metadata) -> Option<Hash> {
        let key = key(meta);
        let hash = *self.known.get(&key)?;
        Some(hash)
    }

    /// `now_ns` since 1970.
    pub fn put(&self, meta: &std::fs::Metadata, hash: Hash, now_ns: i128) {
        let changed = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
        if now_ns - changed > SETTLED_NS
            && let Ok(mut fresh) = self.fresh.lock()
        {
            fresh.insert(key(meta), hash);
        }
    }

    /// Only saves time: if it cannot be kept, it is made again.
    pub fn save(self) {
        let (Some(file), Ok(fresh)) = (&self.file, self.fresh.into_inner()) else { return };
        if !fresh.is_empty() {
            let _ = write(file, fresh.into_iter().chain(self.known).take(MOST));
        }
    }
}

fn write(file: &Path, records: impl Iterator<Item = (Key, Hash)>) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut bytes = MAGIC.to_vec();
    records.for_each(|(key, hash)| {
        bytes.extend_from_slice(&key);
        bytes.extend_from_slice(&hash);
    });
    let aside = file.with_extension(std::process::id().to_string());
    let mut out = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    out.write_all(&bytes)?;
    std::fs::rename(aside, file)
}
