//! Writing a recording: its items as bytes.

use bincode::Encode;
use wire::control::{ControlError, append};
use wire::convert::saturate;

use crate::entry::{Entry, Header};

/// How every recording begins.
pub const MAGIC: [u8; 8] = *b"ibemurec";
/// The version of the format; what is in the messages counts in.
pub const VERSION: u32 = 6;

/// Bytes in front of an item.
pub(crate) const ITEM_HEAD: usize = 12;

/// Puts the beginning of a recording behind what is in `out`.
///
/// # Errors
/// If the header is longer than a message may be.
pub fn begin(out: &mut Vec<u8>, header: &Header) -> Result<(), ControlError> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    item(out, header)
}

/// Puts an entry behind what is in `out`; after an error, that is as before.
///
/// # Errors
/// If the entry is longer than a message may be.
pub fn write<C: Encode>(out: &mut Vec<u8>, entry: &Entry<'_, C>) -> Result<(), ControlError> {
    item(out, entry)
}

fn item<T: Encode>(out: &mut Vec<u8>, message: &T) -> Result<(), ControlError> {
    let start = out.len();
    out.extend_from_slice(&[0; ITEM_HEAD]);
    let len = append(message, out).inspect_err(|_| out.truncate(start))?;
    let head = head_of(&out[start + ITEM_HEAD..], len);
    out[start..start + ITEM_HEAD].copy_from_slice(&head);
    Ok(())
}

fn head_of(bytes: &[u8], len: usize) -> [u8; ITEM_HEAD] {
    // Messages are capped far below 4 GiB.
    let length = saturate::<u32>(len).to_le_bytes();
    let checks = [crc32fast::hash(&length), crc32fast::hash(bytes)];
    let mut head = [0; ITEM_HEAD];
    head[..4].copy_from_slice(&length);
    head[4..8].copy_from_slice(&checks[0].to_le_bytes());
    head[8..].copy_from_slice(&checks[1].to_le_bytes());
    head
}
