//! The plan of what is written to the devices: LIDs and tables from the `routing` crate, and the
//! memory that keeps them the same over changes and restarts.
//!
//! The largest fabric seen is remembered as the whole one. While what is found is a part of it,
//! the fabric counts as degraded: a fat tree keeps its labels, so that only entries over what is
//! missing move. A cable or device that the whole fabric does not have makes a new whole fabric;
//! but a cable that does not belong into a recognised tree is left unused, with a warning, as
//! long as the tree is still recognised without it.
//!
//! What `auto` takes for the whole fabric is remembered too ([`choice`]). While switches are missing, new hosts are added to
//! the whole fabric and make no other one; what a host may have made up in its place is never remembered ([`whole`]).

mod choice;
mod measuring;
mod route;
mod whole;

use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::attr::LinearForwardingTable;
use wire::{Guid, Lid, Lmc};

use routing::dump::{self, LevelDump, SwitchDump};
use routing::fat_tree::{FatTreeLabels, recognise};
use routing::{LabelsDoNotFit, Options, RoutingEngine, Tables, VlAssignment, Warning};

use crate::control::LIST_MAX;
use crate::discovery::{Expected, ExpectedDevices};
use crate::guid2lid::Memory;
use crate::partitions::PKeyTables;
use crate::subnet::{Index, Subnet};
pub(crate) use measuring::{Measured, Measuring};

use measuring::Measurement;

use crate::{ConfigError, PartitionEnforcement, Partitions, QosChoice, SmConfig};

/// LIDs and tables of a subnet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The engine with its parameters.
    pub(crate) engine: String,
    /// Base LID and LMC of each device's end port; `None`: it gets none.
    pub(crate) lids: Vec<Option<(Lid, Lmc)>>,
    /// LMC of the hosts.
    pub(crate) lmc: Lmc,
    /// The highest LID in use.
    pub(crate) top: u16,
    /// Whether something of the whole fabric is missing.
    pub(crate) degraded: bool,
    /// Whether `auto` has not measured the fabric yet.
    pub(crate) is_unmeasured: bool,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
    /// The fabric as it was routed; node ids are positions of devices.
    pub(crate) graph: Graph,
    /// The tables of the engine.
    pub(crate) tables: Option<Tables>,
    /// The labels of the fat tree that the fabric is, or was when it was whole, whatever engine routes
    /// it.
    pub(crate) labels: Option<FatTreeLabels>,
    /// The P_Key tables of the end ports.
    pub(crate) pkeys: PKeyTables,
}

impl Plan {
    /// A forwarding block of a switch.
    pub(crate) fn block(&self, index: Index, block: u16) -> Option<LinearForwardingTable> {
        let lft = self.tables.as_ref()?.lft(NodeId::from_index(index));
        let block = usize::from(block);
        (block < lft.blocks()).then(|| LinearForwardingTable(lft.block(block)))
    }

    /// The service levels and VLs that the engine needs, if it needs particular ones.
    pub(crate) fn vls(&self) -> Option<&VlAssignment> {
        self.tables.as_ref()?.vl_assignment.as_ref()
    }

    /// The LID of this manager's port.
    pub(crate) fn sm_lid(&self, subnet: &Subnet) -> Lid {
        self.lid(subnet.own).map_or(Lid::ZERO, |(base, _)| base)
    }

    /// The LIDs of a device.
    pub(crate) fn lid(&self, index: Index) -> Option<(Lid, Lmc)> {
        *self.lids.get(index)?
    }
}

/// Makes plans, and remembers what later ones must keep.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    routing: RoutingEngine,
    /// Tables of the user's own.
    given: Option<Vec<SwitchDump>>,
    /// Service levels for these.
    given_levels: Vec<LevelDump>,
    lmc: Option<Lmc>,
    /// What engines are told of the levels of the fabric; all else is as by default.
    levels: Options,
    /// Whether VLs are kept for connections, so that `auto` must do with one.
    keeps_vls: bool,
    memory: Memory,
    /// The whole fabric as it stays remembered, while `memory` has visitors ([`whole`]).
    lasting: Option<Graph>,
    labels: Option<FatTreeLabels>,
    /// Whether ports keep the LIDs that they have when the fabric grows: not while it is being brought
    /// up.
    is_settled: bool,
    /// What `auto` measures, and when.
    measurement: Measurement,
    partitions: Option<Partitions>,
    enforcement: PartitionEnforcement,
}

