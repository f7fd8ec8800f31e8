//! Configuration of devices as a subnet manager does it: LIDs, tables, states.
//!
//! The packets are those that a subnet manager sends, handed to each switch by its first port that
//! has a link; answers are taken from there. Only the way through the fabric is left out.

use std::collections::BTreeSet;
use std::sync::Arc;

use link::{LinkCommand, PortState, Time};
use routing::multicast::{BLOCK_ROWS, Mft, PORTS_A_POSITION};
use thiserror::Error;
use topologies::{Endpoint, NodeId, NodeKind};
use wire::attr::{
    self, Attribute, LinearForwardingTable, MulticastForwardingTable, PortInfo, SlToVlTable,
    SwitchInfo, VlArbEntry, VlArbTable, VlCount,
};
use wire::{Mad, MadStatus, Method, PortNum, convert};

use super::Fabric;
use crate::extra_tables::ExtraTables;
use crate::node::Node;
use crate::numbers::number;

/// Links come up within this time.
const LINK_UP_NS: u64 = 100_000;
/// Entries of half an arbitration table.
const HALF: usize = 32;

/// A device that has not answered as it must.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{node}: {what}")]
pub struct ManagementError {
    /// The device.
    pub node: String,
    /// The request and its response.
    pub what: String,
}

impl Fabric {
    /// Puts the cables in, lets the links come up and configures every device.
    pub(crate) fn bring_up(&mut self) -> Result<(), ManagementError> {
        let graph = Arc::clone(&self.graph);
        for (one, other) in graph.links() {
            for end in [one, other] {
                self.nodes[end.node.index()].carrier(self.now, end.port, true);
                self.service(number(end.node.index()));
            }
        }
        self.run(self.now + LINK_UP_NS);
        let mut ready_at = self.now;
        let mut linear_tables = BTreeSet::new();
        for id in graph.ids() {
            let at = self.configure(id)?;
            ready_at = ready_at.max(at);
            // At once: what each needs while it is written is more than what it keeps.
            if let Node::Switch(switch) = &mut self.nodes[id.index()] {
                switch.share_memory(&mut linear_tables);
            }
        }
        self.now = ready_at;
        for id in 0..number(graph.len()) {
            self.service(id);
        }
        // Run until all consequences of management have happened.
        self.run(self.now + LINK_UP_NS);
        Ok(())
    }

    /// Writes everything that a subnet manager writes into one device; when that was done.
    fn configure(&mut self, id: NodeId) -> Result<Time, ManagementError> {
        let graph = Arc::clone(&self.graph);
        if graph.node(id).kind == NodeKind::Host {
            self.activate_host(id)?;
            return Ok(self.now);
        }
        let connected: Vec<PortNum> = graph.cables(id).map(|(port, _)| port).collect();
        let is_up = |port: &&PortNum| {
            self.nodes[id.index()]
                .port(**port)
                .is_some_and(|port| port.state() != PortState::Down)
        };
        let Some(&entry_port) = connected.iter().find(is_up) else {
            return Ok(self.now);
        };
        let mut manager = SwitchConfigurator::new(self, id, entry_port);
        manager.write_tables()?;
        for port in connected {
            manager.activate(port)?;
        }
        Ok(manager.now)
    }

    /// Activates the ports of a cable that has come up again.
    pub(super) fn activate_port(
        &mut self,
        id: NodeId,
        port: PortNum,
    ) -> Result<(), ManagementError> {
        if self.graph.node(id).kind == NodeKind::Host {
            return self.activate_host(id);
        }
        let is_unconfigured = self.unconfigured.remove(&id.index());
        let mut manager = SwitchConfigurator::new(self, id, port);
        if is_unconfigured {
            manager.write_tables()?;
        }
        manager.activate(port)
    }

    fn activate_host(&mut self, id: NodeId) -> Result<(), ManagementError> {
        let now = self.now;
        let extra_tables = Arc::clone(&self.extra_tables);
        let Node::TrafficHost(host) = &mut self.nodes[id.index()] else {
            return Ok(());
        };
        extra_tables.write_host(id, host);
        let follows = [LinkCommand::Arm, LinkCommand::Activate]
            .into_iter()
            .all(|state| host.set_state(now, state));
        if follows {
            return Ok(());
        }
        let state = host.port().state();
        Err(ManagementError {
            node: self.graph.node(id).name.clone(),
            what: format!("the port does not become active from {state:?}"),
        })
    }
}

