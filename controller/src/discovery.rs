//! Finding the subnet: a wave of directed-route SMPs from this manager's own host.
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
use wire::{Guid, PortNum};

use crate::control::Unreachable;
use crate::smp::{Answer, Request, Useless};
use crate::subnet::{Device, Index, Subnet, has_link};

/// More devices than there are unicast LIDs cannot be managed.
const DEVICES_MAX: usize = 49_151;
/// How many oddities of one discovery are told.
const WARNINGS_MAX: usize = 32;

/// What a discovery asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// NodeInfo of the own host, or of what a port's cable leads to.
    Identify(Option<(Index, PortNum)>),
    /// NodeDescription.
    Describe(Index),
    /// SwitchInfo.
    Switch(Index),
    /// Clears the change flag in SwitchInfo.
    Acknowledge(Index),
    /// PortInfo.
    Port(Index, PortNum),
    /// SMInfo.
    Manager(Index),
}

/// A discovery under way.
#[derive(Debug)]
pub(crate) struct Discovery {
    subnet: Subnet,
    names: BTreeMap<Guid, String>,
    retries: u8,
    probe_retries: u8,
    suspects: BTreeSet<(Guid, PortNum)>,
    found: Found,
}

/// What a discovery yields beside the subnet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Ports with a link behind which nothing answered.
    pub(crate) silent: BTreeSet<(Guid, PortNum)>,
    /// What cannot be managed.
    pub(crate) unreachable: Vec<Unreachable>,
    /// Other subnet managers.
    pub(crate) managers: Vec<(Index, SmInfo)>,
    /// Oddities worth a warning.
    pub(crate) warnings: Vec<String>,
}

/// Requests to send next, each with how often to repeat it.
pub(crate) type Asks = Vec<(Ask, u8)>;

impl Discovery {
    /// Starts a discovery. Devices whose name is in `names` are not asked for it again. A device
    /// that is known to be there is asked up to `retries` times more, what a link leads to
    /// `probe_retries` times; through a port in `suspects` it is asked once.
    pub(crate) fn start(
        names: BTreeMap<Guid, String>,
        suspects: BTreeSet<(Guid, PortNum)>,
        retries: u8,
        probe_retries: u8,
    ) -> (Self, Asks) {
        let discovery = Self {
            subnet: Subnet::default(),
            names,
            retries,
            probe_retries,
            suspects,
            found: Found::default(),
        };
        (discovery, vec![(Ask::Identify(None), retries)])
    }

    /// The SMP of a request; `None` if it is no longer needed.
    pub(crate) fn request(&self, ask: Ask) -> Option<Request> {
        let devices = &self.subnet.devices;
        let route = |index: Index| devices[index].route.clone();
        Some(match ask {
            Ask::Identify(None) => Request::get::<NodeInfo>(Vec::new(), 0),
            Ask::Identify(Some((index, port))) => {
                if devices[index].ports.get(port.index())?.peer.is_some() {
                    return None;
                }
                let mut route = route(index);
                route.push(port);
                Request::get::<NodeInfo>(route, 0)
            }
            Ask::Describe(index) => Request::get::<NodeDescription>(route(index), 0),
            Ask::Switch(index) => Request::get::<SwitchInfo>(route(index), 0),
            Ask::Acknowledge(index) => {
                Request::set(route(index), 0, devices[index].switch.as_ref()?)
            }
            Ask::Port(index, port) => Request::get::<PortInfo>(route(index), u32::from(port.get())),
            Ask::Manager(index) => Request::get::<SmInfo>(route(index), 0),
        })
    }

    /// Takes in what became of a request, and says what to ask next.
    pub(crate) fn complete(&mut self, ask: Ask, answer: Answer<'_>) -> Asks {
        let result = match ask {
            Ask::Identify(via) => {
                return match answer.attribute::<NodeInfo>() {
                    Ok(info) => self.identified(via, info),
                    Err(useless) => {
                        self.nothing_behind(via, &useless);
                        Vec::new()
                    }
                };
            }
            Ask::Describe(index) => answer.attribute().map(|name| self.described(index, name)),
            Ask::Switch(index) => answer
                .attribute()
                .map(|switch| self.switch_known(index, switch)),
            Ask::Acknowledge(index) => answer
                .attribute::<SwitchInfo>()
                .map(|_| self.all_ports(index)),
            Ask::Port(index, port) => match answer.attribute() {
                Ok(info) => Ok(self.port_known(index, port, info)),
                // One odd port of a switch does not take the switch away.
                Err(Useless::Silent) => Err(Useless::Silent),
                Err(useless) if port != self.subnet.devices[index].end_port() => {
                    let name = self.subnet.devices[index].label();
                    self.warn(format!("port {port} of {name} is left out: it {useless}"));
                    Ok(Vec::new())
                }
                Err(useless) => Err(useless),
            },
            Ask::Manager(index) => {
                // A manager that is gone before it could answer is no manager.
                if let Ok(manager) = answer.attribute() {
                    self.found.managers.push((index, manager));
                }
                Ok(Vec::new())
            }
        };
        let index = match ask {
            Ask::Describe(index)
            | Ask::Switch(index)
            | Ask::Acknowledge(index)
            | Ask::Port(index, _)
            | Ask::Manager(index) => index,
            Ask::Identify(_) => return Vec::new(),
        };
        result.unwrap_or_else(|useless| {
            self.subnet.devices[index].failure = Some(useless.to_string());
            Vec::new()
        })
    }

