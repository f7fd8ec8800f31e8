//! PortSamplesControl and PortSamplesResult (IBA 16.1.3.2, 16.1.3.4): counting within an interval.
//!
//! ```text
//! PortSamplesControl                         PortSamplesResult
//! byte  0  OpCode                            byte 0  Tag
//!       1  PortSelect                             3  SampleStatus (low 2 bits)
//!       2  Tick                                   4  Counter0 to Counter14, 32 bits each
//!       3  CounterWidth (low 3 bits)
//!       4  CounterMask0 to 9 (3 bits each, low 30 bits)
//!       8  CounterMask10 to 14 (low 15 bits)
//!      10  SampleMechanisms
//!      11  SampleStatus (low 2 bits)
//!      12  OptionMask (8)
//!      20  VendorMask (8)
//!      28  SampleStart (4)
//!      32  SampleInterval (4)
//!      36  Tag (2)
//!      38  CounterSelect0 to 14, 16 bits each
//!      72  SamplesOnlyOptionMask (8)
//! ```

use crate::format::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::{Format, ParseError, PortNum};

/// Counters of a sampling mechanism.
pub const SAMPLE_COUNTERS: usize = 15;

/// CounterSelect: what a sample counter counts.
pub mod sample_select {
    /// Nothing.
    pub const NONE: u16 = 0;
    /// PortXmitData, words.
    pub const XMIT_DATA: u16 = 1;
    /// PortRcvData, words.
    pub const RCV_DATA: u16 = 2;
    /// PortXmitPkts.
    pub const XMIT_PKTS: u16 = 3;
    /// PortRcvPkts.
    pub const RCV_PKTS: u16 = 4;
    /// PortXmitWait, ticks.
    pub const XMIT_WAIT: u16 = 5;
}

/// How far a sampling is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SampleStatus {
    /// It is complete, or none was asked for.
    #[default]
    Done = 0,
    /// The timer of its start runs.
    Starting = 1,
    /// It counts.
    Running = 2,
}

impl SampleStatus {
    /// The status in two bits.
    const fn read(raw: u8) -> Result<Self, ParseError> {
        match raw & 0x3 {
            0 => Ok(Self::Done),
            1 => Ok(Self::Starting),
            2 => Ok(Self::Running),
            other => Err(ParseError::BadValue {
                what: "SampleStatus",
                value: other as u64,
            }),
        }
    }
}

/// What is sampled, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortSamplesControl {
    /// OpCode of the counters that are of one opcode.
    pub op_code: u8,
    /// The port; 0xff is all ports.
    pub port_select: PortNum,
    /// Length of a tick: 4 ns times (this + 1).
    pub tick: u8,
    /// Width of the counters: 16 bits plus four times this, 3 bits (emitting drops higher ones).
    pub counter_width: u8,
    /// What each counter can be set to: bit 0 the mandatory quantities.
    pub counter_masks: [u8; SAMPLE_COUNTERS],
    /// How many more sampling mechanisms there are.
    pub sample_mechanisms: u8,
    /// How far the sampling is.
    pub sample_status: SampleStatus,
    /// Which optional quantities can be sampled.
    pub option_mask: u64,
    /// Which quantities of the vendor's can be sampled.
    pub vendor_mask: u64,
    /// Ticks until the sampling starts.
    pub sample_start: u32,
    /// Ticks that it takes.
    pub sample_interval: u32,
    /// The requester's mark, which comes back with the result.
    pub tag: u16,
    /// What each counter counts: a value of [`sample_select`].
    pub counter_select: [u16; SAMPLE_COUNTERS],
    /// Which optional quantities can be sampled and have no counter of their own.
    pub samples_only_option_mask: u64,
}

impl PortSamplesControl {
    /// The value of CounterWidth for counters of 32 bits.
    pub const WIDTH_32: u8 = 4;
}

