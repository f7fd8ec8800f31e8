//! Two switches in the place of a host, with two cables between them.
//!
//! ```text
//!  the host's cable -- 1 [first] 2 -- 1 [second]
//!                                3 -- 2
//! ```
//!
//! Requests that would go on through the host are shortened so that it answers, and nothing that they set reaches it. Its
//! answer is made that of the switch which was asked.

use std::collections::BTreeMap;

use wire::attr::{Attribute, NodeInfo, NodeType, PortInfo, PortPhysState, PortState, SwitchInfo};
use wire::mad::{AttributeId, MadStatus, Method, MgmtClass};
use wire::{Guid, Mad, PortNum};

/// Requests without an answer at most: lost ones are not missed.
const ASKED_MAX: usize = 1024;

/// A switch, and the port by which a request has come.
type Place = (usize, PortNum);

/// The switches of one host.
#[derive(Debug)]
pub(super) struct MadeUp {
    guids: [Guid; 2],
    /// Requests that the host was handed, by transaction.
    asked: BTreeMap<u64, Mad>,
    /// What was set, so that it reads back.
    set: BTreeMap<(usize, AttributeId, u32), [u8; 64]>,
}

impl MadeUp {
    pub(super) fn new(guids: [Guid; 2]) -> Self {
        Self {
            guids,
            asked: BTreeMap::new(),
            set: BTreeMap::new(),
        }
    }

    /// A request on its way to the host, as that is handed it.
    pub(super) fn ask(&mut self, mad: Mad) -> Option<Mad> {
        let is_request = matches!(mad.method(), Method::GET | Method::SET);
        let (pointer, count) = (mad.hop_pointer(), mad.hop_count());
        if mad.class() != MgmtClass::SUBN_DIR || !is_request || pointer > count {
            return None;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_first();
        }
        let mut shortened = mad;
        shortened.set_hop_count(pointer);
        shortened.set_method(Method::GET);
        self.asked.insert(mad.tid(), mad);
        Some(shortened)
    }

    /// The answer of the host, as that of the switch that was asked.
    pub(super) fn answer(&mut self, mut mad: Mad) -> Option<Mad> {
        let asked = self.asked.remove(&mad.tid())?;
        mad.set_hop_count(asked.hop_count());
        let returning = mad.is_returning();
        match place(&asked) {
            Some(place) => {
                self.tell(&asked, place, &mut mad);
                mad.set_status(MadStatus::OK);
            }
            None => mad.set_status(MadStatus::BAD_FIELD),
        }
        mad.set_returning(returning);
        Some(mad)
    }

    fn tell(&mut self, asked: &Mad, (switch, entry): Place, mad: &mut Mad) {
        let what = (switch, asked.attr_id(), asked.attr_mod());
        let guid = self.guids[switch];
        if asked.method() == Method::SET {
            *mad.smp_data_mut() = *asked.smp_data();
            self.set.insert(what, *asked.smp_data());
            return;
        }
        match asked.attr_id() {
            NodeInfo::ID => mad.set_smp_attribute(&NodeInfo {
                base_version: 1,
                class_version: 1,
                node_type: NodeType::Switch,
                num_ports: if switch == 0 { 3 } else { 2 },
                system_image_guid: guid,
                node_guid: guid,
                port_guid: guid,
                partition_cap: 32,
                device_id: 0,
                revision: 0,
                local_port_num: entry,
                vendor_id: 0,
            }),
            PortInfo::ID => mad.set_smp_attribute(&PortInfo {
                port_state: PortState::Active,
                port_phys_state: PortPhysState::LinkUp,
                local_port_num: entry,
                ..PortInfo::default()
            }),
            SwitchInfo::ID => {
                let mut data = [0; 64];
                // LinearFDBCap.
                data[..2].copy_from_slice(&0xc000u16.to_be_bytes());
                *mad.smp_data_mut() = data;
            }
            _ => *mad.smp_data_mut() = self.set.get(&what).copied().unwrap_or([0; 64]),
        }
    }
}

/// Which switch a request would come to.
fn place(asked: &Mad) -> Option<Place> {
    let (at, end) = (asked.hop_pointer().into(), usize::from(asked.hop_count()));
    let mut place = (0, 1);
    for exit in asked.initial_path().get(at..=end)?.iter().skip(1) {
        place = match (place.0, exit) {
            (0, exit @ 2..=3) => (1, exit - 1),
            (1, exit @ 1..=2) => (0, exit + 1),
            _ => return None,
        };
    }
    Some((place.0, PortNum::new(place.1)))
}