/// The requests of a subnet manager to one switch.
struct SwitchConfigurator<'f> {
    fabric: &'f mut Fabric,
    id: NodeId,
    entry_port: PortNum,
    /// The switch's present: runs ahead of the fabric's by the time that answers take.
    now: Time,
    tid: u64,
    step_ns: u64,
}

impl<'f> SwitchConfigurator<'f> {
    fn new(fabric: &'f mut Fabric, id: NodeId, entry_port: PortNum) -> Self {
        let answer_bytes = wire::packet::MAD_PACKET_LEN;
        let byte_ps = fabric.model.rate.transmit_ps(1);
        let answer_ns = byte_ps * convert::u64_of(answer_bytes) / 1000 + 1;
        Self {
            now: fabric.now,
            fabric,
            id,
            entry_port,
            tid: 0,
            step_ns: answer_ns,
        }
    }

    /// The switch.
    fn id(&self) -> NodeId {
        self.id
    }

    /// How many ports it has.
    fn ports(&self) -> u8 {
        self.fabric.graph.node(self.id).ports
    }

    /// The tables beside those of unicast forwarding.
    fn extra_tables(&self) -> Arc<ExtraTables> {
        Arc::clone(&self.fabric.extra_tables)
    }

    /// Asks the switch for an attribute, or writes one; what it answers.
    fn ask<A: Attribute>(
        &mut self,
        method: Method,
        modifier: u32,
        attribute: Option<&A>,
    ) -> Result<A, ManagementError> {
        self.tid += 1;
        let refused = |what: String, fabric: &Fabric, id: NodeId| ManagementError {
            node: fabric.graph.node(id).name.clone(),
            what: format!("{method:?} {}({modifier:#x}): {what}", A::NAME),
        };
        let answer = self.exchange::<A>(method, modifier, attribute);
        let Some(answer) = answer else {
            return Err(refused("no answer".to_owned(), self.fabric, self.id));
        };
        let status = answer.status().without_direction();
        if status != MadStatus::OK {
            return Err(refused(format!("{status:?}"), self.fabric, self.id));
        }
        answer
            .smp_attribute()
            .map_err(|error| refused(error.to_string(), self.fabric, self.id))
    }

    /// Hands the switch one request and takes its answer.
    fn exchange<A: Attribute>(
        &mut self,
        method: Method,
        modifier: u32,
        attribute: Option<&A>,
    ) -> Option<Mad> {
        let first_hop = [PortNum::new(1)];
        let mut mad = Mad::directed_smp(method, A::ID, modifier, self.tid, &first_hop).ok()?;
        // As it comes in at the end of its path of one hop.
        mad.set_hop_pointer(1);
        if let Some(attribute) = attribute {
            mad.set_smp_attribute(attribute);
        }
        let mut control = Vec::new();
        let node = self.id.index();
        let answer = crate::smp::exchange(
            &mut self.fabric.nodes[node],
            &mut self.now,
            self.step_ns,
            self.entry_port,
            &mad,
            &mut control,
        );
        if !control.is_empty() {
            let entry_port = self.entry_port;
            self.fabric
                .put_on_cable(node, entry_port, &mut control, Time::ZERO);
        }
        answer
    }

    fn write_tables(&mut self) -> Result<(), ManagementError> {
        let Some(tables) = self.fabric.tables.clone() else {
            return Ok(());
        };
        let lft = tables.lft(self.id);
        for block in 0..lft.blocks() {
            let entries = lft.block(block);
            if entries.iter().all(|&port| port == PortNum::NONE) {
                continue;
            }
            self.ask(
                Method::SET,
                number(block),
                Some(&LinearForwardingTable(entries)),
            )?;
        }
        let mut info: SwitchInfo = self.ask(Method::GET, 0, None)?;
        info.linear_fdb_top = tables.top().get();
        info.life_time_value = self.fabric.model.lifetime_code();
        info.port_state_change = false;
        self.ask(Method::SET, 0, Some(&info))?;
        if let Some(range) = tables.lids.of_node(self.id) {
            let mut info = self.port_info(PortNum::MANAGEMENT)?;
            info.lid = range.base;
            self.ask(Method::SET, 0, Some(&info))?;
        }
        self.write_groups()
    }

