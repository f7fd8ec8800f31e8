//! How two processes of a job know each other over TCP, and the seal of what they then say.
//!
//! Both have the job's secret. Each proves it by an HMAC over both ends' random numbers, under a name of its own so
//! that no proof can be sent back; what comes before the proofs has a fixed length and is compared, not parsed. From
//! the secret and the numbers follow two keys, one a direction (HKDF, RFC 5869); frames are sealed by AES-128-GCM under
//! a counter, so that one that was changed, left out, repeated or sent back ends the connection.
//!
//! ```text
//! agent                                              supervisor
//!   greeting: magic, version, number (44 bytes)  -->
//!                <--  answer: magic, version, number, HMAC "supervisor" (76 bytes)
//!   proof: HMAC "agent" (32 bytes)               -->
//!   frames: length (4), sealed message, tag (16) <-->
//! ```

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{self, HKDF_SHA256, Salt};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

/// Bytes of a greeting, of its answer, and of the proof that ends the handshake.
pub const GREETING_BYTES: usize = 44;
/// See [`GREETING_BYTES`].
pub const ANSWER_BYTES: usize = GREETING_BYTES + PROOF_BYTES;
/// See [`GREETING_BYTES`].
pub const PROOF_BYTES: usize = 32;
/// Bytes of the length in front of a frame.
pub const LENGTH_BYTES: usize = 4;
/// The longest message of a frame, bytes.
pub const MESSAGE_BYTES_MAX: usize = 192 * 1024;
/// Bytes that a seal adds.
const TAG_BYTES: usize = 16;
/// The longest sealed message with its tag, bytes.
const SEALED_BYTES_MAX: usize = MESSAGE_BYTES_MAX + TAG_BYTES;

const MAGIC: [u8; 8] = *b"ibemu-ag";
/// The version of the handshake. What is said later is compared by builds ([`crate::message::Hello`]).
const VERSION: u32 = 1;

/// Why a connection is not, or no longer, one of the job.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SessionError {
    /// The peer is no process of ibemu.
    #[error("what answers there is no process of ibemu")]
    Stranger,
    /// The peer has another version of the handshake.
    #[error(
        "the other ibemu has version {0} of the handshake, this one has {VERSION}: install one version everywhere"
    )]
    Version(u32),
    /// The peer does not have the job's secret.
    #[error("the peer does not know the job's secret")]
    Unproven,
    /// A frame was changed, repeated or left out.
    #[error("a frame is not what the peer has sent")]
    Forged,
    /// A frame is longer than any.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// The system gives no random numbers, or so many frames were sealed that the key is used up.
    #[error("no more can be sealed")]
    Exhausted,
}

/// What the processes of one job have in common. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Draws one.
    ///
    /// # Errors
    /// [`SessionError::Exhausted`] if the system gives no random numbers.
    pub fn draw() -> Result<Self, SessionError> {
        random().map(Self)
    }

    /// The secret of these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// In hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads what [`Self::to_hex`] writes; `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (number, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * number..2 * number + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    fn hmac(&self, name: &str, numbers: &Numbers) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let tag = hmac::sign(&key, &numbers.text(name));
        <[u8; 32]>::try_from(tag.as_ref()).unwrap_or_default()
    }

    fn is_hmac(&self, name: &str, numbers: &Numbers, proof: &[u8]) -> Result<(), SessionError> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::verify(&key, &numbers.text(name), proof).map_err(|_| SessionError::Unproven)
    }
}

fn random() -> Result<[u8; 32], SessionError> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| SessionError::Exhausted)?;
    Ok(bytes)
}

/// The SHA-256 of bytes that come piece by piece.
#[derive(Clone)]
pub struct Sum(ring::digest::Context);

impl std::fmt::Debug for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sum(..)")
    }
}

impl Default for Sum {
    fn default() -> Self {
        Self(ring::digest::Context::new(&ring::digest::SHA256))
    }
}

impl Sum {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In 64 hexadecimal digits.
    #[must_use]
    pub fn finish(self) -> String {
        let digest = self.0.finish();
        digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The random numbers of both ends.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    agent: [u8; 32],
    supervisor: [u8; 32],
}

impl Numbers {
    fn text(&self, name: &str) -> Vec<u8> {
        [name.as_bytes(), &[0], &self.agent, &self.supervisor].concat()
    }
}

fn greeting(number: &[u8; 32]) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..].copy_from_slice(number);
    bytes
}

/// The number in a greeting.
fn greeted(bytes: &[u8; GREETING_BYTES]) -> Result<[u8; 32], SessionError> {
    let (head, number) = bytes.split_at(12);
    let (magic, version) = head.split_at(8);
    if magic != MAGIC {
        return Err(SessionError::Stranger);
    }
    match u32::from_le_bytes(version.try_into().unwrap_or_default()) {
        VERSION => Ok(number.try_into().unwrap_or_default()),
        version => Err(SessionError::Version(version)),
    }
}

/// The end that connects.
#[derive(Debug)]
pub struct Initiator {
    secret: Secret,
    number: [u8; 32],
}

impl Initiator {
    /// Begins, with the greeting to send.
    ///
    /// # Errors
    /// [`SessionError::Exhausted`].
    pub fn begin(secret: Secret) -> Result<(Self, [u8; GREETING_BYTES]), SessionError> {
        let number = random()?;
        Ok((Self { secret, number }, greeting(&number)))
    }

