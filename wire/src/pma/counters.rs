//! PortCounters and PortCountersExtended (IBA 16.1.3.5, 16.1.4.11).
//!
//! Counters of PortCounters stop at their largest value; the 64-bit ones of PortCountersExtended
//! run on. Data counters count words of 4 bytes from LRH to ICRC, without VCRC (IBA 16.1.3.5).

use crate::format::{nibbles, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::{Format, ParseError, PortNum};

/// Bits of PortCounters' CounterSelect: which counters a Set changes.
pub mod select {
    /// SymbolErrorCounter.
    pub const SYMBOL_ERROR: u16 = 1 << 0;
    /// LinkErrorRecoveryCounter.
    pub const LINK_ERROR_RECOVERY: u16 = 1 << 1;
    /// LinkDownedCounter.
    pub const LINK_DOWNED: u16 = 1 << 2;
    /// PortRcvErrors.
    pub const RCV_ERRORS: u16 = 1 << 3;
    /// PortRcvRemotePhysicalErrors.
    pub const RCV_REMOTE_PHYSICAL_ERRORS: u16 = 1 << 4;
    /// PortRcvSwitchRelayErrors.
    pub const RCV_SWITCH_RELAY_ERRORS: u16 = 1 << 5;
    /// PortXmitDiscards.
    pub const XMIT_DISCARDS: u16 = 1 << 6;
    /// PortXmitConstraintErrors.
    pub const XMIT_CONSTRAINT_ERRORS: u16 = 1 << 7;
    /// PortRcvConstraintErrors.
    pub const RCV_CONSTRAINT_ERRORS: u16 = 1 << 8;
    /// LocalLinkIntegrityErrors.
    pub const LOCAL_LINK_INTEGRITY_ERRORS: u16 = 1 << 9;
    /// ExcessiveBufferOverrunErrors.
    pub const EXCESSIVE_BUFFER_OVERRUN_ERRORS: u16 = 1 << 10;
    /// VL15Dropped.
    pub const VL15_DROPPED: u16 = 1 << 11;
    /// PortXmitData.
    pub const XMIT_DATA: u16 = 1 << 12;
    /// PortRcvData.
    pub const RCV_DATA: u16 = 1 << 13;
    /// PortXmitPkts.
    pub const XMIT_PKTS: u16 = 1 << 14;
    /// PortRcvPkts.
    pub const RCV_PKTS: u16 = 1 << 15;
}

/// Bits of PortCounters' CounterSelect2.
pub mod select2 {
    /// PortXmitWait.
    pub const XMIT_WAIT: u8 = 1 << 0;
    /// QP1Dropped.
    pub const QP1_DROPPED: u8 = 1 << 1;
}

/// Bits of PortCountersExtended's CounterSelect.
pub mod select_extended {
    /// PortXmitData.
    pub const XMIT_DATA: u16 = 1 << 0;
    /// PortRcvData.
    pub const RCV_DATA: u16 = 1 << 1;
    /// PortXmitPkts.
    pub const XMIT_PKTS: u16 = 1 << 2;
    /// PortRcvPkts.
    pub const RCV_PKTS: u16 = 1 << 3;
    /// PortUnicastXmitPkts.
    pub const UNICAST_XMIT_PKTS: u16 = 1 << 4;
    /// PortUnicastRcvPkts.
    pub const UNICAST_RCV_PKTS: u16 = 1 << 5;
    /// PortMulticastXmitPkts.
    pub const MULTICAST_XMIT_PKTS: u16 = 1 << 6;
    /// PortMulticastRcvPkts.
    pub const MULTICAST_RCV_PKTS: u16 = 1 << 7;
}

/// The mandatory counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortCounters {
    /// The port; 0xff is all ports.
    pub port_select: PortNum,
    /// What a Set changes: bits of [`select`].
    pub counter_select: u16,
    /// SymbolErrorCounter.
    pub symbol_error: u16,
    /// LinkErrorRecoveryCounter.
    pub link_error_recovery: u8,
    /// LinkDownedCounter.
    pub link_downed: u8,
    /// PortRcvErrors: packets with an error of any kind.
    pub rcv_errors: u16,
    /// PortRcvRemotePhysicalErrors: packets marked bad by an earlier hop.
    pub rcv_remote_physical_errors: u16,
    /// PortRcvSwitchRelayErrors: packets that the switch could not relay.
    pub rcv_switch_relay_errors: u16,
    /// PortXmitDiscards: packets dropped on their way out.
    pub xmit_discards: u16,
    /// PortXmitConstraintErrors.
    pub xmit_constraint_errors: u8,
    /// PortRcvConstraintErrors.
    pub rcv_constraint_errors: u8,
    /// What a Set changes: bits of [`select2`].
    pub counter_select2: u8,
    /// LocalLinkIntegrityErrors, 4 bits (emitting drops higher ones).
    pub local_link_integrity_errors: u8,
    /// ExcessiveBufferOverrunErrors, 4 bits (emitting drops higher ones).
    pub excessive_buffer_overrun_errors: u8,
    /// QP1Dropped.
    pub qp1_dropped: u16,
    /// VL15Dropped.
    pub vl15_dropped: u16,
    /// PortXmitData, words of 4 bytes.
    pub xmit_data: u32,
    /// PortRcvData, words of 4 bytes.
    pub rcv_data: u32,
    /// PortXmitPkts.
    pub xmit_pkts: u32,
    /// PortRcvPkts.
    pub rcv_pkts: u32,
    /// PortXmitWait: ticks with data to send but no credits.
    pub xmit_wait: u32,
}

