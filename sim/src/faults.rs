//! What goes wrong in a run, and when.

use std::sync::Arc;

use link::{DropReason, PortConfig, PortState};
use thiserror::Error;
use topologies::{Endpoint, Graph, NodeId, NodeKind};
use wire::PortNum;

use crate::fabric::{Event, Fabric, index, number};
use crate::node::Node;

/// How often a cable that was put in again is looked at until its links are up, nanoseconds.
const MEND_NS: u64 = 10_000;

/// One end of a cable by the name of its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The device's name.
    pub node: String,
    /// The port.
    pub port: PortNum,
}

/// What goes wrong. Rates are in millionths and hold for what leaves the port named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The cable at this end is pulled: what is on it is lost.
    LinkDown(End),
    /// The cable is put in again; its ports are made active when the link is up.
    LinkUp(End),
    /// Packets are lost and damaged at these rates from now on.
    Rates {
        /// Whose packets.
        end: End,
        /// Packets lost, per million.
        loss_ppm: u32,
        /// Packets damaged, per million.
        corruption_ppm: u32,
    },
    /// Flow control is lost at this rate from now on.
    CreditLoss {
        /// Whose flow control.
        end: End,
        /// Packets lost, per million.
        loss_ppm: u32,
    },
    /// A switch crashes: what is in it and on its cables is lost.
    Crash(String),
    /// It is started again and gets the tables that it had.
    Restart(String),
    /// A host takes packets out of its input buffers slowly from now on, so that credits return
    /// late.
    SlowDrain {
        /// The host.
        node: String,
        /// From one packet to the next, nanoseconds; 0: as fast as they come, again.
        ns_per_packet: u64,
    },
}

/// Something that goes wrong at a certain time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When, in nanoseconds after the fabric has come up.
    pub at_ns: u64,
    /// What.
    pub what: Trouble,
}

/// All that goes wrong in a run.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// The faults, in any order.
    pub faults: Vec<Fault>,
    /// Seed of what is lost and damaged.
    pub seed: u64,
}

/// A plan that names what is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FaultError {
    /// No device of that name.
    #[error("fault {number}: there is no device {name:?}")]
    NoSuchNode {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The name.
        name: String,
    },
    /// No cable there.
    #[error("fault {number}: port {port} of {name:?} has no cable")]
    NoCable {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The device.
        name: String,
        /// The port.
        port: PortNum,
    },
    /// Only switches crash.
    #[error("fault {number}: {name:?} is a host; switches crash and restart")]
    NotASwitch {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The device.
        name: String,
    },
    /// Only hosts of a load drain slowly.
    #[error("fault {number}: {name:?} is a switch; hosts drain slowly")]
    NotAHost {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The device.
        name: String,
    },
    /// More than all.
    #[error("fault {number}: {ppm} per million: 0 to 1000000")]
    Rate {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The rate asked for.
        ppm: u32,
    },
}

impl Trouble {
    fn end(&self) -> Option<&End> {
        match self {
            Self::LinkDown(end)
            | Self::LinkUp(end)
            | Self::Rates { end, .. }
            | Self::CreditLoss { end, .. } => Some(end),
            Self::Crash(_) | Self::Restart(_) | Self::SlowDrain { .. } => None,
        }
    }

    fn rates(&self) -> [u32; 2] {
        match *self {
            Self::Rates {
                loss_ppm,
                corruption_ppm,
                ..
            } => [loss_ppm, corruption_ppm],
            Self::CreditLoss { loss_ppm, .. } => [loss_ppm, 0],
            _ => [0, 0],
        }
    }
}

impl FaultPlan {
    /// Checks that everything named is there.
    ///
    /// # Errors
    /// [`FaultError`]: which fault names what is not.
    pub fn check(&self, graph: &Graph) -> Result<(), FaultError> {
        for (number, fault) in self.faults.iter().enumerate() {
            let find = |name: &str| {
                graph.find(name).ok_or_else(|| FaultError::NoSuchNode {
                    number,
                    name: name.to_owned(),
                })
            };
            for ppm in fault.what.rates() {
                if ppm > crate::cable::MILLION {
                    return Err(FaultError::Rate { number, ppm });
                }
            }
            if let Some(End { node, port }) = fault.what.end() {
                let end = Endpoint {
                    node: find(node)?,
                    port: *port,
                };
                if graph.peer(end).is_none() {
                    return Err(FaultError::NoCable {
                        number,
                        name: node.clone(),
                        port: *port,
                    });
                }
            }
            if let Trouble::SlowDrain { node, .. } = &fault.what
                && graph.node(find(node)?).kind != NodeKind::Host
            {
                return Err(FaultError::NotAHost {
                    number,
                    name: node.clone(),
                });
            }
            if let Trouble::Crash(name) | Trouble::Restart(name) = &fault.what
                && graph.node(find(name)?).kind != NodeKind::Switch
            {
                return Err(FaultError::NotASwitch {
                    number,
                    name: name.clone(),
                });
            }
        }
        Ok(())
    }
}

impl Fabric {
    fn locate(&self, end: &End) -> Option<(usize, PortNum)> {
        Some((self.graph.find(&end.node)?.index(), end.port))
    }

