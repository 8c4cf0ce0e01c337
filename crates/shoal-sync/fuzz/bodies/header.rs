//! A header: refused, or within its limits and the same again when written.

use shoal_sync::layout::CHUNK;
use shoal_sync::wire::{HEADER, Header};

pub fn run(data: &[u8]) {
    let mut bytes = [0u8; HEADER];
    let n = data.len().min(HEADER);
    bytes[..n].copy_from_slice(&data[..n]);
    if let Ok(header) = Header::decode(&bytes) {
        assert!(header.len as usize <= CHUNK);
        assert!(header.weight.is_finite() && header.weight >= 0.0);
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
}
