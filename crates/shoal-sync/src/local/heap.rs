//! Tensors that live in shared memory from the start: every rank sees them, so that summing them
//! needs no system call and no copy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::area::Area;
use super::error::{LocalError, Result};

/// A whole page each, so that freeing one gives its memory back.
const PAGE: usize = 4096;

/// This rank's part of the area: free pieces by offset. First fit; tensors are few and long-lived.
pub(super) struct Heap {
    area: Arc<Area>,
    free: Mutex<BTreeMap<usize, usize>>,
}

impl Heap {
    pub fn new(area: Arc<Area>, member: usize) -> Heap {
        let shape = area.shape();
        let free = Mutex::new(BTreeMap::from([(shape.heap_at(member), shape.heap_bytes)]));
        Heap { area, free }
    }

    pub fn alloc(self: &Arc<Self>, bytes: usize) -> Result<SharedBuffer> {
        let room = bytes.max(1).next_multiple_of(PAGE);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((&offset, &len)) = free.iter().find(|&(_, &len)| len >= room) else {
            return Err(LocalError::HeapFull { wanted: bytes, free: free.values().copied().max().unwrap_or(0) });
        };
        free.remove(&offset);
        if len > room {
            free.insert(offset + room, len - room);
        }
        let Some(addr) = self.area.data(offset, room) else { unreachable!("a free piece outside the area") };
        Ok(SharedBuffer { heap: self.clone(), addr, offset, bytes, room })
    }

    fn release(&self, mut offset: usize, mut len: usize) {
        self.area.punch(offset, len);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((&before, &room)) = free.range(..offset).next_back()
            && before + room == offset
        {
            free.remove(&before);
            (offset, len) = (before, room + len);
        }
        if let Some(after) = free.remove(&(offset + len)) {
            len += after;
        }
        free.insert(offset, len);
    }
}

/// Memory of this rank that the other ranks of the host can reach directly. It starts as zeros. An operation on any
/// address inside it takes the short way by itself. It must outlive the operations submitted on it.
pub struct SharedBuffer {
    heap: Arc<Heap>,
    addr: *mut u8,
    offset: usize,
    bytes: usize,
    room: usize,
}

// SAFETY: the buffer is this value's alone except during operations, which the submitter vouches for.
unsafe impl Send for SharedBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for SharedBuffer {}

impl SharedBuffer {
    pub fn as_ptr(&self) -> *mut u8 {
        self.addr
    }
    pub fn len(&self) -> usize {
        self.bytes
    }
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl std::ops::Deref for SharedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the piece is ours, mapped as long as the heap lives; other ranks write only during
        // operations whose submitter promised not to look.
        unsafe { std::slice::from_raw_parts(self.addr, self.bytes) }
    }
}

impl std::ops::DerefMut for SharedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.addr, self.bytes) }
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        self.heap.release(self.offset, self.room);
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::*;

    #[test]
    fn freed_pieces_grow_together_again() {
        let area = Arc::new(Area::create(Shape { members: 2, heap_bytes: 1 << 20 }, 1).unwrap());
        let heap = Arc::new(Heap::new(area, 1));
        let mut a = heap.alloc(100).unwrap();
        let b = heap.alloc(5000).unwrap();
        let c = heap.alloc(0).unwrap();
        a.fill(7);
        assert!(b.iter().all(|&x| x == 0) && c.is_empty());
        assert!(matches!(heap.alloc(1 << 20), Err(LocalError::HeapFull { .. })));
        drop(b);
        drop(a);
        drop(c);
        let all = heap.alloc(1 << 20).unwrap();
        assert!(all.iter().all(|&x| x == 0), "freed memory comes back as zeros");
    }
}