    fn warn(&mut self, text: String) {
        if self.found.warnings.len() < WARNINGS_MAX {
            self.found.warnings.push(text);
        }
    }

    fn nothing_behind(&mut self, via: Option<(Index, PortNum)>, useless: &Useless) {
        let name = match via {
            None => "this host".to_owned(),
            Some((index, port)) => {
                let device = &self.subnet.devices[index];
                self.found.silent.insert((device.guid(), port));
                format!("behind port {port} of {}", device.label())
            }
        };
        self.found.unreachable.push(Unreachable {
            name,
            guid: Guid(0),
            reason: useless.to_string(),
        });
    }

    fn identified(&mut self, via: Option<(Index, PortNum)>, info: NodeInfo) -> Asks {
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
            self.cabled(from, (index, arrival));
        }
        if known.is_some() {
            return Vec::new();
        }
        self.first_questions(index, kind)
    }

    fn cabled(&mut self, from: (Index, PortNum), to: (Index, PortNum)) {
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

    fn first_questions(&mut self, index: Index, kind: NodeKind) -> Asks {
        let device = &mut self.subnet.devices[index];
        let mut asks = Vec::new();
        match self.names.get(&device.guid()) {
            Some(name) => device.name.clone_from(name),
            None => asks.push((Ask::Describe(index), self.retries)),
        }
        asks.push((
            match kind {
                NodeKind::Switch => Ask::Switch(index),
                NodeKind::Host => Ask::Port(index, device.end_port()),
            },
            self.retries,
        ));
        asks
    }

    fn described(&mut self, index: Index, name: NodeDescription) -> Asks {
        self.subnet.devices[index].name = name
            .as_str()
            .trim()
            .chars()
            .map(|letter| if letter.is_control() { '?' } else { letter })
            .collect();
        Vec::new()
    }

    fn switch_known(&mut self, index: Index, switch: SwitchInfo) -> Asks {
        self.subnet.devices[index].switch = Some(switch);
        if switch.port_state_change {
            vec![(Ask::Acknowledge(index), self.retries)]
        } else {
            self.all_ports(index)
        }
    }

    fn all_ports(&self, index: Index) -> Asks {
        (0..=self.subnet.devices[index].info.num_ports)
            .map(|port| (Ask::Port(index, PortNum::new(port)), self.retries))
            .collect()
    }

    fn port_known(&mut self, index: Index, port: PortNum, info: PortInfo) -> Asks {
        let device = &mut self.subnet.devices[index];
        let Some(slot) = device.ports.get_mut(port.index()) else {
            return Vec::new();
        };
        slot.info = Some(info);
        let open = slot.peer.is_none();
        let linked = has_link(&info);
        // An adapter passes nothing on; only the own one is where the wave starts.
        let goes_on = device.kind == NodeKind::Switch || index == self.subnet.own;
        let mut asks = Vec::new();
        if goes_on && port != PortNum::MANAGEMENT && open && linked {
            let suspect = self.suspects.contains(&(device.guid(), port));
            let retries = if suspect { 0 } else { self.probe_retries };
            asks.push((Ask::Identify(Some((index, port))), retries));
        }
        let elsewhere = device.kind == NodeKind::Host && index != self.subnet.own;
        if elsewhere && info.capability_mask & capability::IS_SM != 0 {
            asks.push((Ask::Manager(index), self.retries));
        }
        asks
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
    pub(crate) fn may_have_missed(&self, switch: Guid) -> bool {
        self.subnet
            .find(switch)
            .is_some_and(|index| self.subnet.devices[index].switch.is_some())
    }

    /// What was found, when nothing is asked any more.
    pub(crate) fn finish(mut self) -> (Subnet, Found) {
        let managers: Vec<(Guid, SmInfo)> = self
            .found
            .managers
            .iter()
            .map(|&(index, manager)| (self.subnet.devices[index].guid(), manager))
            .collect();
        let (subnet, left_out) = self.subnet.finish();
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
        (subnet, self.found)
    }
}
