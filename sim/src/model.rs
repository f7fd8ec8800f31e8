//! The model of links and devices: delays, rates, buffers.

use core::num::NonZeroU16;

use link::{Pacing, PortConfig};
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use switchd::Timing;
use thiserror::Error;
use wire::packet::VCRC_LEN;
use wire::{Guid, LinkRate, LinkSpeed, LinkWidth, Mtu, convert};

/// Bytes of the headers and the ICRC of a datagram: LRH, BTH, DETH, ICRC.
pub const PACKET_BYTES_MIN: u16 = 32;
/// LRH to ICRC of the longest packet: a payload of 4096 bytes behind the same headers.
pub const PACKET_BYTES_MAX: u16 = 4096 + 32;
/// HOQLife and LifeTimeValue that mean "no limit" (IBA 14.2.5.4, 14.2.5.6).
const NO_LIFETIME_LIMIT: u8 = 20;

/// How the credits of a freed buffer get back to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum CreditReturn {
    /// In the very moment in which the buffer is freed.
    #[default]
    Ideal,
    /// As flow-control packets with the propagation delay of any packet. They take no byte time.
    Packets,
}
wire::choice!(CreditReturn, "return of credits");

/// Parameters of links and devices. Sizes of packets count from LRH to ICRC, as in the papers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Propagation delay of a cable ("fly time" in the papers), nanoseconds.
    pub flight_ns: u64,
    /// From a packet's first byte at a switch until it may enter the crossbar, nanoseconds.
    pub routing_ns: u64,
    /// Whether a packet takes as long through the crossbar as over a link, so that its input
    /// buffer is free when its last byte has left at the link's rate; otherwise the crossbar takes
    /// no time and the buffer is free when the last byte has come in.
    pub crossbar_at_link_rate: bool,
    /// Width and speed of all links.
    pub rate: LinkRate,
    /// data VLs: 1, 2, 4, 8 or 15.
    pub vls: u8,
    /// Bytes of every packet, LRH to ICRC: 32 to 4128, in words of 4.
    pub packet_bytes: u16,
    /// Packets that the input buffer of a VL holds.
    pub input_packets: NonZeroU16,
    /// Packets that the output buffer of a VL holds.
    pub output_packets: NonZeroU16,
    /// How credits get back.
    pub credits: CreditReturn,
    /// Whether the VCRC takes time on a link.
    pub vcrc_takes_time: bool,
    /// HOQLife and LifeTimeValue of all switches: 4.096 us times two to this power, 0 to 19;
    /// `None`: no limit.
    pub lifetime: Option<u8>,
}

/// A model that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    /// No such packet.
    #[error("packets of {0} bytes: {PACKET_BYTES_MIN} to {PACKET_BYTES_MAX}, in words of 4")]
    PacketBytes(u16),
    /// No such number of VLs.
    #[error("{0} data VLs: 1, 2, 4, 8 or 15")]
    Vls(u8),
    /// No such lifetime.
    #[error("lifetime code {0}: 0 to 19, or none for no limit")]
    Lifetime(u8),
    /// Credits cannot count so much.
    #[error("a buffer of {0} packets is more than credits can count")]
    Buffer(u16),
}

impl Model {
    /// The network of MLID04 section 5 with so many data VLs: 20 ns of propagation delay, 100 ns of
    /// routing, 1x links (4 ns a byte), packets of 32 bytes, one packet in each buffer of a VL.
    #[must_use]
    pub fn mlid04(vls: u8) -> Self {
        Self {
            flight_ns: 20,
            routing_ns: 100,
            crossbar_at_link_rate: true,
            rate: LinkRate {
                width: LinkWidth::X1,
                speed: LinkSpeed::Sdr,
            },
            vls,
            packet_bytes: PACKET_BYTES_MIN,
            input_packets: NonZeroU16::MIN,
            output_packets: NonZeroU16::MIN,
            credits: CreditReturn::Ideal,
            vcrc_takes_time: false,
            lifetime: None,
        }
    }

