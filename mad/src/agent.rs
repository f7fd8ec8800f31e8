//! What a node does with an SMP: SMI and SMA together, for packets from a link and for MADs
//! written here.
//!
//! ```text
//!                      +-----+  route ends here   request  +-----+
//!  link --- SMP -----> | SMI | --------------------------> | SMA |
//!  client --- SMP ---> |     | --- answer, trap, SMInfo --> client
//!                      |     | <-------------------------- |     |
//!                      +-----+           answer            +-----+
//!                         '---> out of a port, or to a LID
//! ```

use link::{DropReason, Time};
use thiserror::Error;
use wire::mad::{AttributeId, Mad, Method, MgmtClass};
use wire::{Lid, PortNum};

use crate::sma::{Node, Outcome, Silence, Sma};
use crate::smi::{Discard, Origin, Place, Verdict};

/// How an SMP has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// From a link or from here.
    pub origin: Origin,
    /// SLID of the packet; for an SMP written here the node's own LID.
    pub slid: Lid,
    /// DLID of the packet.
    pub dlid: Lid,
}

/// Where an SMP goes, which may be the answer by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Out of this port, with permissive LIDs.
    Directed(PortNum),
    /// To this LID, LID routed, from `slid`.
    ToLid {
        /// Destination LID.
        dlid: Lid,
        /// Source LID: the one that was asked.
        slid: Lid,
    },
    /// To the local client that registered its class or asked; a node without clients drops it.
    Client,
    /// Nowhere: it has done what it should, or makes no sense.
    Nowhere(Ending),
}

/// Why an SMP goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ending {
    /// The SMI discards it.
    #[error(transparent)]
    Smi(#[from] Discard),
    /// The SMA has no answer to it.
    #[error(transparent)]
    Sma(#[from] Silence),
    /// It is neither LID routed nor directed subnet management.
    #[error("management class is not subnet management")]
    Class,
    /// A LID-routed SMP without a unicast DLID.
    #[error("LIDs do not fit the management class")]
    Lids,
}

impl Ending {
    /// The counter of a drop; `None` if the SMP has done what it should.
    #[must_use]
    pub const fn drop_reason(self) -> Option<DropReason> {
        match self {
            Self::Sma(Silence::TrapRepressed) => None,
            Self::Sma(Silence::NotARequest) => Some(DropReason::NotForUs),
            Self::Smi(_) | Self::Sma(Silence::BadMKey) | Self::Class | Self::Lids => {
                Some(DropReason::BadMad)
            }
        }
    }
}

/// Moves `mad` on: by the SMI, and by the SMA if it is a request whose route ends here. `sm_here`
/// says that a subnet manager beside this node answers SMInfo.
///
/// The caller has made sure that the packet is for this node: its DLID is permissive or this
/// node's.
pub fn handle_smp(
    now: Time,
    sma: &mut Sma,
    node: &mut impl Node,
    mad: &mut Mad,
    arrival: Arrival,
    sm_here: bool,
) -> Next {
    let identity = node.identity();
    let place = Place {
        switch: identity.is_switch(),
        ports: identity.ports,
    };
    let own_port = PortNum::new(u8::from(!place.switch));
    let arrival_port = match arrival.origin {
        Origin::Here => own_port,
        Origin::Port(port) | Origin::Lid(port) => port,
    };
    let origin = match arrival.origin {
        Origin::Port(port) if arrival.dlid != Lid::PERMISSIVE => Origin::Lid(port),
        origin => origin,
    };
    match mad.class() {
        MgmtClass::SUBN_DIR => match place.route(mad, origin) {
            Verdict::Deliver if !mad.is_returning() => {}
            verdict => return leave(verdict, own_lid(sma, own_port)),
        },
        MgmtClass::SUBN_LID => {
            if !arrival.dlid.is_unicast() {
                return Next::Nowhere(Ending::Lids);
            }
        }
        _ => return Next::Nowhere(Ending::Class),
    }
    if is_for_client(mad, sm_here) {
        return Next::Client;
    }
    match sma.handle(now, node, mad, arrival_port) {
        Outcome::Silent(reason) => Next::Nowhere(reason.into()),
        Outcome::Answered if mad.class() == MgmtClass::SUBN_DIR => {
            let verdict = place.route(mad, Origin::Here);
            leave(verdict, own_lid(sma, own_port))
        }
        Outcome::Answered => Next::ToLid {
            dlid: arrival.slid,
            slid: arrival.dlid,
        },
    }
}

fn own_lid(sma: &Sma, own_port: PortNum) -> Lid {
    sma.settings(own_port).lid
}

/// Where the SMI's verdict leads; what it delivers is not for the agent.
fn leave(verdict: Verdict, own_lid: Lid) -> Next {
    match verdict {
        Verdict::Forward(port) => Next::Directed(port),
        Verdict::ToLid(dlid) => Next::ToLid {
            dlid,
            slid: own_lid,
        },
        Verdict::Deliver => Next::Client,
        Verdict::Discard(reason) => Next::Nowhere(reason.into()),
    }
}

/// Whether an SMP whose route ends here is for a program beside the node and not for its agent.
fn is_for_client(mad: &Mad, sm_here: bool) -> bool {
    match mad.method() {
        Method::TRAP | Method::SEND | Method::REPORT => true,
        method if method.is_response() => true,
        Method::TRAP_REPRESS => false,
        _ => sm_here && mad.attr_id() == AttributeId::SM_INFO,
    }
}
