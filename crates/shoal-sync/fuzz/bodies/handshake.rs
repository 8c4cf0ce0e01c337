//! A hello: refused by name, or a nonce.

use shoal_sync::handshake::{Refusal, read_hello};
use shoal_sync::wire::PROTOCOL_VERSION;

pub fn run(data: &[u8]) {
    let mut bytes = [0u8; 40];
    let n = data.len().min(bytes.len());
    bytes[..n].copy_from_slice(&data[..n]);
    match read_hello(&bytes) {
        Ok(nonce) => assert_eq!(nonce[..], bytes[8..]),
        Err(Refusal::Version(theirs)) => assert_ne!(theirs, PROTOCOL_VERSION),
        Err(refusal) => assert_eq!(refusal, Refusal::NotShoal),
    }
}
