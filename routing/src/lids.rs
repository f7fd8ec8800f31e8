//! Which port has which LIDs.
//!
//! A host's port gets `2^LMC` consecutive LIDs, and so does an enhanced port 0 of a switch if that is wanted; a base
//! port 0 gets one, since it has no LMC (IBA 14.2.5.6). InfiniBand wants the low LMC bits of a base LID to be zero (IBA
//! 4.1.3); the worked examples of MLID04 count from 1 without regard to that.

use std::collections::{BTreeMap, BTreeSet};

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use topologies::{Endpoint, NodeId};
use wire::convert::{saturate, u64_of};
use wire::{Guid, Lid, Lmc, PortNum};

use crate::error::RoutingError;
use crate::network::Network;

/// Where the LIDs of hosts begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum LidBase {
    /// Host i, from 0, has base LID 2^LMC * (i + 1), as InfiniBand demands.
    #[default]
    Aligned,
    /// Host i has base LID 2^LMC * i + 1, as the worked examples of MLID04; not for a live fabric.
    Paper,
}
wire::choice!(LidBase, "LID base");

impl LidBase {
    /// The base LID of host `index`, as a plain number that may be too large for a LID.
    pub(crate) fn host(self, index: u64, lmc: Lmc) -> u64 {
        match self {
            Self::Aligned => (index + 1) << lmc.get(),
            Self::Paper => (index << lmc.get()) + 1,
        }
    }
}

/// LIDs that ports had before, by port GUID (a switch's is its node GUID).
pub type KnownLids = BTreeMap<Guid, (Lid, Lmc)>;

/// A port and its LIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LidRange {
    /// Port GUID; a switch's is its node GUID.
    pub guid: Guid,
    /// The first LID.
    pub base: Lid,
    /// There are `2^lmc` of them.
    pub lmc: Lmc,
    /// Where in the graph the port is (port 0 of a switch); `None` while it is missing and its
    /// LIDs wait for its return.
    pub end: Option<Endpoint>,
}

impl LidRange {
    /// All LIDs of the port.
    pub fn lids(&self) -> impl ExactSizeIterator<Item = Lid> + use<> {
        let base = self.base.get();
        (base..base.saturating_add(self.lmc.lids())).map(Lid::new)
    }

    /// The LID at that offset from the base, modulo the number of LIDs.
    #[must_use]
    pub fn at_offset(&self, offset: u32) -> Lid {
        let offset = offset % u32::from(self.lmc.lids());
        Lid::new(self.base.get() + saturate::<u16>(offset))
    }

    fn holds(&self, lid: Lid) -> bool {
        (u32::from(self.base.get())..u32::from(self.base.get()) + u32::from(self.lmc.lids()))
            .contains(&u32::from(lid.get()))
    }
}

/// All LIDs of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lids {
    /// In ascending order of base; ranges do not overlap.
    ranges: Vec<LidRange>,
    by_guid: BTreeMap<Guid, usize>,
    by_end: BTreeMap<Endpoint, usize>,
}

impl Lids {
    /// The LIDs of these ports. Ranges must not overlap.
    #[must_use]
    pub(crate) fn new(mut ranges: Vec<LidRange>) -> Self {
        ranges.sort_by_key(|range| range.base);
        let by_guid = ranges
            .iter()
            .enumerate()
            .map(|(i, r)| (r.guid, i))
            .collect();
        let by_end = ranges
            .iter()
            .enumerate()
            .filter_map(|(i, r)| Some((r.end?, i)))
            .collect();
        Self {
            ranges,
            by_guid,
            by_end,
        }
    }

    /// All ports in ascending order of LID.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &LidRange> {
        self.ranges.iter()
    }

    /// The last LID in use; 0 if there is none.
    #[must_use]
    pub fn top(&self) -> Lid {
        self.ranges
            .last()
            .and_then(|range| range.lids().last())
            .unwrap_or(Lid::ZERO)
    }

    /// The port that has a LID; `None` if none has.
    #[must_use]
    pub fn owner(&self, lid: Lid) -> Option<&LidRange> {
        let after = self.ranges.partition_point(|range| range.base <= lid);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        range.holds(lid).then_some(range)
    }

    /// The LIDs of a port: port 0 of a switch, a connected port of a host.
    #[must_use]
    pub fn of(&self, end: Endpoint) -> Option<&LidRange> {
        self.by_end.get(&end).map(|&index| &self.ranges[index])
    }

    /// The LIDs of the port of that GUID.
    #[must_use]
    pub fn of_guid(&self, guid: Guid) -> Option<&LidRange> {
        self.by_guid.get(&guid).map(|&index| &self.ranges[index])
    }

    /// The LIDs of a node: of a switch, or of a host's first port that has any.
    #[must_use]
    pub fn of_node(&self, node: NodeId) -> Option<&LidRange> {
        let port = |port| Endpoint { node, port };
        self.by_end
            .range(port(PortNum::MANAGEMENT)..=port(PortNum::MAX))
            .next()
            .map(|(_, &index)| &self.ranges[index])
    }

    /// As input for the next computation, so that every port keeps its LIDs.
    #[must_use]
    pub fn known(&self) -> KnownLids {
        self.ranges
            .iter()
            .map(|range| (range.guid, (range.base, range.lmc)))
            .collect()
    }
}

