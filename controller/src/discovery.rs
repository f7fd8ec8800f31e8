//! Discovery, the first half of a heavy sweep: directed-route SMPs from this manager's own host on,
//! breadth first.
//!
//! ```text
//!   NodeInfo of the own host
//!      └─> PortInfo of its port ── link? ─> NodeInfo through the port
//!                                              │ a device seen for the first time
//!                     ┌────────────────────────┴──────────────┐
//!                  switch: SwitchInfo                     adapter: PortInfo
//!                     │ a change was flagged: clear it        │
//!                     └─> PortInfo of every port              └─ a subnet manager? SMInfo
//!                            └─ link, other end unknown ─> NodeInfo through the port
//! ```
//!
//! A switch's change flag is cleared before its ports are read: what changes later is flagged
//! again, and found by the next light sweep. A device that does not answer is left out, with what
//! is only reached over it.

use std::collections::{BTreeMap, BTreeSet};

use topologies::NodeKind;
use wire::attr::{NodeDescription, NodeInfo, NodeType, PortInfo, SmInfo, SwitchInfo, capability};
use wire::smp::HOPS_MAX;
use wire::{Guid, PortNum};

use crate::Protection;
use crate::control::Unreachable;
use crate::smp::{Answer, Failure, Request};
use crate::subnet::{Device, Index, Subnet, has_link};

/// More devices than there are unicast LIDs cannot be managed.
const DEVICES_MAX: usize = 49_151;
/// How many warnings of one discovery are reported.
const WARNINGS_MAX: usize = 32;

/// A query of a discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// NodeInfo of the own host, or of what a port's cable leads to.
    NodeInfo(Option<(Index, PortNum)>),
    /// NodeDescription.
    NodeDescription(Index),
    /// SwitchInfo.
    SwitchInfo(Index),
    /// Clears the change flag in SwitchInfo.
    ClearChange(Index),
    /// PortInfo.
    PortInfo(Index, PortNum),
    /// SMInfo.
    SmInfo(Index),
}

/// A discovery under way.
#[derive(Debug)]
pub(crate) struct Discovery {
    subnet: Subnet,
    names: BTreeMap<Guid, String>,
    is_master: bool,
    retries: u8,
    probe_retries: u8,
    unresponsive: BTreeSet<(Guid, PortNum)>,
    found: Discovered,
}

/// Results of a discovery beside the subnet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Discovered {
    /// Ports with a link behind which nothing answered.
    pub(crate) unresponsive_ports: BTreeSet<(Guid, PortNum)>,
    /// Devices that cannot be managed.
    pub(crate) unreachable: Vec<Unreachable>,
    /// Other subnet managers.
    pub(crate) managers: Vec<(Index, SmInfo)>,
    /// Contradictions and limits that were met.
    pub(crate) warnings: Vec<String>,
}

/// Requests to send next, each with how often to repeat it.
pub(crate) type Queries = Vec<(Query, u8)>;

impl Discovery {
    /// Starts a discovery. `is_master`: change flags of switches are cleared, which only the master may
    /// do unless a switch has never been programmed. Devices whose name is in `names` are not asked for it again. A device
    /// that is known to be there is asked up to `retries` times more, what a link leads to
    /// `probe_retries` times; through a port in `unresponsive` it is asked once. `protection`: how this
    /// manager protects the ports.
    pub(crate) fn start(
        protection: Option<Protection>,
        names: BTreeMap<Guid, String>,
        unresponsive: BTreeSet<(Guid, PortNum)>,
        is_master: bool,
        retries: u8,
        probe_retries: u8,
    ) -> (Self, Queries) {
        let discovery = Self {
            subnet: Subnet::new(protection),
            names,
            is_master,
            retries,
            probe_retries,
            unresponsive,
            found: Discovered::default(),
        };
        (discovery, vec![(Query::NodeInfo(None), retries)])
    }

