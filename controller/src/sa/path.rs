//! PathRecord (IBA 15.2.5.16): how to reach a port or a group.
//!
//! A path goes to the LID that the routing scheme's path selection gives, unless the query names
//! one; its MTU and rate are the least along the way that the tables give it; its service level is
//! the one that the routing engine needs there, so that where several are in use a query for another
//! one finds nothing, but for that of a second level of service. A table may leave one end or both open. Rates are compared only for equality.

use routing::VlAssignment;
use topologies::{Endpoint, NodeId, NodeKind};
use wire::p_key::PARTITION;
use wire::sa::{PathRecord, Selector, path_component as component};
use wire::{Gid, Guid, Lid, LinkRate, MadStatus, Mtu, PortNum};

use super::View;
use super::aliases::end_port;
use crate::port_settings::LIFE_TIME;
use crate::subnet::{Device, Index};

/// Paths of one table at most.
const PATHS_MAX: usize = 1 << 17;

impl View<'_> {
    /// The paths that match, between ports that have a partition in common. With `open` either end may be
    /// left out. `asker` is told of ports only with which it has one (IBA 15.4.1).
    pub(super) fn paths(
        &self,
        query: &PathRecord,
        mask: u64,
        open: bool,
        asker: Option<Index>,
    ) -> Result<Vec<PathRecord>, MadStatus> {
        let asks = |bit: u64| mask & bit == bit;
        let all = || (0..self.fabric.subnet.devices.len()).collect::<Vec<Index>>();
        let ends = |gid_bit, gid: Gid, lid_bit, lid: Lid| {
            let by_gid = asks(gid_bit).then(|| end_port(self.fabric, self.aliases, gid));
            let by_lid = asks(lid_bit).then(|| self.fabric.owner(lid));
            match (by_gid, by_lid) {
                (None, None) if open => Ok(all()),
                (None, None) => Err(MadStatus::SA_INSUFFICIENT_COMPONENTS),
                (Some(one), Some(other)) if one != other => Ok(Vec::new()),
                (one, other) => Ok(one.or(other).flatten().into_iter().collect()),
            }
        };
        let sources = ends(component::SGID, query.sgid, component::SLID, query.slid)?;
        if asks(component::DGID) && query.dgid.is_multicast() {
            let path = sources.first().and_then(|&source| {
                let path = self.group_path(source, query.dgid)?;
                let is_asked =
                    !asks(component::PKEY) || query.pkey & PARTITION == path.pkey & PARTITION;
                let is_level = !asks(component::SL) || query.sl == path.sl;
                let is_told = is_asked && is_level && self.hears_of_group(asker, path.pkey);
                restricted(path, query, mask, None).filter(|_| is_told)
            });
            return Ok(path.into_iter().collect());
        }
        let destinations = ends(component::DGID, query.dgid, component::DLID, query.dlid)?;
        if sources.len().saturating_mul(destinations.len()) > PATHS_MAX {
            return Err(MadStatus::SA_NO_RESOURCES);
        }
        let asked_dlid = asks(component::DLID).then_some(query.dlid);
        let levels = self.fabric.plan.vls().filter(|vls| vls.data_vls > 1);
        let mut paths = Vec::new();
        for &source in &sources {
            for &destination in &destinations {
                let pkeys = &self.fabric.plan.pkeys;
                let is_told = |end: Index| {
                    asker.is_some_and(|asker| pkeys.shared(asker, end).is_some())
                        || !pkeys.is_partitioned()
                };
                let pkey = match asks(component::PKEY) {
                    true => pkeys.shared_in(source, destination, query.pkey),
                    false => pkeys.shared(source, destination),
                };
                let Some(pkey) = pkey.filter(|_| is_told(source) && is_told(destination)) else {
                    continue;
                };
                let path = self.path(source, destination, asked_dlid);
                let path = path.map(|path| PathRecord {
                    pkey,
                    sgid: self.as_asked(path.sgid, asks(component::SGID).then_some(query.sgid)),
                    dgid: self.as_asked(path.dgid, asks(component::DGID).then_some(query.dgid)),
                    ..path
                });
                paths.extend(path.and_then(|path| restricted(path, query, mask, levels)));
            }
        }
        Ok(paths)
    }

    /// The path from one end port to another one, by port GUIDs, as the first would be told of it.
    pub(crate) fn between(&self, source: Guid, destination: Guid) -> Option<PathRecord> {
        let query = PathRecord {
            sgid: Gid::new(Gid::DEFAULT_PREFIX, source),
            dgid: Gid::new(Gid::DEFAULT_PREFIX, destination),
            ..PathRecord::default()
        };
        let asker = end_port(self.fabric, self.aliases, query.sgid);
        let mask = component::SGID | component::DGID;
        let paths = self.paths(&query, mask, false, asker).ok()?;
        paths.into_iter().next()
    }

    /// The GID of an end of a path: the alias by which it was asked for, if it was.
    fn as_asked(&self, own: Gid, asked: Option<Gid>) -> Gid {
        let alias = asked.filter(|gid| gid.guid() != own.guid());
        alias.map_or(own, |gid| Gid::new(own.prefix(), gid.guid()))
    }

    /// Whether somebody is told of the groups of a partition: a member is.
    fn hears_of_group(&self, asker: Option<Index>, pkey: u16) -> bool {
        let pkeys = &self.fabric.plan.pkeys;
        let key = asker.and_then(|asker| pkeys.key(asker, pkey));
        key.is_some() || !pkeys.is_partitioned()
    }

    /// How a port sends to a group.
    fn group_path(&self, source: Index, mgid: Gid) -> Option<PathRecord> {
        let from = self.fabric.subnet.devices.get(source)?;
        let group = &self.groups.get(mgid)?.record;
        let pkey = self.fabric.plan.pkeys.key(source, group.pkey)?;
        Some(PathRecord {
            dgid: mgid,
            sgid: gid(from),
            dlid: self.groups.mlid(mgid, Some(from.end_port_guid()))?,
            slid: self.fabric.plan.lid(source)?.0,
            hop_limit: group.hop_limit,
            numb_path: 1,
            pkey,
            sl: group.sl,
            mtu_selector: Selector::Exactly,
            mtu: group.mtu,
            rate_selector: Selector::Exactly,
            rate: group.rate,
            packet_life_time_selector: Selector::Exactly,
            packet_life_time: group.packet_life_time,
            ..PathRecord::default()
        })
    }

    fn path(
        &self,
        source: Index,
        destination: Index,
        asked_dlid: Option<Lid>,
    ) -> Option<PathRecord> {
        let tables = self.fabric.plan.tables.as_ref()?;
        let (from, to) = (
            self.fabric.subnet.devices.get(source)?,
            self.fabric.subnet.devices.get(destination)?,
        );
        let (slid, _) = self.fabric.plan.lid(source)?;
        let dlid =
            asked_dlid.or_else(|| tables.dlid_for(from.end_port_guid(), to.end_port_guid()))?;
        let start = Endpoint {
            node: NodeId::from_index(source),
            port: from.end_port(),
        };
        let path = tables.path(&self.fabric.plan.graph, start, dlid);
        if !path.arrives {
            return None;
        }
        let mut mtu = Mtu::Mtu4096;
        let mut rate: Option<LinkRate> = None;
        for hop in &path.hops {
            if hop.exit == PortNum::MANAGEMENT {
                continue;
            }
            let device = self.fabric.subnet.devices.get(hop.node.index())?;
            let info = device.port_info(hop.exit)?;
            mtu = mtu.min(info.neighbor_mtu?);
            let here = LinkRate {
                width: info.width()?,
                speed: info.speed()?,
            };
            let slower =
                |least: LinkRate| here.data_rate_bits_per_s() < least.data_rate_bits_per_s();
            if rate.is_none_or(slower) {
                rate = Some(here);
            }
        }
        Some(PathRecord {
            dgid: gid(to),
            sgid: gid(from),
            dlid,
            slid,
            reversible: true,
            numb_path: 1,
            sl: self
                .fabric
                .plan
                .vls()
                .map(|vls| vls.sl_from(&self.fabric.plan.graph, start, dlid))
                .unwrap_or_default(),
            mtu_selector: Selector::Exactly,
            mtu: mtu.code(),
            rate_selector: Selector::Exactly,
            rate: rate.and_then(LinkRate::code).unwrap_or_default(),
            packet_life_time_selector: Selector::Exactly,
            packet_life_time: LIFE_TIME,
            ..PathRecord::default()
        })
    }
}

