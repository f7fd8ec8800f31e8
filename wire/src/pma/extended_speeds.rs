//! PortExtendedSpeedsCounters: errors of the line code of FDR and above, by physical lane (IBA 16.1.4.12).

use crate::format::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::{Format, ParseError, PortNum};

/// Physical lanes that have counters.
pub const PHYSICAL_LANES: usize = 12;

/// Errors of the line code. Counters stop at their largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortExtendedSpeedsCounters {
    /// The port; 0xff is all ports.
    pub port_select: PortNum,
    /// What a Set changes.
    pub counter_select: u64,
    /// SyncHeaderErrorCounter.
    pub sync_header_errors: u16,
    /// UnknownBlockCounter.
    pub unknown_blocks: u16,
    /// ErrorDetectionCounterLane0 to 11.
    pub error_detections: [u16; PHYSICAL_LANES],
    /// FECCorrectableBlockCtrLane0 to 11.
    pub fec_correctable_blocks: [u32; PHYSICAL_LANES],
    /// FECUncorrectableBlockCtrLane0 to 11.
    pub fec_uncorrectable_blocks: [u32; PHYSICAL_LANES],
}

impl Format for PortExtendedSpeedsCounters {
    const NAME: &'static str = "PortExtendedSpeedsCounters";
    const LEN: usize = 140;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            port_select: PortNum::new(raw[1]),
            counter_select: u64_at(raw, 8),
            sync_header_errors: u16_at(raw, 16),
            unknown_blocks: u16_at(raw, 18),
            error_detections: core::array::from_fn(|lane| u16_at(raw, 20 + 2 * lane)),
            fec_correctable_blocks: core::array::from_fn(|lane| u32_at(raw, 44 + 4 * lane)),
            fec_uncorrectable_blocks: core::array::from_fn(|lane| u32_at(raw, 92 + 4 * lane)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[1] = self.port_select.get();
        put_u64(raw, 8, self.counter_select);
        put_u16(raw, 16, self.sync_header_errors);
        put_u16(raw, 18, self.unknown_blocks);
        for lane in 0..PHYSICAL_LANES {
            put_u16(raw, 20 + 2 * lane, self.error_detections[lane]);
            put_u32(raw, 44 + 4 * lane, self.fec_correctable_blocks[lane]);
            put_u32(raw, 92 + 4 * lane, self.fec_uncorrectable_blocks[lane]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_inverts_emit() {
        let counters = PortExtendedSpeedsCounters {
            port_select: PortNum::new(9),
            counter_select: 0x0102_0304_0506_0708,
            sync_header_errors: 0x1112,
            unknown_blocks: 0x1314,
            error_detections: core::array::from_fn(|lane| [0x2122, 7][lane % 2]),
            fec_correctable_blocks: core::array::from_fn(|lane| [0x3132_3334, 8][lane % 2]),
            fec_uncorrectable_blocks: core::array::from_fn(|lane| [0x4142_4344, 9][lane % 2]),
        };
        let mut raw = [0xa5; 140];
        counters.emit(&mut raw);
        assert_eq!(
            PortExtendedSpeedsCounters::parse(&raw),
            Ok((counters, &[][..]))
        );
        assert_eq!(
            (raw[16], raw[20], raw[44], raw[92]),
            (0x11, 0x21, 0x31, 0x41)
        );
        for short in 0..raw.len() {
            assert!(PortExtendedSpeedsCounters::parse(&raw[..short]).is_err());
        }
    }
}
