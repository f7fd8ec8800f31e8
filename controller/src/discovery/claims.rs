//! What devices say they are, checked against what others say and what was known before.
//!
//! Any host may answer anything. A device that contradicts others is left out and listed as
//! unreachable, so that sweeps look again until it tells the truth:
//!
//! * No two devices have a GUID in common. Where two claim one, the device that the whole fabric had
//!   there counts, else a switch before a host, else who came first, unless it refuses what a device that
//!   is what it claims to be must answer.
//! * What answers through a port counts before what others say leads to that port. So both ends of
//!   each cable between switches are asked, and what takes itself for a switch that is elsewhere gets
//!   no cable that is not there.
//! * No cable leads from a port to itself.

use std::collections::BTreeMap;

use topologies::NodeKind;
use wire::attr::{NodeInfo, NodeType};
use wire::{Guid, PortNum};

use super::{DEVICES_MAX, Discovery, Queries, Query, Repeats};
use crate::control::Unreachable;
use crate::subnet::{Device, Index, device_guid};

/// What the whole fabric has by a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Switch or host.
    pub(crate) kind: NodeKind,
    /// How many external ports it has.
    pub(crate) ports: u8,
    /// Of a host the port at the other end of its cable.
    pub(crate) place: Option<(Guid, PortNum)>,
}

/// The devices of the whole fabric by GUID.
pub(crate) type ExpectedDevices = BTreeMap<Guid, Expected>;

fn kind(info: &NodeInfo) -> NodeKind {
    match info.node_type {
        NodeType::Switch => NodeKind::Switch,
        NodeType::ChannelAdapter | NodeType::Router => NodeKind::Host,
    }
}

/// Whether a device that is known says of itself what it said before, but for the port of arrival.
fn is_same(known: &NodeInfo, said: &NodeInfo) -> bool {
    let local_port_num = known.local_port_num;
    NodeInfo {
        local_port_num,
        ..*said
    } == *known
}

impl Discovery {
    /// What the own host (`None`), or what a port's cable leads to, says it is.
    pub(super) fn node_found(&mut self, via: Option<(Index, PortNum)>, info: NodeInfo) -> Queries {
        if let Some(slot) = via.and_then(|end| self.subnet.port_mut(end)) {
            slot.heard = true;
        }
        let (kind, arrival) = (kind(&info), info.local_port_num);
        let sound = (1..=254).contains(&info.num_ports)
            && arrival.get() <= info.num_ports
            && (arrival.get() > 0 || via.is_none() && kind == NodeKind::Switch);
        if !sound {
            let reason = format!("claims port {arrival} of {}", info.num_ports);
            self.refuse(via, reason);
            return Vec::new();
        }
        if [info.node_guid, info.port_guid].contains(&Guid(0)) {
            self.refuse(via, "claims the GUID 0".to_owned());
            return Vec::new();
        }
        let known = self.subnet.find(device_guid(&info));
        let known = known.filter(|&index| self.is_met_again(index, via, &info));
        let index = match known {
            Some(index) => index,
            None => match self.admit(via, info, kind) {
                Some(index) => index,
                None => return Vec::new(),
            },
        };
        if let Some(from) = via {
            if known.is_some() && kind == NodeKind::Switch {
                self.met_again.entry(index).or_default().push(from);
            }
            self.link_found(from, (index, arrival), known.is_none());
        }
        match known {
            Some(_) => Vec::new(),
            None => self.first_queries(index, kind),
        }
    }

    /// Whether what answers is the device that is known by its GUID, met through another port. A host
    /// has one cable for each of its ports.
    fn is_met_again(&self, index: Index, via: Option<(Index, PortNum)>, info: &NodeInfo) -> bool {
        let device = &self.subnet.devices[index];
        let peer = self.subnet.peer((index, device.end_port()));
        let is_elsewhere =
            device.kind == NodeKind::Host && peer.is_some() && via.is_some() && peer != via;
        is_same(&device.info, info) && !is_elsewhere && !self.refuted.contains(&index)
    }

    /// A device has refused what it must answer: what claims to be it elsewhere is asked for NodeInfo anew.
    pub(super) fn refuted(&mut self, index: Index) -> Queries {
        self.refuted.insert(index);
        let elsewhere = self.met_again.remove(&index).unwrap_or_default();
        let mut queries = Vec::new();
        for via in elsewhere {
            if let Some(slot) = self.subnet.port_mut(via) {
                slot.heard = false;
                queries.push((
                    Query::NodeInfo(Some(via)),
                    Repeats::Probe(self.probe_retries),
                ));
            }
        }
        queries
    }

