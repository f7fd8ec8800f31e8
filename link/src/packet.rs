//! A packet inside a device: its own LRH and VCRC, a payload that copies may share, its times.

use wire::crc::vcrc_update_vl;
use wire::{DataPacket, Format, Lrh, ParseError, TrafficKind, Vl};

use crate::config::blocks;
use crate::{Counts, DropReason, Payload, Pool, PoolError, Time};

/// A packet in a device's buffers.
///
/// Its payload belongs to the device's [`Pool`]: code that drops a packet calls
/// [`Packet::release`].
#[derive(Debug)]
#[must_use = "a packet that is not released is lost memory"]
pub struct Packet {
    /// The header.
    pub lrh: Lrh,
    /// Its reserved bits. Both check sums cover them, so they go on as they came (IBA 7.8). Of a packet without bytes, which has
    /// none, the opcode.
    pub(crate) reserved: u8,
    /// The VCRC, right for `lrh` and the payload as long as the packet was whole.
    pub vcrc: u16,
    /// Everything between LRH and VCRC.
    pub payload: Payload,
    /// When its first byte was there to be sent on.
    pub head: Time,
    /// When its last byte is there; later than now while a packet is still coming in.
    pub tail: Time,
    /// When it came into this device: its lifetime counts from then.
    pub entered: Time,
}

/// The reserved bits in front of LRH.PktLen, in byte 4.
const RESERVED_BEFORE_LENGTH: u8 = 0xf8;
/// Where the two reserved bits in front of LRH.LNH stand in byte 1.
const RESERVED_BEFORE_LNH: u32 = 2;

/// The reserved bits of an LRH: those of byte 4 where they stand, those of byte 1 at the lower end.
#[inline]
fn reserved_bits(lrh: &[u8]) -> u8 {
    lrh[4] & RESERVED_BEFORE_LENGTH | lrh[1] >> RESERVED_BEFORE_LNH & 0b11
}

/// Why bytes did not become a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// They are no packet.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// There is no memory for it.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl Packet {
    /// A packet from its bytes, LRH to VCRC. No check sum is looked at.
    ///
    /// # Errors
    /// [`PacketError`]: no well-formed packet, or no memory left.
    pub fn from_bytes(pool: &mut Pool, now: Time, bytes: &[u8]) -> Result<Self, PacketError> {
        let packet = DataPacket::parse(bytes)?;
        Ok(Self::from_checked(pool, now, now, &packet)?)
    }

    /// A packet whose first byte came at `head` and whose last comes at `tail`.
    #[inline]
    pub(crate) fn from_checked(
        pool: &mut Pool,
        head: Time,
        tail: Time,
        packet: &DataPacket<'_>,
    ) -> Result<Self, PoolError> {
        let payload = pool.insert(packet.body())?;
        Ok(Self::with_payload(payload, head, tail, packet))
    }

    /// The same where its payload is in the pool already.
    #[inline]
    pub(crate) fn with_payload(
        payload: Payload,
        head: Time,
        tail: Time,
        packet: &DataPacket<'_>,
    ) -> Self {
        Self {
            lrh: *packet.lrh(),
            reserved: reserved_bits(packet.bytes()),
            vcrc: packet.vcrc(),
            payload,
            head,
            tail,
            entered: head,
        }
    }

    /// Its length from LRH to VCRC, in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lrh.packet_bytes()
    }

    /// How many blocks of 64 bytes it counts for.
    #[inline]
    #[must_use]
    pub fn blocks(&self) -> u16 {
        blocks(self.bytes())
    }

    /// Which packet of the hosts' traffic this is; `None` if it is none of it.
    #[must_use]
    pub fn traffic_kind(&self, pool: &Pool) -> Option<TrafficKind> {
        TrafficKind::of_body(self.lrh.lnh, pool.bytes(&self.payload))
    }

    /// Gives the packet back, dropped for `reason`, and counts that.
    pub fn discard(self, pool: &mut Pool, counts: &mut Counts, reason: DropReason) {
        counts.drop_packet(reason, self.traffic_kind(pool));
        self.release(pool);
    }

    /// Moves the packet to another VL and updates its VCRC.
    #[inline]
    pub fn set_vl(&mut self, vl: Vl) {
        if vl != self.lrh.vl {
            // Of a packet without bytes there is no check sum, and nobody reads it.
            self.vcrc = vcrc_update_vl(self.vcrc, self.lrh.pkt_len_words, self.lrh.vl, vl);
            self.lrh.vl = vl;
        }
    }

    /// A copy with a header of its own and the same payload.
    #[inline]
    pub fn share(&self, pool: &mut Pool) -> Self {
        Self {
            payload: pool.share(&self.payload),
            ..*self
        }
    }

    /// Gives the payload back.
    #[inline]
    pub fn release(self, pool: &mut Pool) {
        pool.release(self.payload);
    }

    /// Copies the packet, LRH to VCRC, to the front of `out`, which has [`Packet::bytes`] bytes.
    ///
    /// # Panics
    /// If `out` has another length.
    #[inline]
    pub fn emit(&self, pool: &Pool, out: &mut [u8]) {
        let (header, rest) = out.split_at_mut(Lrh::LEN);
        let (payload, vcrc) = rest.split_at_mut(self.payload.len());
        self.lrh.emit(header);
        header[4] |= self.reserved & RESERVED_BEFORE_LENGTH;
        header[1] |= (self.reserved & 0b11) << RESERVED_BEFORE_LNH;
        payload.copy_from_slice(pool.bytes(&self.payload));
        vcrc.copy_from_slice(&self.vcrc.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bits_of_the_header_go_on_as_they_came() {
        let mut bytes = vec![0x5a; 42];
        bytes[..Lrh::LEN].copy_from_slice(&[0, 0, 0, 2, 0, 10, 0, 1]);
        let mut pool = Pool::new(4096);
        for (at, bits) in [
            (1, 0x04),
            (1, 0x08),
            (4, 0x08),
            (4, 0x80),
            (1, 0x0e),
            (4, 0xf8),
        ] {
            let mut sent = bytes.clone();
            sent[at] |= bits;
            let vcrc = wire::crc::vcrc(&sent[..40]);
            sent[40..].copy_from_slice(&vcrc.to_be_bytes());
            let packet = Packet::from_bytes(&mut pool, Time(1), &sent).unwrap();
            let mut moved = packet.share(&mut pool);
            let mut out = vec![0; packet.bytes()];
            packet.emit(&pool, &mut out);
            assert_eq!(out, sent);
            moved.set_vl(Vl::constant(3));
            moved.emit(&pool, &mut out);
            let moved_packet = DataPacket::parse(&out).unwrap();
            assert_eq!(
                moved_packet.check_vcrc(),
                Ok(()),
                "byte {at}, bits {bits:#x}"
            );
            packet.release(&mut pool);
            moved.release(&mut pool);
        }
    }
}
