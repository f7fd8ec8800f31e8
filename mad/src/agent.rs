//! Processing of SMPs in a node: SMI and SMA together, for packets from a link and for MADs
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
use wire::mad::{AttributeId, Mad, MadStatus, Method, MgmtClass};
use wire::{Lid, PortNum};

use crate::sma::{NoResponse, Node, Outcome, Sma};
use crate::smi::{Action, Discard, Origin, Smi};

/// How an SMP arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// From a link or from here.
    pub origin: Origin,
    /// SLID of the packet; for an SMP written here the node's own LID.
    pub slid: Lid,
    /// DLID of the packet.
    pub dlid: Lid,
}

/// The next step of an SMP, which may be a response by now.
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
    /// To the local client that registered its class or sent the request; a node without clients drops it.
    Client,
    /// Discarded: it is invalid, or fully handled.
    Discard(DiscardReason),
}

/// Why an SMP is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DiscardReason {
    /// The SMI discards it.
    #[error(transparent)]
    Smi(#[from] Discard),
    /// The SMA sends no response to it.
    #[error(transparent)]
    Sma(#[from] NoResponse),
    /// It is neither LID routed nor directed subnet management.
    #[error("management class is not subnet management")]
    Class,
    /// A LID-routed SMP without a unicast DLID.
    #[error("LIDs do not fit the management class")]
    Lids,
}

impl DiscardReason {
    /// The drop reason to count; `None` if the SMP was fully handled.
    #[must_use]
    pub const fn drop_reason(self) -> Option<DropReason> {
        match self {
            Self::Sma(NoResponse::TrapRepressed) => None,
            Self::Sma(NoResponse::NotARequest) => Some(DropReason::NotForUs),
            Self::Smi(_) | Self::Sma(NoResponse::BadMKey) | Self::Class | Self::Lids => {
                Some(DropReason::BadMad)
            }
        }
    }
}

/// Processes `mad` by the SMI, and by the SMA if it is a request whose route ends here. `sm_here`
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
    let smi = Smi {
        switch: identity.is_switch(),
        ports: identity.ports,
    };
    let own_port = sma.own_port();
    let arrival_port = match arrival.origin {
        Origin::Here => own_port,
        Origin::Port(port) | Origin::Lid(port) => port,
    };
    let origin = match arrival.origin {
        Origin::Port(port) if arrival.dlid != Lid::PERMISSIVE => Origin::Lid(port),
        origin => origin,
    };
    match mad.class() {
        MgmtClass::SUBN_DIR => match smi.route(mad, origin) {
            Action::Handle if !mad.is_returning() => {}
            action => return next_step(action, own_lid(sma, own_port)),
        },
        MgmtClass::SUBN_LID => {
            if !arrival.dlid.is_unicast() {
                return Next::Discard(DiscardReason::Lids);
            }
        }
        _ => return Next::Discard(DiscardReason::Class),
    }
    if is_for_client(mad, sm_here) {
        return Next::Client;
    }
    match sma.handle(now, node, mad, arrival_port, arrival.slid) {
        Outcome::NoResponse(reason) => Next::Discard(reason.into()),
        Outcome::Answered if mad.class() == MgmtClass::SUBN_DIR => {
            let action = smi.route(mad, Origin::Here);
            next_step(action, own_lid(sma, own_port))
        }
        Outcome::Answered => Next::ToLid {
            dlid: arrival.slid,
            slid: arrival.dlid,
        },
    }
}

/// Answers a request of a management class that neither an agent nor a client serves here, in place: status "class or version not
/// supported" (IBA 13.4.7). Returns `false` if it asks for no answer.
pub fn refuse_class(mad: &mut Mad) -> bool {
    let is_request = mad.method().is_request();
    if is_request {
        mad.answer(MadStatus::BAD_VERSION);
    }
    is_request
}

fn own_lid(sma: &Sma, own_port: PortNum) -> Lid {
    sma.settings(own_port).lid
}

/// Turns the SMI's action into the next step. What it handles here is not for the agent.
fn next_step(action: Action, own_lid: Lid) -> Next {
    match action {
        Action::Send(port) => Next::Directed(port),
        Action::ToLid(dlid) => Next::ToLid {
            dlid,
            slid: own_lid,
        },
        Action::Handle => Next::Client,
        Action::Discard(reason) => Next::Discard(reason.into()),
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
