//! MCMemberRecord: a multicast group and a port's membership in it (IBA 15.2.5.17).

use crate::format::{array, nibbles, put, put_u16, put_u32, u16_at, u32_at};
use crate::mad::AttributeId;
use crate::sa::{SaRecord, Selector};
use crate::{Format, Gid, Lid, ParseError, Sl};

/// Bits of a membership query's ComponentMask.
pub mod mc_member_component {
    /// MGID.
    pub const MGID: u64 = 1 << 0;
    /// PortGID.
    pub const PORT_GID: u64 = 1 << 1;
    /// Q_Key.
    pub const QKEY: u64 = 1 << 2;
    /// MLID.
    pub const MLID: u64 = 1 << 3;
    /// MTUSelector.
    pub const MTU_SELECTOR: u64 = 1 << 4;
    /// MTU.
    pub const MTU: u64 = 1 << 5;
    /// TClass.
    pub const TCLASS: u64 = 1 << 6;
    /// P_Key.
    pub const PKEY: u64 = 1 << 7;
    /// RateSelector.
    pub const RATE_SELECTOR: u64 = 1 << 8;
    /// Rate.
    pub const RATE: u64 = 1 << 9;
    /// PacketLifeTimeSelector.
    pub const PACKET_LIFE_TIME_SELECTOR: u64 = 1 << 10;
    /// PacketLifeTime.
    pub const PACKET_LIFE_TIME: u64 = 1 << 11;
    /// SL.
    pub const SL: u64 = 1 << 12;
    /// FlowLabel.
    pub const FLOW_LABEL: u64 = 1 << 13;
    /// HopLimit.
    pub const HOP_LIMIT: u64 = 1 << 14;
    /// Scope.
    pub const SCOPE: u64 = 1 << 15;
    /// JoinState.
    pub const JOIN_STATE: u64 = 1 << 16;
    /// ProxyJoin.
    pub const PROXY_JOIN: u64 = 1 << 17;
}

/// A multicast group and a port's membership in it. Fields narrower than their type lose their
/// higher bits when emitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct McMemberRecord {
    /// The group.
    pub mgid: Gid,
    /// The port.
    pub port_gid: Gid,
    /// Queue key of the group.
    pub qkey: u32,
    /// Multicast LID.
    pub mlid: Lid,
    /// How `mtu` counts.
    pub mtu_selector: Selector,
    /// Payload size: code of [`Mtu`](crate::mtu::Mtu), 6 bits.
    pub mtu: u8,
    /// Traffic class.
    pub tclass: u8,
    /// Partition key.
    pub pkey: u16,
    /// How `rate` counts.
    pub rate_selector: Selector,
    /// Rate: code of [`LinkRate`](crate::rate::LinkRate), 6 bits.
    pub rate: u8,
    /// How `packet_life_time` counts.
    pub packet_life_time_selector: Selector,
    /// Time through the subnet: 4.096 us times two to this power, 6 bits.
    pub packet_life_time: u8,
    /// Service level.
    pub sl: Sl,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Scope of the group's address, 4 bits.
    pub scope: u8,
    /// Membership, 4 bits: 1 full, 2 non-member, 4 send only.
    pub join_state: u8,
    /// The membership was made by another node.
    pub proxy_join: bool,
}

impl McMemberRecord {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 52;
    /// JoinState: full member.
    pub const JOIN_FULL: u8 = 1;
    /// JoinState: routed to, but no member.
    pub const JOIN_NON_MEMBER: u8 = 2;
    /// JoinState: sends only.
    pub const JOIN_SEND_ONLY: u8 = 4;
}

impl Format for McMemberRecord {
    const NAME: &'static str = "MCMemberRecord";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let (mtu_selector, mtu) = Selector::split(raw[38]);
        let (rate_selector, rate) = Selector::split(raw[42]);
        let (packet_life_time_selector, packet_life_time) = Selector::split(raw[43]);
        Ok(Self {
            mgid: Gid(array(raw, 0)),
            port_gid: Gid(array(raw, 16)),
            qkey: u32_at(raw, 32),
            mlid: Lid::new(u16_at(raw, 36)),
            mtu_selector,
            mtu,
            tclass: raw[39],
            pkey: u16_at(raw, 40),
            rate_selector,
            rate,
            packet_life_time_selector,
            packet_life_time,
            sl: Sl::truncate(raw[44] >> 4),
            flow_label: (u32_at(raw, 44) >> 8) & 0x000f_ffff,
            hop_limit: raw[47],
            scope: raw[48] >> 4,
            join_state: raw[48] & 0x0f,
            proxy_join: raw[49] & 0x80 != 0,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put(raw, 0, self.mgid.0);
        put(raw, 16, self.port_gid.0);
        put_u32(raw, 32, self.qkey);
        put_u16(raw, 36, self.mlid.get());
        raw[38] = self.mtu_selector.join(self.mtu);
        raw[39] = self.tclass;
        put_u16(raw, 40, self.pkey);
        raw[42] = self.rate_selector.join(self.rate);
        raw[43] = self.packet_life_time_selector.join(self.packet_life_time);
        let sl_flow_hop = (u32::from(self.sl.get()) << 28)
            | ((self.flow_label & 0x000f_ffff) << 8)
            | u32::from(self.hop_limit);
        put_u32(raw, 44, sl_flow_hop);
        raw[48] = nibbles(self.scope, self.join_state);
        raw[49] = u8::from(self.proxy_join) << 7;
    }
}

impl SaRecord for McMemberRecord {
    const ID: AttributeId = AttributeId::MC_MEMBER_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 7;
}
