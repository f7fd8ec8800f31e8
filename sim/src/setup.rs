//! From a topology and its tables to a fabric that carries data: devices are built, cables put in,
//! links come up by themselves, and management packets write LIDs, tables and states.
//!
//! The packets are those that a subnet manager sends, handed to each switch by its first port that
//! has a link; answers are taken from there. Only the way through the fabric is left out.

use std::sync::Arc;

use link::{PortConfig, PortState, SetState, Time};
use routing::{RoutingError, Tables};
use switchd::{Switch, SwitchConfig, SwitchError, Timing};
use thiserror::Error;
use topologies::{Graph, NodeId, NodeKind};
use wire::attr::{self, Attribute, LinearForwardingTable, PortInfo, SwitchInfo, VlCount};
use wire::{Lid, Mad, MadStatus, Method, PortNum};

use crate::fabric::{Fabric, number};
use crate::faults::{FaultError, FaultPlan};
use crate::ledger::Ledger;
use crate::model::{Model, ModelError};
use crate::node::Node;
use crate::offer::OfferError;
use crate::settings::Settings;
use crate::station::Station;
use crate::workload::WorkloadError;

/// Links come up within this time.
const LINK_UP_NS: u64 = 100_000;

/// Why a fabric cannot be simulated as asked.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The model makes no sense.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The workload makes no sense on this fabric.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// What is offered makes no sense on this fabric.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The plan of faults names what is not there.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// No tables.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// A switch cannot be built.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// A port cannot be built.
    #[error(transparent)]
    Port(#[from] link::ConfigError),
    /// A host without a cable has no LID.
    #[error("host {0} has no LID: it needs a cable")]
    NoLid(String),
    /// A device has not answered as it must.
    #[error("{node}: {what}")]
    Management {
        /// The device.
        node: String,
        /// What it was asked and how it answered.
        what: String,
    },
}

/// A fabric whose ports are all active, at rest, for packets of that many service levels.
pub(crate) fn build(
    graph: Arc<Graph>,
    tables: Arc<Tables>,
    model: &Model,
    faults: FaultPlan,
    settings: Settings,
    levels: u8,
) -> Result<Fabric, SetupError> {
    model.check()?;
    faults.check(&graph)?;
    let mut lids: Vec<Vec<Lid>> = Vec::new();
    let mut nodes = Vec::with_capacity(graph.len());
    let mut stations = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        let node = graph.node(id);
        if node.kind == NodeKind::Switch {
            nodes.push(switch(
                &graph,
                id,
                model.port(node.guid, 1),
                model.timing(),
            )?);
            stations.push(None);
            continue;
        }
        let range = tables.lids.of_node(id);
        let range = range.ok_or_else(|| SetupError::NoLid(node.name.clone()))?;
        let port = model.port(node.guid, 1);
        let station = Station::new(port, range.base, model.payload_bytes())?;
        nodes.push(Node::Station(Box::new(station)));
        stations.push(Some(number(lids.len())));
        lids.push(range.lids().collect());
    }
    let lossy = !faults.faults.is_empty();
    let ledger = Ledger::new(&lids, levels, model.lifetime_ns(), lossy);
    let mut fabric = Fabric::assemble(
        graph,
        Some(tables),
        model.clone(),
        (nodes, stations),
        ledger,
        faults,
    );
    fabric.ledger.set_groups(Arc::clone(&settings.groups));
    fabric.settings = Arc::new(settings);
    fabric.bring_up()?;
    Ok(fabric)
}

/// A switch of the fabric, just started.
pub(crate) fn switch(
    graph: &Graph,
    id: NodeId,
    port: PortConfig,
    timing: Timing,
) -> Result<Node, SwitchError> {
    let node = graph.node(id);
    let config = SwitchConfig {
        name: node.name.clone(),
        guid: node.guid,
        ports: node.ports,
        port,
        timing,
    };
    Ok(Node::Switch(Box::new(Switch::new(&config)?)))
}

impl Fabric {
    fn bring_up(&mut self) -> Result<(), SetupError> {
        let graph = Arc::clone(&self.graph);
        for (one, other) in graph.links() {
            for end in [one, other] {
                self.nodes[end.node.index()].carrier(self.now, end.port, true);
                self.service(number(end.node.index()));
            }
        }
        self.run(self.now + LINK_UP_NS);
        let mut ready_at = self.now;
        for id in graph.ids() {
            let at = self.configure(id)?;
            ready_at = ready_at.max(at);
        }
        self.now = ready_at;
        for id in 0..number(graph.len()) {
            self.service(id);
        }
        // What management has set in motion comes to rest.
        self.run(self.now + LINK_UP_NS);
        Ok(())
    }