/// How many LIDs ports get that are not known, as LMC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lmcs {
    /// Of hosts.
    pub(crate) hosts: Lmc,
    /// Of enhanced ports 0.
    pub(crate) enhanced: Lmc,
}

/// Gives LIDs to every switch and every connected host port of any fabric.
///
/// Ports keep what `known` says where that is a unicast range of the right size, aligned, and not
/// claimed by two (the smaller GUID has it then). LIDs known for ports that are missing stay free
/// for their return as long as there are others. New host ports in order of GUID take the first
/// free range; new switches take the first free LIDs behind all hosts. Returns also how many ports
/// that are here could not keep what they had. With `keep_sizes` ports that are known have as
/// many LIDs as before, and `lmcs` are those of the others; enhanced ports 0 that had several keep them always.
pub(crate) fn assign(
    network: &Network,
    lmcs: Lmcs,
    base: LidBase,
    known: &KnownLids,
    keep_sizes: bool,
) -> Result<(Lids, usize), RoutingError> {
    let had = |guid| known.get(&guid).map(|&(_, had)| had);
    let size = |guid, kind: PortKind| {
        let had = had(guid);
        match kind {
            PortKind::Host => had.filter(|_| keep_sizes).unwrap_or(lmcs.hosts),
            PortKind::Enhanced => {
                let is_kept = |had: &Lmc| keep_sizes || had.get() > 0;
                had.filter(is_kept).unwrap_or(lmcs.enhanced)
            }
            PortKind::Base => Lmc::default(),
        }
    };
    settle(network, &ports(network, size), lmcs.hosts, base, known)
}

/// The kinds of ports that have LIDs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PortKind {
    Host,
    /// Port 0 of a switch, with one LID.
    Base,
    /// Port 0 of a switch, which may have several.
    Enhanced,
}

/// The same where every port that the tables `before` have keeps the number of LIDs that it has. A port that
/// only `known` has gets those, unless another one that is here has them; others get one.
pub(crate) fn assign_known(
    network: &Network,
    before: &KnownLids,
    known: &KnownLids,
) -> Result<(Lids, usize), RoutingError> {
    let here = ports(network, |_, _| Lmc::default());
    let standing = before.iter().filter(|&(guid, _)| here.contains_key(guid));
    let mut used = vec![false; Lid::UNICAST_LAST.index() + 1];
    for &(base, lmc) in standing.map(|(_, lids)| lids) {
        let range = base.index()..base.index() + usize::from(lmc.lids());
        if let Some(lids) = used.get_mut(range) {
            lids.fill(true);
        }
    }
    let is_free = |&(base, lmc): &(Lid, Lmc)| {
        let range = base.index()..base.index() + usize::from(lmc.lids());
        used.get(range).is_some_and(|lids| !lids.contains(&true))
    };
    let mut kept = before.clone();
    for (&guid, lids) in known.iter().filter(|&(_, lids)| is_free(lids)) {
        kept.entry(guid).or_insert(*lids);
    }
    let size = |guid, _| kept.get(&guid).map(|&(_, lmc)| lmc).unwrap_or_default();
    let here = ports(network, size);
    settle(network, &here, Lmc::default(), LidBase::Aligned, &kept)
}

/// The ports that are here and get LIDs, with the LMC of each.
fn ports(
    network: &Network,
    lmc: impl Fn(Guid, PortKind) -> Lmc,
) -> BTreeMap<Guid, (Endpoint, Lmc)> {
    let mut here: BTreeMap<Guid, (Endpoint, Lmc)> = BTreeMap::new();
    let to_switches = network.hosts().iter().map(|host| (host.guid, host.end));
    for (guid, end) in to_switches.chain(network.back_to_back().iter().copied()) {
        here.insert(guid, (end, lmc(guid, PortKind::Host)));
    }
    let switches = network.switches().iter().zip(network.switch_guids());
    for (switch, (&node, &guid)) in switches.enumerate() {
        let kind = match network.has_enhanced_port0(switch) {
            true => PortKind::Enhanced,
            false => PortKind::Base,
        };
        let end = Endpoint {
            node,
            port: PortNum::MANAGEMENT,
        };
        here.insert(guid, (end, lmc(guid, kind)));
    }
    here
}