    /// Lets one fault happen.
    pub(crate) fn suffer(&mut self, what: &Trouble) {
        let place = what.end().and_then(|end| self.locate(end));
        match (what, place) {
            (Trouble::LinkDown(_), Some((node, port))) => self.unplug(node, port),
            (Trouble::LinkUp(_), Some((node, port))) => self.plug(node, port),
            (
                Trouble::Rates {
                    loss_ppm,
                    corruption_ppm,
                    ..
                },
                Some((node, port)),
            ) => self
                .cables
                .set_rates(node, port, *loss_ppm, *corruption_ppm),
            (Trouble::CreditLoss { loss_ppm, .. }, Some((node, port))) => {
                self.cables.set_credit_loss(node, port, *loss_ppm);
            }
            (Trouble::Crash(name), _) => self.crash(name),
            (Trouble::Restart(name), _) => self.restart(name),
            (
                Trouble::SlowDrain {
                    node,
                    ns_per_packet,
                },
                _,
            ) => self.drain_slowly(node, *ns_per_packet),
            (_, None) => {}
        }
    }

    fn both_ends(&self, node: usize, port: PortNum) -> Vec<(usize, PortNum)> {
        let other = self.cables.other_end(node, port);
        let other = other.map(|(node, port)| (index(node), port));
        core::iter::once((node, port)).chain(other).collect()
    }

    fn unplug(&mut self, node: usize, port: PortNum) {
        for (node, port) in self.both_ends(node, port) {
            self.cables.set_up(node, port, false);
            self.nodes[node].carrier(self.now, port, false);
            self.service(number(node));
        }
    }

    fn plug(&mut self, node: usize, port: PortNum) {
        let ends = self.both_ends(node, port);
        for &(node, port) in &ends {
            self.cables.set_up(node, port, true);
        }
        for (node, port) in ends {
            self.nodes[node].carrier(self.now, port, true);
            self.service(number(node));
        }
        self.queue
            .push(self.now + MEND_NS, Event::Mend(number(node)));
    }

    /// Activates the ports of a device, and of its neighbours towards it, whose links have come up
    /// again; looks again later while a link is still coming up.
    pub(crate) fn mend(&mut self, node: usize) {
        if self.tables.is_none() {
            // There is a subnet manager for that.
            return;
        }
        let graph = Arc::clone(&self.graph);
        let id = NodeId::from_index(node);
        let mut again = false;
        for (port, peer) in graph.cables(id) {
            if self.cables.peer(node, port).is_none() {
                continue;
            }
            let ends = [(id, port), (peer.node, peer.port)];
            let states = ends.map(|(id, port)| {
                let port = self.nodes[id.index()].port(port);
                port.map_or(PortState::Down, link::Port::state)
            });
            if states.contains(&PortState::Down) {
                again = true;
                continue;
            }
            for ((id, port), state) in ends.into_iter().zip(states) {
                if state == PortState::Init
                    && let Err(error) = self.activate_port(id, port)
                {
                    self.ledger.violate(self.now, error.to_string());
                }
                self.service(number(id.index()));
            }
        }
        if again {
            self.queue
                .push(self.now + MEND_NS, Event::Mend(number(node)));
        }
    }

    fn crash(&mut self, name: &str) {
        let Some(id) = self.graph.find(name) else {
            return;
        };
        let node = id.index();
        let ports: Vec<PortNum> = self.graph.cables(id).map(|(port, _)| port).collect();
        for port in ports {
            // Pulling the cables drops nothing twice: what the ports drop, they count.
            self.unplug(node, port);
        }
        self.tally.lost += self.nodes[node].packets_inside();
        let (copied, absorbed) = self.nodes[node].copies();
        self.copies_before.0 += copied;
        self.copies_before.1 += absorbed;
        for (reason, count) in self.drops_of(id) {
            *self.dropped_before.entry(reason).or_default() += count;
        }
        let started = self.tally.events;
        let epoch = u32::try_from(started % u64::from(u32::MAX / 2)).unwrap_or(1) + 2;
        let (port, timing) = match self.desk.switches {
            Some((port, timing)) => (
                PortConfig {
                    epoch_seed: epoch,
                    ..port
                },
                timing,
            ),
            None => {
                let guid = self.graph.node(id).guid;
                (self.model.port(guid, epoch), self.model.timing())
            }
        };
        match crate::setup::switch(&self.graph, id, port, timing) {
            Ok(fresh) => {
                self.nodes[node] = fresh;
                self.blank.insert(node);
            }
            Err(error) => self.ledger.violate(self.now, error.to_string()),
        }
    }

    fn drain_slowly(&mut self, name: &str, ns_per_packet: u64) {
        let Some(id) = self.graph.find(name) else {
            return;
        };
        if let Node::Station(station) = &mut self.nodes[id.index()] {
            station.drain_slowly(self.now, ns_per_packet);
            // What waits is taken by the next tick.
            self.nodes[id.index()].tick(self.now);
            self.service(number(id.index()));
        }
    }

    fn drops_of(&self, id: NodeId) -> Vec<(DropReason, u64)> {
        let ports = (1..=self.graph.node(id).ports).map(PortNum::new);
        let ports = ports.filter_map(|port| self.nodes[id.index()].port(port));
        let all = ports.flat_map(|port| port.counts().drops.iter());
        all.filter(|&(_, count)| count > 0).collect()
    }

    fn restart(&mut self, name: &str) {
        let Some(id) = self.graph.find(name) else {
            return;
        };
        let node = id.index();
        let graph = Arc::clone(&self.graph);
        for (port, _) in graph.cables(id) {
            let ends = self.both_ends(node, port);
            for &(node, port) in &ends {
                self.cables.set_up(node, port, true);
            }
            for (node, port) in ends {
                self.nodes[node].carrier(self.now, port, true);
                self.service(number(node));
            }
        }
        self.queue
            .push(self.now + MEND_NS, Event::Mend(number(node)));
    }
}
