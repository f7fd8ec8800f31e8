//! Bytes to values and back, and nothing else: every packet, management datagram and control
//! message that crosses an ibemu fabric or one of its local sockets.
//!
//! No state, no IO, no time. Parsers never panic and never allocate for a length that the bytes
//! do not hold; emitters write every byte, reserved bits as zero.

mod types;

pub use types::{Guid, Lid, Lmc, OutOfRange, PortNum, Psn, Qpn, Sl, Vl};
