//! Attributes that hold an array of counters of one width: one counter for each virtual lane (VL), for each
//! service level, or a few of a kind (IBA 16.1.4.4 to 16.1.4.10, and annex A10 for congestion control).
//!
//! ```text
//! byte  0  OpCode, where the counters are of packets with one BTH opcode; else reserved
//!       1  PortSelect
//!       2  CounterSelect: bit i is counter i
//!       4  counters of 2, 16 or 32 bits each, which stop at their largest value
//! ```

use crate::format::{put_u16, put_u32, u16_at, u32_at};
use crate::mad::AttributeId;
use crate::pma::DATA_LEN;
use crate::{Mad, PortNum};

/// The most counters of one attribute.
pub const COUNTERS_MAX: usize = 16;
/// Where the counters begin.
const COUNTERS_AT: usize = 4;

/// The width of the counters of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterWidth {
    /// 2 bits.
    Two,
    /// 16 bits.
    Sixteen,
    /// 32 bits.
    ThirtyTwo,
}

impl CounterWidth {
    /// The largest value.
    #[must_use]
    pub const fn max(self) -> u32 {
        match self {
            Self::Two => 0x3,
            Self::Sixteen => 0xffff,
            Self::ThirtyTwo => u32::MAX,
        }
    }
}

/// An attribute that is an array of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum CounterArrayId {
    /// PortOpRcvCounters: packets and words received with an opcode.
    OpRcvCounters = 0x17,
    /// PortFlowCtlCounters: flow-control packets sent and received.
    FlowCtlCounters = 0x18,
    /// PortVLOpPackets: packets received with an opcode, by VL.
    VlOpPackets = 0x19,
    /// PortVLOpData: kilobytes received with an opcode, by VL.
    VlOpData = 0x1a,
    /// PortVLXmitFlowCtlUpdateErrors, by VL.
    VlXmitFlowCtlUpdateErrors = 0x1b,
    /// PortVLXmitWaitCounters: ticks with data to send but no credits, by VL.
    VlXmitWait = 0x1c,
    /// SwPortVLCongestion: packets that a switch discarded since they waited for too long, by VL.
    SwPortVlCongestion = 0x30,
    /// PortRcvConCtrl: packets received with FECN and with BECN.
    RcvConCtrl = 0x31,
    /// PortSLRcvFECN: packets received with FECN, by service level.
    SlRcvFecn = 0x32,
    /// PortSLRcvBECN: packets received with BECN, by service level.
    SlRcvBecn = 0x33,
    /// PortXmitConCtrl: ticks in which the port was congested.
    XmitConCtrl = 0x34,
    /// PortVLXmitTimeCong: the same by VL.
    VlXmitTimeCong = 0x35,
    /// PortXmitDataSL: words sent, by service level.
    XmitDataSl = 0x36,
    /// PortRcvDataSL: words received, by service level.
    RcvDataSl = 0x37,
}

impl CounterArrayId {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::OpRcvCounters,
        Self::FlowCtlCounters,
        Self::VlOpPackets,
        Self::VlOpData,
        Self::VlXmitFlowCtlUpdateErrors,
        Self::VlXmitWait,
        Self::SwPortVlCongestion,
        Self::RcvConCtrl,
        Self::SlRcvFecn,
        Self::SlRcvBecn,
        Self::XmitConCtrl,
        Self::VlXmitTimeCong,
        Self::XmitDataSl,
        Self::RcvDataSl,
    ];

    /// The attribute with this id, if it is such an array.
    #[must_use]
    pub fn of(id: AttributeId) -> Option<Self> {
        Self::ALL.into_iter().find(|array| array.id() == id)
    }

    /// Its id.
    #[must_use]
    pub const fn id(self) -> AttributeId {
        AttributeId(self as u16)
    }

    /// How many counters it has, at most [`COUNTERS_MAX`].
    #[must_use]
    pub const fn counters(self) -> usize {
        match self {
            Self::XmitConCtrl => 1,
            Self::OpRcvCounters | Self::FlowCtlCounters | Self::RcvConCtrl => 2,
            Self::VlXmitTimeCong => 15,
            _ => COUNTERS_MAX,
        }
    }

    /// How wide they are.
    #[must_use]
    pub const fn width(self) -> CounterWidth {
        match self {
            Self::VlXmitFlowCtlUpdateErrors => CounterWidth::Two,
            Self::VlOpPackets | Self::VlXmitWait | Self::SwPortVlCongestion => {
                CounterWidth::Sixteen
            }
            _ => CounterWidth::ThirtyTwo,
        }
    }

    /// Whether the counters are of packets with one opcode, which the attribute names.
    #[must_use]
    pub const fn has_op_code(self) -> bool {
        matches!(
            self,
            Self::OpRcvCounters | Self::VlOpPackets | Self::VlOpData
        )
    }
}

