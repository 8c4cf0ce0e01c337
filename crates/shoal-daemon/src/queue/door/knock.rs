//! What is the first thing that somebody elsewhere says? As many bytes as are always said, which are compared and not parsed (SEC-1).

use std::fmt;

const MARK: &[u8; 14] = b"shoal-queue/1\n";
/// Bytes of a knock: the mark, what it is, the token, a line end.
pub const LENGTH: usize = 14 + 1 + 64 + 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requests and answers follow.
    Client,
    /// The words of a line follow.
    Agent,
}

/// A token as it is given to people: 32 random bytes in hexadecimal digits. Never printed by accident (SEC-2).
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 64]);

impl Token {
    pub fn new(text: &str) -> Option<Token> {
        let bytes: [u8; 64] = text.trim().as_bytes().try_into().ok()?;
        Some(Token(bytes))
    }

    pub fn bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

pub fn knock(kind: Kind, token: &Token) -> [u8; LENGTH] {
    let mut bytes = [b'\n'; LENGTH];
    bytes[..14].copy_from_slice(MARK);
    bytes[14] = letter(kind);
    bytes[15..79].copy_from_slice(&token.0);
    bytes
}

pub fn hear(bytes: &[u8; LENGTH]) -> Option<(Kind, Token)> {
    let kind = [Kind::Client, Kind::Agent].into_iter().find(|kind| letter(*kind) == bytes[14])?;
    let token = bytes[15..79].try_into().ok()?;
    (bytes.starts_with(MARK) && bytes[79] == b'\n').then_some((kind, Token(token)))
}

fn letter(kind: Kind) -> u8 {
    match kind {
        Kind::Client => b'c',
        Kind::Agent => b'a',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knock_is_heard_as_it_was_said_and_nothing_else_is() {
        let token = Token::new(&"a1".repeat(32)).unwrap();
        for kind in [Kind::Client, Kind::Agent] {
            let bytes = knock(kind, &token);
            assert_eq!(hear(&bytes), Some((kind, token.clone())));
            for at in [0, 13, 14, 79] {
                let mut wrong = bytes;
                wrong[at] ^= 0x40;
                assert_eq!(hear(&wrong), None, "{at}");
            }
        }
        assert_eq!(Token::new("short"), None);
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
