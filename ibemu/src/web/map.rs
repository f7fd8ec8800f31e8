//! The map: devices and cables of a fabric as it was brought up, and where they are drawn.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use topologies::{Endpoint, Graph, Node, NodeKind};
use wire::{Guid, LinkRate, PortNum};

use crate::state::{End, FabricState, Kind};

/// What the page draws. It stays the same as long as the fabric is up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Map {
    /// The fabric's name.
    pub(super) fabric: String,
    /// Its topology's name.
    pub(super) topology: String,
    /// How switches are placed: `levels`, `grid` or `forces`.
    pub(super) arrangement: String,
    /// Links are so many times slower than their width and speed say.
    pub(super) time_scale: f64,
    /// Data lanes that every port supports.
    pub(super) vls: u8,
    /// Switches and hosts.
    pub(super) devices: Vec<Device>,
    /// Cables.
    pub(super) cables: Vec<Cable>,
}

/// A device on the map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Device {
    /// Its name.
    pub(super) name: String,
    /// `switch` or `host`.
    pub(super) kind: String,
    /// Node GUID.
    pub(super) guid: String,
    /// How many ports it has.
    pub(super) ports: u8,
    /// To the right.
    pub(super) x: f64,
    /// Downwards.
    pub(super) y: f64,
}

/// A cable on the map: positions of devices, and their ports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cable {
    /// The device at its first end.
    pub(super) a: usize,
    /// The port there.
    pub(super) a_port: u8,
    /// The device at its other end.
    pub(super) b: usize,
    /// The port there.
    pub(super) b_port: u8,
    /// How far its middle is drawn beside the straight line, to the left of the way from `a` to `b`.
    pub(super) bend: f64,
}

impl Cable {
    /// Both ends.
    pub(super) const fn ends(&self) -> [End; 2] {
        [
            End {
                node: self.a,
                port: self.a_port,
            },
            End {
                node: self.b,
                port: self.b_port,
            },
        ]
    }
}

impl Map {
    /// The map of a fabric.
    ///
    /// # Errors
    /// If the state of the fabric is no graph.
    pub(super) fn of(state: &FabricState) -> Result<Self> {
        let graph = graph(state, |_| true)?;
        let layout = layout::of(&graph);
        let devices = state.devices().iter().zip(&layout.places);
        let cables = state.links.iter().zip(&layout.bends);
        let links = &state.options.links;
        Ok(Self {
            fabric: state.fabric.to_string(),
            topology: state.topology.clone(),
            arrangement: match layout.arrangement {
                layout::Arrangement::Levels => "levels",
                layout::Arrangement::Grid => "grid",
                layout::Arrangement::Forces => "forces",
            }
            .to_owned(),
            time_scale: if links.unpaced { 1.0 } else { links.time_scale },
            vls: links.vls,
            devices: devices
                .map(|(device, place)| Device {
                    name: device.name.clone(),
                    kind: device.kind.name().to_owned(),
                    guid: device.guid().to_string(),
                    ports: device.ports,
                    x: place.x,
                    y: place.y,
                })
                .collect(),
            cables: cables
                .map(|([a, b], &bend)| Cable {
                    a: a.node,
                    a_port: a.port,
                    b: b.node,
                    b_port: b.port,
                    bend,
                })
                .collect(),
        })
    }
}

/// The graph of a fabric's devices, in their order, with those of its cables.
///
/// # Errors
/// If the state of the fabric is no graph.
pub(super) fn graph(state: &FabricState, has_cable: impl Fn(usize) -> bool) -> Result<Graph> {
    let mut graph = Graph::new();
    for device in state.devices() {
        let kind = match device.kind {
            Kind::Switch => NodeKind::Switch,
            Kind::Host => NodeKind::Host,
        };
        let node = Node::new(&device.name, kind, Guid(device.guid), device.ports);
        graph.add(Node {
            description: device.hardware.description.clone(),
            ..node
        })?;
    }
    let end = |end: End| Endpoint {
        node: topologies::NodeId::from_index(end.node),
        port: PortNum::new(end.port),
    };
    let cables = state.links.iter().enumerate();
    for (_, &[a, b]) in cables.filter(|&(cable, _)| has_cable(cable)) {
        graph.connect_at(end(a), end(b), None::<LinkRate>)?;
    }
    Ok(graph)
}
