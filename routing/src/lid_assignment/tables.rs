//! Forwarding tables that realise given paths exactly.
//!
//! LID `base + i` of a destination has the entries that the paths of configuration `i` need, and
//! no others at the switches that they cross. Switches that no such path crosses get an entry into
//! it: a packet that does not follow the path selection still arrives. Such an entry never turns a
//! packet upwards after it went down, if any entry can avoid it.

use std::collections::BTreeMap;
use std::sync::Arc;

use topologies::Endpoint;
use wire::convert::{saturate, usize_of};
use wire::{Guid, Lid, Lmc, PortNum};

use super::assignment::Assignment;
use super::ranges::allocate;
use super::routes::Routes;
use crate::engine::Options;
use crate::error::{RoutingError, Warning};
use crate::network::{Network, UpDown};
use crate::routing_engine::RoutingEngine;
use crate::tables::{Lft, PathSelection, Promises, Tables};

/// LIDs, tables and the LID for each pair.
///
/// Host ports in order of GUID take the next free aligned range of their own size (the next free
/// one of any alignment with [`crate::LidBase::Paper`]); switches, one LID each, stand behind them.
/// A port that is known by a range large enough keeps it. [`Options::lmc`] has no meaning here:
/// sizes follow from the assignment.
///
/// # Errors
/// [`RoutingError::LidSpaceExhausted`], [`super::LidError::TooManyConfigurations`].
pub fn tables(
    engine: RoutingEngine,
    (network, updown): (&Network, &UpDown),
    (routes, assignment): (&Routes, &Assignment),
    options: &Options,
) -> Result<Tables, RoutingError> {
    let lmcs = (0..routes.hosts())
        .map(|host| assignment.lmc(host))
        .collect::<Result<Vec<Lmc>, _>>()?;
    let (lids, changed) = allocate(network, &lmcs, options)?;
    let mut rows = vec![Lft::new(lids.top()); network.switches().len()];
    let mut turns = 0;
    for (host, port) in network.hosts().iter().enumerate() {
        let Some(range) = lids.of(port.end) else {
            continue;
        };
        for (number, lid) in (0u32..).zip(range.lids()) {
            let number = number % assignment.count(host);
            let mut entries = Entries::to(network, updown, port.switch);
            for source in (0..routes.hosts()).filter(|&source| source != host) {
                if assignment.number(source, host) == number {
                    entries.take(routes.path(source, host));
                }
            }
            turns += entries.fill();
            entries.write(&mut rows, lid, port.port);
        }
    }
    for (switch, &node) in network.switches().iter().enumerate() {
        let port = PortNum::MANAGEMENT;
        if let Some(range) = lids.of(Endpoint { node, port }) {
            let mut entries = Entries::to(network, updown, switch);
            turns += entries.fill();
            entries.write(&mut rows, range.base, port);
        }
    }
    let promises = Promises {
        up_down: turns == 0,
        minimal: false,
        deadlock_free: turns == 0,
        from_hosts_only: false,
    };
    let mut tables = Tables::generic(engine, network, lids, rows, promises);
    tables.selection = Arc::new(ByPair::new(network, assignment));
    tables.set_order(network, updown.order().iter().copied().zip(0..));
    let turns = (turns > 0).then_some(Warning::Turns { entries: turns });
    tables.warnings.extend(turns);
    tables.warnings.extend(Warning::lids_changed(changed));
    Ok(tables)
}

/// By pair: `offsets[destination][source]`, with the numbers of both by port GUID.
#[derive(Debug)]
struct ByPair {
    hosts: BTreeMap<Guid, usize>,
    offsets: Vec<Vec<u8>>,
}

impl ByPair {
    fn new(network: &Network, assignment: &Assignment) -> Self {
        let hosts = network.hosts().iter().map(|host| host.guid);
        let count = network.hosts().len();
        let offset = |source, host| saturate::<u8>(assignment.number(source, host));
        Self {
            hosts: hosts.zip(0..).collect(),
            offsets: (0..count)
                .map(|host| (0..count).map(|source| offset(source, host)).collect())
                .collect(),
        }
    }
}

impl PathSelection for ByPair {
    fn offset(&self, source: Guid, destination: Guid) -> u32 {
        match (self.hosts.get(&source), self.hosts.get(&destination)) {
            (Some(&from), Some(&to)) => u32::from(self.offsets[to][from]),
            _ => 0,
        }
    }
}

/// The entries of one LID.
struct Entries<'a> {
    network: &'a Network,
    updown: &'a UpDown,
    target: usize,
    next: Vec<Option<usize>>,
}

impl<'a> Entries<'a> {
    fn to(network: &'a Network, updown: &'a UpDown, target: usize) -> Self {
        Self {
            network,
            updown,
            target,
            next: vec![None; network.switches().len()],
        }
    }

    fn take(&mut self, path: &[u32]) {
        for &channel in path {
            let channel = usize_of(channel);
            self.next[self.network.channels()[channel].from] = Some(channel);
        }
    }

    /// Gives an entry to every switch without one; returns how many of these turn packets upwards.
    ///
    /// First, from the target upwards, those that can go down all the way; then, from the root
    /// downwards, those that can go up; the rest by any path there is.
    fn fill(&mut self) -> usize {
        let order = self.updown.order();
        let mut descends = vec![false; self.next.len()];
        descends[self.target] = true;
        for &switch in order.iter().rev().filter(|&&switch| switch != self.target) {
            if self.next[switch].is_none() {
                self.next[switch] = self
                    .network
                    .leaving(switch)
                    .find(|&channel| !self.updown.is_up(channel) && descends[self.to_of(channel)]);
            }
            descends[switch] = self.next[switch].is_some_and(|channel| {
                !self.updown.is_up(channel) && descends[self.to_of(channel)]
            });
        }
        for &switch in order.iter().filter(|&&switch| switch != self.target) {
            if self.next[switch].is_none() {
                let has_entry = |channel: &usize| {
                    self.to_of(*channel) == self.target || self.next[self.to_of(*channel)].is_some()
                };
                self.next[switch] = self
                    .network
                    .leaving(switch)
                    .filter(|&channel| self.updown.is_up(channel))
                    .find(has_entry);
            }
        }
        self.fill_rest()
    }

    fn fill_rest(&mut self) -> usize {
        let mut turns = 0;
        let mut open: std::collections::VecDeque<usize> = (0..self.next.len())
            .filter(|&switch| switch == self.target || self.next[switch].is_some())
            .collect();
        while let Some(switch) = open.pop_front() {
            for channel in self.network.leaving(switch) {
                let from = self.to_of(channel);
                if from != self.target && self.next[from].is_none() {
                    self.next[from] = Some(self.network.channels()[channel].reverse);
                    turns += 1;
                    open.push_back(from);
                }
            }
        }
        turns
    }

    fn to_of(&self, channel: usize) -> usize {
        self.network.channels()[channel].to
    }

    fn write(&self, rows: &mut [Lft], lid: Lid, last: PortNum) {
        for (switch, row) in rows.iter_mut().enumerate() {
            if switch == self.target {
                row.set(lid, last);
            } else if let Some(channel) = self.next[switch] {
                row.set(lid, self.network.channels()[channel].port);
            }
        }
    }
}