/// The content of an attribute that is an array of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CounterArray {
    /// OpCode; 0 where [`CounterArrayId::has_op_code`] is false.
    pub op_code: u8,
    /// The port; 0xff is all ports.
    pub port_select: PortNum,
    /// What a Set changes: bit i is counter i.
    pub counter_select: u16,
    /// The counters. Those that the attribute does not have are 0 (emitting drops them, and bits above the
    /// counters' width).
    pub counters: [u32; COUNTERS_MAX],
}

impl CounterArray {
    /// Reads the attribute `id` from its 192 bytes.
    #[must_use]
    pub fn read(id: CounterArrayId, raw: &[u8; DATA_LEN]) -> Self {
        let mut counters = [0; COUNTERS_MAX];
        for (number, counter) in counters.iter_mut().enumerate().take(id.counters()) {
            *counter = match id.width() {
                CounterWidth::Two => {
                    let pairs = u32::from(raw[COUNTERS_AT + number / 4]);
                    pairs >> (6 - 2 * (number % 4)) & 0x3
                }
                CounterWidth::Sixteen => u16_at(raw, COUNTERS_AT + 2 * number).into(),
                CounterWidth::ThirtyTwo => u32_at(raw, COUNTERS_AT + 4 * number),
            };
        }
        Self {
            op_code: if id.has_op_code() { raw[0] } else { 0 },
            port_select: PortNum::new(raw[1]),
            counter_select: u16_at(raw, 2),
            counters,
        }
    }

    /// Writes the attribute `id`: all 192 bytes.
    pub fn write(&self, id: CounterArrayId, raw: &mut [u8; DATA_LEN]) {
        raw.fill(0);
        if id.has_op_code() {
            raw[0] = self.op_code;
        }
        raw[1] = self.port_select.get();
        put_u16(raw, 2, self.counter_select);
        for (number, counter) in self.counters.iter().enumerate().take(id.counters()) {
            let [.., high, low] = counter.to_be_bytes();
            match id.width() {
                CounterWidth::Two => {
                    raw[COUNTERS_AT + number / 4] |= (low & 0x3) << (6 - 2 * (number % 4));
                }
                CounterWidth::Sixteen => {
                    put_u16(
                        raw,
                        COUNTERS_AT + 2 * number,
                        u16::from_be_bytes([high, low]),
                    );
                }
                CounterWidth::ThirtyTwo => put_u32(raw, COUNTERS_AT + 4 * number, *counter),
            }
        }
    }
}

/// Arrays of counters in a datagram of performance management.
impl Mad {
    /// The attribute `id` of the datagram.
    #[must_use]
    pub fn counter_array(&self, id: CounterArrayId) -> CounterArray {
        let Some(raw) = self.pma_data().first_chunk() else {
            unreachable!("the data ends with the datagram");
        };
        CounterArray::read(id, raw)
    }

    /// Puts the attribute `id` into the datagram.
    pub fn set_counter_array(&mut self, id: CounterArrayId, array: &CounterArray) {
        let Some(raw) = self.pma_data_mut().first_chunk_mut() else {
            unreachable!("the data ends with the datagram");
        };
        array.write(id, raw);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Method;

    #[test]
    fn parse_inverts_emit() {
        for id in CounterArrayId::ALL {
            let mut array = CounterArray {
                op_code: if id.has_op_code() { 0x64 } else { 0 },
                port_select: PortNum::new(7),
                counter_select: 0x1234,
                counters: [0; COUNTERS_MAX],
            };
            for (at, counter) in (1u32..).zip(array.counters.iter_mut().take(id.counters())) {
                *counter = 0x9e37_79b9_u32.wrapping_mul(at) & id.width().max();
            }
            let mut raw = [0xa5; DATA_LEN];
            array.write(id, &mut raw);
            assert_eq!(CounterArray::read(id, &raw), array, "{id:?}");
            let mut mad = Mad::pma(Method::GET, id.id(), 0, 1);
            mad.set_counter_array(id, &array);
            assert_eq!(mad.pma_data(), raw);
            assert_eq!(mad.counter_array(id), array);
            assert_eq!(CounterArrayId::of(id.id()), Some(id));
        }
        assert_eq!(CounterArrayId::of(AttributeId::PORT_COUNTERS), None);
    }

    #[test]
    fn counters_stand_where_the_specification_has_them() {
        let mut array = CounterArray::default();
        array.counters[1] = 0x0102_0303;
        let bytes = |id: CounterArrayId| {
            let mut raw = [0xa5; DATA_LEN];
            array.write(id, &mut raw);
            raw
        };
        assert_eq!(bytes(CounterArrayId::RcvDataSl)[8..12], [1, 2, 3, 3]);
        assert_eq!(bytes(CounterArrayId::VlXmitWait)[6..8], [3, 3]);
        let errors = bytes(CounterArrayId::VlXmitFlowCtlUpdateErrors);
        assert_eq!(errors[4], 0b0011_0000);
        assert_eq!(bytes(CounterArrayId::XmitConCtrl)[4..], [0; 188]);
    }
}
