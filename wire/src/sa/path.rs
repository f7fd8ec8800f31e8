//! PathRecord: how to reach a port (IBA 15.2.5.16).

use crate::format::{array, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::mad::AttributeId;
use crate::sa::SaRecord;
use crate::{Format, Gid, Lid, ParseError, Sl};

/// Bits of a path query's ComponentMask.
pub mod path_component {
    /// ServiceID.
    pub const SERVICE_ID: u64 = 0b11;
    /// DGID.
    pub const DGID: u64 = 1 << 2;
    /// SGID.
    pub const SGID: u64 = 1 << 3;
    /// DLID.
    pub const DLID: u64 = 1 << 4;
    /// SLID.
    pub const SLID: u64 = 1 << 5;
    /// RawTraffic.
    pub const RAW_TRAFFIC: u64 = 1 << 6;
    /// FlowLabel.
    pub const FLOW_LABEL: u64 = 1 << 8;
    /// HopLimit.
    pub const HOP_LIMIT: u64 = 1 << 9;
    /// TClass.
    pub const TCLASS: u64 = 1 << 10;
    /// Reversible.
    pub const REVERSIBLE: u64 = 1 << 11;
    /// NumbPath.
    pub const NUMB_PATH: u64 = 1 << 12;
    /// P_Key.
    pub const PKEY: u64 = 1 << 13;
    /// QosClass.
    pub const QOS_CLASS: u64 = 1 << 14;
    /// SL.
    pub const SL: u64 = 1 << 15;
    /// MtuSelector.
    pub const MTU_SELECTOR: u64 = 1 << 16;
    /// Mtu.
    pub const MTU: u64 = 1 << 17;
    /// RateSelector.
    pub const RATE_SELECTOR: u64 = 1 << 18;
    /// Rate.
    pub const RATE: u64 = 1 << 19;
    /// PacketLifeTimeSelector.
    pub const PACKET_LIFE_TIME_SELECTOR: u64 = 1 << 20;
    /// PacketLifeTime.
    pub const PACKET_LIFE_TIME: u64 = 1 << 21;
}

/// How a query's value is to be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Selector {
    /// Greater than the value.
    #[default]
    GreaterThan = 0,
    /// Less than the value.
    LessThan = 1,
    /// Exactly the value; in an answer always.
    Exactly = 2,
    /// The largest available.
    Largest = 3,
}

impl Selector {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::GreaterThan,
            1 => Self::LessThan,
            2 => Self::Exactly,
            _ => Self::Largest,
        }
    }

    /// Selector and 6-bit value of one byte.
    pub(crate) const fn split(byte: u8) -> (Self, u8) {
        (Self::from_bits(byte >> 6), byte & 0x3f)
    }

    /// One byte of selector and 6-bit value.
    pub(crate) const fn join(self, value: u8) -> u8 {
        ((self as u8) << 6) | (value & 0x3f)
    }
}

/// How to reach a port. Fields narrower than their type lose their higher bits when emitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathRecord {
    /// Service.
    pub service_id: u64,
    /// Destination GID.
    pub dgid: Gid,
    /// Source GID.
    pub sgid: Gid,
    /// Destination LID.
    pub dlid: Lid,
    /// Source LID.
    pub slid: Lid,
    /// The path is for raw packets.
    pub raw_traffic: bool,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub tclass: u8,
    /// The path back is the same.
    pub reversible: bool,
    /// Query: how many paths at most, 7 bits.
    pub numb_path: u8,
    /// Partition key.
    pub pkey: u16,
    /// Class of service, 12 bits.
    pub qos_class: u16,
    /// Service level.
    pub sl: Sl,
    /// How `mtu` counts.
    pub mtu_selector: Selector,
    /// Payload size: code of [`Mtu`](crate::mtu::Mtu), 6 bits.
    pub mtu: u8,
    /// How `rate` counts.
    pub rate_selector: Selector,
    /// Rate: code of [`LinkRate`](crate::rate::LinkRate), 6 bits.
    pub rate: u8,
    /// How `packet_life_time` counts.
    pub packet_life_time_selector: Selector,
    /// Time through the subnet: 4.096 us times two to this power, 6 bits.
    pub packet_life_time: u8,
    /// Answer: rank of the path, 0 the best.
    pub preference: u8,
}

impl PathRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;
}

impl Format for PathRecord {
    const NAME: &'static str = "PathRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let (mtu_selector, mtu) = Selector::split(raw[54]);
        let (rate_selector, rate) = Selector::split(raw[55]);
        let (packet_life_time_selector, packet_life_time) = Selector::split(raw[56]);
        Ok(Self {
            service_id: u64_at(raw, 0),
            dgid: Gid(array(raw, 8)),
            sgid: Gid(array(raw, 24)),
            dlid: Lid::new(u16_at(raw, 40)),
            slid: Lid::new(u16_at(raw, 42)),
            raw_traffic: raw[44] & 0x80 != 0,
            flow_label: (u32_at(raw, 44) >> 8) & 0x000f_ffff,
            hop_limit: raw[47],
            tclass: raw[48],
            reversible: raw[49] & 0x80 != 0,
            numb_path: raw[49] & 0x7f,
            pkey: u16_at(raw, 50),
            qos_class: u16_at(raw, 52) >> 4,
            sl: Sl::truncate(raw[53]),
            mtu_selector,
            mtu,
            rate_selector,
            rate,
            packet_life_time_selector,
            packet_life_time,
            preference: raw[57],
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.service_id);
        put(raw, 8, self.dgid.0);
        put(raw, 24, self.sgid.0);
        put_u16(raw, 40, self.dlid.get());
        put_u16(raw, 42, self.slid.get());
        let hop_flow_raw = (u32::from(self.raw_traffic) << 31)
            | ((self.flow_label & 0x000f_ffff) << 8)
            | u32::from(self.hop_limit);
        put_u32(raw, 44, hop_flow_raw);
        raw[48] = self.tclass;
        raw[49] = (u8::from(self.reversible) << 7) | (self.numb_path & 0x7f);
        put_u16(raw, 50, self.pkey);
        put_u16(raw, 52, (self.qos_class << 4) | u16::from(self.sl.get()));
        raw[54] = self.mtu_selector.join(self.mtu);
        raw[55] = self.rate_selector.join(self.rate);
        raw[56] = self.packet_life_time_selector.join(self.packet_life_time);
        raw[57] = self.preference;
    }
}

impl SaRecord for PathRecord {
    const ID: AttributeId = AttributeId::PATH_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 8;
}
