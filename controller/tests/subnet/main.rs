//! The subnet manager against the management agents of whole fabrics, in virtual time.

mod absence;
mod administration;
mod aliases;
mod bed;
mod bring_up;
mod choice;
mod computing;
mod engines;
mod faults;
mod foreign;
mod hostile;
mod lies;
mod made_up;
mod managers;
mod members;
mod multicast;
mod partitions;
mod protection;
mod qos;
mod restart;
mod subscriptions;
mod windows;

use bed::Bed;
use controller::SmConfig;
use routing::{Options, RoutingEngine, Tables};
use topologies::{Endpoint, Graph, NodeId};
use wire::{Lid, PortNum};

/// A generated topology.
fn graph(name: &str) -> Graph {
    topologies::parse(name).expect("the topology exists").graph
}

/// A fabric brought up by a manager beside its first host.
fn up(name: &str) -> (Bed, NodeId) {
    let mut bed = Bed::new(graph(name), 1);
    let host = first_host(&bed.graph);
    bed.start(host, SmConfig::default());
    bed.run_until_up(host);
    (bed, host)
}

fn first_host(graph: &Graph) -> NodeId {
    graph.hosts().next().expect("there is a host")
}

fn end(bed: &Bed, name: &str, port: u8) -> Endpoint {
    Endpoint {
        node: bed.id(name),
        port: PortNum::new(port),
    }
}

/// What the engines compute offline for a whole fabric of [`Bed::new`].
fn offline(graph: &Graph) -> Tables {
    let options = Options {
        data_vls: Some(1),
        ..Options::default()
    };
    RoutingEngine::Auto
        .route(graph, &options)
        .expect("there are tables")
}

/// The entries up to LID `top` of every switch, in order.
fn entries(bed: &Bed, top: Lid) -> Vec<Vec<PortNum>> {
    let switches = bed.graph.switches();
    switches
        .map(|id| bed.node(id).lft()[..=top.index()].to_vec())
        .collect()
}

/// Checks that every switch and host holds what was computed.
fn assert_programmed(bed: &Bed, tables: &Tables) {
    for range in tables.lids.iter() {
        let Some(end) = range.end else { continue };
        assert_eq!(bed.address(end.node), (range.base, range.lmc));
    }
    for id in bed.graph.switches() {
        let node = bed.node(id);
        assert_eq!(node.top(), tables.top());
        for (lid, &port) in (0..).zip(tables.lft(id).entries()) {
            let lid = Lid::new(lid);
            assert_eq!(
                node.exit(lid),
                port,
                "LID {lid} in {}",
                bed.graph.node(id).name
            );
        }
    }
}

/// Whether a packet from `source` finds its way to that LID of `destination` by the tables that
/// the switches hold, over links that are Active.
fn arrives(bed: &Bed, source: NodeId, destination: NodeId, lid: Lid) -> bool {
    let Some(mut at) = bed.ends(source).first().copied() else {
        return false;
    };
    for _ in 0..=bed.graph.len() {
        if bed.node(at.node).state(at.port) != link::PortState::Active {
            return false;
        }
        let Some(peer) = bed.graph.peer(at) else {
            return false;
        };
        if peer.node == destination {
            return true;
        }
        let port = bed.node(peer.node).exit(lid);
        if port == PortNum::NONE || port == PortNum::MANAGEMENT {
            return false;
        }
        at = Endpoint {
            node: peer.node,
            port,
        };
    }
    false
}

/// Checks that each of these hosts reaches each other by all of its LIDs.
fn assert_connected(bed: &Bed, hosts: &[NodeId]) {
    for &source in hosts {
        for &destination in hosts {
            let (base, lmc) = bed.address(destination);
            for lid in base.get()..base.get() + lmc.lids() {
                let name = |id| &bed.graph.node(id).name;
                assert!(
                    source == destination || arrives(bed, source, destination, Lid::new(lid)),
                    "{} does not reach LID {lid} of {}",
                    name(source),
                    name(destination)
                );
            }
        }
    }
}
