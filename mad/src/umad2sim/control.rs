//! The control socket: connections of programs, and their queries about the host.
//!
//! Queries about the port go to the host's own agent, which answers them as it answers its driver: a
//! program must not need the M_Key to open the adapter.

use link::Time;
use wire::attr::{NodeInfo, PKeyTable, PortInfo};
use wire::mad::{AttributeId, Mad, Method, MgmtClass};
use wire::umad2sim::{Connect, ControlDatagram, ControlKind, Vendor};
use wire::{Format, Lid, Qpn};

use super::{InFlight, OWN_TIDS, Output, Purpose, SLOTS_MAX, SM_CLASSES, Server, Slot};
use crate::local::ToAgent;

impl<A: Clone> Server<A> {
    /// Takes in a datagram from the control socket. Every one that is well formed is answered:
    /// programs wait for that. Dropped are those that come when [`super::OUTPUTS_MAX`] actions wait.
    pub fn handle_control(&mut self, now: Time, from: A, bytes: &[u8]) {
        if !self.takes_datagrams() {
            return;
        }
        let request = match ControlDatagram::parse(bytes) {
            Ok((request, [])) => request,
            Ok(_) | Err(_) => {
                self.counts.malformed += 1;
                return;
            }
        };
        if request.kind == ControlKind::CONNECT {
            return self.connect(now, from, &request);
        }
        let slot = u16::try_from(request.client)
            .ok()
            .filter(|slot| self.slots.contains_key(slot));
        let Some(slot) = slot else {
            return self.refuse(from, &request);
        };
        match request.kind {
            ControlKind::DISCONNECT => {
                self.reply(from, &request);
                self.program_gone(now, slot);
            }
            ControlKind::SET_IS_SM => {
                let is_sm = request.data[..4] != [0; 4];
                if is_sm && self.has_other_sm(slot) {
                    return self.refuse(from, &request);
                }
                self.set_is_sm(slot, is_sm);
                self.reply(from, &request);
            }
            ControlKind::GET_GUID => {
                let mut reply = request;
                reply.data[..8].copy_from_slice(&self.config.guid.0.to_be_bytes());
                self.reply(from, &reply);
            }
            ControlKind::GET_VENDOR | ControlKind::GET_NODE_INFO => {
                self.ask(now, slot, from, request, AttributeId::NODE_INFO, 0);
            }
            ControlKind::GET_PORT_INFO => {
                let port = u32::from(request.data[0]);
                self.ask(now, slot, from, request, AttributeId::PORT_INFO, port);
            }
            ControlKind::GET_PORT | ControlKind::GET_GID => {
                self.ask(now, slot, from, request, AttributeId::PORT_INFO, 0);
            }
            ControlKind::GET_PKEYS => {
                self.ask(now, slot, from, request, AttributeId::PKEY_TABLE, 0);
            }
            _ => self.refuse(from, &request),
        }
    }

    fn connect(&mut self, now: Time, from: A, request: &ControlDatagram) {
        let Ok((connect, _)) = Connect::parse(&request.data) else {
            return self.refuse(from, request);
        };
        let own = Connect::node_bytes(&self.config.name);
        let guid = format!("{}", self.config.guid);
        let known = match connect.node_name() {
            Some("") => true,
            Some(name) => connect.node == own || name == guid,
            None => false,
        };
        if !known || (connect.is_sm && self.slots.values().any(|program| program.is_sm)) {
            return self.refuse(from, request);
        }
        // A process has one connection: an older one with the same id is of a process that died.
        let old = self
            .slots
            .iter()
            .find(|(_, program)| program.id == connect.id);
        if let Some((&old, _)) = old {
            self.program_gone(now, old);
        }
        let is_free = |slot: &u16| !self.slots.contains_key(slot);
        let room = self.slots.len() < usize::from(SLOTS_MAX);
        let offered = self.offered.take().filter(|_| room).filter(is_free);
        let Some(slot) = offered.or_else(|| (0..SLOTS_MAX).find(is_free)) else {
            return self.refuse(from, request);
        };
        let program = Slot {
            id: connect.id,
            is_sm: false,
            queue: Default::default(),
        };
        self.slots.insert(slot, program);
        self.outputs.push_back(Output::Open {
            slot,
            id: connect.id,
        });
        if connect.is_sm {
            self.set_is_sm(slot, true);
        }
        let mut reply = *request;
        let answer = Connect {
            id: u32::from(slot),
            node: own,
            ..connect
        };
        answer.emit(&mut reply.data);
        reply.client = u32::from(slot);
        self.reply(from, &reply);
    }

