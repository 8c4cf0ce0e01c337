//! How bytes travel: pieces that are pressed where it pays, and sealed, so that nodes may pass them on over any network.
//!
//! A piece is its length, its kind, and ChaCha20-Poly1305's output. The key is random for each transfer and comes over ssh (SEC-2). A nonce is
//! the stream's number and the piece's, both counted by the one machine that seals, so none is used twice. The last piece is marked: a
//! stream that was cut is not taken for a whole one.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce, Tag};
use std::io;

/// Bytes of a piece before it is pressed.
pub const PIECE: usize = 512 << 10;
/// Length and kind.
pub const HEAD: usize = 5;
const TAG: usize = 16;
const PRESSED: u8 = 1;
const LAST: u8 = 2;
/// Of pieces that did not get smaller, how many are sent as they are before one is tried again.
const GIVE_UP: u32 = 15;
const LEVEL: i32 = 1;

pub type Key = [u8; 32];

fn nonce(stream: u32, piece: u64) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[..4].copy_from_slice(&stream.to_le_bytes());
    nonce[4..].copy_from_slice(&piece.to_le_bytes());
    nonce
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

pub struct Sealer {
    cipher: ChaCha20Poly1305,
    stream: u32,
    piece: u64,
    press: zstd::bulk::Compressor<'static>,
    skip: u32,
    out: Vec<u8>,
}

impl Sealer {
    pub fn new(key: &Key, stream: u32) -> io::Result<Sealer> {
        let press = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(Sealer { cipher: ChaCha20Poly1305::new(key.into()), stream, piece: 0, press, skip: 0, out: Vec::new() })
    }

    /// The whole piece, ready to be written.
    pub fn seal(&mut self, plain: &[u8], last: bool) -> io::Result<&[u8]> {
        let mut kind = if last { LAST } else { 0 };
        self.out.clear();
        self.out.resize(HEAD, 0);
        let mut pressed = false;
        if self.skip > 0 {
            self.skip -= 1;
        } else if plain.len() > 64 {
            let small = self.press.compress(plain)?;
            if small.len() < plain.len() - plain.len() / 16 {
                self.out.extend_from_slice(&small);
                pressed = true;
            } else {
                self.skip = GIVE_UP;
            }
        }
        if pressed {
            kind |= PRESSED;
        } else {
            self.out.extend_from_slice(plain);
        }
        let length = (self.out.len() - HEAD + TAG) as u32;
        let tag = self
            .cipher
            .encrypt_in_place_detached(&nonce(self.stream, self.piece), &[kind], &mut self.out[HEAD..])
            .map_err(|_| broken("a piece could not be sealed"))?;
        self.out.extend_from_slice(&tag);
        self.out[..4].copy_from_slice(&length.to_le_bytes());
        self.out[4] = kind;
        self.piece += 1;
        Ok(&self.out)
    }
}

/// The length that follows a head, if it can be one: nothing is allocated for a stranger's numbers.
pub fn length(head: &[u8; HEAD]) -> io::Result<usize> {
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if (TAG..=PIECE + TAG).contains(&length) { Ok(length) } else { Err(broken("a piece of impossible length")) }
}

pub struct Opener {
    cipher: ChaCha20Poly1305,
    stream: u32,
    piece: u64,
    press: zstd::bulk::Decompressor<'static>,
    plain: Vec<u8>,
}

impl Opener {
    pub fn new(key: &Key, stream: u32) -> io::Result<Opener> {
        let press = zstd::bulk::Decompressor::new()?;
        let plain = Vec::with_capacity(PIECE);
        Ok(Opener { cipher: ChaCha20Poly1305::new(key.into()), stream, piece: 0, press, plain })
    }

    /// What is in a piece, and whether it is the last. The body is changed in place.
    pub fn open<'a>(&'a mut self, kind: u8, body: &'a mut [u8]) -> io::Result<(&'a [u8], bool)> {
        let at = body.len().checked_sub(TAG).ok_or_else(|| broken("a piece without a seal"))?;
        let (text, tag) = body.split_at_mut(at);
        self.cipher
            .decrypt_in_place_detached(&nonce(self.stream, self.piece), &[kind], text, Tag::from_slice(tag))
            .map_err(|_| broken("a piece was changed on its way"))?;
        self.piece += 1;
        let last = kind & LAST != 0;
        if kind & PRESSED == 0 {
            return Ok((text, last));
        }
        self.plain.clear();
        self.press.decompress_to_buffer(text, &mut self.plain)?;
        Ok((&self.plain, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_and_nothing_else_does() {
        let key = [9; 32];
        let plain = [b"abc".repeat(40_000), (0..=255u8).cycle().map(|b| b.wrapping_mul(b)).take(99).collect()].concat();
        let mut sealer = Sealer::new(&key, 3).expect("a sealer");
        let first = sealer.seal(&plain, false).expect("sealed").to_vec();
        let second = sealer.seal(b"end", true).expect("sealed").to_vec();
        assert!(first.len() < plain.len() / 10, "it was pressed");
        let mut opener = Opener::new(&key, 3).expect("an opener");
        let open = |opener: &mut Opener, piece: &[u8]| {
            let head = *piece.first_chunk::<HEAD>().expect("a head");
            assert_eq!(length(&head).expect("a length"), piece.len() - HEAD);
            opener.open(head[4], &mut piece[HEAD..].to_vec()).map(|(plain, last)| (plain.to_vec(), last))
        };
        assert!(open(&mut Opener::new(&key, 4).expect("an opener"), &first).is_err(), "another stream");
        assert!(open(&mut Opener::new(&[8; 32], 3).expect("an opener"), &first).is_err(), "another key");
        assert!(open(&mut Opener::new(&key, 3).expect("an opener"), &second).is_err(), "out of order");
        let mut bent = first.clone();
        bent[4] ^= LAST;
        assert!(open(&mut Opener::new(&key, 3).expect("an opener"), &bent).is_err(), "the mark of the last one");
        assert_eq!(open(&mut opener, &first).expect("opens"), (plain, false));
        assert_eq!(open(&mut opener, &second).expect("opens"), (b"end".to_vec(), true));
        assert!(length(&[255, 255, 255, 255, 0]).is_err());
    }
}