/// Besides truncation, parsing refuses SampleStatus 3.
impl Format for PortSamplesControl {
    const NAME: &'static str = "PortSamplesControl";
    const LEN: usize = 80;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let masks = (u64::from(u32_at(raw, 4)) << 15) | u64::from(u16_at(raw, 8) & 0x7fff);
        let mask = |at: usize| (masks >> (3 * (SAMPLE_COUNTERS - 1 - at))).to_be_bytes()[7] & 0x7;
        Ok(Self {
            op_code: raw[0],
            port_select: PortNum::new(raw[1]),
            tick: raw[2],
            counter_width: raw[3] & 0x7,
            counter_masks: core::array::from_fn(mask),
            sample_mechanisms: raw[10],
            sample_status: SampleStatus::read(raw[11])?,
            option_mask: u64_at(raw, 12),
            vendor_mask: u64_at(raw, 20),
            sample_start: u32_at(raw, 28),
            sample_interval: u32_at(raw, 32),
            tag: u16_at(raw, 36),
            counter_select: core::array::from_fn(|at| u16_at(raw, 38 + 2 * at)),
            samples_only_option_mask: u64_at(raw, 72),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.op_code;
        raw[1] = self.port_select.get();
        raw[2] = self.tick;
        raw[3] = self.counter_width & 0x7;
        let (first, last) = self.counter_masks.split_at(10);
        let packed = |masks: &[u8]| {
            let masks = masks.iter().map(|&mask| u32::from(mask & 0x7));
            masks.fold(0u32, |all, mask| (all << 3) | mask)
        };
        put_u32(raw, 4, packed(first));
        let [.., high, low] = packed(last).to_be_bytes();
        put_u16(raw, 8, u16::from_be_bytes([high, low]));
        raw[10] = self.sample_mechanisms;
        raw[11] = self.sample_status as u8;
        put_u64(raw, 12, self.option_mask);
        put_u64(raw, 20, self.vendor_mask);
        put_u32(raw, 28, self.sample_start);
        put_u32(raw, 32, self.sample_interval);
        put_u16(raw, 36, self.tag);
        for (at, &select) in self.counter_select.iter().enumerate() {
            put_u16(raw, 38 + 2 * at, select);
        }
        put_u64(raw, 72, self.samples_only_option_mask);
    }
}

/// What a sampling has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortSamplesResult {
    /// The requester's mark.
    pub tag: u16,
    /// How far the sampling is. The counters hold only when it is complete.
    pub sample_status: SampleStatus,
    /// The counters.
    pub counters: [u32; SAMPLE_COUNTERS],
}

/// Besides truncation, parsing refuses SampleStatus 3.
impl Format for PortSamplesResult {
    const NAME: &'static str = "PortSamplesResult";
    const LEN: usize = 64;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            tag: u16_at(raw, 0),
            sample_status: SampleStatus::read(raw[3])?,
            counters: core::array::from_fn(|at| u32_at(raw, 4 + 4 * at)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.tag);
        raw[3] = self.sample_status as u8;
        for (at, &counter) in self.counters.iter().enumerate() {
            put_u32(raw, 4 + 4 * at, counter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_inverts_emit() {
        let control = PortSamplesControl {
            op_code: 0x64,
            port_select: PortNum::new(3),
            tick: 249,
            counter_width: PortSamplesControl::WIDTH_32,
            counter_masks: core::array::from_fn(|at| [1, 2, 4, 7, 5][at % 5]),
            sample_mechanisms: 1,
            sample_status: SampleStatus::Running,
            option_mask: 0x0123_4567_89ab_cdef,
            vendor_mask: 0x1122_3344_5566_7788,
            sample_start: 0x0102_0304,
            sample_interval: 0x0506_0708,
            tag: 0x090a,
            counter_select: core::array::from_fn(|at| [0x0b0c, 5, 0x0d0e][at % 3]),
            samples_only_option_mask: 0x0f10_1112_1314_1516,
        };
        let mut raw = [0xa5; 80];
        control.emit(&mut raw);
        assert_eq!(PortSamplesControl::parse(&raw), Ok((control, &[][..])));
        assert_eq!(
            (raw[4] >> 3, raw[11], raw[36..38].to_vec()),
            (1, 2, vec![9, 10])
        );
        for short in 0..raw.len() {
            assert!(PortSamplesControl::parse(&raw[..short]).is_err());
        }
        raw[11] = 3;
        assert!(PortSamplesControl::parse(&raw).is_err());
        let result = PortSamplesResult {
            tag: 0x0102,
            sample_status: SampleStatus::Starting,
            counters: core::array::from_fn(|at| [7, u32::MAX, 0x0102_0304][at % 3]),
        };
        let mut raw = [0xa5; 64];
        result.emit(&mut raw);
        assert_eq!(PortSamplesResult::parse(&raw), Ok((result, &[][..])));
        assert_eq!(raw[..8], [1, 2, 0, 1, 0, 0, 0, 7]);
        for short in 0..raw.len() {
            assert!(PortSamplesResult::parse(&raw[..short]).is_err());
        }
    }
}