    fn has_other_sm(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|(&other, program)| other != slot && program.is_sm)
    }

    fn set_is_sm(&mut self, slot: u16, is_sm: bool) {
        let Some(program) = self.slots.get_mut(&slot) else {
            return;
        };
        if std::mem::replace(&mut program.is_sm, is_sm) == is_sm {
            return;
        }
        let mut push = |message| self.outputs.push_back(Output::Agent { slot, message });
        for MgmtClass(class) in SM_CLASSES {
            push(match is_sm {
                true => ToAgent::Register { class },
                false => ToAgent::Unregister { class },
            });
        }
        push(ToAgent::SetIsSm(is_sm));
    }

    /// Queries the host's agent for the attribute that answers a control request.
    fn ask(
        &mut self,
        now: Time,
        slot: u16,
        to: A,
        request: ControlDatagram,
        attribute: AttributeId,
        modifier: u32,
    ) {
        self.last_tid = self.last_tid.wrapping_add(1);
        let tid = OWN_TIDS | u64::from(self.last_tid);
        // A route without hops is never too long.
        let Ok(mad) = Mad::directed_smp(Method::GET, attribute, modifier, tid, &[]) else {
            return self.refuse(to, &request);
        };
        let request = InFlight {
            slot,
            lid: Lid::PERMISSIVE,
            qpn: Qpn::SMI,
            mad: Box::new(mad),
            purpose: Purpose::Control {
                to,
                request: Box::new(request),
            },
        };
        self.start(now, request);
    }

    /// Answers a control request from what the agent has answered.
    pub(super) fn answer_control(&mut self, to: A, request: &ControlDatagram, mad: &Mad) {
        let mut reply = *request;
        let answered = match request.kind {
            _ if mad.status().without_direction().0 != 0 => None,
            ControlKind::GET_NODE_INFO | ControlKind::GET_PORT_INFO | ControlKind::GET_PKEYS => {
                reply.data = *mad.smp_data();
                Some(())
            }
            ControlKind::GET_VENDOR => mad.smp_attribute::<NodeInfo>().ok().map(|info| {
                let vendor = Vendor {
                    vendor_id: info.vendor_id,
                    part_id: u32::from(info.device_id),
                    hw_version: info.revision,
                    fw_version: 1,
                };
                vendor.emit(&mut reply.data);
            }),
            ControlKind::GET_PORT => mad.smp_attribute::<PortInfo>().ok().map(|info| {
                reply.data[..2].copy_from_slice(&info.lid.get().to_le_bytes());
                reply.data[2] = info.port_state as u8;
            }),
            ControlKind::GET_GID => mad.smp_attribute::<PortInfo>().ok().map(|info| {
                reply.data[..8].copy_from_slice(&info.gid_prefix.to_be_bytes());
                reply.data[8..16].copy_from_slice(&self.config.guid.0.to_be_bytes());
            }),
            _ => None,
        };
        const { assert!(PKeyTable::LEN == 64, "the table fills the data") };
        match answered {
            Some(()) => self.reply(to, &reply),
            None => self.refuse(to, request),
        }
    }

    pub(super) fn refuse(&mut self, to: A, request: &ControlDatagram) {
        self.reply(
            to,
            &ControlDatagram {
                kind: ControlKind::ERROR,
                ..*request
            },
        );
    }

    fn reply(&mut self, to: A, reply: &ControlDatagram) {
        let bytes = Box::new(reply.to_bytes());
        self.outputs.push_back(Output::Control { to, bytes });
    }
}
