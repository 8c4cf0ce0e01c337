//! The memory itself: a memfd of sealed size, mapped by every rank of the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::error::{LocalError, Result};
use super::layout::*;

pub(super) struct Area {
    base: NonNull<u8>,
    shape: Shape,
    fd: OwnedFd,
}

// SAFETY: the mapping lives as long as the value, and everything handed out by reference is atomic.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// A fresh area, all zeros, whose size can no longer change: no rank can make another fault
    /// (SIGBUS) by cutting it short.
    pub fn create(shape: Shape, cpus: usize) -> Result<Area> {
        let failed = |what: &'static str| move |e: rustix::io::Errno| LocalError::io(what, e);
        let fd = rustix::fs::memfd_create("shoal-local", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(failed("creating the shared memory file"))?;
        rustix::fs::ftruncate(&fd, shape.total() as u64).map_err(failed("sizing the shared memory file"))?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(failed("sealing the shared memory file"))?;
        let area = Area::map(fd, shape)?;
        let header = area.header();
        header.members.store(shape.members as u32, Relaxed);
        header.cpus.store(cpus as u32, Relaxed);
        header.heap_bytes.store(shape.heap_bytes as u64, Relaxed);
        header.magic.store(MAGIC, Relaxed);
        Ok(area)
    }

    /// The area another rank made; `fd` came over the socket of a proven host, and is checked all the same.
    pub fn open(fd: OwnedFd, members: usize) -> Result<Area> {
        let bad = |why: String| LocalError::BadGroup { why };
        let size = rustix::fs::fstat(&fd).map_err(|e| LocalError::io("reading the shared memory's size", e))?.st_size;
        let seals =
            rustix::fs::fcntl_get_seals(&fd).map_err(|e| LocalError::io("reading the shared memory's seals", e))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(bad("the shared memory is not sealed against shrinking".into()));
        }
        let least = Shape { members, heap_bytes: 0 };
        let heaps = usize::try_from(size).ok().and_then(|size| size.checked_sub(least.total()));
        let Some(heap_bytes) = heaps.filter(|heaps| heaps % members == 0).map(|heaps| heaps / members) else {
            return Err(bad(format!("{size} bytes of shared memory do not fit {members} ranks")));
        };
        let area = Area::map(fd, Shape { members, heap_bytes })?;
        let header = area.header();
        let (magic, theirs) = (header.magic.load(Relaxed), header.members.load(Relaxed));
        if magic != MAGIC || theirs as usize != members || header.heap_bytes.load(Relaxed) as usize != heap_bytes {
            return Err(bad(format!(
                "the host's shared memory is for {theirs} ranks (format {magic:#x}), not {members}"
            )));
        }
        Ok(area)
    }

    fn map(fd: OwnedFd, shape: Shape) -> Result<Area> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), shape.total(), prot, flags, &fd, 0) }
            .map_err(|e| LocalError::io(format!("mapping {} bytes of shared memory", shape.total()), e))?;
        // SAFETY: the range was just mapped. A failure only makes core dumps larger.
        let _ = unsafe { rustix::mm::madvise(base, shape.total(), Advice::LinuxDontDump) };
        let base = NonNull::new(base.cast()).ok_or_else(|| LocalError::BadGroup { why: "mapped at null".into() })?;
        Ok(Area { base, shape, fd })
    }

    /// # Safety
    /// `T` must be made of atomics only, and `offset` be where `Shape` puts a `T`.
    unsafe fn at<T>(&self, offset: usize) -> &T {
        debug_assert!(offset + size_of::<T>() <= self.shape.total() && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: in range and aligned (by Shape, tested there); zeroed memory is a valid atomic; the
        // mapping outlives the borrow of self.
        unsafe { self.base.add(offset).cast().as_ref() }
    }
    pub fn header(&self) -> &Header {
        // SAFETY: the header lies at offset 0.
        unsafe { self.at(0) }
    }
    pub fn slot(&self, slot: usize) -> &SlotHead {
        assert!(slot < SLOTS);
        // SAFETY: Shape's own offset for a slot that exists.
        unsafe { self.at(self.shape.slot(slot)) }
    }
    pub fn half(&self, id: Half) -> &HalfHead {
        assert!(id.slot() < SLOTS);
        // SAFETY: Shape's own offset for a slot that exists.
        unsafe { self.at(self.shape.half(id.slot(), id.side())) }
    }
    pub fn cell(&self, id: Half, member: usize) -> &OpCell {
        assert!(id.slot() < SLOTS && member < self.shape.members);
        // SAFETY: Shape's own offset for a slot and a member that exist.
        unsafe { self.at(self.shape.cell(id.slot(), id.side(), member)) }
    }

    /// The address of `len` bytes at `offset`, if they lie in the arena or in a heap.
    /// Offsets come from other ranks: they are checked, not believed.
    pub fn data(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        let inside = offset >= self.shape.arena_at() && end <= self.shape.total();
        // SAFETY: inside the mapping.
        inside.then(|| unsafe { self.base.as_ptr().add(offset) })
    }

    /// The offset of an address of this process that lies in the arena or a heap of this area.
    pub fn offset_of(&self, addr: *const u8, len: usize) -> Option<usize> {
        let offset = (addr as usize).checked_sub(self.base.as_ptr() as usize)?;
        self.data(offset, len).map(|_| offset)
    }

    /// Gives the memory of a freed piece of heap back to the system; it reads as zeros afterwards.
    pub fn punch(&self, offset: usize, len: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(e) = rustix::fs::fallocate(&self.fd, flags, offset as u64, len as u64) {
            tracing::warn!(offset, len, error = %e, "freed shared memory was not returned to the system");
        }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing borrowed from self can be alive.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.shape.total()) };
    }
}

/// One half of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Half(pub u32);

impl Half {
    pub fn new(slot: u32, use_number: u32) -> Half {
        Half(slot * 2 + (use_number & 1))
    }
    pub fn slot(self) -> usize {
        (self.0 / 2) as usize
    }
    pub fn side(self) -> usize {
        (self.0 % 2) as usize
    }
}
