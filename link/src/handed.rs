//! Packets that go from port to port of one process as values, without bytes.
//!
//! Where nothing on the way can damage or look at a packet's bytes (the cables of a simulated fabric), writing, checking and
//! parsing them at every port would find again what is known. A shell that offers it ([`FrameBuf::for_handing`](crate::FrameBuf::for_handing))
//! gets such packets and flow control as values, and hands them in by [`Input::Handed`](crate::Input::Handed) and
//! [`Input::Credits`](crate::Input::Credits). Everything else about them is as for all packets: admission, buffers, credits,
//! arbitration, counters.
//!
//! What the packet holds is the shell's: it knows it by the tag.

use wire::Lrh;

use crate::{Packet, Pool, Time};

/// A packet without bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedPacket {
    /// Its header, which says how long it is.
    pub lrh: Lrh,
    /// The opcode of its transport header, by which it is counted.
    pub op_code: u8,
    /// By which the shell knows it.
    pub tag: u32,
}

impl Packet {
    /// A packet without bytes whose first byte came at `head` and whose last comes at `tail`. Nothing of `pool` but a
    /// handle is taken.
    #[inline]
    pub fn from_handed(pool: &mut Pool, head: Time, tail: Time, handed: &HandedPacket) -> Self {
        Self {
            lrh: handed.lrh,
            reserved: handed.op_code,
            vcrc: 0,
            payload: pool.adopt(handed.tag),
            head,
            tail,
            entered: head,
        }
    }

    /// The packet as it is handed on; `None` if it has bytes.
    #[inline]
    #[must_use]
    pub fn handed(&self) -> Option<HandedPacket> {
        let tag = self.payload.tag()?;
        Some(HandedPacket {
            lrh: self.lrh,
            op_code: self.reserved,
            tag,
        })
    }
}