impl PortCounters {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 44;
}

impl Format for PortCounters {
    const NAME: &'static str = "PortCounters";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            port_select: PortNum::new(raw[1]),
            counter_select: u16_at(raw, 2),
            symbol_error: u16_at(raw, 4),
            link_error_recovery: raw[6],
            link_downed: raw[7],
            rcv_errors: u16_at(raw, 8),
            rcv_remote_physical_errors: u16_at(raw, 10),
            rcv_switch_relay_errors: u16_at(raw, 12),
            xmit_discards: u16_at(raw, 14),
            xmit_constraint_errors: raw[16],
            rcv_constraint_errors: raw[17],
            counter_select2: raw[18],
            local_link_integrity_errors: raw[19] >> 4,
            excessive_buffer_overrun_errors: raw[19] & 0x0f,
            qp1_dropped: u16_at(raw, 20),
            vl15_dropped: u16_at(raw, 22),
            xmit_data: u32_at(raw, 24),
            rcv_data: u32_at(raw, 28),
            xmit_pkts: u32_at(raw, 32),
            rcv_pkts: u32_at(raw, 36),
            xmit_wait: u32_at(raw, 40),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[1] = self.port_select.get();
        put_u16(raw, 2, self.counter_select);
        put_u16(raw, 4, self.symbol_error);
        raw[6] = self.link_error_recovery;
        raw[7] = self.link_downed;
        put_u16(raw, 8, self.rcv_errors);
        put_u16(raw, 10, self.rcv_remote_physical_errors);
        put_u16(raw, 12, self.rcv_switch_relay_errors);
        put_u16(raw, 14, self.xmit_discards);
        raw[16] = self.xmit_constraint_errors;
        raw[17] = self.rcv_constraint_errors;
        raw[18] = self.counter_select2;
        raw[19] = nibbles(
            self.local_link_integrity_errors,
            self.excessive_buffer_overrun_errors,
        );
        put_u16(raw, 20, self.qp1_dropped);
        put_u16(raw, 22, self.vl15_dropped);
        put_u32(raw, 24, self.xmit_data);
        put_u32(raw, 28, self.rcv_data);
        put_u32(raw, 32, self.xmit_pkts);
        put_u32(raw, 36, self.rcv_pkts);
        put_u32(raw, 40, self.xmit_wait);
    }
}

/// 64-bit traffic counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortCountersExtended {
    /// The port; 0xff is all ports.
    pub port_select: PortNum,
    /// What a Set changes: bits of [`select_extended`].
    pub counter_select: u16,
    /// PortXmitData, words of 4 bytes.
    pub xmit_data: u64,
    /// PortRcvData, words of 4 bytes.
    pub rcv_data: u64,
    /// PortXmitPkts.
    pub xmit_pkts: u64,
    /// PortRcvPkts.
    pub rcv_pkts: u64,
    /// PortUnicastXmitPkts.
    pub unicast_xmit_pkts: u64,
    /// PortUnicastRcvPkts.
    pub unicast_rcv_pkts: u64,
    /// PortMulticastXmitPkts.
    pub multicast_xmit_pkts: u64,
    /// PortMulticastRcvPkts.
    pub multicast_rcv_pkts: u64,
}

impl PortCountersExtended {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 72;
}

impl Format for PortCountersExtended {
    const NAME: &'static str = "PortCountersExtended";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            port_select: PortNum::new(raw[1]),
            counter_select: u16_at(raw, 2),
            xmit_data: u64_at(raw, 8),
            rcv_data: u64_at(raw, 16),
            xmit_pkts: u64_at(raw, 24),
            rcv_pkts: u64_at(raw, 32),
            unicast_xmit_pkts: u64_at(raw, 40),
            unicast_rcv_pkts: u64_at(raw, 48),
            multicast_xmit_pkts: u64_at(raw, 56),
            multicast_rcv_pkts: u64_at(raw, 64),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[1] = self.port_select.get();
        put_u16(raw, 2, self.counter_select);
        put_u64(raw, 8, self.xmit_data);
        put_u64(raw, 16, self.rcv_data);
        put_u64(raw, 24, self.xmit_pkts);
        put_u64(raw, 32, self.rcv_pkts);
        put_u64(raw, 40, self.unicast_xmit_pkts);
        put_u64(raw, 48, self.unicast_rcv_pkts);
        put_u64(raw, 56, self.multicast_xmit_pkts);
        put_u64(raw, 64, self.multicast_rcv_pkts);
    }
}
