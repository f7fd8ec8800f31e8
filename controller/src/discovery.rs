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
//!                            └─ link, nothing heard through it ─> NodeInfo through the port
//! ```
//!
//! A switch's change flag is cleared before its ports are read: what changes later is flagged
//! again, and found by the next light sweep. A device that does not answer is left out, with what
//! is only reached over it; so is one whose answers contradict others (`claims`). While one is waited for, the link to it
//! is watched (`watch`).

mod branches;
mod claims;
mod results;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use topologies::NodeKind;
use wire::attr::{NodeDescription, NodeInfo, PortInfo, SmInfo, SwitchInfo, capability};
use wire::smp::HOPS_MAX;
use wire::{Guid, PortNum};

use crate::Protection;
use crate::smp::{Answer, Failure, Request};
use crate::subnet::{Index, Subnet, has_link};

use branches::{Branches, GivenUp};
pub(crate) use claims::{Expected, ExpectedDevices};
pub(crate) use results::Discovered;
use watch::Watch;

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
    /// PortInfo of a port that was read before: does it still have its link?
    Link(Index, PortNum),
}

impl Query {
    /// The device that is asked, or through whose port; `None` for the own host.
    fn device(self) -> Option<Index> {
        match self {
            Self::NodeInfo(via) => via.map(|(index, _)| index),
            Self::NodeDescription(index)
            | Self::SwitchInfo(index)
            | Self::ClearChange(index)
            | Self::PortInfo(index, _)
            | Self::SmInfo(index)
            | Self::Link(index, _) => Some(index),
        }
    }
}

/// What is known of the subnet before a discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Names of devices, which are not asked for them again.
    pub(crate) names: BTreeMap<Guid, String>,
    /// Ports with a link behind which nothing answered last time: through them it is asked once.
    pub(crate) unresponsive: BTreeSet<(Guid, PortNum)>,
    /// The devices that answered last time, by the port that they are behind: one that is slow now is not lost.
    pub(crate) answered: BTreeMap<(Guid, PortNum), Guid>,
    /// The whole fabric.
    pub(crate) devices: ExpectedDevices,
    /// Ports behind which there seemed to be a fabric without end.
    pub(crate) suspects: BTreeSet<(Guid, PortNum)>,
    /// The ports of managers that were silent last time, or whose polls have just failed: they are asked for SMInfo once.
    pub(crate) silent_managers: BTreeSet<Guid>,
}

/// A discovery under way.
#[derive(Debug)]
pub(crate) struct Discovery {
    subnet: Subnet,
    known: Known,
    is_master: bool,
    retries: u8,
    probe_retries: u8,
    /// Devices whose GUIDs others have a better claim to: they are not asked any more.
    displaced: BTreeSet<Index>,
    /// Devices that have refused what they must answer: other devices with their GUID are asked, too.
    refuted: BTreeSet<Index>,
    /// Through which other ports switches were met again.
    met_again: BTreeMap<Index, Vec<PortOf>>,
    branches: Branches,
    /// Ports through which a device that may be slow is asked for longer.
    asked_patiently: BTreeSet<(Guid, PortNum)>,
    watch: Watch,
    found: Discovered,
}

/// A port of a device.
type PortOf = (Index, PortNum);

/// How often to repeat a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// So often, longer apart each time: the device is there.
    Device(u8),
    /// So often, equally far apart: there may be no device, or its answer is not needed.
    Probe(u8),
    /// As long as a device that is there, equally far apart: there was one.
    PatientProbe(u8),
}

/// Requests to send next, each with how often to repeat it.
pub(crate) type Queries = Vec<(Query, Repeats)>;

impl Discovery {
    /// Starts a discovery. `is_master`: change flags of switches are cleared, which only the master may
    /// do unless a switch has never been programmed. A device
    /// that is known to be there is asked up to `retries` times more, what a link leads to
    /// `probe_retries` times; then, if a device was there and no other link leads to it now, up to `retries` times again. `protection`: how this manager protects the ports.
    pub(crate) fn start(
        protection: Option<Protection>,
        mut known: Known,
        is_master: bool,
        retries: u8,
        probe_retries: u8,
    ) -> (Self, Queries) {
        let suspects = core::mem::take(&mut known.suspects);
        let discovery = Self {
            subnet: Subnet::new(protection),
            known,
            is_master,
            retries,
            probe_retries,
            displaced: BTreeSet::new(),
            refuted: BTreeSet::new(),
            met_again: BTreeMap::new(),
            branches: Branches::new(suspects),
            asked_patiently: BTreeSet::new(),
            watch: Watch::default(),
            found: Discovered::default(),
        };
        (
            discovery,
            vec![(Query::NodeInfo(None), Repeats::Device(retries))],
        )
    }

