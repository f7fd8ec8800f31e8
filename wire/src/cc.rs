//! Congestion control: the datagrams of class 0x21 and their attributes (IBA annex A10).
//!
//! ```text
//! byte   0  common header (class version 2)
//!       24  CC_Key (8)
//!       32  CongestionLog (224); of all other attributes reserved
//!       64  the other attributes (192)
//! ```

use crate::format::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::mad::{AttributeId, Mad, MadHeader, Method, MgmtClass};
use crate::{Format, ParseError};

const KEY_AT: usize = 24;
const LOG_AT: usize = 32;
const DATA_AT: usize = 64;
/// Bytes of CongestionLog.
const LOG_LEN: usize = Mad::LEN - LOG_AT;
/// Bytes of every other attribute.
const DATA_LEN: usize = Mad::LEN - DATA_AT;

/// The version of the class.
pub const CLASS_VERSION: u8 = 2;
/// Ports of one block of SwitchPortCongestionSetting.
pub const PORTS_PER_BLOCK: usize = 32;
/// Entries of one block of the congestion control table.
pub const ENTRIES_PER_BLOCK: usize = 64;

/// Congestion control: the datagram behind a MAD.
impl Mad {
    /// A congestion control request with that CC_Key.
    #[must_use]
    pub fn cc(method: Method, attr_id: AttributeId, attr_mod: u32, tid: u64, key: u64) -> Self {
        let header = MadHeader::request(MgmtClass::CONGESTION, method, attr_id, attr_mod, tid);
        let mut mad = Self::new(&MadHeader {
            class_version: CLASS_VERSION,
            ..header
        });
        put_u64(&mut mad.0, KEY_AT, key);
        mad
    }

    /// The CC_Key.
    #[must_use]
    pub fn cc_key(&self) -> u64 {
        u64_at(&self.0, KEY_AT)
    }

    /// The attribute, of which the caller knows the type; not CongestionLog.
    ///
    /// # Errors
    /// What the attribute's [`parse`](Format::parse) says.
    pub fn cc_attribute<A: Format>(&self) -> Result<A, ParseError> {
        A::parse(&self.0[DATA_AT..]).map(|(attribute, _)| attribute)
    }

    /// Puts an attribute into the datagram, not CongestionLog, and zeroes what is left of the data.
    pub fn set_cc_attribute<A: Format>(&mut self, attribute: &A) {
        const { assert!(A::LEN <= DATA_LEN, "the attribute must fit") };
        self.0[LOG_AT..].fill(0);
        attribute.emit(&mut self.0[DATA_AT..]);
    }

    /// The CongestionLog of the datagram.
    ///
    /// # Errors
    /// [`CongestionLog`]'s.
    pub fn congestion_log(&self) -> Result<CongestionLog, ParseError> {
        CongestionLog::parse(&self.0[LOG_AT..]).map(|(log, _)| log)
    }

    /// Puts a CongestionLog into the datagram.
    pub fn set_congestion_log(&mut self, log: &CongestionLog) {
        log.emit(&mut self.0[LOG_AT..]);
    }
}

/// CongestionInfo: what the node can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CongestionInfo {
    /// Bits of what is supported.
    pub congestion_info: u16,
    /// Blocks of the congestion control table; 0 on a switch.
    pub control_table_cap: u8,
}

impl Format for CongestionInfo {
    const NAME: &'static str = "CongestionInfo";
    const LEN: usize = 4;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            congestion_info: u16_at(raw, 0),
            control_table_cap: raw[2],
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.congestion_info);
        raw[2] = self.control_table_cap;
    }
}

/// CongestionKeyInfo: the key that protects the node's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CongestionKeyInfo {
    /// CC_Key; 0 protects nothing.
    pub key: u64,
    /// CC_KeyProtectBit: requests without the key may not read it.
    pub protect: bool,
    /// CC_KeyLeasePeriod: seconds after a request with a wrong key until the key may be read; 0: never.
    pub lease_period_s: u16,
    /// CC_KeyViolations: requests with a wrong key.
    pub violations: u16,
}

