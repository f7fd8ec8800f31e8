//! How groups are named: their MGIDs, and the group of IP over InfiniBand.

use wire::p_key::FULL;
use wire::sa::{McMemberRecord, Selector};
use wire::{Gid, Sl};

use crate::partitions::Ipoib;
use crate::port_settings::LIFE_TIME;

/// The scope of a multicast GID that does not leave the subnet (IBA 4.1.1).
pub(super) const SCOPE_LINK_LOCAL: u8 = 2;
/// The signature of the MGIDs that are allocated to groups created without one (IBA 15.2.5.17, o15-0.1.7).
const ALLOCATED: [u8; 2] = [0xa0, 0x1b];
/// The queue key of the group that every IP over InfiniBand interface of a partition joins (RFC 4391).
const BROADCAST_QKEY: u32 = 0x0b1b;

/// The MGID with that number that is allocated here: flags of a transient group, the scope, the signature, the
/// subnet's prefix and the number (IBA 15.2.5.17, o15-0.1.7).
pub(super) fn allocated_mgid(scope: u8, number: u32) -> Gid {
    let mut mgid = [0; 16];
    mgid[..2].copy_from_slice(&[0xff, 0x10 | scope & 0x0f]);
    mgid[2..4].copy_from_slice(&ALLOCATED);
    mgid[4..12].copy_from_slice(&Gid::DEFAULT_PREFIX.to_be_bytes());
    mgid[12..].copy_from_slice(&number.to_be_bytes());
    Gid(mgid)
}

/// The number of an MGID that was allocated here.
pub(super) fn allocated_number(mgid: Gid) -> Option<u32> {
    let mut number = [0; 4];
    number.copy_from_slice(&mgid.0[12..]);
    let number = u32::from_be_bytes(number);
    (mgid == allocated_mgid(mgid.0[1], number)).then_some(number)
}

/// Whether a port may ask for a group of this name (IBA 15.2.5.17, o15-0.1.6): a multicast GID without reserved
/// flags that is none of those that subnet administration allocates for this subnet.
pub(crate) fn may_be_asked_for(mgid: Gid) -> bool {
    let [first, second, signature @ ..] = mgid.0;
    let is_allocated_here = signature.starts_with(&ALLOCATED) && second & 0x0f == SCOPE_LINK_LOCAL;
    first == 0xff && second & 0xe0 == 0 && !is_allocated_here
}

/// The group of all IP over InfiniBand interfaces of a partition (RFC 4391).
pub(super) fn broadcast(partition: u16, ipoib: Ipoib) -> McMemberRecord {
    let pkey = partition | FULL;
    let [high, low] = pkey.to_be_bytes();
    let mut mgid = [0; 16];
    mgid[..6].copy_from_slice(&[0xff, 0x10 | ipoib.scope, 0x40, 0x1b, high, low]);
    mgid[12..].fill(0xff);
    McMemberRecord {
        mgid: Gid(mgid),
        qkey: BROADCAST_QKEY,
        mtu_selector: Selector::Exactly,
        mtu: ipoib.mtu,
        pkey,
        rate_selector: Selector::Exactly,
        rate: ipoib.rate,
        packet_life_time_selector: Selector::Exactly,
        packet_life_time: LIFE_TIME,
        sl: Sl::truncate(ipoib.sl),
        scope: ipoib.scope,
        ..McMemberRecord::default()
    }
}