    /// Checks the answer: the proof to send, and the channel from then on.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn finish(
        self,
        answer: &[u8; ANSWER_BYTES],
    ) -> Result<([u8; PROOF_BYTES], Channel), SessionError> {
        let (head, proof) = answer.split_at(GREETING_BYTES);
        let supervisor = greeted(head.try_into().map_err(|_| SessionError::Stranger)?)?;
        let numbers = Numbers {
            agent: self.number,
            supervisor,
        };
        self.secret.is_hmac("supervisor", &numbers, proof)?;
        let own = self.secret.hmac("agent", &numbers);
        let channel = Channel::new(&self.secret, &numbers, ["to supervisor", "to agent"])?;
        Ok((own, channel))
    }
}

/// The end that is connected to.
#[derive(Debug)]
pub struct Responder {
    secret: Secret,
    numbers: Numbers,
}

impl Responder {
    /// Takes a greeting: the answer to send.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn begin(
        secret: Secret,
        bytes: &[u8; GREETING_BYTES],
    ) -> Result<(Self, [u8; ANSWER_BYTES]), SessionError> {
        let numbers = Numbers {
            agent: greeted(bytes)?,
            supervisor: random()?,
        };
        let mut answer = [0; ANSWER_BYTES];
        answer[..GREETING_BYTES].copy_from_slice(&greeting(&numbers.supervisor));
        answer[GREETING_BYTES..].copy_from_slice(&secret.hmac("supervisor", &numbers));
        Ok((Self { secret, numbers }, answer))
    }

    /// Checks the proof: the channel from then on.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn finish(self, proof: &[u8; PROOF_BYTES]) -> Result<Channel, SessionError> {
        self.secret.is_hmac("agent", &self.numbers, proof)?;
        Channel::new(&self.secret, &self.numbers, ["to agent", "to supervisor"])
    }
}

/// A connection whose ends have proven themselves.
#[derive(Debug)]
pub struct Channel {
    /// Seals what goes out.
    pub sealer: Sealer,
    /// Opens what comes in.
    pub opener: Opener,
    /// What a credential of another kind is bound to: both ends compute it, nobody else can.
    pub binding: [u8; 32],
}

impl Channel {
    fn new(secret: &Secret, numbers: &Numbers, names: [&str; 2]) -> Result<Self, SessionError> {
        let [out, within] = names.map(|name| key(secret, numbers, name));
        Ok(Self {
            sealer: Sealer {
                key: out?,
                count: 0,
            },
            opener: Opener {
                key: within?,
                count: 0,
            },
            binding: secret.hmac("credential", numbers),
        })
    }
}

fn key(secret: &Secret, numbers: &Numbers, name: &str) -> Result<LessSafeKey, SessionError> {
    let salt = Salt::new(HKDF_SHA256, &numbers.text("keys"));
    let pseudorandom: hkdf::Prk = salt.extract(&secret.0);
    let info = [name.as_bytes()];
    let key = pseudorandom
        .expand(&info, &AES_128_GCM)
        .map(UnboundKey::from);
    Ok(LessSafeKey::new(key.map_err(|_| SessionError::Exhausted)?))
}

fn nonce(count: &mut u64) -> Result<Nonce, SessionError> {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&count.to_le_bytes());
    *count = count.checked_add(1).ok_or(SessionError::Exhausted)?;
    Ok(Nonce::assume_unique_for_key(bytes))
}

/// Seals frames of one direction.
#[derive(Debug)]
pub struct Sealer {
    key: LessSafeKey,
    count: u64,
}

impl Sealer {
    /// The frame of a message.
    ///
    /// # Errors
    /// [`SessionError::TooLong`], [`SessionError::Exhausted`].
    pub fn seal(&mut self, message: &[u8]) -> Result<Vec<u8>, SessionError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(SessionError::TooLong(message.len()));
        }
        let length = wire::convert::saturate::<u32>(message.len() + TAG_BYTES).to_le_bytes();
        let mut frame = Vec::with_capacity(LENGTH_BYTES + message.len() + TAG_BYTES);
        frame.extend_from_slice(&length);
        frame.extend_from_slice(message);
        let nonce = nonce(&mut self.count)?;
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(length), &mut frame[LENGTH_BYTES..])
            .map_err(|_| SessionError::Exhausted)?;
        frame.extend_from_slice(tag.as_ref());
        Ok(frame)
    }
}

/// Opens frames of one direction.
#[derive(Debug)]
pub struct Opener {
    key: LessSafeKey,
    count: u64,
}

impl Opener {
    /// How many bytes follow a frame's length.
    ///
    /// # Errors
    /// [`SessionError::TooLong`] if it is no length of a frame.
    pub fn length(head: [u8; LENGTH_BYTES]) -> Result<usize, SessionError> {
        let length = wire::convert::usize_of(u32::from_le_bytes(head));
        match length {
            TAG_BYTES..=SEALED_BYTES_MAX => Ok(length),
            length => Err(SessionError::TooLong(length)),
        }
    }

    /// The message in what follows the length `head`, in place of its seal.
    ///
    /// # Errors
    /// [`SessionError::Forged`].
    pub fn open<'a>(
        &mut self,
        head: [u8; LENGTH_BYTES],
        sealed: &'a mut [u8],
    ) -> Result<&'a [u8], SessionError> {
        let nonce = nonce(&mut self.count)?;
        let opened = self.key.open_in_place(nonce, Aad::from(head), sealed);
        opened
            .map(|message| &*message)
            .map_err(|_| SessionError::Forged)
    }
}

#[cfg(test)]
mod tests;