    /// Adds a device, unless another one has its GUID, or that of its port, and no worse a claim to it.
    fn admit(
        &mut self,
        via: Option<(Index, PortNum)>,
        info: NodeInfo,
        kind: NodeKind,
    ) -> Option<Index> {
        let mut route = Vec::new();
        if let Some((before, port)) = via {
            route.clone_from(&self.subnet.devices[before].route);
            route.push(port);
        }
        let device = Device::new(info, kind, route);
        let rank = self.rank(&device, via.map(|end| self.place(end)));
        let rivals = [
            self.subnet.find(device.guid()),
            self.subnet.find_end_port(device.end_port_guid()),
        ];
        for rival in rivals.into_iter().flatten() {
            let other = &self.subnet.devices[rival];
            let is_better =
                self.refuted.contains(&rival) || rank > self.rank(other, self.place_of(other));
            if rival == self.subnet.own || !is_better {
                let (guid, label) = (other.guid(), other.label());
                let reason = format!("claims the GUID {guid} of {label}: is it used twice?");
                self.refuse(via, reason);
                return None;
            }
        }
        for rival in rivals.into_iter().flatten() {
            let guid = device.guid();
            let reason = format!("claims the GUID {guid} of another device: is it used twice?");
            self.subnet.displace(rival, reason);
            self.displaced.insert(rival);
        }
        if self.subnet.devices.len() >= DEVICES_MAX {
            self.warn(format!(
                "more than {DEVICES_MAX} devices: the rest is left out"
            ));
            return None;
        }
        let is_stranger = !rank.0;
        if is_stranger && !self.branches.admit_strangers() {
            self.refuse(
                via,
                "is new, and too much that is new is given up".to_owned(),
            );
            return None;
        }
        let place = via.map(|end| (end, self.place(end).0));
        self.branches.add(place, is_stranger);
        let requests = match kind {
            NodeKind::Host => 3,
            NodeKind::Switch => 4 + u64::from(info.num_ports),
        };
        let index = self.subnet.add(device);
        self.spend(index, requests);
        Some(index)
    }

    /// How well a device fits what the whole fabric has by its GUID: the greater the better.
    fn rank(&self, device: &Device, place: Option<(Guid, PortNum)>) -> (bool, bool, bool) {
        let expected = self.known.devices.get(&device.guid());
        let fits = expected
            .is_some_and(|one| (one.kind, one.ports) == (device.kind, device.info.num_ports));
        let is_in_place = expected.is_some_and(|one| one.place.is_some() && one.place == place);
        (fits, is_in_place, device.kind == NodeKind::Switch)
    }

    /// A port by the GUID of its device.
    fn place(&self, (index, port): (Index, PortNum)) -> (Guid, PortNum) {
        (self.subnet.devices[index].guid(), port)
    }

    /// The port at the other end of the cable of a device's end port.
    fn place_of(&self, device: &Device) -> Option<(Guid, PortNum)> {
        let port = device.ports.get(device.end_port().index())?;
        port.peer.map(|peer| self.place(peer))
    }

    /// What answers through port `from` says that it is port `to`; `is_new`: it was not known before.
    fn link_found(&mut self, from: (Index, PortNum), to: (Index, PortNum), is_new: bool) {
        let device = &self.subnet.devices[to.0];
        let fits = device.kind == NodeKind::Switch || device.end_port() == to.1;
        if from == to || !fits {
            let reason = format!("claims to be port {} of {}", to.1, device.label());
            self.refuse(Some(from), reason);
            return;
        }
        if is_new && let Some(slot) = self.subnet.port_mut(to) {
            // It has answered over this cable.
            slot.heard = true;
        }
        // What others have said of this port gives way to what answers through it.
        if let Some(other) = self.subnet.peer(from).filter(|&other| other != to) {
            self.subnet.part(from);
            self.contradicted(other, from);
        }
        match self.subnet.peer(to) {
            Some(other) if other == from => {}
            Some(_) if self.subnet.is_heard(to) => self.contradicted(from, to),
            // What answers through that port will tell which of the two it leads to.
            Some(other) => {
                self.subnet.part(to);
                self.contradicted(other, to);
                self.contradicted(from, to);
            }
            None => self.subnet.join(from, to),
        }
    }

    /// What answers through port `from` claims to be port `to`, which leads elsewhere.
    fn contradicted(&mut self, from: (Index, PortNum), to: (Index, PortNum)) {
        let device = &self.subnet.devices[to.0];
        let (guid, label) = (device.guid(), device.label());
        let reason = format!(
            "claims to be port {} of {label}, which leads elsewhere: is the GUID {guid} used twice?",
            to.1
        );
        self.refuse(Some(from), reason);
    }

    /// What answers there is left out, and looked for again.
    pub(super) fn refuse(&mut self, via: Option<(Index, PortNum)>, reason: String) {
        let name = match via {
            None => "this host".to_owned(),
            Some((index, port)) => {
                let label = self.subnet.devices[index].label();
                format!("behind port {port} of {label}")
            }
        };
        let guid = Guid(0);
        self.found
            .unreachable
            .push(Unreachable { name, guid, reason });
    }
}
