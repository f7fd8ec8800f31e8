//! Tables other than those of unicast forwarding: multicast forwarding, SL to VL, VL arbitration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use routing::multicast::{Mft, Multicast, MulticastError, Options};
use routing::{SlToVl, Tables};
use topologies::{Endpoint, Graph, NodeId};
use wire::{Guid, Lid, PortNum};

use crate::numbers::index;
use crate::source_queues::Groups;
use crate::traffic_host::TrafficHost;
use crate::workload::{Arbitration, Destination, Workload, WorkloadError};

/// Tables that are installed beside linear forwarding tables.
#[derive(Debug, Default)]
pub(crate) struct ExtraTables {
    pub(crate) mfts: BTreeMap<NodeId, Mft>,
    pub(crate) mlids_top: Lid,
    /// By host and group: the multicast LID to send to.
    pub(crate) mlids: Vec<Arc<[Lid]>>,
    pub(crate) groups: Arc<Groups>,
    /// The SL-to-VL table of every pair of ports that has none of its own; `None`: modulo.
    pub(crate) sl2vl: Option<SlToVl>,
    pub(crate) arbitration: BTreeMap<Endpoint, Arbitration>,
    pub(crate) sl2vl_by_ports: BTreeMap<(NodeId, PortNum, PortNum), SlToVl>,
}

/// The multicast trees that a workload uses: by group and tree, the sending hosts.
type Senders = BTreeMap<(u32, usize), BTreeSet<u32>>;

impl ExtraTables {
    /// The SL-to-VL tables of an engine that has some.
    pub(crate) fn of_engine(tables: &Tables) -> Self {
        let Some(assignment) = &tables.vl_assignment else {
            return Self::default();
        };
        Self {
            sl2vl: Some(assignment.sl2vl),
            sl2vl_by_ports: assignment.by_ports.clone(),
            ..Self::default()
        }
    }

    /// The tables that a workload asks for, with the SL-to-VL tables of the engine unless the workload
    /// has its own.
    pub(crate) fn new(
        graph: &Graph,
        tables: &Tables,
        workload: &Workload,
    ) -> Result<Self, WorkloadError> {
        let members = workload.groups.iter().map(|group| group.members.clone());
        let of_engine = match workload.vl_tables.sl2vl {
            Some(_) => Self::default(),
            None => Self::of_engine(tables),
        };
        let mut sl2vl_by_ports = of_engine.sl2vl_by_ports;
        sl2vl_by_ports.extend(workload.vl_tables.sl2vl_by_ports.iter().copied());
        let mut extra_tables = Self {
            groups: Arc::new(Groups {
                members: members.collect(),
            }),
            sl2vl: workload.vl_tables.sl2vl.or(of_engine.sl2vl),
            arbitration: workload.vl_tables.arbitration.iter().cloned().collect(),
            sl2vl_by_ports,
            ..Self::default()
        };
        for (port, tables) in &extra_tables.arbitration {
            if tables.high.len().max(tables.low.len()) > link::VLARB_ENTRIES_MAX {
                let name = &graph.node(port.node).name;
                let most = link::VLARB_ENTRIES_MAX;
                let what = format!("{name} port {}: more than {most} entries", port.port);
                return Err(WorkloadError::VlTables(what));
            }
        }
        extra_tables.build_multicast_trees(graph, tables, workload)?;
        Ok(extra_tables)
    }

    fn build_multicast_trees(
        &mut self,
        graph: &Graph,
        tables: &Tables,
        workload: &Workload,
    ) -> Result<(), WorkloadError> {
        let mut mlids = vec![vec![Lid::ZERO; workload.groups.len()]; workload.hosts.len()];
        let sends: BTreeSet<(u32, u32)> = workload
            .addresses()
            .filter_map(|(host, address)| match address.to {
                Destination::Group(group) => Some((group, host)),
                Destination::Host(_) | Destination::Each(_) => None,
            })
            .collect();
        if let Some(&(group, _)) = sends.first() {
            let failed = |group: u32| {
                move |error| WorkloadError::Multicast {
                    group: index(group),
                    error,
                }
            };
            let options = Options {
                scheme: workload.scheme,
                labels: tables.labels.clone(),
                ..Options::default()
            };
            let multicast = Multicast::new(graph, &options).map_err(failed(group))?;
            let guids = host_guids(graph, tables);
            let mut senders = Senders::new();
            for (group, host) in sends {
                let guid = guid(&guids, host).map_err(failed(group))?;
                let tree = multicast.tree(guid);
                let tree = tree.ok_or(MulticastError::NoSuchPort(guid));
                let tree = tree.map_err(failed(group))?;
                senders.entry((group, tree)).or_default().insert(host);
            }
            for (at, ((group, tree), hosts)) in senders.into_iter().enumerate() {
                let mlid = mlid(at).map_err(failed(group))?;
                let receivers = self.groups.members.get(index(group));
                let receivers = receivers.map_or(&[][..], Vec::as_slice);
                let rows = guids_of(&guids, hosts.iter())
                    .and_then(|from| Ok((from, guids_of(&guids, receivers.iter())?)))
                    .and_then(|(from, to)| multicast.rows(tree, &from, &to))
                    .map_err(failed(group))?;
                for (switch, ports) in rows {
                    self.mfts.entry(switch).or_default().set(mlid, ports);
                }
                self.mlids_top = mlid;
                for host in hosts {
                    mlids[index(host)][index(group)] = mlid;
                }
            }
        }
        self.mlids = mlids.into_iter().map(Arc::from).collect();
        Ok(())
    }

    /// Writes the tables of a host's port.
    pub(crate) fn write_host(&self, id: NodeId, host: &mut TrafficHost) {
        let port = host.port_mut();
        let number = port.number();
        if let Some(vls) = self.sl2vl {
            port.sl_to_vl_mut().set_row(PortNum::MANAGEMENT, vls);
        }
        let end = Endpoint {
            node: id,
            port: number,
        };
        if let Some(tables) = self.arbitration.get(&end) {
            let arbiter = port.arbiter_mut();
            arbiter.set_high(tables.high.iter().copied());
            arbiter.set_low(tables.low.iter().copied());
            arbiter.set_limit(tables.high_limit);
        }
    }
}

/// The multicast LID of that number.
fn mlid(at: usize) -> Result<Lid, MulticastError> {
    let lid = u16::try_from(at)
        .ok()
        .and_then(|at| Lid::MULTICAST_FIRST.get().checked_add(at))
        .map(Lid::new)
        .filter(|&lid| lid.is_multicast());
    lid.ok_or(MulticastError::TableFull { rows: 16383 })
}

/// By host: the GUID of its port.
fn host_guids(graph: &Graph, tables: &Tables) -> Vec<Option<Guid>> {
    let guid = |host| tables.lids.of_node(host).map(|range| range.guid);
    graph.hosts().map(guid).collect()
}

fn guid(guids: &[Option<Guid>], host: u32) -> Result<Guid, MulticastError> {
    let guid = guids.get(index(host)).copied().flatten();
    guid.ok_or(MulticastError::NoSuchPort(Guid(u64::from(host))))
}

fn guids_of<'h>(
    guids: &[Option<Guid>],
    hosts: impl Iterator<Item = &'h u32>,
) -> Result<Vec<Guid>, MulticastError> {
    hosts.map(|&host| guid(guids, host)).collect()
}
