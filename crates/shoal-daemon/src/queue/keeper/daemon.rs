//! How does a keeper come to stand alone: its own session, nothing inherited, one per store?

use super::folder::Folder;
use crate::proc;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

/// Where the words of keepers go, up to this size; then it begins anew.
const LOG_LIMIT: u64 = 1 << 20;

pub enum Side {
    /// Whoever started us waits for this one only.
    Parent,
    Keeper,
}

/// Must be called while there is one thread.
pub fn stand_alone(folder: &Folder) -> io::Result<Side> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let path = folder.keeper_log();
    let big = std::fs::metadata(&path).is_ok_and(|m| m.len() > LOG_LIMIT);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
    if big {
        log.set_len(0)?;
    }
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        _ => return Ok(Side::Parent),
    }
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&log)?;
    rustix::stdio::dup2_stderr(&log)?;
    // Closed below with everything else.
    std::mem::forget((null, log));
    close_inherited();
    Ok(Side::Keeper)
}

/// Everything beyond the first three: a pipe of a login that we held would keep that login open.
fn close_inherited() {
    // SAFETY: no object of this process, which has only just begun, owns a descriptor beyond the first three.
    if unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) } == 0 {
        return;
    }
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = open.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // SAFETY: as above; the one by which the list was read is closed, and closing it again does nothing.
        unsafe { libc::close(fd) };
    }
}

/// Held as long as the process lives; nothing if another holds it. Its text is our pid.
pub fn lock(folder: &Folder) -> io::Result<Option<File>> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.keeper_lock())?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(e) => return Err(e.into()),
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Some(file))
}

/// The pid of the keeper that holds the lock, if one does.
pub fn holder(folder: &Folder) -> Option<u32> {
    let mut file = File::open(folder.keeper_lock()).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok().filter(|pid| proc::stat(*pid).is_some())
}

/// Short, however long the folder's path is: an address of a socket has room for 107 bytes.
fn address(folder: &Folder) -> io::Result<(OwnedFd, String)> {
    let at = rustix::fs::open(folder.root(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{}", at.as_raw_fd(), folder.keeper_socket());
    Ok((at, path))
}

/// Only called with the lock held: a socket that is there is of nobody.
pub fn listen(folder: &Folder) -> io::Result<UnixListener> {
    match std::fs::remove_file(folder.root().join(folder.keeper_socket())) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let (_at, path) = address(folder)?;
    let listener = UnixListener::bind(&path)?;
    rustix::fs::chmod(&path, Mode::RUSR | Mode::WUSR)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// By the folder's socket; by the name that is no file where somebody removed that.
pub fn connect(folder: &Folder) -> io::Result<UnixStream> {
    let by_file = address(folder).and_then(|(_at, path)| UnixStream::connect(path));
    by_file.or_else(|e| super::standing::connect(folder).map_err(|_| e))
}

/// Signals become something to read; those that would end us by accident are ignored.
pub fn signals() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set; the others get an initialised one and valid numbers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        // Runs may send some of these to their parent.
        for signal in
            [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM]
        {
            libc::signal(signal, libc::SIG_IGN);
        }
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// What runs leave behind becomes ours; and on a full machine they go before us. Whether the latter was allowed: runs inherit it then,
/// and must not keep it.
pub fn protect() -> bool {
    let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
    std::fs::write("/proc/self/oom_score_adj", "-500").is_ok()
}

pub fn random_mark() -> String {
    let mut bytes = [0u8; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
