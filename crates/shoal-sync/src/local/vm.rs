//! Another rank's ordinary memory: reading it, writing it, and knowing whether its process lives.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

/// A process of this host. The pidfd, unlike the number, can never come to mean another.
pub(super) struct Peer {
    pub rank: u32,
    pub pid: i32,
    pidfd: Option<OwnedFd>,
}

/// The errno of a failed access.
pub(super) type Errno = i32;

impl Peer {
    pub fn new(rank: u32, pid: i32) -> Peer {
        let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Peer { rank, pid, pidfd }
    }

    /// True once the process has ended. Without pidfds (a kernel before 5.3, a filter) this cannot be known.
    pub fn has_ended(&self) -> bool {
        let Some(pidfd) = &self.pidfd else { return false };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)), Ok(1..))
    }

    /// Copies `len` bytes at `addr` of the peer to `to`.
    ///
    /// # Safety
    /// `to` must be valid for `len` bytes that nothing else uses. What the peer's address means is
    /// the peer's promise; the kernel checks that it means something.
    pub unsafe fn read(&self, addr: u64, to: *mut u8, len: usize) -> Result<(), Errno> {
        // SAFETY: passed on to the caller.
        unsafe { transfer(libc::process_vm_readv, self.pid, addr, to, len) }
    }

    /// Copies `len` bytes at `from` to `addr` of the peer.
    ///
    /// # Safety
    /// `from` must be readable for `len` bytes, and the peer must have offered `addr` for writing.
    pub unsafe fn write(&self, addr: u64, from: *const u8, len: usize) -> Result<(), Errno> {
        // SAFETY: passed on to the caller; the kernel only reads from `from`.
        unsafe { transfer(libc::process_vm_writev, self.pid, addr, from.cast_mut(), len) }
    }
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// # Safety
/// As for [`Peer::read`] and [`Peer::write`].
unsafe fn transfer(call: Call, pid: i32, addr: u64, local: *mut u8, len: usize) -> Result<(), Errno> {
    let mut at = 0;
    while at < len {
        let here = libc::iovec { iov_base: local.wrapping_add(at).cast(), iov_len: len - at };
        let there = libc::iovec { iov_base: (addr as usize + at) as *mut _, iov_len: len - at };
        // SAFETY: both vectors live across the call and describe what the caller vouches for.
        let n = unsafe { call(pid, &raw const here, 1, &raw const there, 1, 0) };
        match n {
            // A short count means that the rest faults: the next call says so.
            1.. => at += n as usize,
            0 => return Err(libc::EFAULT),
            _ => match std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) {
                libc::EINTR => {}
                errno => return Err(errno),
            },
        }
    }
    Ok(())
}

/// Asks for huge pages under a large tensor that is used again and again: the kernel then looks up
/// one page where it looked up 512, which halves the time of an exchange. Only pages wholly inside the tensor
/// are joined, so nothing grows; a refusal is of no consequence.
///
/// # Safety
/// The range must be mapped memory of this process (its contents do not change).
pub(super) unsafe fn collapse(addr: *mut u8, len: usize) {
    const HUGE: usize = 2 << 20;
    const MADV_COLLAPSE: libc::c_int = 25;
    let start = (addr as usize).next_multiple_of(HUGE);
    let end = (addr as usize + len) / HUGE * HUGE;
    if start < end {
        // SAFETY: inside the caller's range; MADV_COLLAPSE keeps the contents.
        unsafe { libc::madvise(start as *mut _, end - start, MADV_COLLAPSE) };
    }
}
