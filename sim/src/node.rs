//! The devices of a simulated fabric under one interface.

use hostd::{Host, HostConfig};
use link::{
    ConfigError, Device, FrameBuf, HandedPacket, Hardware, Input, Port, PortConfig, PortSet, Time,
};
use switchd::{Switch, SwitchConfig, SwitchError, Timing};
use topologies::{Endpoint, Graph, NodeId};
use wire::{FlowControl, PortNum, convert};

use crate::traffic_host::TrafficHost;

/// Identity and attributes of a node of the graph, and its links with rates of their own.
pub(crate) fn hardware(graph: &Graph, id: NodeId) -> Hardware {
    let node = graph.node(id);
    let rate = |port: PortNum| graph.rate(Endpoint { node: id, port });
    let cables = graph.cables(id);
    let rates = cables.filter_map(|(port, _)| Some((port.get(), rate(port)?)));
    Hardware {
        description: (node.description != node.name).then(|| node.description.clone()),
        system_image_guid: Some(node.system_image_guid),
        vendor_id: node.vendor_id,
        device_id: node.device_id,
        is_router: node.is_router,
        enhanced_port0: node.enhanced_port0,
        port_guids: node.port_guids.clone(),
        rates: rates.collect(),
        disabled_ports: node.disabled_ports.clone(),
    }
}

/// A device.
#[derive(Debug)]
pub(crate) enum Node {
    Switch(Box<Switch>),
    TrafficHost(Box<TrafficHost>),
    Host(Box<Host>),
}

impl Node {
    /// A switch of the fabric, just started.
    pub(crate) fn switch(
        graph: &Graph,
        id: NodeId,
        port: PortConfig,
        timing: Timing,
    ) -> Result<Self, SwitchError> {
        let node = graph.node(id);
        let config = SwitchConfig {
            name: node.name.clone(),
            guid: node.guid,
            ports: node.ports,
            port,
            hardware: hardware(graph, id),
            timing,
        };
        Ok(Self::Switch(Box::new(Switch::new(&config)?)))
    }

    /// A full host of the fabric, just started.
    pub(crate) fn host(graph: &Graph, id: NodeId, port: PortConfig) -> Result<Self, ConfigError> {
        let node = graph.node(id);
        Ok(Self::Host(Box::new(Host::new(HostConfig {
            name: node.name.clone(),
            guid: node.guid,
            pid: 0,
            ports: node.ports,
            hardware: hardware(graph, id),
            port,
            ip: Vec::new(),
            traffic_tick_ns: 0,
        })?)))
    }

    pub(crate) fn is_switch(&self) -> bool {
        matches!(self, Self::Switch(_))
    }

    #[inline]
    pub(crate) fn frame(
        &mut self,
        now: Time,
        port: PortNum,
        (head, tail): (Time, Time),
        bytes: &[u8],
    ) {
        match self {
            Self::Switch(switch) => switch.handle(
                now,
                Input::Frame {
                    port,
                    head,
                    tail,
                    bytes,
                },
            ),
            Self::TrafficHost(host) => host.handle(
                now,
                Input::Frame {
                    port,
                    head,
                    tail,
                    bytes,
                },
            ),
            Self::Host(host) => host.handle(
                now,
                Input::Frame {
                    port,
                    head,
                    tail,
                    bytes,
                },
            ),
        }
    }

    /// Hands in a packet without bytes.
    #[inline]
    pub(crate) fn handed(
        &mut self,
        now: Time,
        port: PortNum,
        (head, tail): (Time, Time),
        packet: HandedPacket,
    ) {
        match self {
            Self::Switch(switch) => switch.handle(
                now,
                Input::Handed {
                    port,
                    head,
                    tail,
                    packet,
                },
            ),
            Self::TrafficHost(host) => host.handle(
                now,
                Input::Handed {
                    port,
                    head,
                    tail,
                    packet,
                },
            ),
            // A full host's packets have bytes.
            Self::Host(_) => {}
        }
    }

    /// Hands in flow control without bytes.
    #[inline]
    pub(crate) fn credits(&mut self, now: Time, port: PortNum, packet: FlowControl) {
        match self {
            Self::Switch(switch) => switch.handle(now, Input::Credits { port, packet }),
            Self::TrafficHost(host) => host.handle(now, Input::Credits { port, packet }),
            Self::Host(_) => {}
        }
    }

    /// Reads what a packet needs at a port, or of the device where no port is given, so that it is in the processor's caches; what
    /// is read means nothing.
    #[inline]
    pub(crate) fn read_ahead(&self, port: PortNum) -> u64 {
        match self {
            Self::Switch(switch) => switch.read_ahead(port),
            Self::TrafficHost(host) => host.port().read_ahead(),
            Self::Host(_) => 0,
        }
    }

    pub(crate) fn carrier(&mut self, now: Time, port: PortNum, up: bool) {
        match self {
            Self::Switch(switch) => switch.handle(now, Input::Carrier { port, up }),
            Self::TrafficHost(host) => host.handle(now, Input::Carrier { port, up }),
            Self::Host(host) => host.handle(now, Input::Carrier { port, up }),
        }
    }

    #[inline]
    pub(crate) fn tick(&mut self, now: Time) {
        match self {
            Self::Switch(switch) => switch.handle(now, Input::Tick),
            Self::TrafficHost(host) => host.handle(now, Input::Tick),
            Self::Host(host) => host.handle(now, Input::Tick),
        }
    }

    #[inline]
    pub(crate) fn ready(&self, now: Time) -> PortSet {
        match self {
            Self::Switch(switch) => switch.ready(now),
            Self::TrafficHost(host) => host.ready(now),
            Self::Host(host) => host.ready(now),
        }
    }

    #[inline]
    pub(crate) fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        match self {
            Self::Switch(switch) => switch.transmit(now, port, frame),
            Self::TrafficHost(host) => host.transmit(now, port, frame),
            Self::Host(host) => host.transmit(now, port, frame),
        }
    }

    /// When the device wants a tick; [`Time::NEVER`] if it does not.
    #[inline]
    pub(crate) fn due_at(&self) -> Time {
        let deadline = match self {
            Self::Switch(switch) => return switch.due_at(),
            Self::TrafficHost(host) => return host.due_at(),
            Self::Host(host) => host.deadline(),
        };
        deadline.map_or(Time::NEVER, |deadline| deadline.at)
    }

    #[inline]
    pub(crate) fn port(&self, number: PortNum) -> Option<&Port> {
        match self {
            Self::Switch(switch) => switch.port(number),
            Self::TrafficHost(host) => (number == host.port().number()).then(|| host.port()),
            Self::Host(host) => host.port_of(number),
        }
    }

    /// Copies of multicast packets that the device has made or dropped, and packets that have gone
    /// with their last copy.
    pub(crate) fn copies(&self) -> (u64, u64) {
        match self {
            Self::Switch(switch) => switch.copies(),
            Self::TrafficHost(_) | Self::Host(_) => (0, 0),
        }
    }

    /// Packets in the device's memory; of a full host, whose packets are not tracked, none.
    pub(crate) fn packets_inside(&self) -> u64 {
        let packets = match self {
            Self::Switch(switch) => switch.packets_inside(),
            Self::TrafficHost(host) => host.packets_inside(),
            Self::Host(_) => 0,
        };
        convert::u64_of(packets)
    }
}
