//! Connections of an examination's own: a warm one of an earlier command would prove nothing about keys, and its sessions would be
//! counted with ours. They end with the examination.

use shoal_hosts::ssh::Settings;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CLOSING: Duration = Duration::from_secs(3);
/// Should we be killed, idle connections end by themselves.
const PERSIST_S: u32 = 30;

pub struct Lines {
    base: Settings,
    folder: PathBuf,
}

impl Lines {
    pub fn new(base: &Settings) -> Lines {
        // Short: paths of sockets may have only about a hundred bytes.
        let folder = base.folder.join(format!("d{}", std::process::id()));
        Lines { base: base.clone(), folder }
    }

    /// A folder for each host, so that its log is known by its place.
    pub fn settings(&self, i: usize) -> Settings {
        Settings { folder: self.folder.join(i.to_string()), persist_s: PERSIST_S, ..self.base.clone() }
    }
}

/// What ssh wrote while it connected.
pub fn log(settings: &Settings) -> String {
    let files = std::fs::read_dir(&settings.folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let logs = files.filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

impl Drop for Lines {
    fn drop(&mut self) {
        let folders = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let sockets = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
        let sockets = sockets.map(|entry| entry.path()).filter(|path| path.extension().is_none());
        let close = |socket: PathBuf| {
            let mut command = Command::new("ssh");
            // The name is not used: the socket says which connection is meant.
            command.arg("-S").arg(socket).args(["-O", "exit", "--", "nobody"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        };
        let mut closing: Vec<_> = sockets.filter_map(close).collect();
        let deadline = Instant::now() + CLOSING;
        while Instant::now() < deadline && closing.iter_mut().any(|ssh| matches!(ssh.try_wait(), Ok(None))) {
            std::thread::sleep(Duration::from_millis(5));
        }
        for ssh in &mut closing {
            let _ = ssh.kill();
            let _ = ssh.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
