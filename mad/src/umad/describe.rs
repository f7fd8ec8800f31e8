//! The description of the adapter: attributes read from the host's own agents, as a driver reads them.

use std::collections::BTreeMap;

use wire::attr::{GuidInfo, NodeDescription, NodeInfo, PKeyTable, PortInfo};
use wire::mad::{AttributeId, Mad, Method};
use wire::pma::{PortCounters, PortCountersExtended};
use wire::{ParseError, PortNum};

use super::{Adapter, AdapterPort, DESCRIPTIONS_MAX, Output, Refusal, Reply, Server};
use crate::local::{MadMessage, ToAgent};

/// The attributes that are read of each port, in order.
const READS: [AttributeId; 7] = [
    AttributeId::NODE_INFO,
    AttributeId::NODE_DESCRIPTION,
    AttributeId::PORT_INFO,
    AttributeId::GUID_INFO,
    AttributeId::PKEY_TABLE,
    AttributeId::PORT_COUNTERS,
    AttributeId::PORT_COUNTERS_EXTENDED,
];

/// A description that is being read. What is read of a port is in the order of [`READS`].
#[derive(Debug)]
pub(super) struct Describing {
    /// The shell's number of the request.
    request: u64,
    adapter: Adapter,
    /// Reads without an answer yet, by transaction id: port and position in [`READS`].
    awaited: BTreeMap<u64, (PortNum, usize)>,
}

impl Describing {
    pub(super) fn is_for(&self, request: u64) -> bool {
        self.request == request
    }
}

fn question(port: PortNum, read: usize, tid: u64) -> Mad {
    let attribute = READS[read];
    match read {
        ..5 => {
            let modifier = match attribute {
                AttributeId::PORT_INFO => u32::from(port.get()),
                _ => 0,
            };
            Mad::lid_smp(Method::GET, attribute, modifier, tid)
        }
        5 => {
            let mut mad = Mad::pma(Method::GET, attribute, 0, tid);
            mad.set_pma_attribute(&PortCounters {
                port_select: port,
                ..PortCounters::default()
            });
            mad
        }
        _ => {
            let mut mad = Mad::pma(Method::GET, attribute, 0, tid);
            mad.set_pma_attribute(&PortCountersExtended {
                port_select: port,
                ..PortCountersExtended::default()
            });
            mad
        }
    }
}

impl Server {
    /// Describes the adapter; [`Output::Reply`] with the number `request` answers.
    pub fn describe(&mut self, request: u64) {
        if self.describing.len() >= DESCRIPTIONS_MAX {
            let reply = Reply::Refused(Refusal::Full);
            return self.outputs.push_back(Output::Reply { request, reply });
        }
        let mut awaited = BTreeMap::new();
        for port in (1..=self.ports).map(PortNum::new) {
            for read in 0..READS.len() {
                self.last_tid += 1;
                let mad = question(port, read, self.last_tid);
                let message = ToAgent::ReadOwn(Box::new(*mad.as_bytes()));
                self.send_own(port, message);
                awaited.insert(self.last_tid, (port, read));
            }
        }
        self.describing.push_back(Describing {
            request,
            adapter: Adapter::default(),
            awaited,
        });
    }

    /// A client of the server's own has its answer.
    pub(super) fn described(&mut self, message: &MadMessage) {
        let mad = Mad::from_bytes(*message.mad);
        let mut open = self.describing.iter_mut().enumerate();
        let found = open.find_map(|(place, describing)| {
            let read = describing.awaited.remove(&mad.tid())?;
            Some((place, describing, read))
        });
        let Some((place, describing, (port, read))) = found else {
            return;
        };
        if mad.status().without_direction().0 == 0 {
            // What cannot be read stays as it is by default.
            let _read = describing.adapter.read(port, read, &mad);
        }
        let is_complete = describing.awaited.is_empty();
        if is_complete && let Some(complete) = self.describing.remove(place) {
            let request = complete.request;
            let reply = Reply::Adapter(Box::new(complete.adapter));
            self.outputs.push_back(Output::Reply { request, reply });
        }
    }
}

impl Adapter {
    /// Takes over an attribute.
    fn read(&mut self, port: PortNum, read: usize, mad: &Mad) -> Result<(), ParseError> {
        let index = port.index().saturating_sub(1);
        if self.ports.len() <= index {
            self.ports.resize_with(index + 1, AdapterPort::default);
        }
        let entry = &mut self.ports[index];
        entry.number = port;
        match READS[read] {
            _ if read == 5 => entry.read_counters(&mad.pma_attribute()?),
            _ if read == 6 => entry.read_extended(&mad.pma_attribute()?),
            AttributeId::NODE_INFO => {
                let info: NodeInfo = mad.smp_attribute()?;
                self.node_guid = info.node_guid.0;
                self.system_image_guid = info.system_image_guid.0;
                self.vendor_id = info.vendor_id;
                self.device_id = info.device_id;
                self.revision = info.revision;
                entry.guids.insert(0, info.port_guid.0);
                entry.pkeys = vec![0; usize::from(info.partition_cap)];
            }
            AttributeId::NODE_DESCRIPTION => {
                let text: NodeDescription = mad.smp_attribute()?;
                self.description = text.as_str().to_owned();
            }
            AttributeId::PORT_INFO => entry.read_port_info(&mad.smp_attribute()?),
            AttributeId::GUID_INFO => {
                let GuidInfo(guids) = mad.smp_attribute()?;
                let further = guids.iter().skip(1).take_while(|guid| guid.0 != 0);
                entry.guids.extend(further.map(|guid| guid.0));
            }
            _ => {
                let PKeyTable(keys) = mad.smp_attribute()?;
                for (entry, key) in entry.pkeys.iter_mut().zip(keys) {
                    *entry = key;
                }
            }
        }
        Ok(())
    }
}

