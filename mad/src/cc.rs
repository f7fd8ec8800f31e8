//! The congestion control agent: what answers requests of class 0x21 (IBA annex A10).
//!
//! It stores what a congestion control manager sets, under the protection of the CC_Key, and answers a Get with
//! it. The dataplane marks no packets yet, so that the log never has an event.

use link::Time;
use wire::cc::{
    CLASS_VERSION, CaCongestionSetting, CongestionControlTable, CongestionInfo, CongestionKeyInfo,
    CongestionLog, CongestionTimestamp, PORTS_PER_BLOCK, SwitchCongestionSetting,
    SwitchPortCongestionSetting,
};
use wire::convert::saturate;
use wire::mad::{AttributeId, Mad, MadHeader, MadStatus};
use wire::pma::ClassPortInfo;

use crate::access::{Access, access};
use crate::key_guard::KeyGuard;

/// RespTimeValue: about 0.27 s.
const RESP_TIME_VALUE: u8 = 16;
/// Blocks of a channel adapter's congestion control table: 128 entries.
const TABLE_BLOCKS: usize = 2;
/// The unit of timestamps.
const TIMESTAMP_NS: u64 = 1024;

/// The settings of a node.
#[derive(Debug)]
enum Settings {
    Switch {
        setting: Box<SwitchCongestionSetting>,
        /// By block of ports.
        ports: Vec<SwitchPortCongestionSetting>,
    },
    Adapter {
        setting: Box<CaCongestionSetting>,
        /// By block of entries.
        table: Box<[CongestionControlTable; TABLE_BLOCKS]>,
    },
}

/// The agent of a switch, or of one port of a channel adapter.
#[derive(Debug)]
pub struct CongestionAgent {
    key: KeyGuard,
    settings: Settings,
}

impl CongestionAgent {
    /// The agent of a switch with external ports `1..=ports`; nothing is set.
    #[must_use]
    pub fn of_switch(ports: u8) -> Self {
        let blocks = usize::from(ports) / PORTS_PER_BLOCK + 1;
        Self {
            key: KeyGuard::default(),
            settings: Settings::Switch {
                setting: Box::default(),
                ports: vec![SwitchPortCongestionSetting::default(); blocks],
            },
        }
    }

    /// The agent of a port of a channel adapter; nothing is set.
    #[must_use]
    pub fn of_adapter() -> Self {
        Self {
            key: KeyGuard::default(),
            settings: Settings::Adapter {
                setting: Box::default(),
                table: Box::default(),
            },
        }
    }

    /// Answers `mad` in place. Returns `false` if there is nothing to answer: it is no request, or has a wrong
    /// CC_Key.
    pub fn handle(&mut self, now: Time, mad: &mut Mad) -> bool {
        let method = mad.method();
        let set = match access(mad, CLASS_VERSION) {
            Ok(Access::Get) => false,
            Ok(Access::Set) => true,
            Err(is_answered) => return is_answered,
        };
        if !self.key.admits(now, method, mad.cc_key()) {
            return false;
        }
        let status = match self.execute(now, mad, set) {
            Ok(()) => MadStatus::OK,
            Err(status) => status,
        };
        mad.answer(status);
        true
    }