impl Format for CongestionKeyInfo {
    const NAME: &'static str = "CongestionKeyInfo";
    const LEN: usize = 16;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            key: u64_at(raw, 0),
            protect: raw[8] & 0x80 != 0,
            lease_period_s: u16_at(raw, 10),
            violations: u16_at(raw, 12),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.key);
        raw[8] = u8::from(self.protect) << 7;
        put_u16(raw, 10, self.lease_period_s);
        put_u16(raw, 12, self.violations);
    }
}

/// CongestionLog without events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CongestionLog {
    /// LogType: 1 of a switch, 2 of a channel adapter.
    pub log_type: u8,
    /// CongestionFlags.
    pub flags: u8,
    /// Events since the log was read last.
    pub events: u16,
    /// CurrentTimeStamp of a channel adapter stands behind its event map, that of a switch in its place.
    pub timestamp: u32,
}

impl CongestionLog {
    /// LogType of a switch.
    pub const SWITCH: u8 = 1;
    /// LogType of a channel adapter.
    pub const ADAPTER: u8 = 2;

    /// Where CurrentTimeStamp stands.
    const fn timestamp_at(log_type: u8) -> usize {
        if log_type == Self::ADAPTER { 8 } else { 4 }
    }
}

impl Format for CongestionLog {
    const NAME: &'static str = "CongestionLog";
    const LEN: usize = LOG_LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            log_type: raw[0],
            flags: raw[1],
            events: u16_at(raw, 2),
            timestamp: u32_at(raw, Self::timestamp_at(raw[0])),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = self.log_type;
        raw[1] = self.flags;
        put_u16(raw, 2, self.events);
        put_u32(raw, Self::timestamp_at(self.log_type), self.timestamp);
    }
}

/// SwitchCongestionSetting: when the ports of a switch mark packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct SwitchCongestionSetting {
    /// Control_Map: which of the following are set.
    pub control_map: u32,
    /// Victim_Mask: ports that mark packets that wait for credits; port p is bit p, port 0 the lowest bit of
    /// the last byte.
    pub victim_mask: [u8; 32],
    /// Credit_Mask: ports that take part in credit starvation.
    pub credit_mask: [u8; 32],
    /// Threshold, 4 bits (emitting drops higher ones): 0 never marks.
    pub threshold: u8,
    /// Packet_Size: smaller packets are not marked, in units of 64 bytes.
    pub packet_size: u8,
    /// CS_Threshold, 4 bits (emitting drops higher ones).
    pub cs_threshold: u8,
    /// CS_ReturnDelay.
    pub cs_return_delay: u16,
    /// Marking_Rate: packets between two marked ones.
    pub marking_rate: u16,
}

impl Format for SwitchCongestionSetting {
    const NAME: &'static str = "SwitchCongestionSetting";
    const LEN: usize = 76;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let mask = |at: usize| core::array::from_fn(|byte| raw[at + byte]);
        Ok(Self {
            control_map: u32_at(raw, 0),
            victim_mask: mask(4),
            credit_mask: mask(36),
            threshold: raw[68] >> 4,
            packet_size: raw[69],
            cs_threshold: raw[70] >> 4,
            cs_return_delay: u16_at(raw, 72),
            marking_rate: u16_at(raw, 74),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.control_map);
        raw[4..36].copy_from_slice(&self.victim_mask);
        raw[36..68].copy_from_slice(&self.credit_mask);
        raw[68] = self.threshold << 4;
        raw[69] = self.packet_size;
        raw[70] = self.cs_threshold << 4;
        put_u16(raw, 72, self.cs_return_delay);
        put_u16(raw, 74, self.marking_rate);
    }
}

/// An element of SwitchPortCongestionSetting: when one port marks packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortCongestionSetting {
    /// Whether it takes the place of SwitchCongestionSetting for this port.
    pub valid: bool,
    /// Control_Type: credit starvation in place of the threshold.
    pub control_type: bool,
    /// Threshold, 4 bits (emitting drops higher ones).
    pub threshold: u8,
    /// Packet_Size.
    pub packet_size: u8,
    /// Cong_Parm_Marking_Rate.
    pub marking_rate: u16,
}

