//! How does a tree become a tar whose digest says what is in it?
//!
//! Names in order, no times, no owners, two modes: the same files give the same bytes wherever and whenever they are packed. The digest is of the tar;
//! what travels is the tar pressed by zstd.

use super::plainly;
use super::walk::{Entry, Listing, What};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// Fast: source is small, and data seldom gets much smaller.
const LEVEL: i32 = 1;

/// A packed tree, in a file that goes away with it.
#[derive(Debug)]
pub struct Packed {
    pub digest: String,
    pub file: File,
    pub bytes: u64,
}

/// The digest alone: enough to ask whether the store has it.
pub fn digest(listing: &Listing) -> Result<String, String> {
    let hashing = write_tar(listing, Hashing { hash: Sha256::new(), to: io::sink() })?;
    Ok(hashing.digest())
}

pub fn pack(listing: &Listing) -> Result<Packed, String> {
    let failed = |e: io::Error| format!("a tree cannot be packed: {}", plainly(&e));
    let file = unnamed().map_err(failed)?;
    let zstd = zstd::Encoder::new(file, LEVEL).map_err(failed)?;
    finish(write_tar(listing, Hashing { hash: Sha256::new(), to: zstd })?).map_err(failed)
}

/// A tree of one file that is on no disk.
pub fn pack_bytes(name: &str, bytes: &[u8]) -> Result<Packed, String> {
    let failed = |e: io::Error| format!("{name} cannot be packed: {}", plainly(&e));
    let zstd = zstd::Encoder::new(unnamed().map_err(failed)?, LEVEL).map_err(failed)?;
    let mut tar = tar::Builder::new(Hashing { hash: Sha256::new(), to: zstd });
    let mut header = plain_header();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, name, bytes).map_err(failed)?;
    finish(tar.into_inner().map_err(failed)?).map_err(failed)
}

fn finish(written: Hashing<zstd::Encoder<'_, File>>) -> io::Result<Packed> {
    let mut file = written.to.finish()?;
    let bytes = file.stream_position()?;
    file.rewind()?;
    Ok(Packed { digest: hex(written.hash), file, bytes })
}

/// No time, no owner.
fn plain_header() -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

