//! GUIDInfoRecord (IBA 15.2.5.18): alias GUIDs of ports, asked for, taken away and told.
//!
//! Set and Delete name a port by LID and a block of its table, and by the component mask entries of the block. A GUID
//! of 0 asks for one to be assigned, or keeps the one that is there. One that another port or entry has is not given;
//! the answer, which tells the block as it is then, shows that. The first GUID of block 0 is the port's own and is neither
//! set nor deleted. Only the port itself, and who shows the SM_Key, may ask; OpenSM lets every port of its partitions.

use wire::sa::GuidInfoRecord;
use wire::{Gid, Guid, Mad, MadStatus, Method};

use super::Context;
use super::services::Asker;
use crate::aliases::{Aliases, BLOCK};
use crate::fabric::Fabric;
use crate::subnet::Index;

/// LID and BlockNum.
const NEEDED: u64 = 1 << 0 | 1 << 1;
/// The first of the eight components for the GUIDs of a block.
const FIRST_GUID: u32 = 4;
/// The GUID by which subnet administration is reached (IBA 15.4.1.2): nobody's alias.
const WELL_KNOWN_SA_GUID: Guid = Guid(0x0200_0000_0000_0002);

/// Sets or deletes aliases of a port. Returns the block as it is then.
///
/// # Errors
/// The status to answer with.
pub(super) fn write(
    context: &mut Context<'_>,
    request: &Mad,
    asker: Asker,
) -> Result<GuidInfoRecord, MadStatus> {
    let invalid = MadStatus::SA_REQUEST_INVALID;
    let mask = request.sa_header().map_err(|_| invalid)?.component_mask;
    let asked: GuidInfoRecord = request.sa_record().map_err(|_| invalid)?;
    if mask & NEEDED != NEEDED {
        return Err(MadStatus::SA_INSUFFICIENT_COMPONENTS);
    }
    let fabric = context.fabric;
    let index = fabric.owner(asked.lid).ok_or(MadStatus::SA_NO_RECORDS)?;
    let device = &fabric.subnet.devices[index];
    let port = device.end_port_guid();
    if !asker.is_trusted && asker.port != Some(port) {
        return Err(MadStatus::SA_DENIED);
    }
    let entries = device.end_port_info().map_or(0, |info| info.guid_cap);
    let first = asked
        .block
        .checked_mul(BLOCK)
        .filter(|&first| first < entries);
    let first = first.ok_or(MadStatus::SA_NO_RECORDS)?;
    if first == 0 && mask >> FIRST_GUID & 1 == 1 {
        return Err(invalid);
    }
    let is_delete = request.method() == Method::DELETE;
    for (at, (entry, &guid)) in (FIRST_GUID..).zip((first..entries).zip(&asked.guids.0)) {
        if mask >> at & 1 == 0 {
            continue;
        }
        let before = context.aliases.get(port, entry);
        if is_delete {
            context.aliases.remove(port, entry);
        } else {
            let set = give(context.aliases, fabric, (port, entry), guid);
            set.map_err(|_| MadStatus::SA_NO_RESOURCES)?;
        }
        if let Some(before) = before
            && context.aliases.get(port, entry) != Some(before)
        {
            context.groups.leave_by_alias(before);
        }
    }
    let (base, _) = fabric.plan.lid(index).ok_or(MadStatus::SA_NO_RECORDS)?;
    Ok(GuidInfoRecord {
        lid: base,
        block: asked.block,
        guids: context.aliases.block(port, asked.block),
    })
}

/// Gives an entry of a port's table the GUID asked for, or one of ours for 0, unless it is another's.
fn give(
    aliases: &mut Aliases,
    fabric: &Fabric,
    (port, entry): (Guid, u8),
    asked: Guid,
) -> Result<(), crate::aliases::Full> {
    let is_free = |guid: Guid| {
        let mut devices = fabric.subnet.devices.iter();
        let is_device = devices.any(|device| device.guid() == guid);
        !is_device && fabric.subnet.find_end_port(guid).is_none() && guid != WELL_KNOWN_SA_GUID
    };
    match (asked, aliases.get(port, entry)) {
        (Guid(0), Some(_)) => Ok(()),
        (Guid(0), None) => {
            let guid = aliases.assign(is_free);
            aliases.set(port, entry, guid)
        }
        (guid, _) if aliases.port(guid).is_some() || !is_free(guid) => Ok(()),
        (guid, _) => aliases.set(port, entry, guid),
    }
}

/// The port with that GID, by its own GUID or else by an alias.
pub(super) fn end_port(fabric: &Fabric, aliases: &Aliases, gid: Gid) -> Option<Index> {
    let subnet = &fabric.subnet;
    let by_alias = || subnet.find_end_port(aliases.port(gid.guid())?);
    subnet.find_end_port(gid.guid()).or_else(by_alias)
}