    fn execute(&mut self, now: Time, mad: &mut Mad, set: bool) -> Result<(), MadStatus> {
        match (mad.attr_id(), &mut self.settings) {
            (AttributeId::CLASS_PORT_INFO, _) if !set => {
                // ClassPortInfo stands where the other attributes do.
                mad.set_cc_attribute(&ClassPortInfo {
                    base_version: MadHeader::BASE_VERSION,
                    class_version: CLASS_VERSION,
                    resp_time_value: RESP_TIME_VALUE,
                    ..ClassPortInfo::default()
                });
            }
            (AttributeId::CONGESTION_INFO, settings) if !set => {
                mad.set_cc_attribute(&CongestionInfo {
                    congestion_info: 0,
                    control_table_cap: match settings {
                        Settings::Switch { .. } => 0,
                        Settings::Adapter { table, .. } => saturate(table.len()),
                    },
                });
            }
            (AttributeId::CONGESTION_KEY_INFO, _) => self.key_info(mad, set)?,
            (AttributeId::CONGESTION_LOG, settings) if !set => {
                mad.set_congestion_log(&CongestionLog {
                    log_type: match settings {
                        Settings::Switch { .. } => CongestionLog::SWITCH,
                        Settings::Adapter { .. } => CongestionLog::ADAPTER,
                    },
                    flags: 0,
                    events: 0,
                    timestamp: timestamp(now),
                });
            }
            (AttributeId::SWITCH_CONGESTION_SETTING, Settings::Switch { setting, .. }) => {
                if set {
                    **setting = read(mad)?;
                }
                mad.set_cc_attribute(&**setting);
            }
            (AttributeId::SWITCH_PORT_CONGESTION_SETTING, Settings::Switch { ports, .. }) => {
                let ports = block(ports, mad)?;
                if set {
                    *ports = read(mad)?;
                }
                mad.set_cc_attribute(ports);
            }
            (AttributeId::CA_CONGESTION_SETTING, Settings::Adapter { setting, .. }) => {
                if set {
                    **setting = read(mad)?;
                }
                mad.set_cc_attribute(&**setting);
            }
            (AttributeId::CONGESTION_CONTROL_TABLE, Settings::Adapter { table, .. }) => {
                let table = block(&mut table[..], mad)?;
                if set {
                    *table = read(mad)?;
                }
                mad.set_cc_attribute(table);
            }
            (AttributeId::CONGESTION_TIMESTAMP, _) if !set => {
                mad.set_cc_attribute(&CongestionTimestamp(timestamp(now)));
            }
            _ => return Err(MadStatus::BAD_METHOD_ATTRIBUTE),
        }
        Ok(())
    }

    fn key_info(&mut self, mad: &mut Mad, set: bool) -> Result<(), MadStatus> {
        if set {
            let wanted: CongestionKeyInfo = read(mad)?;
            let protect_bits = u8::from(wanted.protect);
            self.key
                .assign(wanted.key, protect_bits, wanted.lease_period_s);
            if wanted.violations == 0 {
                self.key.clear_violations();
            }
        }
        // The answer to the request that sets a key shows it.
        let presented = if set { self.key.key() } else { mad.cc_key() };
        mad.set_cc_attribute(&CongestionKeyInfo {
            key: self.key.visible_key(presented),
            protect: self.key.protect_bits() != 0,
            lease_period_s: self.key.lease_period_s(),
            violations: self.key.violations(),
        });
        Ok(())
    }
}

/// The block that the modifier names.
fn block<'b, B>(blocks: &'b mut [B], mad: &Mad) -> Result<&'b mut B, MadStatus> {
    let number = usize::try_from(mad.attr_mod()).ok();
    let found = number.and_then(|number| blocks.get_mut(number));
    found.ok_or(MadStatus::BAD_FIELD)
}

fn read<A: wire::Format>(mad: &Mad) -> Result<A, MadStatus> {
    mad.cc_attribute().map_err(|_| MadStatus::BAD_FIELD)
}