    /// Checks that the model can be built.
    ///
    /// # Errors
    /// [`ModelError`]: which value is out of range.
    pub fn check(&self) -> Result<(), ModelError> {
        let bytes = self.packet_bytes;
        if !(PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(4) {
            return Err(ModelError::PacketBytes(bytes));
        }
        if ![1, 2, 4, 8, 15].contains(&self.vls) {
            return Err(ModelError::Vls(self.vls));
        }
        if let Some(code) = self.lifetime.filter(|&code| code >= NO_LIFETIME_LIMIT) {
            return Err(ModelError::Lifetime(code));
        }
        let blocks = u32::from(link::blocks(self.wire_bytes()));
        for packets in [self.input_packets, self.output_packets] {
            if u32::from(packets.get()) * blocks > u32::from(link::CREDIT_BLOCKS_MAX) {
                return Err(ModelError::Buffer(packets.get()));
            }
        }
        Ok(())
    }

    /// A packet's length on the wire, VCRC included.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        usize::from(self.packet_bytes) + VCRC_LEN
    }

    /// Payload bytes of a packet.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        usize::from(self.packet_bytes.saturating_sub(PACKET_BYTES_MIN))
    }

    /// How long a packet's bytes take on a link, nanoseconds.
    #[must_use]
    pub fn byte_time_ns(&self) -> u64 {
        let bytes = if self.vcrc_takes_time {
            self.wire_bytes()
        } else {
            usize::from(self.packet_bytes)
        };
        self.rate.transmit_ps(convert::u64_of(bytes)) / 1000
    }

    /// HOQLife and LifeTimeValue as management writes them.
    #[must_use]
    pub fn lifetime_code(&self) -> u8 {
        self.lifetime.unwrap_or(NO_LIFETIME_LIMIT)
    }

    /// How long a packet may be in one switch, nanoseconds.
    #[must_use]
    pub fn lifetime_ns(&self) -> Option<u64> {
        self.lifetime.and_then(link::life_time_ns)
    }

    /// The MTU that carries the packets.
    #[must_use]
    pub fn mtu(&self) -> Mtu {
        let payload = self.payload_bytes();
        [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048]
            .into_iter()
            .find(|mtu| usize::from(mtu.bytes()) >= payload)
            .unwrap_or(Mtu::Mtu4096)
    }

    /// The configuration of every port.
    pub(crate) fn port(&self, guid: Guid, epoch_seed: u32) -> PortConfig {
        let packet = usize::from(link::blocks(self.wire_bytes())) * link::BLOCK_BYTES;
        PortConfig {
            node_guid: guid,
            mtu: self.mtu(),
            vls: self.vls,
            rate: self.rate,
            pacing: Pacing::EXACT,
            vcrc_takes_time: self.vcrc_takes_time,
            packet_bytes_limit: Some(self.wire_bytes()),
            buffer_bytes: packet * usize::from(self.input_packets.get()),
            output_bytes: packet * usize::from(self.output_packets.get()),
            epoch_seed,
            ..PortConfig::default()
        }
    }

    /// How long packets take inside a switch.
    pub(crate) fn timing(&self) -> Timing {
        Timing {
            routing_delay_ns: self.routing_ns,
            crossbar_ps_per_byte: if self.crossbar_at_link_rate {
                self.rate.transmit_ps(1)
            } else {
                0
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_packet_takes_128_ns_on_a_link_and_through_the_crossbar() {
        let model = Model::mlid04(1);
        assert_eq!(model.check(), Ok(()));
        assert_eq!(model.byte_time_ns(), 128);
        assert_eq!(model.timing().crossbar_ps_per_byte * 32 / 1000, 128);
        let port = model.port(Guid(1), 1);
        assert_eq!((port.buffer_bytes, port.output_bytes), (64, 64));
        assert_eq!(port.check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_built_is_named() {
        let model = Model::mlid04(1);
        let odd = Model {
            packet_bytes: 33,
            ..model.clone()
        };
        assert_eq!(odd.check(), Err(ModelError::PacketBytes(33)));
        let vls = Model {
            vls: 3,
            ..model.clone()
        };
        assert_eq!(vls.check(), Err(ModelError::Vls(3)));
        let life = Model {
            lifetime: Some(20),
            ..model.clone()
        };
        assert_eq!(life.check(), Err(ModelError::Lifetime(20)));
        let deep = Model {
            input_packets: NonZeroU16::MAX,
            ..model
        };
        assert_eq!(deep.check(), Err(ModelError::Buffer(u16::MAX)));
    }
}
