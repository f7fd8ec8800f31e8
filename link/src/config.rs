//! The configuration of a port: sizes, rate, times.

use core::num::NonZeroU64;

use bincode::{Decode, Encode};
use thiserror::Error;
use wire::convert::{nearest, saturate};
use wire::{Guid, LinkRate, LinkSpeed, LinkWidth, Mtu, Vl};

/// Bytes of one credit block (IBA 7.9.4.4).
pub const BLOCK_BYTES: usize = 64;

/// The most blocks that a credit limit can be ahead of the blocks sent (IBA 7.9.4.4).
pub const CREDIT_BLOCKS_MAX: u16 = 2048;

/// How many blocks of 64 bytes a packet of `bytes` (LRH to VCRC) counts for.
#[inline]
#[must_use]
pub fn blocks(bytes: usize) -> u16 {
    saturate::<u16>(bytes.div_ceil(BLOCK_BYTES))
}

/// How long a packet lives by a HOQLife or LifeTimeValue of `code`, in nanoseconds of link-layer
/// time: 4.096 us times two to the code; `None`, for ever, above 19 (IBA 18.2.5.4).
#[must_use]
pub const fn life_time_ns(code: u8) -> Option<u64> {
    if code <= 19 { Some(4096 << code) } else { None }
}

/// Whether and how a port holds itself to the rate of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Pacing {
    /// A packet leaves as soon as there are credits for it.
    Unpaced,
    /// Packets leave at the link's rate, slowed down.
    Paced {
        /// How many times slower than real every link-layer time runs, in thousandths: 1000 is
        /// real time, 1,000,000 a thousand times slower.
        scale_milli: NonZeroU64,
        /// How long the port may sleep while packets wait, and then make up for it in one burst,
        /// in nanoseconds. 0 paces packet by packet (virtual time); a live port cannot hold tens
        /// of thousands of wake-ups a second and needs some milliseconds.
        tick_ns: u64,
    },
}

impl Pacing {
    /// Real time divided by `factor`, in bursts of [`Pacing::LIVE_TICK_NS`].
    ///
    /// # Errors
    /// [`ConfigError::TimeScale`] if `factor` is not a number from 0.001 to a billion.
    pub fn live(factor: f64) -> Result<Self, ConfigError> {
        Ok(Self::Paced {
            scale_milli: milli(factor)?,
            tick_ns: Self::LIVE_TICK_NS,
        })
    }

    /// Real time divided by `factor`, packet by packet, as virtual time can.
    ///
    /// # Errors
    /// As [`Pacing::live`].
    pub fn exact(factor: f64) -> Result<Self, ConfigError> {
        Ok(Self::Paced {
            scale_milli: milli(factor)?,
            tick_ns: 0,
        })
    }

    /// The burst of a live port: rare enough for timers that slip, short against a human.
    pub const LIVE_TICK_NS: u64 = 5_000_000;

    /// Real time, packet by packet: virtual time's default.
    pub const EXACT: Self = Self::Paced {
        scale_milli: NonZeroU64::new(1000).expect("1000 is not zero"),
        tick_ns: 0,
    };

    /// `ns` nanoseconds of link-layer time on this port's clock; saturates.
    #[must_use]
    pub const fn scale_ns(self, ns: u64) -> u64 {
        match self {
            Self::Unpaced => ns,
            Self::Paced { scale_milli, .. } => match ns.checked_mul(scale_milli.get()) {
                Some(product) => product / 1000,
                None => (ns / 1000).saturating_mul(scale_milli.get()),
            },
        }
    }
}

/// A decimal factor in thousandths, rounded.
fn milli(factor: f64) -> Result<NonZeroU64, ConfigError> {
    let refuse = || ConfigError::TimeScale {
        wanted: factor.to_string(),
    };
    if !(0.001..=1e9).contains(&factor) {
        return Err(refuse());
    }
    NonZeroU64::new(nearest(factor * 1000.0)).ok_or_else(refuse)
}