fn timestamp(now: Time) -> u32 {
    saturate((now.0 / TIMESTAMP_NS) & u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use wire::cc::{CaCongestionEntry, PortCongestionSetting};
    use wire::mad::Method;

    use super::*;

    const KEY: u64 = 0x1234;

    fn ask<A: wire::Format>(
        agent: &mut CongestionAgent,
        (method, id, modifier, key): (Method, AttributeId, u32, u64),
        attribute: Option<&A>,
    ) -> Option<Result<A, MadStatus>> {
        let mut mad = Mad::cc(method, id, modifier, 7, key);
        if let Some(attribute) = attribute {
            mad.set_cc_attribute(attribute);
        }
        if !agent.handle(Time(2048), &mut mad) {
            return None;
        }
        assert_eq!((mad.method(), mad.tid()), (Method::GET_RESP, 7));
        Some(match mad.status() {
            MadStatus::OK => Ok(mad.cc_attribute().unwrap()),
            status => Err(status),
        })
    }

    #[test]
    fn settings_of_a_switch_read_back() {
        let mut switch = CongestionAgent::of_switch(36);
        let setting = SwitchCongestionSetting {
            control_map: 1,
            threshold: 15,
            marking_rate: 10,
            ..SwitchCongestionSetting::default()
        };
        let id = AttributeId::SWITCH_CONGESTION_SETTING;
        let set = ask(&mut switch, (Method::SET, id, 0, 0), Some(&setting));
        assert_eq!(set, Some(Ok(setting)));
        assert_eq!(
            ask(&mut switch, (Method::GET, id, 0, 0), None),
            Some(Ok(setting))
        );
        let mut ports = SwitchPortCongestionSetting::default();
        ports.0[4] = PortCongestionSetting {
            valid: true,
            threshold: 3,
            ..PortCongestionSetting::default()
        };
        let id = AttributeId::SWITCH_PORT_CONGESTION_SETTING;
        let set = ask(&mut switch, (Method::SET, id, 1, 0), Some(&ports));
        assert_eq!(set, Some(Ok(ports)), "ports 32 to 36");
        assert_eq!(
            ask(&mut switch, (Method::GET, id, 1, 0), None),
            Some(Ok(ports))
        );
        let refused: Option<Result<SwitchPortCongestionSetting, MadStatus>> =
            Some(Err(MadStatus::BAD_FIELD));
        assert_eq!(ask(&mut switch, (Method::GET, id, 2, 0), None), refused);
    }

    #[test]
    fn settings_of_an_adapter_read_back() {
        let mut adapter = CongestionAgent::of_adapter();
        let mut setting = CaCongestionSetting {
            control_map: 0xffff,
            ..CaCongestionSetting::default()
        };
        setting.entries[3] = CaCongestionEntry {
            timer: 150,
            increase: 1,
            ..CaCongestionEntry::default()
        };
        let id = AttributeId::CA_CONGESTION_SETTING;
        let set = ask(&mut adapter, (Method::SET, id, 0, 0), Some(&setting));
        assert_eq!(set, Some(Ok(setting)));
        let id = AttributeId::CONGESTION_CONTROL_TABLE;
        let second = CongestionControlTable {
            limit: 127,
            entries: [5; 64],
        };
        let set = ask(&mut adapter, (Method::SET, id, 1, 0), Some(&second));
        assert_eq!(set, Some(Ok(second)));
        let first = CongestionControlTable::default();
        assert_eq!(
            ask(&mut adapter, (Method::GET, id, 0, 0), None),
            Some(Ok(first))
        );
        let info: CongestionInfo = ask(
            &mut adapter,
            (Method::GET, AttributeId::CONGESTION_INFO, 0, 0),
            None,
        )
        .unwrap()
        .unwrap();
        assert_eq!(info.control_table_cap, 2);
        let clock = (Method::GET, AttributeId::CONGESTION_TIMESTAMP, 0, 0);
        assert_eq!(
            ask(&mut adapter, clock, None),
            Some(Ok(CongestionTimestamp(2)))
        );
    }

    #[test]
    fn a_key_protects_what_is_set_and_itself() {
        let mut agent = CongestionAgent::of_adapter();
        let id = AttributeId::CONGESTION_KEY_INFO;
        let key = CongestionKeyInfo {
            key: KEY,
            protect: true,
            lease_period_s: 0,
            violations: 0,
        };
        assert_eq!(
            ask(&mut agent, (Method::SET, id, 0, 0), Some(&key)),
            Some(Ok(key))
        );
        let setting = CaCongestionSetting::default();
        let change = AttributeId::CA_CONGESTION_SETTING;
        assert_eq!(
            ask(&mut agent, (Method::SET, change, 0, 1), Some(&setting)),
            None
        );
        let hidden = CongestionKeyInfo {
            key: 0,
            violations: 1,
            ..key
        };
        assert_eq!(
            ask(&mut agent, (Method::GET, id, 0, 1), None),
            Some(Ok(hidden))
        );
        let set = ask(&mut agent, (Method::SET, change, 0, KEY), Some(&setting));
        assert_eq!(set, Some(Ok(setting)));
        let shown = CongestionKeyInfo {
            violations: 1,
            ..key
        };
        assert_eq!(
            ask(&mut agent, (Method::GET, id, 0, KEY), None),
            Some(Ok(shown))
        );
    }

    #[test]
    fn requests_that_do_not_fit_are_answered_by_status() {
        let mut switch = CongestionAgent::of_switch(4);
        let unfit: Option<Result<CaCongestionSetting, MadStatus>> =
            Some(Err(MadStatus::BAD_METHOD_ATTRIBUTE));
        let request = (Method::GET, AttributeId::CA_CONGESTION_SETTING, 0, 0);
        assert_eq!(ask(&mut switch, request, None), unfit);
        let mut mad = Mad::cc(Method::GET, AttributeId::CONGESTION_INFO, 0, 7, 0);
        mad.set_header(&MadHeader {
            class_version: 1,
            ..mad.header()
        });
        assert!(switch.handle(Time(0), &mut mad));
        assert_eq!(mad.status(), MadStatus::BAD_VERSION);
        assert!(!switch.handle(Time(0), &mut mad), "a response");
    }
}