impl AdapterPort {
    fn read_port_info(&mut self, info: &PortInfo) {
        self.gid_prefix = info.gid_prefix;
        self.lid = info.lid;
        self.lmc = info.lmc;
        self.sm_lid = info.master_sm_lid;
        self.sm_sl = info.master_sm_sl;
        self.state = info.port_state as u8;
        self.physical_state = info.port_phys_state as u8;
        self.capabilities = info.capability_mask;
        self.width = info.link_width_active;
        self.speed = [
            info.link_speed_active,
            info.link_speed_ext_active,
            info.link_speed_ext2_active,
        ];
    }

    fn count(&mut self, name: &str, value: impl Into<u64>) {
        self.counters.push((name.to_owned(), value.into()));
    }

    /// The counters that have no 64 bits; `port_xmit_wait` among them.
    fn read_counters(&mut self, counters: &PortCounters) {
        self.count("symbol_error", counters.symbol_error);
        self.count("link_error_recovery", counters.link_error_recovery);
        self.count("link_downed", counters.link_downed);
        self.count("port_rcv_errors", counters.rcv_errors);
        self.count(
            "port_rcv_remote_physical_errors",
            counters.rcv_remote_physical_errors,
        );
        self.count(
            "port_rcv_switch_relay_errors",
            counters.rcv_switch_relay_errors,
        );
        self.count("port_xmit_discards", counters.xmit_discards);
        self.count(
            "port_xmit_constraint_errors",
            counters.xmit_constraint_errors,
        );
        self.count("port_rcv_constraint_errors", counters.rcv_constraint_errors);
        self.count(
            "local_link_integrity_errors",
            counters.local_link_integrity_errors,
        );
        self.count(
            "excessive_buffer_overrun_errors",
            counters.excessive_buffer_overrun_errors,
        );
        self.count("VL15_dropped", counters.vl15_dropped);
        self.count("port_xmit_wait", counters.xmit_wait);
    }

    fn read_extended(&mut self, counters: &PortCountersExtended) {
        self.count("port_xmit_data", counters.xmit_data);
        self.count("port_rcv_data", counters.rcv_data);
        self.count("port_xmit_packets", counters.xmit_pkts);
        self.count("port_rcv_packets", counters.rcv_pkts);
        self.count("unicast_xmit_packets", counters.unicast_xmit_pkts);
        self.count("unicast_rcv_packets", counters.unicast_rcv_pkts);
        self.count("multicast_xmit_packets", counters.multicast_xmit_pkts);
        self.count("multicast_rcv_packets", counters.multicast_rcv_pkts);
    }

    /// The port's own GUID; 0 if it has none.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.guids.first().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use link::Time;
    use wire::{Lid, Qpn, Sl};

    use super::*;
    use crate::local::FromAgent;

    fn replied(server: &mut Server) -> Vec<u64> {
        let outputs = core::iter::from_fn(|| server.poll_output());
        let replies = outputs.filter_map(|output| match output {
            Output::Reply { request, .. } => Some(request),
            _ => None,
        });
        replies.collect()
    }

    #[test]
    fn a_description_that_lacks_an_answer_holds_no_other_up() {
        let mut server = Server::new(1);
        server.describe(1);
        server.describe(2);
        let outputs = core::iter::from_fn(|| server.poll_output());
        let questions = outputs.filter_map(|output| match output {
            Output::Agent {
                client,
                message: ToAgent::ReadOwn(mad),
            } => Some((client, mad)),
            _ => None,
        });
        let mut questions = questions.collect::<Vec<_>>().into_iter();
        let answer = |server: &mut Server, (client, mad)| {
            let message = MadMessage {
                lid: Lid::PERMISSIVE,
                qpn: Qpn::SMI,
                sl: Sl::default(),
                mad,
                way: None,
            };
            server.handle_agent(Time::ZERO, client, FromAgent::Received(message));
        };
        let late = questions.next().unwrap();
        for question in questions {
            answer(&mut server, question);
        }
        assert_eq!(replied(&mut server), [2]);
        answer(&mut server, late);
        assert_eq!(replied(&mut server), [1]);
    }
}
