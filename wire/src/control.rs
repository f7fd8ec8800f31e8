//! Messages on local control sockets and in recordings, encoded by bincode.
//!
//! The only place that calls bincode, so that replacing it touches one file. Types derive
//! [`bincode::Encode`] and [`bincode::Decode`] where they live. Messages are capped in length, and
//! a message must end where its bytes end.
//!
//! What is asked of every kind of device stands here ([`DeviceRequest`]); what is asked of one kind,
//! in the crate of that kind.

mod device;

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use thiserror::Error;

pub use device::{DeviceReply, DeviceRequest, LaneStatus, PortLanes, PortStatus};

/// The longest message in bytes, 192 KiB: a port status of every port of a large switch fits.
pub const MESSAGE_LEN_MAX: usize = 192 * 1024;

/// The most that decoding one message may claim, in bytes as the values lie in memory: an element
/// of a list takes more there than its few bytes in the message. Bounds what a list's length field
/// can make us allocate.
const DECODE_CLAIM_MAX: usize = 16 * MESSAGE_LEN_MAX;

/// Why a message could not be encoded or decoded.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The message is longer than [`MESSAGE_LEN_MAX`].
    #[error("control message of {len} bytes is too long (at most {MESSAGE_LEN_MAX})")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The value cannot be encoded.
    #[error("control message cannot be encoded: {0}")]
    Encode(#[source] EncodeError),
    /// The bytes are not a message of the type wanted.
    #[error("control message is malformed: {0}")]
    Decode(#[source] DecodeError),
    /// Bytes are left behind the message.
    #[error("control message is followed by {extra} bytes")]
    Trailing {
        /// How many.
        extra: usize,
    },
}

type Config = Configuration<LittleEndian, Varint, Limit<DECODE_CLAIM_MAX>>;

const CONFIG: Config = bincode::config::standard().with_limit::<DECODE_CLAIM_MAX>();

/// The bytes of a message.
///
/// # Errors
/// [`ControlError::TooLong`] above the limit; [`ControlError::Encode`] for values that cannot be
/// encoded.
pub fn encode<T: Encode>(message: &T) -> Result<Vec<u8>, ControlError> {
    let bytes = bincode::encode_to_vec(message, CONFIG).map_err(ControlError::Encode)?;
    if bytes.len() > MESSAGE_LEN_MAX {
        return Err(ControlError::TooLong { len: bytes.len() });
    }
    Ok(bytes)
}

/// Puts the bytes of a message behind what is in `out`, without memory of its own; how many there
/// are. After an error `out` is as before.
///
/// # Errors
/// As [`encode`].
pub fn append<T: Encode>(message: &T, out: &mut Vec<u8>) -> Result<usize, ControlError> {
    let before = out.len();
    let outcome = bincode::encode_into_std_write(message, out, CONFIG);
    let failed = match outcome {
        Ok(len) if len <= MESSAGE_LEN_MAX => return Ok(len),
        Ok(len) => ControlError::TooLong { len },
        Err(error) => ControlError::Encode(error),
    };
    out.truncate(before);
    Err(failed)
}

/// The message of these bytes, all of them.
///
/// # Errors
/// [`ControlError::TooLong`] above the limit, before anything is allocated;
/// [`ControlError::Decode`] for bytes that are no such message; [`ControlError::Trailing`] if some
/// are left.
pub fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, ControlError> {
    let (message, rest) = decode_first(bytes)?;
    match rest.len() {
        0 => Ok(message),
        extra => Err(ControlError::Trailing { extra }),
    }
}

/// The first of several messages that stand one behind the other, as [`append`] puts them, and the bytes behind it.
///
/// # Errors
/// As [`decode`], but for what follows.
pub fn decode_first<T: Decode<()>>(bytes: &[u8]) -> Result<(T, &[u8]), ControlError> {
    if bytes.len() > MESSAGE_LEN_MAX {
        return Err(ControlError::TooLong { len: bytes.len() });
    }
    let (message, used) =
        bincode::decode_from_slice(bytes, CONFIG).map_err(ControlError::Decode)?;
    Ok((message, bytes.get(used..).unwrap_or_default()))
}