    /// Writes everything that a subnet manager writes into one device; when that was done.
    pub(crate) fn configure(&mut self, id: NodeId) -> Result<Time, SetupError> {
        let graph = Arc::clone(&self.graph);
        if graph.node(id).kind == NodeKind::Host {
            self.activate_station(id)?;
            return Ok(self.now);
        }
        let connected: Vec<PortNum> = graph.cables(id).map(|(port, _)| port).collect();
        let is_up = |port: &&PortNum| {
            self.nodes[id.index()]
                .port(**port)
                .is_some_and(|port| port.state() != PortState::Down)
        };
        let Some(&way_in) = connected.iter().find(is_up) else {
            return Ok(self.now);
        };
        let mut manager = Manager::new(self, id, way_in);
        manager.write_tables()?;
        for port in connected {
            manager.activate(port)?;
        }
        Ok(manager.now)
    }

    /// Activates the ports of a cable that has come up again.
    pub(crate) fn activate_port(&mut self, id: NodeId, port: PortNum) -> Result<(), SetupError> {
        if self.graph.node(id).kind == NodeKind::Host {
            return self.activate_station(id);
        }
        let is_blank = self.blank.remove(&id.index());
        let mut manager = Manager::new(self, id, port);
        if is_blank {
            manager.write_tables()?;
        }
        manager.activate(port)
    }

    fn activate_station(&mut self, id: NodeId) -> Result<(), SetupError> {
        let now = self.now;
        let settings = Arc::clone(&self.settings);
        let Node::Station(station) = &mut self.nodes[id.index()] else {
            return Ok(());
        };
        settings.write_station(id, station);
        let follows = [SetState::Armed, SetState::Active]
            .into_iter()
            .all(|state| station.set_state(now, state));
        if follows {
            return Ok(());
        }
        let state = station.port().state();
        Err(SetupError::Management {
            node: self.graph.node(id).name.clone(),
            what: format!("the port does not become active from {state:?}"),
        })
    }
}

/// What a subnet manager says to one switch.
pub(crate) struct Manager<'f> {
    fabric: &'f mut Fabric,
    id: NodeId,
    way_in: PortNum,
    /// The switch's present: runs ahead of the fabric's by the time that answers take.
    now: Time,
    tid: u64,
    step_ns: u64,
}

impl<'f> Manager<'f> {
    fn new(fabric: &'f mut Fabric, id: NodeId, way_in: PortNum) -> Self {
        let answer_bytes = wire::packet::MAD_PACKET_LEN;
        let byte_ps = fabric.model.rate.transmit_ps(1);
        let answer_ns = byte_ps * u64::try_from(answer_bytes).unwrap_or(0) / 1000 + 1;
        Self {
            now: fabric.now,
            fabric,
            id,
            way_in,
            tid: 0,
            step_ns: answer_ns,
        }
    }

    /// The switch.
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    /// How many ports it has.
    pub(crate) fn ports(&self) -> u8 {
        self.fabric.graph.node(self.id).ports
    }

    /// The tables beside those of unicast forwarding.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.fabric.settings)
    }

    /// Asks the switch for an attribute, or writes one; what it answers.
    pub(crate) fn ask<A: Attribute>(
        &mut self,
        method: Method,
        modifier: u32,
        attribute: Option<&A>,
    ) -> Result<A, SetupError> {
        self.tid += 1;
        let refused = |what: String, fabric: &Fabric, id: NodeId| SetupError::Management {
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
            self.way_in,
            &mad,
            &mut control,
        );
        if !control.is_empty() {
            let way_in = self.way_in;
            self.fabric.ship(node, way_in, &mut control, Time::ZERO);
        }
        answer
    }

    fn write_tables(&mut self) -> Result<(), SetupError> {
        let Some(tables) = self.fabric.tables.clone() else {
            return Ok(());
        };
        let lft = tables.lft(self.id);
        for block in 0..lft.blocks() {
            let entries = lft.block(block);
            if entries.iter().all(|&port| port == PortNum::NONE) {
                continue;
            }
            let block = u32::try_from(block).unwrap_or(u32::MAX);
            self.ask(Method::SET, block, Some(&LinearForwardingTable(entries)))?;
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

    pub(crate) fn port_info(&mut self, port: PortNum) -> Result<PortInfo, SetupError> {
        let info: PortInfo = self.ask(Method::GET, port.get().into(), None)?;
        Ok(PortInfo {
            port_state: attr::PortState::NoChange,
            port_phys_state: attr::PortPhysState::NoChange,
            ..info
        })
    }

    fn activate(&mut self, port: PortNum) -> Result<(), SetupError> {
        self.write_lanes(port)?;
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
}