    fn port_info(&mut self, port: PortNum) -> Result<PortInfo, ManagementError> {
        let info: PortInfo = self.ask(Method::GET, port.get().into(), None)?;
        Ok(PortInfo {
            port_state: attr::PortState::NoChange,
            port_phys_state: attr::PortPhysState::NoChange,
            ..info
        })
    }

    fn activate(&mut self, port: PortNum) -> Result<(), ManagementError> {
        self.write_vl_tables(port)?;
        for state in [attr::PortState::Armed, attr::PortState::Active] {
            let mut info = self.port_info(port)?;
            info.neighbor_mtu = Some(self.fabric.model.mtu());
            info.operational_vls = VlCount::at_most(self.fabric.model.vls);
            info.hoq_life = self.fabric.model.lifetime_code();
            info.port_state = state;
            self.ask(Method::SET, port.get().into(), Some(&info))?;
        }
        Ok(())
    }

    /// Writes the multicast forwarding table of the switch.
    fn write_groups(&mut self) -> Result<(), ManagementError> {
        let extra_tables = self.extra_tables();
        let Some(mft) = extra_tables.mfts.get(&self.id()) else {
            return Ok(());
        };
        let ports = usize::from(self.ports());
        let blocks: BTreeSet<usize> = mft
            .rows()
            .filter_map(|(lid, _)| Mft::block_of(lid))
            .collect();
        for block in blocks {
            for position in 0..=ports / PORTS_A_POSITION {
                let rows: [u16; BLOCK_ROWS] = mft.block(block, position);
                if rows.iter().all(|&mask| mask == 0) {
                    continue;
                }
                let (Ok(position), Ok(block)) = (u8::try_from(position), u16::try_from(block))
                else {
                    continue;
                };
                let modifier = MulticastForwardingTable::modifier(position, block);
                self.ask(Method::SET, modifier, Some(&MulticastForwardingTable(rows)))?;
            }
        }
        let mut info: SwitchInfo = self.ask(Method::GET, 0, None)?;
        info.multicast_fdb_top = extra_tables.mlids_top;
        info.port_state_change = false;
        self.ask(Method::SET, 0, Some(&info))?;
        Ok(())
    }

    /// Writes VLs and arbitration of one output port.
    fn write_vl_tables(&mut self, port: PortNum) -> Result<(), ManagementError> {
        let extra_tables = self.extra_tables();
        for input in (0..=self.ports()).map(PortNum::new) {
            let special = extra_tables.sl2vl_by_ports.get(&(self.id(), input, port));
            if let Some(vls) = special.or(extra_tables.sl2vl.as_ref()) {
                let modifier = SlToVlTable::switch_modifier(input, port);
                self.ask(Method::SET, modifier, Some(&SlToVlTable(*vls)))?;
            }
        }
        let end = Endpoint {
            node: self.id(),
            port,
        };
        let Some(tables) = extra_tables.arbitration.get(&end) else {
            return Ok(());
        };
        let halves = [
            (VlArbTable::LOW_FIRST, &tables.low, 0),
            (VlArbTable::LOW_SECOND, &tables.low, HALF),
            (VlArbTable::HIGH_FIRST, &tables.high, 0),
            (VlArbTable::HIGH_SECOND, &tables.high, HALF),
        ];
        for (block, entries, from) in halves {
            let entries: [VlArbEntry; HALF] =
                core::array::from_fn(|at| entries.get(from + at).copied().unwrap_or_default());
            let modifier = VlArbTable::modifier(block, port);
            self.ask(Method::SET, modifier, Some(&VlArbTable(entries)))?;
        }
        let info = PortInfo {
            vl_high_limit: tables.high_limit,
            ..self.port_info(port)?
        };
        self.ask(Method::SET, port.get().into(), Some(&info))?;
        Ok(())
    }
}
