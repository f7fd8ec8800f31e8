//! Sources and groups as they are drawn, and the workload that follows.
//!
//! Draws are nested: from one seed, the sources of a larger part of the hosts are those of a
//! smaller one and some more, and so are the members of a source's group. Schemes and sizes of
//! messages see the same draws.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use routing::multicast::Scheme;

use crate::multicast::Task;
use crate::multicast::plan::{Delivery, Grouping, MulticastPlan};
use sim::PACKET_BYTES_MIN;
use sim::split_mix;
use sim::{AddressVector, Destination, Group, SendRequest, TrafficSource, Until, Workload};
use sim::{index, number};

/// Nanoseconds a packet that a run may take beyond sending all packets in a row over one cable.
const SLACK_NS: u64 = 10_000;

/// Sources and their groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    /// Hosts that send, and the group of each.
    pub(super) sources: Vec<(u32, u32)>,
    /// Members by group, in an order that is drawn.
    pub(super) groups: Vec<Vec<u32>>,
    /// Of the orders in which sources of a common group serve it by unicast.
    seed: u64,
}

impl Draw {
    /// The draw of a point from so many hosts.
    pub(super) fn new(task: &Task, hosts: u32, seed: u64) -> Self {
        let (sources, members) = (task.sources.of(hosts), task.groups.of(hosts));
        let chosen = some_of(0..hosts, sources, split_mix(seed, 0));
        let groups = match task.grouping {
            Grouping::Own => {
                let group = |&own: &u32| {
                    let others = (0..hosts).filter(|&host| host != own);
                    some_of(others, members, split_mix(seed, u64::from(own) + 2))
                };
                chosen.iter().map(group).collect()
            }
            Grouping::Common => vec![some_of(0..hosts, members, split_mix(seed, 1))],
        };
        let group_of = |place: u32| match task.grouping {
            Grouping::Own => place,
            Grouping::Common => 0,
        };
        let sources = chosen.into_iter().zip(0..);
        Self {
            sources: sources.map(|(host, at)| (host, group_of(at))).collect(),
            groups,
            seed,
        }
    }

    /// The members of each source's group, by source, in the order in which it serves them by unicast:
    /// its own. In one order for all, sources would stand in line for one member after the other.
    pub(super) fn unicast_orders(&self, grouping: Grouping) -> Vec<Vec<u32>> {
        let order = |&(source, group): &(u32, u32)| {
            let members = self.groups.get(index(group)).into_iter().flatten().copied();
            match grouping {
                Grouping::Own => members.collect(),
                Grouping::Common => {
                    some_of(members, u32::MAX, split_mix(self.seed, order_of(source)))
                }
            }
        };
        self.sources.iter().map(order).collect()
    }

    /// Deliveries of one packet from each source.
    pub(super) fn receivers(&self) -> u64 {
        let count = |&(source, group): &(u32, u32)| {
            let members = self.groups.get(index(group)).into_iter().flatten();
            u64::from(number(members.filter(|&&member| member != source).count()))
        };
        self.sources.iter().map(count).sum()
    }

    /// Each source sends one message to its group, all at the same moment; the flow is the place of
    /// the source.
    pub(super) fn workload(&self, plan: &MulticastPlan, task: &Task, hosts: u32) -> Workload {
        let model = plan.model(task.size_bytes);
        let packets = plan.packets(task.size_bytes);
        let each_ns = model.byte_time_ns() + SLACK_NS;
        let limit_ns = each_ns.saturating_mul(self.receivers() + 1);
        let limit_ns = limit_ns.saturating_mul(u64::from(packets));
        let mut workload =
            Workload::empty(index(hosts), self.sources.len(), Until::Delivered(limit_ns));
        workload.scheme = match task.scheme {
            Delivery::Multicast(scheme) => scheme,
            Delivery::Unicast => Scheme::default(),
        };
        let groups = match task.scheme {
            Delivery::Unicast => self.unicast_orders(task.grouping),
            Delivery::Multicast(_) => self.groups.clone(),
        };
        let groups = groups.into_iter().map(|members| Group { members });
        workload.groups = groups.collect();
        for (&(source, group), flow) in self.sources.iter().zip(0..) {
            let to = match task.scheme {
                // A group a source, in its order.
                Delivery::Unicast => Destination::Each(flow),
                Delivery::Multicast(_) => Destination::Group(group),
            };
            let address = AddressVector {
                to,
                dlid: None,
                sl: None,
                flow,
            };
            if let Some(sources) = workload.hosts.get_mut(index(source)) {
                sources.push(message(address, task.size_bytes, packets));
            }
        }
        workload
    }
}

/// A message of so many bytes on the wire: one packet, or several of the model's size.
fn message(address: AddressVector, size_bytes: u32, packets: u32) -> TrafficSource {
    let headers = packets * u32::from(PACKET_BYTES_MIN);
    let request = |bytes| {
        Arc::new([SendRequest {
            at_ps: 0,
            address,
            bytes,
        }])
    };
    match packets {
        1 => TrafficSource::Packets(request(size_bytes)),
        _ => TrafficSource::Messages(request(size_bytes - headers)),
    }
}

/// Which number of a draw's seed gives a source's order. Groups take those from 0 on.
fn order_of(source: u32) -> u64 {
    u64::from(source) + (1 << 32) + 2
}

/// The first so many of a list in random order: all of it if there are no more.
fn some_of(list: impl Iterator<Item = u32>, count: u32, seed: u64) -> Vec<u32> {
    let mut list: Vec<u32> = list.collect();
    list.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    list.truncate(index(count));
    list
}
