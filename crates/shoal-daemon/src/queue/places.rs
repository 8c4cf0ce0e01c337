//! Where does a queue live? The files of its store, and the socket of its daemon.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A socket's path has to fit into 108 bytes; some systems have fewer.
const LONGEST_SOCKET: usize = 100;

/// The store of one queue. Paths only: nothing is made until [`Store::make`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    pub root: PathBuf,
}

fn var(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

impl Store {
    /// At `root`; every path is absolute from then on, as processes elsewhere in the tree of folders need it.
    pub fn at(root: &Path) -> Store {
        let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_path_buf());
        // One store, one socket, by whatever link it is named.
        Store { root: fs::canonicalize(&absolute).unwrap_or(absolute) }
    }

    /// `$SHOAL_STORE`, else in the user's data folder. Nothing if there is neither that nor a home.
    pub fn usual() -> Option<Store> {
        let data = || var("XDG_DATA_HOME").or_else(|| Some(var("HOME")?.join(".local/share")));
        let root = var("SHOAL_STORE").or_else(|| Some(data()?.join("shoal/queue")))?;
        Some(Store::at(&root))
    }

    /// Makes the folders, for the owner alone (SEC-2).
    pub fn make(&self) -> io::Result<()> {
        for folder in [self.root.clone(), self.trees(), self.results(), self.incoming()] {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        }
        Ok(())
    }

    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Held by whoever starts a daemon in the background.
    pub fn starting(&self) -> PathBuf {
        self.root.join("starting")
    }

    pub fn journal(&self) -> PathBuf {
        self.root.join("journal.sqlite")
    }

    pub fn trees(&self) -> PathBuf {
        self.root.join("trees")
    }

    pub fn results(&self) -> PathBuf {
        self.root.join("results")
    }

    /// What hosts send, until it is whole.
    pub fn incoming(&self) -> PathBuf {
        self.root.join("incoming")
    }

    pub fn tls(&self) -> PathBuf {
        self.root.join("tls")
    }

    pub fn tokens(&self) -> PathBuf {
        self.root.join("tokens.json")
    }

    /// What the file of the fleet said of the queue as a whole, for daemons that are started without one.
    pub fn settings(&self) -> PathBuf {
        self.root.join("settings.json")
    }

    pub fn log(&self) -> PathBuf {
        self.root.join("daemon.log")
    }

    /// The daemon's socket. A store deep down has it elsewhere, under a name made of the store's path.
    pub fn socket(&self) -> PathBuf {
        let near = self.root.join("socket");
        if near.as_os_str().len() <= LONGEST_SOCKET {
            return near;
        }
        let digest = hex(&Sha256::digest(self.root.as_os_str().as_bytes()));
        sockets().join(format!("queue-{}.socket", &digest[..16]))
    }

    /// The store's own name, made up when it is first asked for: hosts keep a folder for each.
    pub fn id(&self) -> io::Result<String> {
        let path = self.root.join("store-id");
        match fs::read_to_string(&path) {
            Ok(text) => {
                let id = text.trim();
                let plain = id.len() == 16 && id.chars().all(|c| c.is_ascii_hexdigit());
                let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("{} holds no id", path.display()));
                plain.then(|| id.to_string()).ok_or_else(wrong)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let id = hex(&random::<8>()?);
                write_durable(&path, id.as_bytes(), 0o600)?;
                Ok(id)
            }
            Err(e) => Err(e),
        }
    }
}

/// For the sockets of stores whose paths are too long.
fn sockets() -> PathBuf {
    let own = || PathBuf::from(format!("/tmp/shoal-{}", rustix::process::getuid().as_raw()));
    var("XDG_RUNTIME_DIR").unwrap_or_else(own)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// From the kernel.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The file is there with all of its content, or as it was before, whatever happens meanwhile.
pub fn write_durable(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    write_by_way_of(&path.with_file_name(format!(".{name}.{}", std::process::id())), path, content, mode)
}

/// The same, by way of a file beside it that whoever does it again finds.
pub fn write_by_way_of(beside: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let _ = fs::remove_file(beside);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(beside, path)?;
        sync_folder(folder)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(beside);
    }
    written
}

/// A name is durable when its folder is.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_keeps_its_id_and_its_socket_fits() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(&folder.path().join("q"));
        store.make().unwrap();
        let store = Store::at(&store.root);
        let id = store.id().unwrap();
        assert_eq!((store.id().unwrap(), id.len()), (id.clone(), 16));
        fs::write(store.root.join("store-id"), "../x").unwrap();
        assert!(store.id().is_err());
        assert_eq!(store.socket(), store.root.join("socket"));
        let deep = Store::at(&folder.path().join("x".repeat(120)));
        assert!(deep.socket().as_os_str().len() <= LONGEST_SOCKET, "{:?}", deep.socket());
        assert_ne!(deep.socket(), Store::at(&folder.path().join("y".repeat(120))).socket());
    }

    #[test]
    fn a_file_is_replaced_whole_and_for_the_owner_alone() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        for text in ["one", "two"] {
            write_durable(&path, text.as_bytes(), 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
