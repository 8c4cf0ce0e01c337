//! How our program gets to a host: once per version, under the name of its content, checked there before it counts.

use super::connection::Connection;
use super::explain::{Failure, Trouble};
use crate::process::Exit;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A slow link gets time: 30 MB at 1 Mbit/s take four minutes.
const SENDING: Duration = Duration::from_secs(300);
/// Programs that one file is, by the name it is called.
const NAMES: [&str; 3] = ["ps_master", "ps_server", "psd_run"];

/// A program of ours and the name of its content.
#[derive(Debug, Clone)]
pub struct Parcel {
    pub path: PathBuf,
    pub digest: String,
}

impl Parcel {
    pub fn of(path: &Path) -> std::io::Result<Parcel> {
        Ok(Parcel { path: path.into(), digest: digest_of(path)? })
    }

    /// Its folder on a host.
    pub fn folder(&self) -> String {
        format!("~/.cache/shoal/bin/{}", self.digest)
    }

    /// A line for any login shell that becomes this program. Arguments must be plain words.
    pub fn line(&self, args: &str) -> String {
        format!("exec {}/shoal {args}", self.folder())
    }
}

/// The name of a file's content.
pub fn digest_of(path: &Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    std::io::copy(&mut std::fs::File::open(path)?, &mut hash)?;
    Ok(hash.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect())
}

/// The line that receives it (pure). The file gets its name only after it has run there and found itself complete.
pub fn receiving(parcel: &Parcel) -> String {
    let digest = &parcel.digest;
    let links: String = NAMES.iter().map(|name| format!(" && ln -sf shoal \"$d/{name}\"")).collect();
    format!(
        "exec sh -c 'umask 077; d=\"$HOME/.cache/shoal/bin/{digest}\"; t=\"$d/.arriving.$$\"; trap \"rm -f \\\"$t\\\"\" EXIT; \
         mkdir -p \"$d\" && cat > \"$t\" && chmod 700 \"$t\" && test \"$(\"$t\" host digest)\" = {digest} && mv -f \"$t\" \"$d/shoal\"{links} \
         && find \"$HOME/.cache/shoal/bin\" -mindepth 1 -maxdepth 1 -mtime +30 ! -name {digest} -exec rm -rf {{}} +'"
    )
}

/// Puts it there.
pub fn deliver(connection: &Connection, host: &str, parcel: &Parcel) -> Result<(), Failure> {
    let failure = |what: String, hint: &str| Failure {
        host: host.into(),
        target: connection.target().into(),
        trouble: Trouble::Other,
        what,
        hint: hint.into(),
    };
    let bytes = std::fs::read(&parcel.path)
        .map_err(|e| failure(format!("cannot read {}: {e}", parcel.path.display()), "reinstall shoal"))?;
    let said = connection.run(&receiving(parcel), bytes, SENDING)?;
    match said.exit {
        Exit::Code(0) => Ok(()),
        exit => {
            let output = String::from_utf8_lossy(&said.output);
            let last = |text: &str| text.lines().rev().find(|l| !l.trim().is_empty()).map(|l| l.trim().to_string());
            let words = last(&said.errors).or_else(|| last(&output)).unwrap_or_else(|| "it does not say why".into());
            let how = if let Exit::Code(code) = exit { format!("exit code {code}") } else { "cut off".into() };
            Err(failure(
                format!("shoal could not be put into ~/.cache/shoal there ({how}): {words}"),
                &hint(&words, connection.target()),
            ))
        }
    }
}

/// What helps against a complaint (pure).
fn hint(words: &str, target: &str) -> String {
    let has = |signs: &[&str]| signs.iter().any(|sign| words.contains(sign));
    if has(&["No space left", "quota"]) {
        "free space in the home folder there".into()
    } else if has(&["GLIBC", "Exec format"]) {
        "the host's system is older, or of another kind, than the one shoal was built for; build shoal there, or statically".into()
    } else if has(&["Read-only", "Permission denied", "cannot create"]) {
        "shoal needs a writable home folder that allows programs (no `noexec`)".into()
    } else {
        format!("does its login run commands? try `ssh {target} true`")
    }
}
