//! PortRcvErrorDetails and PortXmitDiscardDetails (IBA 16.1.4.2, 16.1.4.3): what PortRcvErrors,
//! PortRcvSwitchRelayErrors and PortXmitDiscards are made of.
//!
//! ```text
//! byte  0  reserved
//!       1  PortSelect
//!       2  CounterSelect: bit i is the counter at byte 4 + 2 i
//!       4  counters, 16 bits each, which stop at their largest value
//! ```

use crate::format::{put_u16, u16_at};
use crate::{Format, ParseError, PortNum};

/// Why packets that came in were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortRcvErrorDetails {
    /// The port; 0xff is all ports.
    pub port_select: PortNum,
    /// What a Set changes: bit 0 is the first counter below, bit 5 the last.
    pub counter_select: u16,
    /// PortLocalPhysicalErrors: wrong CRCs.
    pub local_physical_errors: u16,
    /// PortMalformedPacketErrors: illegal versions, lengths, VLs, addresses.
    pub malformed_packet_errors: u16,
    /// PortBufferOverrunErrors: more was sent than credits allowed.
    pub buffer_overrun_errors: u16,
    /// PortDLIDMappingErrors: the forwarding table has no port for the DLID.
    pub dlid_mapping_errors: u16,
    /// PortVLMappingErrors: the service level maps to no data VL.
    pub vl_mapping_errors: u16,
    /// PortLoopingErrors: the forwarding table names the port that the packet came in by.
    pub looping_errors: u16,
}

impl Format for PortRcvErrorDetails {
    const NAME: &'static str = "PortRcvErrorDetails";
    const LEN: usize = 16;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            port_select: PortNum::new(raw[1]),
            counter_select: u16_at(raw, 2),
            local_physical_errors: u16_at(raw, 4),
            malformed_packet_errors: u16_at(raw, 6),
            buffer_overrun_errors: u16_at(raw, 8),
            dlid_mapping_errors: u16_at(raw, 10),
            vl_mapping_errors: u16_at(raw, 12),
            looping_errors: u16_at(raw, 14),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[1] = self.port_select.get();
        put_u16(raw, 2, self.counter_select);
        put_u16(raw, 4, self.local_physical_errors);
        put_u16(raw, 6, self.malformed_packet_errors);
        put_u16(raw, 8, self.buffer_overrun_errors);
        put_u16(raw, 10, self.dlid_mapping_errors);
        put_u16(raw, 12, self.vl_mapping_errors);
        put_u16(raw, 14, self.looping_errors);
    }
}

/// Why packets could not leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortXmitDiscardDetails {
    /// The port; 0xff is all ports.
    pub port_select: PortNum,
    /// What a Set changes: bit 0 is the first counter below, bit 3 the last.
    pub counter_select: u16,
    /// PortInactiveDiscards: the port is not Active.
    pub inactive_discards: u16,
    /// PortNeighborMTUDiscards: longer than the neighbour's MTU.
    pub neighbor_mtu_discards: u16,
    /// PortSwLifetimeLimitDiscards: too long in the switch.
    pub sw_lifetime_limit_discards: u16,
    /// PortSwHOQLifetimeLimitDiscards: too long at the head of its queue.
    pub sw_hoq_lifetime_limit_discards: u16,
}

impl Format for PortXmitDiscardDetails {
    const NAME: &'static str = "PortXmitDiscardDetails";
    const LEN: usize = 12;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            port_select: PortNum::new(raw[1]),
            counter_select: u16_at(raw, 2),
            inactive_discards: u16_at(raw, 4),
            neighbor_mtu_discards: u16_at(raw, 6),
            sw_lifetime_limit_discards: u16_at(raw, 8),
            sw_hoq_lifetime_limit_discards: u16_at(raw, 10),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[1] = self.port_select.get();
        put_u16(raw, 2, self.counter_select);
        put_u16(raw, 4, self.inactive_discards);
        put_u16(raw, 6, self.neighbor_mtu_discards);
        put_u16(raw, 8, self.sw_lifetime_limit_discards);
        put_u16(raw, 10, self.sw_hoq_lifetime_limit_discards);
    }
}