    /// The SMP of a request; `None` if it is no longer needed.
    pub(crate) fn request(&self, query: Query) -> Option<Request> {
        let devices = &self.subnet.devices;
        let route = |index: Index| devices[index].route.clone();
        Some(match query {
            Query::NodeInfo(None) => Request::get::<NodeInfo>(Vec::new(), 0),
            Query::NodeInfo(Some((index, port))) => {
                if devices[index].ports.get(port.index())?.peer.is_some() {
                    return None;
                }
                let mut route = route(index);
                route.push(port);
                Request::get::<NodeInfo>(route, 0)
            }
            Query::NodeDescription(index) => Request::get::<NodeDescription>(route(index), 0),
            Query::SwitchInfo(index) => Request::get::<SwitchInfo>(route(index), 0),
            Query::ClearChange(index) => {
                Request::set(route(index), 0, devices[index].switch.as_ref()?)
            }
            Query::PortInfo(index, port) => {
                Request::get::<PortInfo>(route(index), u32::from(port.get()))
            }
            Query::SmInfo(index) => Request::get::<SmInfo>(route(index), 0),
        })
    }

    /// Takes in the outcome of a request. Returns the requests that follow from it.
    pub(crate) fn complete(&mut self, query: Query, answer: Answer<'_>) -> Queries {
        let result = match query {
            Query::NodeInfo(via) => {
                return match answer.attribute::<NodeInfo>() {
                    Ok(info) => self.node_found(via, info),
                    Err(failure) => {
                        self.no_answer_behind(via, &failure);
                        Vec::new()
                    }
                };
            }
            Query::NodeDescription(index) => {
                answer.attribute().map(|name| self.name_found(index, name))
            }
            Query::SwitchInfo(index) => answer
                .attribute()
                .map(|switch| self.switch_found(index, switch)),
            Query::ClearChange(index) => match answer.attribute::<SwitchInfo>() {
                Ok(_) => Ok(self.all_ports(index)),
                // It has answered the Get: is it locked?
                Err(Failure::Timeout) => {
                    let device = &mut self.subnet.devices[index];
                    device.failure = Some(Failure::Timeout.to_string());
                    let port_info = Query::PortInfo(index, device.end_port());
                    return vec![(port_info, self.retries)];
                }
                Err(failure) => Err(failure),
            },
            Query::PortInfo(index, port) => match answer.attribute() {
                Ok(info) => Ok(self.port_found(index, port, info)),
                // A port of a switch that cannot be read does not exclude the switch.
                Err(Failure::Timeout) => Err(Failure::Timeout),
                Err(failure) if port != self.subnet.devices[index].end_port() => {
                    let name = self.subnet.devices[index].label();
                    self.warn(format!("port {port} of {name} is left out: it {failure}"));
                    Ok(Vec::new())
                }
                Err(failure) => Err(failure),
            },
            Query::SmInfo(index) => {
                // A manager that does not answer takes no part in the election.
                if let Ok(manager) = answer.attribute() {
                    self.found.managers.push((index, manager));
                }
                Ok(Vec::new())
            }
        };
        let index = match query {
            Query::NodeDescription(index)
            | Query::SwitchInfo(index)
            | Query::ClearChange(index)
            | Query::PortInfo(index, _)
            | Query::SmInfo(index) => index,
            Query::NodeInfo(_) => return Vec::new(),
        };
        result.unwrap_or_else(|failure| {
            let known = &mut self.subnet.devices[index].failure;
            known.get_or_insert_with(|| failure.to_string());
            Vec::new()
        })
    }

    fn warn(&mut self, text: String) {
        if self.found.warnings.len() < WARNINGS_MAX {
            self.found.warnings.push(text);
        }
    }

    fn no_answer_behind(&mut self, via: Option<(Index, PortNum)>, failure: &Failure) {
        let name = match via {
            None => "this host".to_owned(),
            Some((index, port)) => {
                let device = &self.subnet.devices[index];
                self.found.unresponsive_ports.insert((device.guid(), port));
                format!("behind port {port} of {}", device.label())
            }
        };
        self.found.unreachable.push(Unreachable {
            name,
            guid: Guid(0),
            reason: failure.to_string(),
        });
    }

