//! Keys: one a cable, direction and pair of lives, of the secret of a job.
//!
//! ```text
//! job's secret ──HKDF──► cable's secret ──HKDF──► key of a direction
//!              cable's name             secret and epoch of the sender, then of the receiver
//! ```
//!
//! Both ends draw a secret and an epoch anew whenever they open their socket, so a key is never used by two lives, and numbers
//! of datagrams may begin at 0 with each.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use wire::tunnel::{CableSecret, SEAL_BYTES, TunnelHeader};
use wire::udplink::UdpEndpoint;

use std::fmt;

/// What all keys of a job's tunnels are made of. It is never printed.
#[derive(Clone)]
pub struct JobSecret([u8; 32]);

impl JobSecret {
    /// The secret of these bytes, which must be random.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret of the cable of that name, which no other cable of the job has.
    #[must_use]
    pub fn cable(&self, name: &str) -> CableSecret {
        CableSecret(derived(b"ibemu cable 1", &self.0, &[name.as_bytes()]))
    }
}

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(..)")
    }
}

/// So many bytes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-SHA256 (RFC 5869).
fn derived<const N: usize>(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> [u8; N] {
    let mut out = [0; N];
    let key = Salt::new(HKDF_SHA256, salt).extract(secret);
    key.expand(info, Length(N))
        .and_then(|expanded| expanded.fill(&mut out))
        .expect("a few bytes can always be had");
    out
}

/// The key of one direction of a cable.
pub(super) struct DirectionKey {
    key: LessSafeKey,
    /// Names it.
    number: u64,
}

impl DirectionKey {
    pub(super) fn new(secret: &CableSecret, sender: &UdpEndpoint, receiver: &UdpEndpoint) -> Self {
        let mut lives = [0; 32];
        let numbers = [sender, receiver].map(|end| [end.secret.0, end.epoch]);
        for (place, number) in lives.chunks_exact_mut(8).zip(numbers.as_flattened()) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        let bytes: [u8; 24] = derived(b"ibemu tunnel 1", &secret.0, &[&lives]);
        let (number, key) = bytes.split_at(8);
        let key = UnboundKey::new(&AES_128_GCM, key).expect("16 bytes are a key of AES-128");
        Self {
            key: LessSafeKey::new(key),
            number: number
                .iter()
                .fold(0, |number, &byte| number << 8 | u64::from(byte)),
        }
    }

    /// A number that no other key has.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// What datagrams say of their key.
    pub(super) fn id(&self) -> u16 {
        u16::try_from(self.number & 0xffff).unwrap_or(0)
    }

    fn nonce(counter: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&counter.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts `payload`, and gives the tag over it and the header, whose `counter` is used for this alone.
    pub(super) fn seal(&self, counter: u64, header: &[u8], payload: &mut [u8]) -> [u8; SEAL_BYTES] {
        let sealed =
            self.key
                .seal_in_place_separate_tag(Self::nonce(counter), Aad::from(header), payload);
        let mut tag = [0; SEAL_BYTES];
        // Refused are payloads of 64 GiB only.
        tag.copy_from_slice(sealed.expect("a datagram can be sealed").as_ref());
        tag
    }

    /// Decrypts what stands at `from` in `memory`, the tag at its end, to its front; how many bytes. `None`, and `memory` is of no
    /// use, if it was not sealed so.
    pub(super) fn open(
        &self,
        counter: u64,
        header: &[u8; TunnelHeader::LEN],
        memory: &mut [u8],
        from: usize,
    ) -> Option<usize> {
        let opened = self
            .key
            .open_within(Self::nonce(counter), Aad::from(header), memory, from..);
        opened.ok().map(|payload| payload.len())
    }
}

impl fmt::Debug for DirectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectionKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use wire::udplink::LinkSecret;

    use super::*;

    fn end(secret: u64, epoch: u64) -> UdpEndpoint {
        UdpEndpoint {
            address: "127.0.0.1:1".parse().unwrap(),
            secret: LinkSecret(secret),
            epoch,
        }
    }

    #[test]
    fn every_job_cable_direction_and_life_has_another_key() {
        let jobs = [1, 2].map(|byte| JobSecret::new([byte; 32]));
        let secrets = [
            jobs[0].cable("s0:1"),
            jobs[0].cable("s0:2"),
            jobs[1].cable("s0:1"),
        ];
        let lives = [end(1, 2), end(1, 3), end(2, 2), end(7, 8)];
        let mut numbers = Vec::new();
        for secret in &secrets {
            for sender in &lives {
                for receiver in lives.iter().filter(|&receiver| receiver != sender) {
                    numbers.push(DirectionKey::new(secret, sender, receiver).number());
                }
            }
        }
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    #[test]
    fn secrets_are_not_printed() {
        let job = JobSecret::new([0x61; 32]);
        let key = DirectionKey::new(&job.cable("x"), &end(1, 2), &end(3, 4));
        assert_eq!(format!("{job:?} {key:?}"), "JobSecret(..) DirectionKey(..)");
    }

    /// RFC 5869, A.3, by way of the function that all keys come from: SHA-256 without salt and info.
    #[test]
    fn derivation_is_hkdf_of_sha_256() {
        let bytes: [u8; 42] = derived(b"", &[0x0b; 22], &[]);
        let expected = [
            0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f, 0x71, 0x5f, 0x80, 0x2a, 0x06, 0x3c,
            0x5a, 0x31, 0xb8, 0xa1, 0x1f, 0x5c, 0x5e, 0xe1, 0x87, 0x9e, 0xc3, 0x45, 0x4e, 0x5f,
            0x3c, 0x73, 0x8d, 0x2d, 0x9d, 0x20, 0x13, 0x95, 0xfa, 0xa4, 0xb6, 0x1a, 0x96, 0xc8,
        ];
        assert_eq!(bytes, expected);
    }
}
