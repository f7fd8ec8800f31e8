//! LIDs of a fat tree: which LMC, and which LID stands for which host and path.

use topologies::{Endpoint, FatTree, Graph};
use wire::convert::saturate;
use wire::{Guid, Lid, Lmc, PortNum};

use crate::engine::Options;
use crate::error::{RoutingError, Warning};
use crate::fat_tree::FatTreeLabels;
use crate::lids::{LidBase, LidRange, Lids};
use crate::routing_engine::RoutingEngine;

/// How many LIDs a host gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// As many as there are paths, or as fit.
    Mlid,
    /// One.
    Slid,
}

impl Scheme {
    pub(super) fn engine(self) -> RoutingEngine {
        match self {
            Self::Mlid => RoutingEngine::Mlid,
            Self::Slid => RoutingEngine::Slid,
        }
    }
}

/// LIDs in order of PID, and behind them those of the switches in order of label.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) lmc: Lmc,
    base: LidBase,
    first_switch: u16,
}

impl Layout {
    /// The LIDs of that scheme, and what is worth a warning.
    pub(super) fn choose(
        tree: &FatTree,
        scheme: Scheme,
        options: &Options,
    ) -> Result<(Self, Option<Warning>), RoutingError> {
        let engine = scheme.engine();
        let paths = tree.power(tree.levels() - 1);
        let full = match scheme {
            Scheme::Slid => 0,
            Scheme::Mlid if paths.is_power_of_two() => saturate::<u8>(paths.ilog2()),
            Scheme::Mlid => {
                return Err(RoutingError::PathsNotPowerOfTwo {
                    ports: tree.ports(),
                    levels: tree.levels(),
                    paths,
                });
            }
        };
        let max = full.min(Lmc::MAX.get());
        if let Some(lmc) = options.lmc {
            if lmc.get() > max {
                return Err(RoutingError::LmcTooLarge { engine, lmc, max });
            }
            return Ok((Self::fit(tree, lmc, options.lid_base)?, None));
        }
        let mut lmc = Lmc::constant(max);
        let layout = loop {
            match Self::fit(tree, lmc, options.lid_base) {
                Ok(layout) => break layout,
                Err(error) if lmc.get() == 0 => return Err(error),
                Err(_) => lmc = Lmc::constant(lmc.get() - 1),
            }
        };
        let warning = (lmc.get() < full).then_some(Warning::LmcCapped { full, taken: lmc });
        Ok((layout, warning))
    }

    fn fit(tree: &FatTree, lmc: Lmc, base: LidBase) -> Result<Self, RoutingError> {
        let (hosts, switches) = (u64::from(tree.hosts()), u64::from(tree.switches()));
        let first_switch = base.host(hosts, lmc);
        let last = first_switch + switches - 1;
        match u16::try_from(first_switch) {
            Ok(first_switch) if last <= u64::from(Lid::UNICAST_LAST.get()) => Ok(Self {
                lmc,
                base,
                first_switch,
            }),
            _ => Err(RoutingError::LidSpaceExhausted {
                hosts,
                lmc,
                switches,
                last,
            }),
        }
    }

    /// The base LID of a host.
    pub(super) fn host(&self, pid: u32) -> Lid {
        lid(self.base.host(u64::from(pid), self.lmc))
    }

    /// All LIDs of a host.
    pub(super) fn host_lids(&self, pid: u32) -> impl Iterator<Item = Lid> + use<> {
        let base = self.host(pid).get();
        (base..base + self.lmc.lids()).map(Lid::new)
    }

    /// The LID of a switch, by ordinal.
    pub(super) fn switch(&self, ordinal: u32) -> Lid {
        lid(u64::from(self.first_switch) + u64::from(ordinal))
    }

    /// What stands for `lid - 1` in equation (2) for offset 0 of a host, modulo `(m/2)^(n-1)`:
    /// offsets and further hosts count on from there.
    pub(super) fn path_of(&self, tree: &FatTree, pid: u32) -> u32 {
        let paths = tree.power(tree.levels() - 1);
        (pid % (paths >> self.lmc.get())) << self.lmc.get()
    }

    /// All LIDs; those of ports that are missing are reserved for their return.
    pub(super) fn lids(&self, graph: &Graph, labels: &FatTreeLabels) -> Lids {
        let find = |guid, port| graph.find_guid(guid).map(|node| Endpoint { node, port });
        let hosts = (0..).zip(labels.hosts()).map(|(pid, place)| LidRange {
            guid: Guid(place.guid.0.wrapping_add(u64::from(place.port.get()))),
            base: self.host(pid),
            lmc: self.lmc,
            end: find(place.guid, place.port),
        });
        let switches = (0..)
            .zip(labels.switches())
            .map(|(ordinal, place)| LidRange {
                guid: place.guid,
                base: self.switch(ordinal),
                lmc: Lmc::default(),
                end: find(place.guid, PortNum::MANAGEMENT),
            });
        Lids::new(hosts.chain(switches).collect())
    }
}

/// All LIDs were found to fit when the layout was chosen.
fn lid(number: u64) -> Lid {
    u16::try_from(number).map_or(Lid::ZERO, Lid::new)
}