impl Planner {
    /// A planner with the memory of an earlier manager.
    ///
    /// # Errors
    /// [`ConfigError::GuidFile`], [`ConfigError::TablesText`].
    pub(crate) fn new(config: &SmConfig) -> Result<Self, ConfigError> {
        let memory = match &config.guid2lid {
            Some(text) => Memory::parse(text)?,
            None => Memory::default(),
        };
        Ok(Self {
            routing: config.routing,
            given: config.tables.as_deref().map(dump::read).transpose()?,
            given_levels: (config.levels.iter())
                .map(|text| dump::read_levels(text))
                .collect::<Result<_, _>>()?,
            lmc: config.lmc,
            levels: Options {
                roots: config.roots.clone(),
                io_guids: config.io_guids.clone(),
                compute_guids: config.compute_guids.clone(),
                lmc_esp0: config.lmc_esp0,
                ..Options::default()
            },
            keeps_vls: config.routing == RoutingEngine::Auto && config.qos != QosChoice::None,
            labels: recognise(&memory.fabric).ok(),
            is_settled: !memory.fabric.is_empty(),
            measurement: Measurement::new(config.computes_apart),
            partitions: config.partitions.clone(),
            enforcement: config.partition_enforcement,
            lasting: None,
            memory,
        })
    }

    /// Replaces the memory by that of another manager.
    ///
    /// # Errors
    /// [`ConfigError::GuidFile`]; nothing changes then.
    pub(crate) fn recall(&mut self, guid2lid: &str) -> Result<(), ConfigError> {
        self.memory = Memory::parse(guid2lid)?;
        self.lasting = None;
        self.labels = recognise(&self.memory.fabric).ok();
        self.is_settled |= !self.memory.fabric.is_empty();
        self.measurement.fabric_changed();
        Ok(())
    }

    /// The fabric is up and nothing has changed since: from now on ports keep their LIDs even if it
    /// grows.
    pub(crate) fn settle(&mut self) {
        self.is_settled = true;
    }

    /// What is to be remembered, as a text.
    pub(crate) fn persisted(&self) -> String {
        match &self.lasting {
            None => self.memory.write(),
            Some(lasting) => {
                let mut memory = self.memory.clone();
                memory.fabric.clone_from(lasting);
                memory.write()
            }
        }
    }

    /// The whole fabric without visitors.
    fn lasting(&self) -> &Graph {
        self.lasting.as_ref().unwrap_or(&self.memory.fabric)
    }

    /// Whether the device belongs to the whole fabric.
    pub(crate) fn expects(&self, guid: Guid) -> bool {
        self.memory.fabric.find_guid(guid).is_some()
    }

    /// The devices of the whole fabric.
    pub(crate) fn expected(&self) -> ExpectedDevices {
        let whole = &self.memory.fabric;
        let device = |id: NodeId| {
            let node = whole.node(id);
            let cable = whole.cables(id).next();
            let cable = cable.filter(|_| node.kind == NodeKind::Host);
            let expected = Expected {
                kind: node.kind,
                ports: node.ports,
                place: cable.map(|(_, peer)| (whole.node(peer.node).guid, peer.port)),
            };
            (node.guid, expected)
        };
        whole.ids().map(device).collect()
    }

    /// The end port that has, or had, that LID.
    pub(crate) fn guid_of(&self, lid: Lid) -> Option<Guid> {
        let mut lids = self.memory.lids.iter();
        lids.find(|(_, (base, lmc))| lid.belongs_to(*base, *lmc))
            .map(|(&guid, _)| guid)
    }

    /// Names of the devices of the whole fabric that the subnet does not have, as many as a
    /// report lists.
    pub(crate) fn missing(&self, subnet: &Subnet) -> Vec<String> {
        let whole = self.lasting();
        whole
            .ids()
            .map(|id| whole.node(id))
            .filter(|node| subnet.find(node.guid).is_none())
            .map(|node| node.name.clone())
            .take(LIST_MAX)
            .collect()
    }

    /// Remembers who has which LIDs, and forgets who had them before.
    fn remember_lids(&mut self, tables: &Tables) {
        let lids = &tables.lids;
        self.memory.lids.retain(|&guid, &mut (base, lmc)| {
            let mut range = base.get()..base.get().saturating_add(lmc.lids());
            lids.of_guid(guid).is_some() || range.all(|lid| lids.owner(Lid::new(lid)).is_none())
        });
        self.memory.lids.extend(lids.known());
    }

