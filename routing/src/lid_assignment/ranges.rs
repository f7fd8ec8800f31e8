//! LIDs for ports that need different numbers of them.

use std::collections::BTreeSet;

use topologies::Endpoint;
use wire::convert::u64_of;
use wire::{Guid, Lid, Lmc, PortNum};

use crate::engine::Options;
use crate::error::RoutingError;
use crate::lids::{LidBase, LidRange, Lids};
use crate::network::Network;

/// Ranges for all host ports, then a LID for each switch; also how many ports could not keep what
/// they had.
///
/// A port keeps the range that it is known by as long as that is large enough, aligned, and not
/// claimed by two. The others take the next free range of their own size behind the last that was
/// taken, hosts in order of GUID before switches. Ranges known for ports that are missing stay free for their
/// return as long as there are others.
pub(super) fn allocate(
    network: &Network,
    lmcs: &[Lmc],
    options: &Options,
) -> Result<(Lids, usize), RoutingError> {
    let mut space = Space {
        base: options.lid_base,
        used: vec![false; Lid::UNICAST_LAST.index() + 1],
        next: 1,
        ranges: Vec::new(),
    };
    let hosts = network.hosts().iter().zip(lmcs);
    let switches = network.switches().iter().zip(network.switch_guids());
    let demands: Vec<Demand> = hosts
        .map(|(host, &lmc)| (host.guid, host.end, lmc))
        .chain(switches.map(|(&node, &guid)| {
            let port = PortNum::MANAGEMENT;
            let end = Endpoint { node, port };
            (guid, end, Lmc::default())
        }))
        .collect();
    let mut changed = 0;
    let mut without = Vec::new();
    let here: BTreeSet<Guid> = demands.iter().map(|&(guid, ..)| guid).collect();
    for demand in demands {
        let (guid, end, lmc) = demand;
        let known = options.known.get(&guid);
        let unchanged = known
            .is_some_and(|&(base, had)| had >= lmc && space.take(base.index(), (guid, end, had)));
        changed += usize::from(known.is_some() && !unchanged);
        if !unchanged {
            without.push(demand);
        }
    }
    let mut reserving = space.clone();
    let away = options
        .known
        .iter()
        .filter(|(guid, _)| !here.contains(guid));
    for (_, &(base, lmc)) in away {
        reserving.reserve(base, lmc);
    }
    let filled = reserving.fill(&without).or_else(|| space.fill(&without));
    let ranges = filled.ok_or_else(|| RoutingError::LidSpaceExhausted {
        hosts: u64_of(network.hosts().len()),
        lmc: lmcs.iter().copied().max().unwrap_or_default(),
        switches: u64_of(network.switches().len()),
        last: last_lid(lmcs, network.switches().len()),
    })?;
    Ok((Lids::new(ranges), changed))
}

/// A port that needs LIDs, and their LMC.
type Demand = (Guid, Endpoint, Lmc);

/// The last LID if no port kept what it had.
fn last_lid(lmcs: &[Lmc], switches: usize) -> u64 {
    let last = lmcs.iter().fold(0u64, |last, lmc| {
        let size = u64::from(lmc.lids());
        (last + 1).next_multiple_of(size) + size - 1
    });
    last + u64_of(switches)
}

#[derive(Clone)]
struct Space {
    base: LidBase,
    used: Vec<bool>,
    next: usize,
    ranges: Vec<LidRange>,
}

impl Space {
    /// Takes a range if it is a valid one and free.
    fn take(&mut self, first: usize, (guid, end, lmc): Demand) -> bool {
        let size = usize::from(lmc.lids());
        let aligned = first.is_multiple_of(size) || self.base == LidBase::Paper;
        let (true, true, Some(lids), Ok(base)) = (
            first > 0,
            aligned,
            self.used.get_mut(first..first + size),
            u16::try_from(first),
        ) else {
            return false;
        };
        if lids.contains(&true) {
            return false;
        }
        lids.fill(true);
        self.ranges.push(LidRange {
            guid,
            base: Lid::new(base),
            lmc,
            end: Some(end),
        });
        true
    }

    /// Leaves a range free for a port that may come back.
    fn reserve(&mut self, base: Lid, lmc: Lmc) {
        let first = base.index();
        if let Some(lids) = self.used.get_mut(first..first + usize::from(lmc.lids())) {
            lids.fill(true);
        }
    }

    /// All ranges, those of the demands among them; `None` if there is no room.
    fn fill(mut self, demands: &[Demand]) -> Option<Vec<LidRange>> {
        let is_filled = demands.iter().all(|&demand| self.find(demand));
        is_filled.then_some(self.ranges)
    }

    /// Takes the next free range of the size needed, or else the first.
    fn find(&mut self, demand: Demand) -> bool {
        let size = usize::from(demand.2.lids());
        let step = match self.base {
            LidBase::Aligned => size,
            LidBase::Paper => 1,
        };
        for start in [self.next, 1] {
            let mut first = start.next_multiple_of(step);
            while first < self.used.len() {
                if self.take(first, demand) {
                    self.next = first + size;
                    return true;
                }
                first += step;
            }
        }
        false
    }
}
