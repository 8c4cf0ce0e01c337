//! How are messages cut out of a stream of bytes?
//!
//! A frame is `u32` (little endian: bytes that follow), `u8` kind, body. The length is checked against a limit before
//! anything is allocated for it.

use std::io::{self, Read, Write};
use thiserror::Error;

/// The body is one message in JSON.
pub const JSON: u8 = b'J';
/// The body is a piece of a rank's output.
pub const OUTPUT: u8 = b'O';

/// Bytes of output in one frame, at most.
pub const CHUNK: usize = 256 << 10;
/// Towards the launcher: a chunk and its head fit, so does every message.
pub const FROM_WARDEN_LIMIT: usize = 1 << 20;
/// Towards the warden: the jobs of all ranks of a host with their environments.
pub const TO_WARDEN_LIMIT: usize = 16 << 20;

#[derive(Debug, Error)]
pub enum FrameError {
    #[error("a frame of {len} bytes was announced; the limit is {limit}")]
    TooLong { len: usize, limit: usize },
    #[error("a frame without a kind was announced")]
    Empty,
    #[error("the stream ended within a frame")]
    Cut,
    #[error("frame of unknown kind {0}")]
    Kind(u8),
    #[error("a message that cannot be understood: {0}")]
    Message(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn body_len(head: [u8; 4], limit: usize) -> Result<usize, FrameError> {
    match u32::from_le_bytes(head) as usize {
        0 => Err(FrameError::Empty),
        len if len > limit => Err(FrameError::TooLong { len, limit }),
        len => Ok(len),
    }
}

/// The first five bytes of a frame with a body of `body` bytes.
pub fn head(kind: u8, body: usize) -> [u8; 5] {
    let len = (body as u32 + 1).to_le_bytes();
    [len[0], len[1], len[2], len[3], kind]
}

pub fn encode(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 + body.len());
    out.extend_from_slice(&head(kind, body.len()));
    out.extend_from_slice(body);
    out
}

/// Kind, body, and how many bytes it took.
pub type Split<'a> = (u8, &'a [u8], usize);

/// The first frame of `bytes`, or nothing if more bytes are needed. Pure.
pub fn split(bytes: &[u8], limit: usize) -> Result<Option<Split<'_>>, FrameError> {
    let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
    let len = body_len(*head, limit)?;
    Ok(bytes.get(4..4 + len).map(|frame| (frame[0], &frame[1..], 4 + len)))
}

/// Reads one frame; its body replaces `body`. Nothing at the clean end of the stream.
pub fn read(from: &mut impl Read, limit: usize, body: &mut Vec<u8>) -> Result<Option<u8>, FrameError> {
    let mut head = [0u8; 4];
    let mut have = 0;
    while have < 4 {
        match from.read(&mut head[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(FrameError::Cut),
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    let len = body_len(head, limit)?;
    let mut kind = [0u8; 1];
    let cut = |e: io::Error| if e.kind() == io::ErrorKind::UnexpectedEof { FrameError::Cut } else { e.into() };
    from.read_exact(&mut kind).map_err(cut)?;
    body.resize(len - 1, 0);
    from.read_exact(body).map_err(cut)?;
    Ok(Some(kind[0]))
}

/// Writes one frame whose body is `first` followed by `second`, without putting them together first.
pub fn write(to: &mut impl Write, kind: u8, first: &[u8], second: &[u8]) -> io::Result<()> {
    let mut start = Vec::with_capacity(5 + first.len());
    start.extend_from_slice(&head(kind, first.len() + second.len()));
    start.extend_from_slice(first);
    let total = start.len() + second.len();
    let mut done = 0;
    while done < total {
        let wrote = if done < start.len() {
            to.write_vectored(&[io::IoSlice::new(&start[done..]), io::IoSlice::new(second)])
        } else {
            to.write(&second[done - start.len()..])
        };
        match wrote {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_anything_is_allocated() {
        let mut body = Vec::new();
        let bytes = [0xff, 0xff, 0xff, 0xff, JSON];
        assert!(matches!(read(&mut &bytes[..], 100, &mut body), Err(FrameError::TooLong { limit: 100, .. })));
        assert!(matches!(split(&bytes, 100), Err(FrameError::TooLong { .. })));
        assert_eq!(body.capacity(), 0);
        assert!(matches!(split(&[0, 0, 0, 0], 100), Err(FrameError::Empty)));
        assert!(matches!(read(&mut &[5, 0, 0, 0, 1][..], 100, &mut body), Err(FrameError::Cut)));
        assert!(matches!(read(&mut &[5, 0][..], 100, &mut body), Err(FrameError::Cut)));
        assert!(matches!(read(&mut &[][..], 100, &mut body), Ok(None)));
    }
}