    /// Plans for a subnet. `old` is the plan before: its tables stay in force where the engine gives
    /// no new ones.
    ///
    /// # Errors
    /// What is wrong, and what to do, as one sentence.
    pub(crate) fn plan(&mut self, subnet: &Subnet, old: &Plan) -> Result<Plan, String> {
        let mut graph = subnet
            .graph()
            .map_err(|error| format!("what the devices say contradicts itself: {error}"))?;
        let mut warnings = Vec::new();
        let is_kept = self.remember_fabric(&graph, NodeId::from_index(subnet.own));
        let labels = self.labels_for(&mut graph, &mut warnings);
        let grows = !is_kept && !is_part(&graph, &self.memory.fabric);
        // What is recognised in a part, or chosen for it, says nothing about the whole.
        let is_rest = !grows && labels.is_none() && self.is_degraded(&graph);
        let tables = self.route(subnet, &graph, labels.clone(), old, &mut warnings)?;
        if let Some(labels) = tables.labels.as_ref().filter(|_| !is_rest) {
            self.labels = Some(labels.clone());
        } else if grows && labels.is_none() {
            // The labels of a part of this fabric, or of another one, would fit what is left of this one.
            self.labels = recognise(&graph).ok();
        }
        self.remember_lids(&tables);
        self.remember_choice(&graph, &tables, is_rest);
        if grows {
            self.memory.fabric = graph.clone();
            self.measurement.fabric_changed();
        }
        let degraded = self.is_degraded(&graph) || !is_part(self.lasting(), &graph);
        warnings.extend(tables.warnings.iter().map(Warning::to_string));
        let (pkeys, full_tables) =
            PKeyTables::of(self.partitions.as_ref(), self.enforcement, subnet);
        warnings.extend(full_tables);
        let because = tables.because.as_deref();
        let lids: Vec<Option<(Lid, Lmc)>> = subnet
            .devices
            .iter()
            .enumerate()
            .map(|(index, device)| {
                let node = NodeId::from_index(index);
                let port = device.end_port();
                let range = tables.lids.of(Endpoint { node, port })?;
                Some((range.base, range.lmc))
            })
            .collect();
        Ok(Plan {
            engine: match because {
                Some(because) => format!("{} ({because})", tables.engine),
                None => tables.engine.to_string(),
            },
            lmc: lids
                .iter()
                .flatten()
                .map(|&(_, lmc)| lmc)
                .max()
                .unwrap_or_default(),
            lids,
            top: tables.top().get(),
            degraded,
            is_unmeasured: self.measurement.is_due(),
            warnings,
            graph,
            labels: tables.labels.clone().or(labels).or_else(|| {
                // With visitors the fabric is no tree, and its hosts and switches are one all the same.
                let lasting = self.lasting.as_ref();
                lasting.and_then(|whole| recognise(whole).ok())
            }),
            tables: Some(tables),
            pkeys,
        })
    }

    /// Remembers what is new, as far as that does not make another whole fabric. Returns whether `graph` belongs to
    /// the whole fabric then.
    fn remember_fabric(&mut self, graph: &Graph, own: NodeId) -> bool {
        if let Some(lasting) = self.lasting.take() {
            self.replace_fabric(lasting);
        }
        let rest = whole::without_visitors(&self.memory.fabric, graph, own);
        let lasts = rest.as_ref().unwrap_or(graph);
        let own = lasts.find_guid(graph.node(own).guid);
        let extended = own.and_then(|own| whole::extended(&self.memory.fabric, lasts, own));
        let is_kept = extended.is_some();
        if let Some(whole) = extended {
            self.replace_fabric(whole);
        }
        let Some(rest) = rest else {
            return is_kept;
        };
        if !is_part(&rest, &self.memory.fabric) {
            self.replace_fabric(rest);
            self.memory.choice = None;
            self.measurement.fabric_changed();
        }
        let Some(visited) = whole::with_visitors(&self.memory.fabric, graph) else {
            return false;
        };
        let lasting = core::mem::replace(&mut self.memory.fabric, visited);
        self.labels = recognise(&self.memory.fabric).ok();
        self.lasting = Some(lasting);
        true
    }

    fn replace_fabric(&mut self, whole: Graph) {
        self.memory.fabric = whole;
        self.labels = recognise(&self.memory.fabric).ok();
    }

    /// Whether something of the whole fabric is missing.
    fn is_degraded(&self, graph: &Graph) -> bool {
        let whole = &self.memory.fabric;
        graph.len() < whole.len() || graph.links().count() < whole.links().count()
    }

    /// The labels that the fabric keeps, if it is the known tree or a part of it. Takes cables
    /// out of `graph` that do not belong there.
    fn labels_for(&self, graph: &mut Graph, warnings: &mut Vec<String>) -> Option<FatTreeLabels> {
        let labels = self.labels.as_ref()?;
        let mut pruned = graph.clone();
        let mut unused = Vec::new();
        loop {
            match labels.fit(&pruned) {
                Ok(()) => break,
                Err(LabelsDoNotFit::NewNode { .. }) => return None,
                Err(LabelsDoNotFit::NewCable { ends }) => {
                    let [(name, port), (other, other_port)] = *ends;
                    let node = pruned.find(&name)?;
                    pruned.disconnect(Endpoint { node, port })?;
                    unused.push(format!(
                        "the cable between port {port} of {name} and port {other_port} of \
                         {other} does not belong into the fat tree and is not used"
                    ));
                }
            }
        }
        // Cables may have been moved so that another tree came out.
        if !unused.is_empty() && recognise(graph).is_ok() {
            return None;
        }
        *graph = pruned;
        warnings.extend(unused);
        Some(labels.clone())
    }
}

/// Whether every device and cable of `part` is in `whole`.
fn is_part(part: &Graph, whole: &Graph) -> bool {
    let counterpart = |end: Endpoint| {
        let node = whole.find_guid(part.node(end.node).guid)?;
        Some(Endpoint {
            node,
            port: end.port,
        })
    };
    part.ids()
        .all(|id| whole.find_guid(part.node(id).guid).is_some())
        && part.links().all(|(a, b)| {
            counterpart(a)
                .zip(counterpart(b))
                .is_some_and(|(a, b)| whole.peer(a) == Some(b))
        })
}
