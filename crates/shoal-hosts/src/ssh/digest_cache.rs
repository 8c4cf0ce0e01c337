//! The digest of our own program, remembered: hashing tens of megabytes takes longer than starting a gang on a warm connection.

use super::deliver::digest_of;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// What changes whenever the file is another one.
fn identity(path: &Path) -> std::io::Result<String> {
    let meta = std::fs::metadata(path)?;
    let (at, ns) = (meta.mtime(), meta.mtime_nsec());
    Ok(format!("{} {} {} {at}.{ns} {}.{}", meta.dev(), meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec()))
}

/// The digest of `path`, from `cache` (a file of this user alone) if it is there for this very file.
pub fn digest(path: &Path, cache: &Path) -> std::io::Result<String> {
    let identity = identity(path)?;
    let known = std::fs::read_to_string(cache).unwrap_or_default();
    if let Some((what, digest)) = known.trim().rsplit_once(' ')
        && what == identity
        && digest.len() == 32
        && digest.bytes().all(|b| b.is_ascii_hexdigit())
    {
        return Ok(digest.to_string());
    }
    let digest = digest_of(path)?;
    // Only saves time: if it cannot be kept, it is made again.
    let _ = keep(cache, &format!("{identity} {digest}\n"));
    Ok(digest)
}

fn keep(cache: &Path, line: &str) -> std::io::Result<()> {
    if let Some(folder) = cache.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let aside = cache.with_extension(std::process::id().to_string());
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    file.write_all(line.as_bytes())?;
    std::fs::rename(aside, cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_content_is_another_digest_and_nonsense_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, cache) = (folder.path().join("program"), folder.path().join("deep/digest"));
        std::fs::write(&file, "one").expect("write");
        let first = digest(&file, &cache).expect("digest");
        assert_eq!(digest(&file, &cache).expect("digest"), first);
        assert!(std::fs::read_to_string(&cache).expect("kept").contains(&first));
        std::fs::write(&cache, "nonsense").expect("write");
        assert_eq!(digest(&file, &cache).expect("digest"), first);
        std::fs::write(&file, "another").expect("write");
        assert_ne!(digest(&file, &cache).expect("digest"), first);
    }
}
