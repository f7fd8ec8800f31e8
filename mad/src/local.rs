//! Messages of a host's local MAD socket: how a program beside an end node (the controller, the
//! `ibemu` command) sends management datagrams through it and receives the answers.
//!
//! The host keeps no timers for this socket: its clients own timeouts and retries. A client's
//! transaction ids are its own; the host replaces the upper 32 bits on the way out and puts them
//! back on the way in, so that two clients never take each other's answers.

use bincode::{Decode, Encode};
use wire::{Lid, Qpn, Sl};

/// From a client to the host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ToAgent {
    /// Send this MAD.
    Send(MadMessage),
    /// Deliver unsolicited requests and traps of this management class (and, for QP1 classes,
    /// version) to this client: the SM takes 0x01 and 0x81, the SA 0x03. One client a class; a
    /// second registration is answered with `registered: false`.
    Register {
        /// Management class.
        class: u8,
    },
    /// Sets or clears `CapabilityMask.IsSM` of the host's port. The bit stays set as long as one
    /// client wants it.
    SetIsSm(bool),
    /// Deliver this class to this client no longer. Not answered.
    Unregister {
        /// Management class.
        class: u8,
    },
    /// Answer this Get of an attribute of the host's own port, as the driver of an adapter does: it
    /// is not sent, and no M_Key is asked for. The answer is [`FromAgent::Received`], with the
    /// transaction id unchanged.
    ReadOwn(Box<[u8; 256]>),
}

/// From the host to a client.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FromAgent {
    /// A MAD has come in.
    Received(MadMessage),
    /// The answer to [`ToAgent::Register`].
    Registered {
        /// Management class.
        class: u8,
        /// Whether this client now has it.
        registered: bool,
    },
}

/// One MAD and its addressing.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct MadMessage {
    /// To the fabric: the destination; from it: the source LID of the packet. Permissive for
    /// directed-route SMPs (IBA 14.2.2).
    pub lid: Lid,
    /// The remote QP: 0 for SMPs, 1 for general services.
    pub qpn: Qpn,
    /// Service level (QP1 only; SMPs travel on VL15).
    pub sl: Sl,
    /// The 256 bytes.
    pub mad: Box<[u8; 256]>,
}
