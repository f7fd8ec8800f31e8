//! ClassPortInfo: what an agent of a class can do, and where to send instead (IBA 13.4.8.1).

use crate::format::{array, put, put_u16, put_u24, put_u32, u16_at, u24_at, u32_at};
use crate::{Format, Gid, Lid, ParseError, Qpn};

/// Bits of ClassPortInfo's CapabilityMask: the low byte is common, the high byte the class's own
/// (here of performance management, IBA 16.1.4.1, and of subnet administration, IBA 15.2.4.1).
pub mod capability {
    /// Common: traps can be generated.
    pub const TRAP: u16 = 1 << 0;
    /// Common: Get and Set of Notice are supported.
    pub const GET_SET_NOTICE: u16 = 1 << 1;
    /// Performance: PortSelect 0xff addresses all ports at once.
    pub const PMA_ALL_PORT_SELECT: u16 = 1 << 8;
    /// Performance: PortCountersExtended is supported with all its first eight counters.
    pub const PMA_EXTENDED_WIDTH: u16 = 1 << 9;
    /// Performance: PortCountersExtended is supported without the unicast and multicast counters.
    pub const PMA_EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;
    /// Performance: PortCounters holds PortXmitWait.
    pub const PMA_XMIT_WAIT: u16 = 1 << 12;
}

/// What an agent of a class can do, and where to send instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClassPortInfo {
    /// Version of the MAD header that is supported.
    pub base_version: u8,
    /// Version of the class that is supported.
    pub class_version: u8,
    /// Bits of [`capability`].
    pub capability_mask: u16,
    /// More capabilities, 27 bits (emitting drops higher ones).
    pub capability_mask2: u32,
    /// Longest time to a response: 4.096 us times two to this power, 5 bits (emitting drops
    /// higher ones).
    pub resp_time_value: u8,
    /// Redirection: GID.
    pub redirect_gid: Gid,
    /// Redirection: traffic class (8 bits), service level (4), flow label (20).
    pub redirect_tc_sl_fl: u32,
    /// Redirection: LID; 0 is none.
    pub redirect_lid: Lid,
    /// Redirection: partition key.
    pub redirect_pkey: u16,
    /// Redirection: queue pair.
    pub redirect_qp: Qpn,
    /// Redirection: queue key.
    pub redirect_qkey: u32,
    /// Traps: GID to send them to.
    pub trap_gid: Gid,
    /// Traps: traffic class (8 bits), service level (4), flow label (20).
    pub trap_tc_sl_fl: u32,
    /// Traps: LID.
    pub trap_lid: Lid,
    /// Traps: partition key.
    pub trap_pkey: u16,
    /// Traps: hop limit.
    pub trap_hop_limit: u8,
    /// Traps: queue pair.
    pub trap_qp: Qpn,
    /// Traps: queue key.
    pub trap_qkey: u32,
}

impl ClassPortInfo {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 72;
}

impl Format for ClassPortInfo {
    const NAME: &'static str = "ClassPortInfo";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            base_version: raw[0],
            class_version: raw[1],
            capability_mask: u16_at(raw, 2),
            capability_mask2: u32_at(raw, 4) >> 5,
            resp_time_value: raw[7] & 0x1f,
            redirect_gid: Gid(array(raw, 8)),
            redirect_tc_sl_fl: u32_at(raw, 24),
            redirect_lid: Lid::new(u16_at(raw, 28)),
            redirect_pkey: u16_at(raw, 30),
            redirect_qp: Qpn::truncate(u24_at(raw, 33)),
            redirect_qkey: u32_at(raw, 36),
            trap_gid: Gid(array(raw, 40)),
            trap_tc_sl_fl: u32_at(raw, 56),
            trap_lid: Lid::new(u16_at(raw, 60)),
            trap_pkey: u16_at(raw, 62),
            trap_hop_limit: raw[64],
            trap_qp: Qpn::truncate(u24_at(raw, 65)),
            trap_qkey: u32_at(raw, 68),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.base_version;
        raw[1] = self.class_version;
        put_u16(raw, 2, self.capability_mask);
        let mask2 = (self.capability_mask2 << 5) | u32::from(self.resp_time_value & 0x1f);
        put_u32(raw, 4, mask2);
        put(raw, 8, self.redirect_gid.0);
        put_u32(raw, 24, self.redirect_tc_sl_fl);
        put_u16(raw, 28, self.redirect_lid.get());
        put_u16(raw, 30, self.redirect_pkey);
        put_u24(raw, 33, self.redirect_qp.get());
        put_u32(raw, 36, self.redirect_qkey);
        put(raw, 40, self.trap_gid.0);
        put_u32(raw, 56, self.trap_tc_sl_fl);
        put_u16(raw, 60, self.trap_lid.get());
        put_u16(raw, 62, self.trap_pkey);
        raw[64] = self.trap_hop_limit;
        put_u24(raw, 65, self.trap_qp.get());
        put_u32(raw, 68, self.trap_qkey);
    }
}