/// A path as a query wants it, if it can be so.
fn restricted(
    mut path: PathRecord,
    query: &PathRecord,
    mask: u64,
    levels: Option<&VlAssignment>,
) -> Option<PathRecord> {
    let asks = |bit: u64| mask & bit == bit;
    if asks(component::SLID) {
        path.slid = query.slid;
    }
    if asks(component::SL) {
        if levels.is_some_and(|vls| vls.levels(path.sl).all(|sl| sl != query.sl)) {
            return None;
        }
        path.sl = query.sl;
    }
    let rate = !asks(component::RATE | component::RATE_SELECTOR)
        || query.rate_selector != Selector::Exactly
        || query.rate == path.rate;
    if !rate {
        return None;
    }
    if asks(component::MTU | component::MTU_SELECTOR) {
        path.mtu = mtu_within(path.mtu, query.mtu_selector, query.mtu)?;
    }
    Some(path)
}

pub(super) fn gid(device: &Device) -> Gid {
    let guid = match device.kind {
        NodeKind::Switch => device.info.node_guid,
        NodeKind::Host => device.info.port_guid,
    };
    Gid::new(Gid::DEFAULT_PREFIX, guid)
}

/// What a path of MTU `have` offers to a query: paths may be used with less than they carry.
pub(super) fn mtu_within(have: u8, selector: Selector, asked: u8) -> Option<u8> {
    match selector {
        Selector::GreaterThan => (have > asked).then_some(have),
        Selector::LessThan => (asked > 1).then(|| have.min(asked - 1)),
        Selector::Exactly => (have >= asked && asked > 0).then_some(asked),
        Selector::Largest => Some(have),
    }
}