    fn node_found(&mut self, via: Option<(Index, PortNum)>, info: NodeInfo) -> Queries {
        let kind = match info.node_type {
            NodeType::Switch => NodeKind::Switch,
            NodeType::ChannelAdapter | NodeType::Router => NodeKind::Host,
        };
        let arrival = info.local_port_num;
        let sound = (1..=254).contains(&info.num_ports)
            && arrival.get() <= info.num_ports
            && (arrival.get() > 0 || via.is_none());
        if !sound {
            self.warn(format!(
                "{} claims port {arrival} of {}: left out",
                info.node_guid, info.num_ports
            ));
            return Vec::new();
        }
        let known = self.subnet.find(info.node_guid);
        if known.is_none() && self.subnet.devices.len() >= DEVICES_MAX {
            self.warn(format!(
                "more than {DEVICES_MAX} devices: the rest is left out"
            ));
            return Vec::new();
        }
        let index = known.unwrap_or_else(|| {
            let mut route = Vec::new();
            if let Some((before, port)) = via {
                route.clone_from(&self.subnet.devices[before].route);
                route.push(port);
            }
            self.subnet.add(Device::new(info, kind, route))
        });
        if let Some(from) = via {
            self.link_found(from, (index, arrival));
        }
        if known.is_some() {
            return Vec::new();
        }
        self.first_queries(index, kind)
    }

    fn link_found(&mut self, from: (Index, PortNum), to: (Index, PortNum)) {
        let devices = &self.subnet.devices;
        if devices[to.0].kind == NodeKind::Host && devices[to.0].end_port() != to.1 {
            self.warn(format!(
                "port {} of {} is left out: one port of an adapter is managed",
                to.1,
                devices[to.0].label()
            ));
        } else if !self.subnet.join(from, to) {
            let devices = &self.subnet.devices;
            self.warn(format!(
                "port {} of {} seems to lead to port {} of {}, which has another cable: is the \
                 GUID {} used twice?",
                from.1,
                devices[from.0].label(),
                to.1,
                devices[to.0].label(),
                devices[to.0].guid(),
            ));
        }
    }

    fn first_queries(&mut self, index: Index, kind: NodeKind) -> Queries {
        let device = &mut self.subnet.devices[index];
        let mut queries = Vec::new();
        match self.names.get(&device.guid()) {
            Some(name) => device.name.clone_from(name),
            None => queries.push((Query::NodeDescription(index), self.retries)),
        }
        queries.push((
            match kind {
                NodeKind::Switch => Query::SwitchInfo(index),
                NodeKind::Host => Query::PortInfo(index, device.end_port()),
            },
            self.retries,
        ));
        queries
    }

    fn name_found(&mut self, index: Index, name: NodeDescription) -> Queries {
        self.subnet.devices[index].name = name
            .as_str()
            .trim()
            .chars()
            .map(|letter| if letter.is_control() { '?' } else { letter })
            .collect();
        Vec::new()
    }

    fn switch_found(&mut self, index: Index, switch: SwitchInfo) -> Queries {
        self.subnet.devices[index].switch = Some(switch);
        let is_fresh = switch.linear_fdb_top == 0;
        if switch.port_state_change && (self.is_master || is_fresh) {
            vec![(Query::ClearChange(index), self.retries)]
        } else {
            self.all_ports(index)
        }
    }

    fn all_ports(&self, index: Index) -> Queries {
        (0..=self.subnet.devices[index].info.num_ports)
            .map(|port| (Query::PortInfo(index, PortNum::new(port)), self.retries))
            .collect()
    }

    fn port_found(&mut self, index: Index, port: PortNum, info: PortInfo) -> Queries {
        let is_locked = self.subnet.is_locked(&info);
        let device = &mut self.subnet.devices[index];
        if device.failure.is_some() && port == device.end_port() && is_locked {
            // It ignores a Set, and this is why.
            device.failure = Some(Failure::Locked.to_string());
        }
        let Some(slot) = device.ports.get_mut(port.index()) else {
            return Vec::new();
        };
        slot.info = Some(info);
        let open = slot.peer.is_none();
        let linked = has_link(&info);
        // Adapters forward nothing; discovery starts at the own one.
        let goes_on = device.kind == NodeKind::Switch || index == self.subnet.own;
        let mut queries = Vec::new();
        let in_reach = device.route.len() < usize::from(HOPS_MAX);
        if goes_on && port != PortNum::MANAGEMENT && open && linked && in_reach {
            let known_unresponsive = self.unresponsive.contains(&(device.guid(), port));
            let retries = if known_unresponsive {
                0
            } else {
                self.probe_retries
            };
            queries.push((Query::NodeInfo(Some((index, port))), retries));
        }
        let elsewhere = device.kind == NodeKind::Host && index != self.subnet.own;
        if elsewhere && info.capability_mask & capability::IS_SM != 0 {
            queries.push((Query::SmInfo(index), self.retries));
        }
        queries
    }