/// The times that bring a link up and down, in nanoseconds of the shell's clock (not scaled: they
/// guard against silence of processes, not against slowness of links).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LinkTimeouts {
    /// A flow-control or training record goes out at least this often.
    pub keepalive_ns: u64,
    /// A silent peer takes the link down after this time. More than twice `keepalive_ns`.
    pub silence_ns: u64,
}

impl Default for LinkTimeouts {
    /// 250 ms and 1 s.
    fn default() -> Self {
        Self {
            keepalive_ns: 250_000_000,
            silence_ns: 1_000_000_000,
        }
    }
}

/// The configuration of a port.
///
/// `PortConfig::default()` is a 4x SDR port with 8 data VLs, unpaced, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PortConfig {
    /// GUID of the node, sent to the peer at link-up.
    pub node_guid: Guid,
    /// The largest payload that the port can carry (MTUCap).
    pub mtu: Mtu,
    /// How many data VLs the port has, 1..=15: VL0 upwards.
    pub vls: u8,
    /// Width and speed.
    pub rate: LinkRate,
    /// Whether packets leave at that rate.
    pub pacing: Pacing,
    /// Whether the two bytes of the VCRC count in a packet's time on the link. The papers' models
    /// count from LRH to ICRC.
    pub vcrc_takes_time: bool,
    /// The longest packet that will ever come, LRH to VCRC, in bytes; `None`: what the MTU allows.
    /// A model whose buffers hold one short packet sets it here, since buffers are never smaller
    /// than the longest packet.
    pub packet_bytes_limit: Option<usize>,
    /// Input buffer of each data VL, in bytes: what credits advertise. At least one packet of
    /// the MTU.
    pub buffer_bytes: usize,
    /// Output queue of each data VL, in bytes. Never less than one packet, whatever is given.
    pub output_bytes: usize,
    /// Input buffer and output queue of VL15, in packets (each at most 290 bytes). No credits
    /// guard it: what does not fit is dropped.
    pub vl15_packets: usize,
    /// Keep-alive and silence.
    pub timeouts: LinkTimeouts,
    /// Where the numbers of link-ups start. Another one at each start of a process, so that a
    /// restarted port is never taken for the one before.
    pub epoch_seed: u32,
    /// Whether the port is switched on when it is built; if not, management can do it (Polling).
    pub is_enabled: bool,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            node_guid: Guid(0),
            mtu: Mtu::Mtu2048,
            vls: 8,
            rate: LinkRate {
                width: LinkWidth::X4,
                speed: LinkSpeed::Sdr,
            },
            pacing: Pacing::Unpaced,
            vcrc_takes_time: true,
            packet_bytes_limit: None,
            buffer_bytes: CREDIT_BLOCKS_MAX as usize * BLOCK_BYTES,
            output_bytes: 16 * 1024,
            vl15_packets: 256,
            timeouts: LinkTimeouts::default(),
            epoch_seed: 1,
            is_enabled: true,
        }
    }
}

/// Why a port cannot be built as asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The number of data VLs is not 1..=15.
    #[error("{wanted} data VLs: a port has 1 to 15")]
    Vls {
        /// What was asked for.
        wanted: u8,
    },
    /// An input buffer would not hold one packet of the MTU, so no such packet could ever come.
    #[error("an input buffer of {wanted} bytes holds no packet of the MTU: at least {need}")]
    BufferTooSmall {
        /// What was asked for, in bytes.
        wanted: usize,
        /// The least, in bytes.
        need: usize,
    },
    /// VL15 has no room.
    #[error("VL15 needs room for at least one packet")]
    NoManagementBuffer,
    /// The limit of silence leaves no time for a lost keep-alive.
    #[error(
        "silence limit of {silence_ns} ns: more than twice the keep-alive of {keepalive_ns} ns, which is above 0"
    )]
    Timeouts {
        /// The keep-alive asked for.
        keepalive_ns: u64,
        /// The limit asked for.
        silence_ns: u64,
    },
    /// The time scale is no usable number.
    #[error("time scale {wanted}: a number from 0.001 to 1000000000")]
    TimeScale {
        /// What was asked for.
        wanted: String,
    },
}

