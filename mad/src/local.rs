//! Messages of a host's local MAD socket: how a program beside an end node (the controller, the
//! `ibemu` command) sends management datagrams through it and receives the answers.
//!
//! The host keeps no timers for this socket: its clients own timeouts and retries. A client's
//! transaction ids are its own; the host replaces the upper 32 bits on the way out and puts them
//! back on the way in, so that two clients never take each other's answers.
//!
//! A packet of the socket holds one message, or several one behind the other: to a client that has once sent several in one, the
//! host sends what waits for it in the same way, so that a sampler of thousands of ports costs few system calls.

use bincode::{Decode, Encode};
use wire::{Gid, Lid, Mad, MgmtClass, PortNum, Qpn, Sl};

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
    /// Sets or clears `CapabilityMask.IsSM` of the host's port. The bit stays set until every client that has
    /// set it has cleared it or disconnected.
    SetIsSm(bool),
    /// Deliver this class to this client no longer. Not answered.
    Unregister {
        /// Management class.
        class: u8,
    },
    /// From here on this client is one of this port of the host. Without this message it is one of port 1. Not answered; a port that the host does not have changes nothing.
    Attach {
        /// The port, from 1.
        port: PortNum,
    },
    /// Answer this Get of an attribute of the host's own port, of subnet or of performance management, as
    /// the driver of an adapter does: it is not sent, and no M_Key is asked for. The answer is
    /// [`FromAgent::Received`], with the transaction id unchanged.
    ReadOwn(Box<[u8; 256]>),
    /// As [`Self::Register`], but of some methods only, so that several programs share a class. Refused if
    /// an overlapping registration stands, be it this client's. Answered by [`FromAgent::Registered`].
    RegisterMethods(Registration),
    /// Deliver what this registration is for to this client no longer. Not answered.
    UnregisterMethods(Registration),
}

/// Which unsolicited requests and traps a client is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Registration {
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub version: u8,
    /// The vendor's OUI, where datagrams of the class hold one ([`wire::MgmtClass::has_oui`]); else it does not count.
    pub oui: [u8; 3],
    /// Methods 0 to 127, a bit each.
    pub methods: u128,
}

impl Registration {
    /// Whether it is for datagrams of the class, version and vendor of `mad`.
    #[must_use]
    pub fn is_for_class_of(&self, mad: &Mad) -> bool {
        let header = mad.header();
        self.class == header.class.0
            && self.version == header.class_version
            && (!header.class.has_oui() || mad.as_bytes()[OUI_AT..][..3] == self.oui)
    }

    /// Whether it is for this datagram.
    #[must_use]
    pub fn is_for(&self, mad: &Mad) -> bool {
        let method = mad.method().0;
        method < 128 && self.methods >> method & 1 != 0 && self.is_for_class_of(mad)
    }

    /// Whether a datagram can be for both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let apart = MgmtClass(self.class).has_oui() && self.oui != other.oui;
        let same = (self.class, self.version) == (other.class, other.version);
        same && !apart && self.methods & other.methods != 0
    }
}

/// Where the vendor stands in a datagram of a class that says it.
const OUI_AT: usize = 37;

/// From the host to a client.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FromAgent {
    /// A MAD has come in.
    Received(MadMessage),
    /// The answer to [`ToAgent::Register`] or [`ToAgent::RegisterMethods`].
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
    /// The rest of its addressing. To the fabric, `None`: from the base LID, with the first P_Key of the port's table,
    /// without GRH. From it, `None` of SMPs.
    pub way: Option<MadWay>,
}

/// The addressing of a MAD besides its LID, queue pair and service level (IBA 13.5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct MadWay {
    /// Which of the port's LIDs: the low bits, of which those count that LMC leaves free.
    pub path_bits: u8,
    /// The entry of the port's P_Key table; SMPs have no P_Key.
    pub pkey_index: u16,
    /// The global route header; SMPs have none.
    pub global: Option<MadGlobalRoute>,
}

/// The global route header of a MAD, as the port that sends or receives it sees it (IBA 8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct MadGlobalRoute {
    /// Which of the port's GIDs: an entry of its GUID table, with its subnet prefix.
    pub gid_index: u8,
    /// The other end's GID.
    pub remote: Gid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit. Of a MAD that has come: what its answer is sent with, [`Self::HOP_LIMIT_MAX`].
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

impl MadGlobalRoute {
    /// The hop limit of an answer to a datagram with a GRH.
    pub const HOP_LIMIT_MAX: u8 = 255;
}