    /// GUID of this manager's own port, once its host has answered.
    pub(crate) fn own_port_guid(&self) -> Option<Guid> {
        let own = self.subnet.devices.get(self.subnet.own)?;
        Some(own.end_port_guid())
    }

    /// PortInfo of this manager's own port, once its host has answered.
    pub(crate) fn own_port_info(&self) -> Option<&PortInfo> {
        let own = self.subnet.devices.get(self.subnet.own)?;
        own.end_port_info()
    }

    /// Whether the switch one of whose LIDs this is has been asked for its ports already, so that
    /// a change which it reports now may have been missed.
    pub(crate) fn has_read_switch(&self, switch: Guid) -> bool {
        self.subnet
            .find(switch)
            .is_some_and(|index| self.subnet.devices[index].switch.is_some())
    }

    /// The result, once no query is outstanding.
    pub(crate) fn finish(mut self) -> (Subnet, Discovered) {
        let managers: Vec<(Guid, SmInfo)> = self
            .found
            .managers
            .iter()
            .map(|&(index, manager)| (self.subnet.devices[index].guid(), manager))
            .collect();
        let (subnet, left_out) = self.subnet.finish();
        let limits = beyond_reach(&subnet).into_iter().chain(locked(&subnet));
        self.found.warnings.splice(0..0, limits);
        self.found
            .unreachable
            .extend(left_out.into_iter().map(|device| Unreachable {
                name: device.label(),
                guid: device.guid(),
                reason: device.failure.unwrap_or_default(),
            }));
        self.found.managers = managers
            .into_iter()
            .filter_map(|(guid, manager)| Some((subnet.find(guid)?, manager)))
            .collect();
        // In an order that does not depend on which answer came first.
        let unreachable = &mut self.found.unreachable;
        unreachable.sort_by(|one, other| one.name.cmp(&other.name));
        (subnet, self.found)
    }
}

/// The warning of what is further away than a directed route reaches (IBA 14.2.2), if there is
/// any.
fn beyond_reach(subnet: &Subnet) -> Option<String> {
    let ends = subnet.devices.iter().flat_map(|device| {
        let at_limit =
            device.kind == NodeKind::Switch && device.route.len() >= usize::from(HOPS_MAX);
        let ports = (0u8..=u8::MAX).zip(&device.ports).skip(1);
        ports
            .filter(move |(_, port)| {
                at_limit && port.peer.is_none() && port.info.as_ref().is_some_and(has_link)
            })
            .map(move |(number, _)| (device, number))
    });
    let (count, (device, port)) = (ends.clone().count(), ends.clone().next()?);
    Some(format!(
        "what {count} ports lead to is left out, e.g. behind port {port} of {} ({}): it is more than \
         {HOPS_MAX} hops from this host, and a directed route has no more; run the manager on a host \
         nearer to the middle of the fabric",
        device.label(),
        device.guid(),
    ))
}

/// The warning of devices that are protected by an M_Key, which this manager does not have, if there
/// are any.
fn locked(subnet: &Subnet) -> Option<String> {
    let is_locked = |device: &&Device| {
        let info = device.end_port_info();
        info.is_some_and(|info| subnet.is_locked(info))
    };
    let devices = subnet.devices.iter().filter(is_locked);
    let (count, device) = (devices.clone().count(), devices.clone().next()?);
    Some(format!(
        "{count} devices are protected by an M_Key that this manager does not have, e.g. {} ({}): \
         they ignore what it sets",
        device.label(),
        device.guid(),
    ))
}
