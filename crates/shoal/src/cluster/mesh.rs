//! The key with which the nodes of a cluster log in to each other: made for it, kept here for its owner alone (SEC-2).

use super::provider::Trouble;
use std::path::Path;
use std::process::{Command, Stdio};

pub struct Key {
    pub private: String,
    pub public: String,
}

/// The cluster's key, made if there is none yet.
pub fn key(folder: &Path, cluster: &str) -> Result<Key, Trouble> {
    let file = folder.join("mesh");
    let trouble = |what: String| Trouble { what, hint: "is ssh-keygen installed, and the disk not full?".into() };
    if !file.exists() {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", &format!("shoal-{cluster}"), "-f"]).arg(&file);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|e| trouble(format!("the cluster's key cannot be made: {e}")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
            return Err(trouble(format!("the cluster's key cannot be made: {said}")));
        }
    }
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|e| trouble(format!("the cluster's key {}: {e}", path.display())))
    };
    Ok(Key { private: read(&file)?, public: read(&file.with_extension("pub"))? })
}