/// Opened and unlinked: nothing is left, however we end.
fn unnamed() -> io::Result<File> {
    let folder = std::env::temp_dir();
    for k in 0..100u32 {
        let path = folder.join(format!(".shoal-{}-{k}.pack", std::process::id()));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(io::Error::other(format!("{}: {}", folder.display(), plainly(&e)))),
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(io::Error::other(format!("{} has no free name", folder.display())))
}

struct Hashing<W> {
    hash: Sha256,
    to: W,
}

impl<W> Hashing<W> {
    fn digest(self) -> String {
        hex(self.hash)
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.to.write(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A plain tar for programs that are not ours: with files that are on no disk first, and with a time that all of them can write down (a zip
/// knows none before 1980).
pub fn write_with(listing: &Listing, own: &[(&str, &[u8])], to: impl Write) -> Result<(), String> {
    let failed = |e: io::Error| format!("a tree cannot be packed: {}", plainly(&e));
    let mut tar = tar::Builder::new(to);
    for (name, bytes) in own {
        let mut header = plain_header();
        header.set_mtime(IN_1980);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, name, *bytes).map_err(failed)?;
    }
    for (name, entry) in &listing.entries {
        append(&mut tar, name, entry, IN_1980).map_err(|e| format!("{}: {}", entry.from.display(), plainly(&e)))?;
    }
    tar.into_inner().and_then(|mut to| to.flush()).map_err(failed)
}

/// The second of January, wherever one is.
const IN_1980: u64 = 315_619_200;

fn write_tar<W: Write>(listing: &Listing, to: W) -> Result<W, String> {
    let mut tar = tar::Builder::new(to);
    for (name, entry) in &listing.entries {
        append(&mut tar, name, entry, 0).map_err(|e| format!("{}: {}", entry.from.display(), plainly(&e)))?;
    }
    tar.into_inner().map_err(|e| format!("a tree cannot be packed: {}", plainly(&e)))
}

fn append<W: Write>(tar: &mut tar::Builder<W>, name: &str, entry: &Entry, time: u64) -> io::Result<()> {
    let mut header = plain_header();
    header.set_mtime(time);
    match &entry.what {
        What::Folder => {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(0o755);
            tar.append_data(&mut header, format!("{name}/"), io::empty())
        }
        What::Link { to } => {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_mode(0o777);
            tar.append_link(&mut header, name, to)
        }
        What::File { bytes, executable } => {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_mode(if *executable { 0o755 } else { 0o644 });
            header.set_size(*bytes);
            // A file that grows meanwhile is cut where it ended when it was listed; one that shrinks cannot be sent.
            let mut exactly = Exactly { file: File::open(&entry.from)?, left: *bytes };
            tar.append_data(&mut header, name, &mut exactly)
        }
    }
}

struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buf.len());
        let n = self.file.read(&mut buf[..most])?;
        if n == 0 && most > 0 {
            return Err(io::Error::other("it became shorter while it was read; submit again"));
        }
        self.left -= n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Root, walk::walk};
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn listing(folder: &std::path::Path) -> Listing {
        walk(&[Root { from: folder.into(), at: String::new(), ignore: Vec::new(), without: Vec::new() }], Kind::Source)
            .expect("a listing")
    }

    fn fill(folder: &std::path::Path, order: [&str; 3]) {
        for name in order {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(&path, name).expect("a file");
        }
    }

    #[test]
    fn the_same_files_have_the_same_digest_and_others_another() {
        let (a, b) = (tempfile::tempdir().expect("a"), tempfile::tempdir().expect("b"));
        fill(a.path(), ["x.py", "n/y.py", &"long".repeat(40)]);
        fill(b.path(), [&"long".repeat(40), "n/y.py", "x.py"]);
        let first = digest(&listing(a.path())).expect("a digest");
        assert_eq!(first, digest(&listing(b.path())).expect("a digest"));
        assert_eq!(first.len(), 64);
        let run = b.path().join("x.py");
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o700)).expect("a mode");
        assert_ne!(first, digest(&listing(b.path())).expect("a digest"), "executable is another file");
        std::fs::write(&run, "x.pz").expect("a file");
        assert_ne!(first, digest(&listing(b.path())).expect("a digest"));
    }

    #[test]
    fn what_is_packed_is_what_the_digest_says_and_unpacks() {
        let from = tempfile::tempdir().expect("a folder");
        fill(from.path(), ["x.py", "n/y.py", &"long".repeat(40)]);
        std::os::unix::fs::symlink("x.py", from.path().join("link")).expect("a link");
        let listing = listing(from.path());
        let packed = pack(&listing).expect("a pack");
        assert_eq!(packed.digest, digest(&listing).expect("a digest"));
        assert_eq!(packed.bytes, packed.file.metadata().expect("a file").len());
        let mut bytes = Vec::new();
        zstd::Decoder::new(packed.file).expect("zstd").read_to_end(&mut bytes).expect("a tar");
        assert_eq!(hex(Sha256::new_with_prefix(&bytes)), packed.digest);
        let to = tempfile::tempdir().expect("a folder");
        tar::Archive::new(&bytes[..]).unpack(to.path()).expect("unpacked");
        assert_eq!(digest(&self::listing(to.path())).expect("a digest"), packed.digest);
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let from = tempfile::tempdir().expect("a folder");
        fill(from.path(), ["x.py", "y.py", "z.py"]);
        let listing = listing(from.path());
        std::fs::write(from.path().join("y.py"), "y").expect("a file");
        let said = digest(&listing).expect_err("shorter");
        assert!(said.contains("y.py: it became shorter"), "{said}");
    }
}
