//! Requests for the port's memberships in multicast groups (IBA 15.2.5.17), for all at the host who need groups: its operator
//! ([`crate::multicast`]), programs' connections ([`crate::connections`]) and the interface ([`crate::ipoib`]).
//!
//! Subnet administration knows of one membership a port, group and kind. Who leaves says so to subnet administration only if
//! nobody else at the host needs it.

use wire::mad::{AttributeId, Mad, Method};
use wire::sa::{McMemberRecord, SaHeader, mc_member_component as component};
use wire::{Gid, Lid};

/// Components of every join and leave.
pub(crate) const NEEDED: u64 = component::MGID | component::PORT_GID | component::JOIN_STATE;
/// Components that create a group.
pub(crate) const CREATES: u64 = NEEDED
    | component::QKEY
    | component::PKEY
    | component::SL
    | component::TCLASS
    | component::FLOW_LABEL;

/// How a group is needed: what `JoinState` says.
pub(crate) const fn join_state(send_only: bool) -> u8 {
    match send_only {
        true => McMemberRecord::JOIN_SEND_ONLY,
        false => McMemberRecord::JOIN_FULL,
    }
}

/// A request to join a group (`Set`) or leave it (`Delete`), which states the components of `mask`.
pub(crate) fn request(method: Method, mask: u64, record: McMemberRecord, port_gid: Gid) -> Mad {
    let mut mad = Mad::sa(method, AttributeId::MC_MEMBER_RECORD, 0, 0);
    mad.set_sa_header(&SaHeader {
        component_mask: mask,
        ..SaHeader::default()
    });
    mad.set_sa_record(&McMemberRecord {
        port_gid,
        mlid: Lid::ZERO,
        ..record
    });
    mad
}

/// The membership that a request gives up: its group and `JoinState`.
pub(crate) fn given_up(mad: &Mad) -> Option<(Gid, u8)> {
    if mad.method() != Method::DELETE || mad.attr_id() != AttributeId::MC_MEMBER_RECORD {
        return None;
    }
    let record: McMemberRecord = mad.sa_record().ok()?;
    Some((record.mgid, record.join_state))
}