fn settle(
    network: &Network,
    here: &BTreeMap<Guid, (Endpoint, Lmc)>,
    lmc: Lmc,
    base: LidBase,
    known: &KnownLids,
) -> Result<(Lids, usize), RoutingError> {
    let mut plan = Plan::new(base);
    let mut changed = 0;
    for (&guid, &(end, lmc)) in here {
        if let Some(&(lid, had)) = known.get(&guid)
            && (had != lmc || !plan.take(lid, lmc, guid, Some(end)))
        {
            changed += 1;
        }
    }
    let mut with_reserved = plan.clone();
    for (&guid, &(lid, lmc)) in known {
        if !here.contains_key(&guid) {
            with_reserved.take(lid, lmc, guid, None);
        }
    }
    let hosts = u64_of(network.hosts().len() + network.back_to_back().len());
    let switches = u64_of(network.switches().len());
    let ranges = with_reserved.fill(here).or_else(|| plan.fill(here)).ok_or(
        RoutingError::LidSpaceExhausted {
            hosts,
            lmc,
            switches,
            last: base.host(hosts, lmc) - 1 + switches,
        },
    )?;
    Ok((Lids::new(ranges), changed))
}

#[derive(Clone)]
struct Plan {
    base: LidBase,
    used: Vec<bool>,
    ranges: Vec<LidRange>,
    done: BTreeSet<Guid>,
}

impl Plan {
    fn new(base: LidBase) -> Self {
        Self {
            base,
            used: vec![false; Lid::UNICAST_LAST.index() + 1],
            ranges: Vec::new(),
            done: BTreeSet::new(),
        }
    }

    fn is_free(&self, first: usize, lmc: Lmc) -> bool {
        first > 0
            && self
                .used
                .get(first..first + usize::from(lmc.lids()))
                .is_some_and(|lids| !lids.contains(&true))
    }

    /// Takes that range if it is a valid one and free.
    fn take(&mut self, base: Lid, lmc: Lmc, guid: Guid, end: Option<Endpoint>) -> bool {
        let aligned = base.get().is_multiple_of(lmc.lids()) || self.base == LidBase::Paper;
        if !aligned || !self.is_free(base.index(), lmc) {
            return false;
        }
        self.used[base.index()..base.index() + usize::from(lmc.lids())].fill(true);
        self.done.insert(guid);
        self.ranges.push(LidRange {
            guid,
            base,
            lmc,
            end,
        });
        true
    }

    /// Gives LIDs to those that have none yet, if they suffice.
    fn fill(&mut self, here: &BTreeMap<Guid, (Endpoint, Lmc)>) -> Option<Vec<LidRange>> {
        let (switches, hosts): (Vec<_>, Vec<_>) = here
            .iter()
            .filter(|(guid, _)| !self.done.contains(guid))
            .partition(|(_, (end, _))| end.port == PortNum::MANAGEMENT);
        let mut index = 0;
        for (&guid, &(end, lmc)) in hosts {
            loop {
                let lid = u16::try_from(self.base.host(index, lmc)).ok()?;
                index += 1;
                if self.take(Lid::new(lid), lmc, guid, Some(end)) {
                    break;
                }
            }
        }
        let mut next = self.behind_hosts();
        for (&guid, &(end, lmc)) in switches {
            let lid = self.first_free(next, lmc)?;
            next = lid.index() + usize::from(lmc.lids());
            self.take(lid, lmc, guid, Some(end));
        }
        Some(core::mem::take(&mut self.ranges))
    }

    fn behind_hosts(&self) -> usize {
        self.ranges
            .iter()
            .filter(|range| range.end.is_some_and(|end| end.port != PortNum::MANAGEMENT))
            .map(|range| range.base.index() + usize::from(range.lmc.lids()))
            .max()
            .unwrap_or(1)
    }

    /// The first free aligned range from `next` on, or else anywhere.
    fn first_free(&self, next: usize, lmc: Lmc) -> Option<Lid> {
        (next..self.used.len())
            .chain(1..next)
            .filter(|lid| lid.is_multiple_of(usize::from(lmc.lids())))
            .find(|&lid| self.is_free(lid, lmc))
            .and_then(|lid| u16::try_from(lid).ok())
            .map(Lid::new)
    }
}