    fn as_present(&self) -> Repeats {
        Repeats::Device(self.retries)
    }

    /// Whether a query is to a device that is left out, or through one of its ports.
    fn is_needless(&self, query: Query) -> bool {
        let is_left_out =
            |index| self.displaced.contains(&index) || self.branches.is_given_up(index);
        query.device().is_some_and(is_left_out)
    }

    /// The SMP of a request; `None` if it is no longer needed.
    pub(crate) fn request(&self, query: Query) -> Option<Request> {
        if self.is_needless(query) {
            return None;
        }
        let devices = &self.subnet.devices;
        let route = |index: Index| devices[index].route.clone();
        Some(match query {
            Query::NodeInfo(None) => Request::get::<NodeInfo>(Vec::new(), 0),
            Query::NodeInfo(Some((index, port))) => {
                if devices[index].ports.get(port.index())?.heard {
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
            Query::PortInfo(index, port) | Query::Link(index, port) => {
                Request::get::<PortInfo>(route(index), u32::from(port.get()))
            }
            Query::SmInfo(index) => Request::get::<SmInfo>(route(index), 0),
        })
    }

    /// Takes in the outcome of a request. Returns the requests that follow from it.
    pub(crate) fn complete(&mut self, query: Query, answer: Answer<'_>) -> Queries {
        if self.is_needless(query) {
            return Vec::new();
        }
        let device = query.device();
        let result = match query {
            Query::NodeInfo(via) => {
                return match answer.attribute::<NodeInfo>() {
                    Ok(info) => self.node_found(via, info),
                    Err(Failure::Timeout) if self.may_be_slow(via) => self.ask_patiently(via),
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
                    return vec![(port_info, self.as_present())];
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
                match answer.attribute() {
                    Ok(manager) => self.found.managers.push((index, manager)),
                    Err(_) => {
                        let port = self.subnet.devices[index].end_port_guid();
                        self.found.silent_managers.insert(port);
                    }
                }
                Ok(Vec::new())
            }
            Query::Link(index, port) => return self.link_seen((index, port), answer),
        };
        let Some(index) = device else {
            return Vec::new();
        };
        result.unwrap_or_else(|failure| self.failed(index, &failure))
    }

    /// A device cannot be managed. One that has answered, but not as it must, may not be what it claims to
    /// be: whatever else has its GUID is asked again.
    fn failed(&mut self, index: Index, failure: &Failure) -> Queries {
        let known = &mut self.subnet.devices[index].failure;
        known.get_or_insert_with(|| failure.to_string());
        if *failure == Failure::Timeout {
            return Vec::new();
        }
        self.refuted(index)
    }

    fn warn(&mut self, text: String) {
        if self.found.warnings.len() < WARNINGS_MAX {
            self.found.warnings.push(text);
        }
    }

    /// Whether the device that was behind a port, and has not answered through it now, may be slow: nothing else
    /// has found it. A device that answers through another port is not slow; the link of this one is lost, which
    /// the switch at its other end may not have noticed yet, and whose trap may be lost with it.
    fn may_be_slow(&self, via: Option<PortOf>) -> bool {
        let Some(end) = via.map(|(index, port)| (self.subnet.devices[index].guid(), port)) else {
            return false;
        };
        let behind = self.known.answered.get(&end);
        !self.asked_patiently.contains(&end)
            && behind.is_some_and(|&device| self.subnet.find(device).is_none())
    }

    /// Asks a device that may be slow once more, as one that is there.
    fn ask_patiently(&mut self, via: Option<PortOf>) -> Queries {
        let ends = via.map(|(index, port)| (self.subnet.devices[index].guid(), port));
        self.asked_patiently.extend(ends);
        let mut queries = self.watch(via);
        queries.push((Query::NodeInfo(via), Repeats::PatientProbe(self.retries)));
        queries
    }

    fn no_answer_behind(&mut self, via: Option<(Index, PortNum)>, failure: &Failure) {
        if let Some(end) = via {
            let guid = self.subnet.devices[end.0].guid();
            self.found.unresponsive_ports.insert((guid, end.1));
            // Whatever claims to be at the other end of this cable does not answer through it.
            self.subnet.part(end);
        }
        self.refuse(via, failure.to_string());
    }

    fn first_queries(&mut self, index: Index, kind: NodeKind) -> Queries {
        let device = &mut self.subnet.devices[index];
        let mut queries = Vec::new();
        match self.known.names.get(&device.guid()) {
            Some(name) => device.name.clone_from(name),
            None => queries.push((Query::NodeDescription(index), Repeats::Device(self.retries))),
        }
        queries.push((
            match kind {
                NodeKind::Switch => Query::SwitchInfo(index),
                NodeKind::Host => Query::PortInfo(index, device.end_port()),
            },
            Repeats::Device(self.retries),
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
        let device = &mut self.subnet.devices[index];
        if switch.linear_fdb_cap == 0 {
            // As a host that takes itself for a switch.
            let reason = "claims to be a switch, and has no linear forwarding table".to_owned();
            device.failure.get_or_insert(reason);
            return self.refuted(index);
        }
        device.switch = Some(switch);
        let is_fresh = switch.linear_fdb_top == 0;
        if switch.port_state_change && (self.is_master || is_fresh) {
            self.found.changed.insert(device.guid());
            vec![(Query::ClearChange(index), self.as_present())]
        } else {
            self.all_ports(index)
        }
    }

    fn all_ports(&self, index: Index) -> Queries {
        (0..=self.subnet.devices[index].info.num_ports)
            .map(|port| {
                (
                    Query::PortInfo(index, PortNum::new(port)),
                    self.as_present(),
                )
            })
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
        let open = !slot.heard;
        let linked = has_link(&info);
        // Adapters forward nothing; discovery starts at the own one.
        let goes_on = device.kind == NodeKind::Switch || index == self.subnet.own;
        let mut queries = Vec::new();
        let in_reach = device.route.len() < usize::from(HOPS_MAX);
        if goes_on && port != PortNum::MANAGEMENT && open && linked && in_reach {
            let end = (device.guid(), port);
            let retries = match self.known.unresponsive.contains(&end) {
                true => 0,
                false => self.probe_retries,
            };
            let query = Query::NodeInfo(Some((index, port)));
            queries.push((query, Repeats::Probe(retries)));
        }
        let probes = wire::convert::u64_of(queries.len());
        let elsewhere = device.kind == NodeKind::Host && index != self.subnet.own;
        if elsewhere && info.capability_mask & capability::IS_SM != 0 {
            // A manager that hangs must not hold up the one that takes over from it.
            let is_silent = (self.known.silent_managers).contains(&device.end_port_guid());
            let retries = if is_silent { 0 } else { self.probe_retries };
            queries.push((Query::SmInfo(index), Repeats::Probe(retries)));
        }
        self.spend(index, probes);
        queries
    }

    /// Requests go to a device, or through its ports.
    fn spend(&mut self, index: Index, requests: u64) {
        let Some(GivenUp { via, cost }) = self.branches.spend(index, requests) else {
            return;
        };
        let guid = self.subnet.devices[via.0].guid();
        self.found.suspects.insert((guid, via.1));
        let reason = format!(
            "seems to lead to a fabric without end: after {cost} requests it is given up; if there is \
             such a fabric, join it by more than one cable"
        );
        self.refuse(Some(via), reason);
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

    /// Whether that switch had its change flag set.
    pub(crate) fn has_seen_change(&self, switch: Guid) -> bool {
        self.found.changed.contains(&switch)
    }

    /// The way to a switch.
    pub(crate) fn route_to(&self, switch: Guid) -> Option<&[PortNum]> {
        let index = self.subnet.find(switch)?;
        Some(&self.subnet.devices[index].route)
    }
}