/// SwitchPortCongestionSetting: a block of 32 ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SwitchPortCongestionSetting(pub [PortCongestionSetting; PORTS_PER_BLOCK]);

impl Format for SwitchPortCongestionSetting {
    const NAME: &'static str = "SwitchPortCongestionSetting";
    const LEN: usize = 4 * PORTS_PER_BLOCK;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(core::array::from_fn(|port| PortCongestionSetting {
            valid: raw[4 * port] & 0x80 != 0,
            control_type: raw[4 * port] & 0x40 != 0,
            threshold: raw[4 * port] & 0x0f,
            packet_size: raw[4 * port + 1],
            marking_rate: u16_at(raw, 4 * port + 2),
        })))
    }

    fn write(&self, raw: &mut [u8]) {
        for (port, setting) in self.0.iter().enumerate() {
            let flags = (u8::from(setting.valid) << 7) | (u8::from(setting.control_type) << 6);
            raw[4 * port] = flags | (setting.threshold & 0x0f);
            raw[4 * port + 1] = setting.packet_size;
            put_u16(raw, 4 * port + 2, setting.marking_rate);
        }
    }
}

/// How a channel adapter reacts to marks on one service level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CaCongestionEntry {
    /// CCTI_Timer: when the index into the table decreases, in units of 1.024 us.
    pub timer: u16,
    /// CCTI_Increase: by how much a mark increases the index.
    pub increase: u8,
    /// Trigger_Threshold: the index at which an event is logged.
    pub trigger_threshold: u8,
    /// CCTI_Min: the least index.
    pub min: u8,
}

/// CACongestionSetting: how a channel adapter reacts to marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CaCongestionSetting {
    /// Port_Control: bit 0: by service level, not by queue pair.
    pub port_control: u16,
    /// Control_Map: the service levels whose entries are set.
    pub control_map: u16,
    /// By service level.
    pub entries: [CaCongestionEntry; 16],
}

impl Format for CaCongestionSetting {
    const NAME: &'static str = "CACongestionSetting";
    const LEN: usize = 132;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            port_control: u16_at(raw, 0),
            control_map: u16_at(raw, 2),
            entries: core::array::from_fn(|level| {
                let at = 4 + 8 * level;
                CaCongestionEntry {
                    timer: u16_at(raw, at),
                    increase: raw[at + 2],
                    trigger_threshold: raw[at + 3],
                    min: raw[at + 4],
                }
            }),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.port_control);
        put_u16(raw, 2, self.control_map);
        for (level, entry) in self.entries.iter().enumerate() {
            let at = 4 + 8 * level;
            put_u16(raw, at, entry.timer);
            raw[at + 2] = entry.increase;
            raw[at + 3] = entry.trigger_threshold;
            raw[at + 4] = entry.min;
        }
    }
}

/// CongestionControlTable: a block of 64 delays between packets. An entry's top 2 bits are the shift, the
/// others the multiplier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CongestionControlTable {
    /// CCTI_Limit: the greatest index, over all blocks.
    pub limit: u16,
    /// The entries.
    pub entries: [u16; ENTRIES_PER_BLOCK],
}

impl Default for CongestionControlTable {
    fn default() -> Self {
        Self {
            limit: 0,
            entries: [0; ENTRIES_PER_BLOCK],
        }
    }
}

impl Format for CongestionControlTable {
    const NAME: &'static str = "CongestionControlTable";
    const LEN: usize = 4 + 2 * ENTRIES_PER_BLOCK;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            limit: u16_at(raw, 0),
            entries: core::array::from_fn(|at| u16_at(raw, 4 + 2 * at)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.limit);
        for (at, &entry) in self.entries.iter().enumerate() {
            put_u16(raw, 4 + 2 * at, entry);
        }
    }
}

/// Timestamp: the node's clock, in units of 1.024 us; it wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CongestionTimestamp(pub u32);

