//! The M_Key with which the manager protects the subnet's ports (IBA 14.2.4), and what a refused
//! request tells (trap 256).

use wire::attr::{Notice, PortInfo, Trap256, trap};
use wire::{AttributeId, Format as _, Lid, MKey, Method};

use crate::subnet::{Index, Subnet};

/// How the manager protects the ports of the subnet. The same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The M_Key, which the manager gives with every request.
    pub m_key: MKey,
    /// M_KeyProtectBits, 0..=3: what who does not know the key may read. 0: everything, the key too;
    /// 1: everything but the key; 2, 3: nothing.
    pub protect_bits: u8,
    /// M_KeyLeasePeriod, seconds: so long after a refused request, without one that has the key, a
    /// port lets the key be read. 0: never.
    pub lease_period_s: u16,
}

impl Protection {
    /// The most that [`Self::protect_bits`] hold.
    pub const PROTECT_BITS_MAX: u8 = 3;

    /// Sets the components of a port's PortInfo.
    pub(crate) fn apply(&self, wanted: &mut PortInfo) {
        wanted.m_key = self.m_key.get();
        wanted.m_key_protect_bits = self.protect_bits;
        wanted.m_key_lease_period = self.lease_period_s;
    }
}

/// The key that a manager gives with its requests; 0 without one.
pub(crate) fn given_key(protection: Option<&Protection>) -> u64 {
    protection.map_or(0, |protection| protection.m_key.get())
}

/// Who has sent the refused request that `issuer` tells of, for messages; `name_of` names LIDs.
pub(crate) fn asker(
    details: &Trap256,
    issuer: Option<Index>,
    subnet: &Subnet,
    name_of: impl Fn(Lid) -> String,
) -> String {
    let Some(route) = &details.route else {
        return format!("by {} (LID {})", name_of(details.lid), details.lid);
    };
    let is_whole = !route.is_truncated && route.dr_slid == Lid::PERMISSIVE;
    let back = route.ports().iter().rev();
    let found = issuer
        .filter(|_| is_whole)
        .and_then(|index| subnet.follow(index, back.copied()));
    match found {
        Some(index) => format!("by {}, by a directed route", subnet.devices[index].label()),
        None => "by a directed route".to_owned(),
    }
}

/// A notice as subscribers are told it: a refused request may have been this manager's own, to a device
/// with another key.
pub(crate) fn without_key(notice: &Notice) -> Notice {
    let mut told = *notice;
    if notice.is_generic
        && notice.trap_number == trap::BAD_M_KEY
        && let Ok((details, _)) = Trap256::parse(&notice.details)
    {
        Trap256 {
            m_key: 0,
            ..details
        }
        .emit(&mut told.details);
    }
    told
}

/// What a refused request has asked, for messages.
pub(crate) fn request(details: &Trap256) -> String {
    let method = match details.method {
        Method::GET => "Get".to_owned(),
        Method::SET => "Set".to_owned(),
        other => other.to_string(),
    };
    let attribute = match details.attr_id {
        AttributeId::NODE_DESCRIPTION => "NodeDescription".to_owned(),
        AttributeId::NODE_INFO => "NodeInfo".to_owned(),
        AttributeId::SWITCH_INFO => "SwitchInfo".to_owned(),
        AttributeId::PORT_INFO => "PortInfo".to_owned(),
        AttributeId::PKEY_TABLE => "P_KeyTable".to_owned(),
        AttributeId::SM_INFO => "SMInfo".to_owned(),
        other => format!("attribute {other}"),
    };
    format!("{method} of {attribute}")
}
