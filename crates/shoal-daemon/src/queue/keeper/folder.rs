//! Where is everything that belongs to a store on this host?

use crate::proc;
use crate::records::is_safe_name;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

/// File systems that one machine alone sees, by their magic numbers: ext, xfs, btrfs, tmpfs, overlay, zfs, f2fs, ramfs, bcachefs, jfs.
const OF_ONE_MACHINE: [u64; 10] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x794c_7630,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0x8584_58f6,
    0xca45_1a4e,
    0x3153_464a,
];

impl Folder {
    /// Made if it is not there, for its owner alone (SEC-2).
    pub fn open(store: &str) -> Result<Folder, String> {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = var("SHOAL_HOST_DIR").or_else(|| Some(var("HOME")?.join(".cache/shoal/queue")));
        let base =
            base.ok_or("neither SHOAL_HOST_DIR nor HOME says where the queue may keep its files on this host")?;
        Folder::below(&base, store)
    }

    pub fn below(base: &Path, store: &str) -> Result<Folder, String> {
        if !is_safe_name(store) {
            return Err(format!("`{store}` is no name of a store"));
        }
        let made = make(base).and_then(|()| Ok((std::fs::canonicalize(base)?, shared(base))));
        let (base, shared) = made.map_err(|e| format!("{}: {e}", base.display()))?;
        let mut root = base.join(store);
        if shared {
            // Homes are on a drive that all machines see; each of them has its own runs.
            root = root.join(proc::node_name().replace('/', "_"));
        }
        let folder = Folder(root);
        for path in folder.all() {
            make(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(folder)
    }

    /// Those that have to be there.
    pub fn all(&self) -> [PathBuf; 6] {
        [self.0.clone(), self.live(), self.packs(), self.work(), self.trees(), self.attempts()]
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    pub fn agent_lock(&self) -> PathBuf {
        self.0.join("agent.lock")
    }

    pub fn keeper_lock(&self) -> PathBuf {
        self.0.join("keeper.lock")
    }

    pub fn keeper_socket(&self) -> &'static str {
        "keeper.sock"
    }

    pub fn keeper_log(&self) -> PathBuf {
        self.0.join("keeper.log")
    }

    pub fn records(&self) -> PathBuf {
        self.0.join("records")
    }

    pub fn live(&self) -> PathBuf {
        self.0.join("live")
    }

    pub fn packs(&self) -> PathBuf {
        self.0.join("packs")
    }

    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub fn trees(&self) -> PathBuf {
        self.0.join("trees")
    }

    pub fn envs(&self) -> PathBuf {
        self.0.join("envs")
    }

    pub fn packages(&self) -> PathBuf {
        self.0.join("packages")
    }

    /// Where marks of folders for results were seen last.
    pub fn marks(&self) -> PathBuf {
        self.0.join("marks")
    }

    /// What is to be removed.
    pub fn trash(&self) -> PathBuf {
        self.0.join("trash")
    }

    pub fn attempts(&self) -> PathBuf {
        self.0.join("attempts")
    }
}

/// A folder for its owner alone.
pub fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn shared(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|s| !OF_ONE_MACHINE.contains(&(s.f_type as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_one_folder_and_its_name_leads_nowhere_else() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::below(base.path(), "0123abcd").unwrap();
        assert!(folder.live().is_dir() && folder.packs().is_dir());
        assert_eq!(Folder::below(base.path(), "0123abcd").unwrap(), folder);
        for bad in ["", "..", "a/b", ".x", "a b"] {
            assert!(Folder::below(base.path(), bad).is_err(), "{bad}");
        }
    }
}
