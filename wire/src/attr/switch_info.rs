//! SwitchInfo: capabilities and forwarding settings of a switch (IBA 14.2.5.4).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |         LinearFDBCap          |         RandomFDBCap          |
//! +-------------------------------+-------------------------------+
//! |        MulticastFDBCap        |         LinearFDBTop          |
//! +---------------+---------------+---------------+---------+-+---+
//! |  DefaultPort  | DefMcPrimPort | DefMcNotPrim  |LifeTime |C|Opt|
//! +---------------+---------------+---------------+---------+-+---+
//! |          LIDsPerPort          |      PartitionEnforceCap      |
//! +-+-+-+-+-+-----+---------------+-------------------------------+
//! |I|O|i|o|E|  0  |       0       |       MulticastFDBTop         |
//! +-+-+-+-+-+-----+---------------+-------------------------------+
//! ```

use crate::attr::Attribute;
use crate::format::{put_u16, u16_at};
use crate::mad::AttributeId;
use crate::{Format, Lid, ParseError, PortNum};

/// Capabilities and forwarding settings of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchInfo {
    /// Entries of the linear forwarding table.
    pub linear_fdb_cap: u16,
    /// Entries of the random forwarding table.
    pub random_fdb_cap: u16,
    /// Entries of the multicast forwarding table.
    pub multicast_fdb_cap: u16,
    /// The last LID that the linear table is used for; LIDs above are dropped.
    pub linear_fdb_top: u16,
    /// Where unknown unicast goes when the random table is used.
    pub default_port: PortNum,
    /// Where unknown multicast from other ports goes.
    pub default_multicast_primary_port: PortNum,
    /// Where unknown multicast from the primary port goes.
    pub default_multicast_not_primary_port: PortNum,
    /// How long a packet may stay: 4.096 us times two to this power; 5 bits (emitting drops
    /// higher ones), above 19 without limit.
    pub life_time_value: u8,
    /// Whether a port changed its state; written as 1 by the subnet manager to clear it.
    pub port_state_change: bool,
    /// Optimised programming of the SL-to-VL table, 2 bits (emitting drops higher ones).
    pub optimized_sl_to_vl: u8,
    /// LIDs a port may take in the random table.
    pub lids_per_port: u16,
    /// Entries of each external port's partition table.
    pub partition_enforcement_cap: u16,
    /// Partitions can be enforced on what comes in.
    pub inbound_enforcement_cap: bool,
    /// Partitions can be enforced on what goes out.
    pub outbound_enforcement_cap: bool,
    /// Raw packets coming in can be dropped.
    pub filter_raw_inbound_cap: bool,
    /// Raw packets going out can be dropped.
    pub filter_raw_outbound_cap: bool,
    /// Port 0 is an enhanced one.
    pub enhanced_port0: bool,
    /// The last multicast LID that the table is used for; 0 is all.
    pub multicast_fdb_top: Lid,
}

impl SwitchInfo {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 20;
}

impl Format for SwitchInfo {
    const NAME: &'static str = "SwitchInfo";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            linear_fdb_cap: u16_at(raw, 0),
            random_fdb_cap: u16_at(raw, 2),
            multicast_fdb_cap: u16_at(raw, 4),
            linear_fdb_top: u16_at(raw, 6),
            default_port: PortNum::new(raw[8]),
            default_multicast_primary_port: PortNum::new(raw[9]),
            default_multicast_not_primary_port: PortNum::new(raw[10]),
            life_time_value: raw[11] >> 3,
            port_state_change: raw[11] & 0x04 != 0,
            optimized_sl_to_vl: raw[11] & 0x03,
            lids_per_port: u16_at(raw, 12),
            partition_enforcement_cap: u16_at(raw, 14),
            inbound_enforcement_cap: raw[16] & 0x80 != 0,
            outbound_enforcement_cap: raw[16] & 0x40 != 0,
            filter_raw_inbound_cap: raw[16] & 0x20 != 0,
            filter_raw_outbound_cap: raw[16] & 0x10 != 0,
            enhanced_port0: raw[16] & 0x08 != 0,
            multicast_fdb_top: Lid::new(u16_at(raw, 18)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.linear_fdb_cap);
        put_u16(raw, 2, self.random_fdb_cap);
        put_u16(raw, 4, self.multicast_fdb_cap);
        put_u16(raw, 6, self.linear_fdb_top);
        raw[8] = self.default_port.get();
        raw[9] = self.default_multicast_primary_port.get();
        raw[10] = self.default_multicast_not_primary_port.get();
        raw[11] = (self.life_time_value << 3)
            | (u8::from(self.port_state_change) << 2)
            | (self.optimized_sl_to_vl & 0x03);
        put_u16(raw, 12, self.lids_per_port);
        put_u16(raw, 14, self.partition_enforcement_cap);
        raw[16] = (u8::from(self.inbound_enforcement_cap) << 7)
            | (u8::from(self.outbound_enforcement_cap) << 6)
            | (u8::from(self.filter_raw_inbound_cap) << 5)
            | (u8::from(self.filter_raw_outbound_cap) << 4)
            | (u8::from(self.enhanced_port0) << 3);
        put_u16(raw, 18, self.multicast_fdb_top.get());
    }
}

impl Attribute for SwitchInfo {
    const ID: AttributeId = AttributeId::SWITCH_INFO;
}
