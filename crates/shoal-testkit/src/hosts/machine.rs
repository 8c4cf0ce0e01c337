//! One host: its private files, its first process, and the moment it answers.

use super::error::{Error, IoContext, Result};
use super::process::{Process, child_of};
use super::record::{HostRecord, Record};
use super::tools;
use crate::wait;
use std::fs::{DirBuilder, File, Permissions};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Where a host does not see what this machine has, and the mode of its own instead.
const PRIVATE: [(&str, u32); 5] =
    [("/root", 0o700), ("/home", 0o755), ("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/run", 0o755)];
pub const SSH_PORT: u16 = 22;
const READY_BOUND: Duration = Duration::from_secs(20);

/// The folder on this machine that holds a host's files.
fn folder(record: &Record, host: &HostRecord) -> PathBuf {
    record.folder().join(&host.name)
}

fn log_file(record: &Record, host: &HostRecord) -> PathBuf {
    folder(record, host).join("sshd.log")
}

pub fn log(record: &Record, host: &HostRecord) -> String {
    std::fs::read_to_string(log_file(record, host)).unwrap_or_default()
}

/// Makes the files; gives those of `share` that the host would not see without help.
pub fn prepare(record: &Record, host: &HostRecord) -> Result<Vec<PathBuf>> {
    let folder = folder(record, host);
    let inside = |path: &str| folder.join(format!("files{path}"));
    for (path, mode) in PRIVATE {
        dir(&inside(path), mode)?;
    }
    dir(&inside("/root/.ssh"), 0o700)?;
    let (key, authorized) = (record.folder().join("key.pub"), inside("/root/.ssh/authorized_keys"));
    std::fs::copy(&key, &authorized).context("copy the public key to", &authorized)?;
    // sshd refuses to start without its own empty folder.
    dir(&inside("/run/sshd"), 0o755)?;
    dir(&inside("/run/shoal"), 0o700)?;
    let key = inside("/run/shoal/host_key");
    if !key.exists() {
        keygen(&key, &host.name)?;
    }
    // Another one at every start, as of a machine: the kernel's own generator makes them.
    let fresh =
        std::fs::read_to_string("/proc/sys/kernel/random/uuid").context("read", "/proc/sys/kernel/random/uuid")?;
    write(&folder.join("boot_id"), &fresh)?;

    let names: String = record.hosts.iter().map(|host| format!("{}\t{}\n", host.address, host.name)).collect();
    write(&folder.join("hosts"), &format!("127.0.0.1\tlocalhost\n{names}"))?;

    let hidden: Vec<PathBuf> = record.share.iter().filter(|path| is_hidden(path) && path.exists()).cloned().collect();
    for path in &hidden {
        let target = inside(&path.to_string_lossy());
        if path.is_dir() {
            dir(&target, 0o755)?;
        } else {
            if let Some(parent) = target.parent() {
                dir(parent, 0o755)?;
            }
            write(&target, "")?;
        }
    }
    Ok(hidden)
}

/// What a machine forgets when it is switched off: `/tmp`, and what programs left in `/run`. Its own key there is what it keeps elsewhere.
pub fn forget(record: &Record, host: &HostRecord) -> Result<()> {
    let files = folder(record, host).join("files");
    let all =
        |place: &str| std::fs::read_dir(files.join(place)).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in all("tmp").chain(all("run").filter(|path| !path.ends_with("shoal"))) {
        let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let gone = if is_folder { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        gone.context("remove", &path)?;
    }
    Ok(())
}

pub fn is_hidden(path: &Path) -> bool {
    PRIVATE.iter().any(|(private, _)| path.starts_with(private))
}

pub fn keygen(file: &Path, comment: &str) -> Result<()> {
    let file = file.to_string_lossy();
    tools::run("make a key", "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", &file]).map(drop)
}

/// The line of the host's key for `known_hosts`.
pub fn known_host(record: &Record, host: &HostRecord) -> Result<String> {
    let file = folder(record, host).join("files/run/shoal/host_key.pub");
    let key = std::fs::read_to_string(&file).context("read", &file)?;
    Ok(format!("{},{} {key}", host.name, host.address))
}

/// Starts it in a session of its own, so that neither a Ctrl-C nor the end of this process reaches it.
pub fn start(record: &Record, host: &HostRecord, hidden: &[PathBuf]) -> Result<Child> {
    let log = log_file(record, host);
    let out = File::create(&log).context("make", &log)?;
    let err = out.try_clone().context("open", &log)?;
    tools::command("ip")
        .args(["netns", "exec", &host.namespace, "unshare"])
        .args(["--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", include_str!("boot.sh"), "boot.sh"])
        .arg(folder(record, host))
        .arg(&host.name)
        .arg(tools::find("sshd").unwrap_or_else(|| "/usr/sbin/sshd".into()))
        .args(record.drive.as_ref().map_or(["", ""].map(Path::new), |drive| [&drive.folder, &drive.at]))
        .args(hidden)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .context("start a host with", "ip")
}

/// The host's process 1, once it has one.
pub fn init(record: &Record, host: &HostRecord, outer: &mut Child) -> Result<Process> {
    let pid = outer.id().cast_signed();
    until(record, host, outer, "process 1", || child_of(pid))
}

/// Waits until sshd greets; everything in `boot.sh` is done then.
pub fn ready(record: &Record, host: &HostRecord, outer: &mut Child) -> Result<()> {
    let address = SocketAddr::from((host.address, SSH_PORT));
    until(record, host, outer, "sshd", || {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let mut greeting = [0; 4];
        stream.read_exact(&mut greeting).ok()?;
        (&greeting == b"SSH-").then_some(())
    })
}

fn until<T>(
    record: &Record,
    host: &HostRecord,
    outer: &mut Child,
    what: &str,
    mut probe: impl FnMut() -> Option<T>,
) -> Result<T> {
    let died = || Error::Died { host: host.name.clone(), log: log(record, host) };
    wait::until(READY_BOUND, || match outer.try_wait() {
        Ok(None) => probe().map(Ok),
        _ => Some(Err(died())),
    })
    .unwrap_or_else(|| {
        let what = format!("{what} of host `{}` at {}", host.name, host.address);
        Err(Error::Timeout { what, bound: READY_BOUND, log: log(record, host) })
    })
}

/// Modes are set afterwards: a mode given at making is cut by the umask.
fn dir(path: &Path, mode: u32) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o755).create(path).context("make", path)?;
    std::fs::set_permissions(path, Permissions::from_mode(mode)).context("set the mode of", path)
}

pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).context("write", path)
}
