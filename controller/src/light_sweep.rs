//! The light sweep: has anything changed since the subnet was last looked at?
//!
//! It asks every switch for SwitchInfo, whose change flag says that a port has changed its state
//! since the last discovery cleared it, the own port for its state and its manager, and other managers for their
//! SMInfo. On any sign of change, or silence, a full sweep follows.
//!
//! A manager that is not master polls the master and nothing else. A master glances at its own port in between: where two are
//! master without having met, each has written the other's.

use std::collections::BTreeSet;

use wire::attr::{PortInfo, PortState, SmInfo, SwitchInfo};

use crate::smp::{Answer, Request};
use crate::subnet::{Index, Subnet, has_link};

/// A request of a light sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// SwitchInfo of a switch.
    Switch(Index),
    /// PortInfo of the own port.
    OwnPort,
    /// SMInfo of the manager that is polled.
    Master(Index),
    /// As master, SMInfo of a manager that stands by.
    Manager(Index, SmInfo),
}

/// A light sweep under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct LightSweep {
    /// Whether anything has changed.
    pub(crate) changed: bool,
    /// SMInfo of the polled manager.
    pub(crate) master: Option<SmInfo>,
    /// PortInfo of the own port.
    pub(crate) own_port: Option<PortInfo>,
    /// Whether it asks for nothing but the own port.
    is_glance: bool,
    /// Devices that are not read back: they do not answer, or have lost their tables by a restart.
    /// The heavy sweep that follows must not wait for them.
    left_out: BTreeSet<Index>,
}

/// All requests of a light sweep.
pub(crate) fn queries(subnet: &Subnet) -> Vec<Query> {
    let switches = subnet
        .devices
        .iter()
        .enumerate()
        .filter(|(_, device)| device.switch.is_some())
        .map(|(index, _)| Query::Switch(index));
    core::iter::once(Query::OwnPort).chain(switches).collect()
}

/// The SMP of a request.
pub(crate) fn request(query: Query, subnet: &Subnet) -> Option<Request> {
    Some(match query {
        Query::Switch(index) => {
            Request::get::<SwitchInfo>(subnet.devices.get(index)?.route.clone(), 0)
        }
        Query::OwnPort => {
            let port = subnet
                .devices
                .get(subnet.own)
                .map_or(1, |own| own.end_port().get());
            Request::get::<PortInfo>(Vec::new(), u32::from(port))
        }
        Query::Master(index) | Query::Manager(index, _) => {
            Request::get::<SmInfo>(subnet.devices.get(index)?.route.clone(), 0)
        }
    })
}

impl LightSweep {
    /// One that asks for nothing but the own port.
    pub(crate) fn glance() -> Self {
        Self {
            is_glance: true,
            ..Self::default()
        }
    }

    /// Whether it asks for nothing but the own port.
    pub(crate) fn is_glance(&self) -> bool {
        self.is_glance
    }

    /// A device is not read back in this sweep.
    pub(crate) fn leave_out(&mut self, index: Index) {
        self.left_out.insert(index);
    }

    /// Whether a device is read back in this sweep.
    pub(crate) fn reads_back(&self, index: Index) -> bool {
        !self.left_out.contains(&index)
    }

    /// Takes in the outcome of a request.
    pub(crate) fn complete(&mut self, query: Query, answer: Answer<'_>, subnet: &Subnet) {
        let changed = match query {
            Query::Switch(index) => {
                let known = subnet.devices.get(index).and_then(|device| device.switch);
                let now = answer.attribute::<SwitchInfo>().ok();
                let is_same = now
                    .zip(known)
                    .is_some_and(|(now, known)| now.linear_fdb_top == known.linear_fdb_top);
                if !is_same {
                    self.leave_out(index);
                }
                !is_same || now.is_some_and(|now| now.port_state_change)
            }
            Query::OwnPort => {
                let known = subnet
                    .devices
                    .get(subnet.own)
                    .and_then(|own| own.end_port_info());
                self.own_port = answer.attribute().ok();
                match (&self.own_port, known) {
                    // Another LID, or another master's: another manager has written it.
                    (Some(now), Some(known)) => {
                        let is_active = |info: &PortInfo| info.port_state == PortState::Active;
                        (now.lid, now.master_sm_lid) != (known.lid, known.master_sm_lid)
                            || has_link(now) != has_link(known)
                            // The link was lost and is back.
                            || is_active(now) != is_active(known)
                    }
                    _ => true,
                }
            }
            Query::Master(_) => {
                self.master = answer.attribute().ok();
                self.master.is_none()
            }
            Query::Manager(_, known) => !answer.attribute::<SmInfo>().is_ok_and(|now| {
                (now.guid, now.sm_key, now.priority, now.state)
                    == (known.guid, known.sm_key, known.priority, known.state)
            }),
        };
        self.changed |= changed;
    }
}
