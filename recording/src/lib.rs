//! Recordings: all inputs that a device got from its shell, and all its outputs, so that the same core can
//! be run with the same inputs again.
//!
//! ```text
//! "ibemurec" | version, 4 bytes | item: header | item: entry | ... | item: End
//!
//!  item: | length, 4 bytes | CRC-32 of the length | CRC-32 of the bytes | the bytes |
//! ```
//!
//! Numbers in front of an item are little-endian; its bytes are a message of [`wire::control`]. The
//! length has a check of its own, so that a damaged length is distinguished from a file that was cut
//! short.
//! A recording without [`Entry::End`] is of a device that was killed, or whose disk was full: what
//! is there is whole.
//!
//! Entries follow the contract of [`Device`](link::Device): what goes in by `handle` (one of the
//! inputs), what is pulled by `transmit`, what is taken by `poll_event`, in the order of the calls.
//! `ready` and `deadline` change nothing and are not recorded. What a call reads beside its input, as a host does
//! in the memory of programs, follows the call ([`Entry::Reads`]).

mod entry;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use entry::{End, Entry, Header, Kind};
pub use read::{Ending, ReadError, Reader};
pub use write::{MAGIC, VERSION, begin, write};
