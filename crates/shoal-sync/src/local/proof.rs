//! Who may join: proof of the run's secret in both directions before anything is parsed (SEC-1).
//!
//! ```text
//! host  -> rank   challenge:32
//! rank  -> host   proof:32 = HMAC(secret, "join" challenge counter rank), counter:32, rank:4
//! host  -> rank   proof:32 = HMAC(secret, "host" counter challenge), with the memory's descriptor
//! ```
//! The secret itself never travels, so a stranger who took the socket's name learns nothing.

use hmac::{Hmac, Mac};
use sha2::Sha256;

pub(super) const CHALLENGE: usize = 32;
pub(super) const JOIN: usize = 32 + 32 + 4;
pub(super) const WELCOME: usize = 32;

fn mac(secret: &[u8; 32], parts: [&[u8]; 3]) -> Hmac<Sha256> {
    let mut mac = match Hmac::<Sha256>::new_from_slice(secret) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of any length"),
    };
    parts.iter().for_each(|part| mac.update(part));
    mac
}

pub(super) fn join(secret: &[u8; 32], challenge: &[u8; CHALLENGE], counter: &[u8; 32], rank: u32) -> [u8; JOIN] {
    let mut message = [0; JOIN];
    message[32..64].copy_from_slice(counter);
    message[64..].copy_from_slice(&rank.to_le_bytes());
    let proof = mac(secret, [b"join", challenge, &message[32..]]).finalize().into_bytes();
    message[..32].copy_from_slice(&proof);
    message
}

/// The rank and counter of a message whose proof is right. Compared in constant time.
pub(super) fn check_join(
    secret: &[u8; 32],
    challenge: &[u8; CHALLENGE],
    message: &[u8; JOIN],
) -> Option<(u32, [u8; 32])> {
    let (proof, rest) = message.split_at(32);
    mac(secret, [b"join", challenge, rest]).verify_slice(proof).ok()?;
    let (counter, rank) = rest.split_at(32);
    Some((u32::from_le_bytes(rank.try_into().ok()?), counter.try_into().ok()?))
}

pub(super) fn welcome(secret: &[u8; 32], challenge: &[u8; CHALLENGE], counter: &[u8; 32]) -> [u8; WELCOME] {
    mac(secret, [b"host", counter, challenge]).finalize().into_bytes().into()
}

pub(super) fn check_welcome(
    secret: &[u8; 32],
    challenge: &[u8; CHALLENGE],
    counter: &[u8; 32],
    message: &[u8; WELCOME],
) -> bool {
    mac(secret, [b"host", counter, challenge]).verify_slice(message).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_and_challenge_prove_anything() {
        let (secret, challenge, counter) = ([1; 32], [2; 32], [3; 32]);
        let message = join(&secret, &challenge, &counter, 9);
        assert_eq!(check_join(&secret, &challenge, &message), Some((9, counter)));
        assert_eq!(check_join(&[9; 32], &challenge, &message), None);
        assert_eq!(check_join(&secret, &[9; 32], &message), None);
        let mut other_rank = message;
        other_rank[64] ^= 1;
        assert_eq!(check_join(&secret, &challenge, &other_rank), None);
        let reply = welcome(&secret, &challenge, &counter);
        assert!(check_welcome(&secret, &challenge, &counter, &reply));
        assert!(!check_welcome(&secret, &counter, &challenge, &reply));
    }
}