impl PortConfig {
    /// Bytes of the longest packet that the port takes, LRH to VCRC.
    #[must_use]
    pub fn packet_bytes_max(&self) -> usize {
        let longest = usize::from(self.mtu.bytes()) + Mtu::OVERHEAD_MAX;
        self.packet_bytes_limit
            .map_or(longest, |most| most.min(longest))
    }

    /// Blocks of one VL's input buffer.
    #[must_use]
    pub fn buffer_blocks(&self) -> u32 {
        saturate::<u32>(self.buffer_bytes / BLOCK_BYTES)
    }

    /// Checks that a port can be built like this.
    ///
    /// # Errors
    /// [`ConfigError`]: which setting is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(1..=Vl::DATA_COUNT).contains(&self.vls) {
            return Err(ConfigError::Vls { wanted: self.vls });
        }
        let need = usize::from(blocks(self.packet_bytes_max())) * BLOCK_BYTES;
        if self.buffer_bytes < need {
            return Err(ConfigError::BufferTooSmall {
                wanted: self.buffer_bytes,
                need,
            });
        }
        if self.vl15_packets == 0 {
            return Err(ConfigError::NoManagementBuffer);
        }
        let LinkTimeouts {
            keepalive_ns,
            silence_ns,
        } = self.timeouts;
        if keepalive_ns == 0 || silence_ns / 2 <= keepalive_ns {
            return Err(ConfigError::Timeouts {
                keepalive_ns,
                silence_ns,
            });
        }
        Ok(())
    }

    /// The most bytes of packets that one port's buffers and queues hold: what its share of a
    /// [`Pool`](crate::Pool) has to allow for.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let output = self.output_bytes.max(self.packet_bytes_max());
        let data = usize::from(self.vls).saturating_mul(self.buffer_bytes.saturating_add(output));
        data.saturating_add(self.vl15_packets.saturating_mul(2 * 320))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_counts_in_whole_blocks() {
        assert_eq!(
            [1, 64, 65, 290, 4222].map(blocks),
            [1, 1, 2, 5, 66],
            "bytes from LRH to VCRC, rounded up"
        );
    }

    #[test]
    fn a_buffer_smaller_than_one_packet_is_refused() {
        let config = PortConfig {
            mtu: Mtu::Mtu256,
            buffer_bytes: 383,
            ..PortConfig::default()
        };
        assert_eq!(
            config.check(),
            Err(ConfigError::BufferTooSmall {
                wanted: 383,
                need: 384
            })
        );
        let enough = PortConfig {
            buffer_bytes: 384,
            ..config
        };
        assert_eq!(enough.check(), Ok(()));
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let config = PortConfig::default();
        let no_vl = PortConfig { vls: 0, ..config };
        assert_eq!(no_vl.check(), Err(ConfigError::Vls { wanted: 0 }));
        let deaf = PortConfig {
            vl15_packets: 0,
            ..config
        };
        assert_eq!(deaf.check(), Err(ConfigError::NoManagementBuffer));
        let hasty = PortConfig {
            timeouts: LinkTimeouts {
                keepalive_ns: 10,
                silence_ns: 20,
            },
            ..config
        };
        assert!(matches!(hasty.check(), Err(ConfigError::Timeouts { .. })));
        assert!(Pacing::live(f64::NAN).is_err());
        assert!(Pacing::live(0.0).is_err());
    }

    #[test]
    fn the_time_scale_stretches_link_layer_times() {
        let slow = Pacing::live(2.5).unwrap();
        assert_eq!(slow.scale_ns(4096), 10_240);
        assert_eq!(slow.scale_ns(u64::MAX), u64::MAX, "saturates");
        assert_eq!(Pacing::Unpaced.scale_ns(7), 7);
    }
}