impl Format for CongestionTimestamp {
    const NAME: &'static str = "Timestamp";
    const LEN: usize = 4;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(u32_at(raw, 0)))
    }

    fn write(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.0);
    }
}

#[cfg(test)]
mod tests {
    use core::fmt::Debug;

    use super::*;

    fn inverse<F: Format + Debug + PartialEq>(value: &F) -> Vec<u8> {
        let mut raw = vec![0xa5; F::LEN];
        value.emit(&mut raw);
        assert_eq!(F::parse(&raw), Ok((F::parse(&raw).unwrap().0, &[][..])));
        assert_eq!(&F::parse(&raw).unwrap().0, value, "{}", F::NAME);
        for short in 0..F::LEN {
            assert!(F::parse(&raw[..short]).is_err(), "{} of {short}", F::NAME);
        }
        raw
    }

    #[test]
    fn parse_inverts_emit() {
        let info = CongestionInfo {
            congestion_info: 0x0102,
            control_table_cap: 3,
        };
        assert_eq!(inverse(&info), [1, 2, 3, 0]);
        let key = CongestionKeyInfo {
            key: 0x0102_0304_0506_0708,
            protect: true,
            lease_period_s: 0x0a0b,
            violations: 0x0c0d,
        };
        let raw = inverse(&key);
        assert_eq!(raw[8..], [0x80, 0, 0x0a, 0x0b, 0x0c, 0x0d, 0, 0]);
        let setting = SwitchCongestionSetting {
            control_map: 0x1f,
            victim_mask: core::array::from_fn(|at| [1, 2, 3][at % 3]),
            credit_mask: core::array::from_fn(|at| [4, 5, 6][at % 3]),
            threshold: 0xc,
            packet_size: 8,
            cs_threshold: 0xd,
            cs_return_delay: 0x1112,
            marking_rate: 0x1314,
        };
        let raw = inverse(&setting);
        assert_eq!(raw[68..], [0xc0, 8, 0xd0, 0, 0x11, 0x12, 0x13, 0x14]);
        let mut ports = SwitchPortCongestionSetting::default();
        ports.0[1] = PortCongestionSetting {
            valid: true,
            control_type: true,
            threshold: 0xe,
            packet_size: 9,
            marking_rate: 0x2122,
        };
        assert_eq!(inverse(&ports)[4..8], [0xce, 9, 0x21, 0x22]);
        let mut adapter = CaCongestionSetting {
            port_control: 1,
            control_map: 0x8001,
            ..CaCongestionSetting::default()
        };
        adapter.entries[15] = CaCongestionEntry {
            timer: 0x3132,
            increase: 4,
            trigger_threshold: 5,
            min: 6,
        };
        assert_eq!(inverse(&adapter)[124..], [0x31, 0x32, 4, 5, 6, 0, 0, 0]);
        let table = CongestionControlTable {
            limit: 127,
            entries: core::array::from_fn(|at| [0xc001, 7][at % 2]),
        };
        assert_eq!(inverse(&table)[..6], [0, 127, 0, 0, 0xc0, 1]);
        assert_eq!(inverse(&CongestionTimestamp(0x0102_0304)), [1, 2, 3, 4]);
    }

    #[test]
    fn the_log_stands_before_the_other_attributes() {
        let mut mad = Mad::cc(Method::GET, AttributeId::CONGESTION_LOG, 0, 9, 0x77);
        assert_eq!((mad.cc_key(), mad.header().class_version), (0x77, 2));
        for log_type in [CongestionLog::SWITCH, CongestionLog::ADAPTER] {
            let log = CongestionLog {
                log_type,
                flags: 1,
                events: 2,
                timestamp: 0x0102_0304,
            };
            let _raw = inverse(&log);
            mad.set_congestion_log(&log);
            assert_eq!(mad.congestion_log(), Ok(log));
            assert_eq!(mad.as_bytes()[32], log_type);
        }
        mad.set_cc_attribute(&CongestionTimestamp(5));
        assert_eq!(mad.as_bytes()[32], 0);
        assert_eq!(mad.cc_attribute(), Ok(CongestionTimestamp(5)));
    }
}
