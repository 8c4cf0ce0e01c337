//! A drive that can be full, away, or forbidden: a small tmpfs, or a folder bound to another name. Where mounting is not allowed there is none.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unmounted with it.
#[derive(Debug)]
pub struct Drive {
    at: PathBuf,
    /// What is bound here; nothing for a tmpfs, which is gone when it is unmounted.
    of: Option<PathBuf>,
}

impl Drive {
    /// A tmpfs of so many bytes.
    pub fn small(at: &Path, bytes: u64) -> Option<Drive> {
        fs::create_dir_all(at).expect("a mount point");
        mount(&["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"], at).then(|| Drive { at: at.into(), of: None })
    }

    /// A folder of this machine under another name.
    pub fn bound(of: &Path, at: &Path) -> Option<Drive> {
        fs::create_dir_all(at).expect("a mount point");
        let drive = Drive { at: at.into(), of: Some(of.into()) };
        drive.mount().then_some(drive)
    }

    pub fn mount(&self) -> bool {
        let Some(of) = &self.of else { return false };
        mount(&["--bind", &of.to_string_lossy()], &self.at)
    }

    /// As when a file server goes: whoever has something open keeps it, and the mount point is a folder like any other.
    pub fn unmount(&self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }

    pub fn read_only(&self, yes: bool) -> bool {
        mount(&["-o", if yes { "remount,ro" } else { "remount,rw" }], &self.at)
    }

    /// Not a byte more fits.
    pub fn fill(&self) -> io::Result<()> {
        let mut file = File::create(self.filler())?;
        let free = rustix::fs::statvfs(&self.at)?;
        let free = free.f_bavail * free.f_frsize;
        // At once if it goes; then the rest, which others may have written in between.
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, free.max(1));
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        while file.write(&[0; 4096]).is_ok_and(|n| n > 0) {}
        Ok(())
    }

    pub fn free(&self) {
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }

    /// Whether something is mounted here at the moment.
    pub fn is_mounted(&self) -> bool {
        let Ok(path) = CString::new(self.at.as_os_str().as_bytes()) else { return false };
        let here = rustix::fs::stat(path.as_c_str()).map(|s| (s.st_dev, s.st_ino));
        let above = self.at.parent().and_then(|parent| rustix::fs::stat(parent).ok());
        match (here, above, &self.of) {
            (Ok(here), Some(above), None) => here.0 != above.st_dev,
            (Ok(here), _, Some(of)) => rustix::fs::stat(of).is_ok_and(|s| (s.st_dev, s.st_ino) == here),
            _ => false,
        }
    }
}

fn mount(words: &[&str], at: &Path) -> bool {
    Command::new("mount").args(words).arg(at).output().is_ok_and(|done| done.status.success())
}

impl Drop for Drive {
    fn drop(&mut self) {
        if self.is_mounted() {
            // Lazily: a log may still be open for a moment.
            self.unmount();
        }
    }
}
