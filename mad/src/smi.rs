//! The subnet management interface: where a directed-route SMP goes next (IBA 14.2.2).
//!
//! A directed-route SMP names the output port of every hop itself, so that it crosses switches
//! that have no forwarding table yet. Each hop moves the hop pointer and, on the way out, writes the port
//! of arrival into the return path:
//!
//! ```text
//!            requester          switch            switch           responder
//! out    ptr 0 -> 1, leave   ptr 1 -> 2        ptr 2 -> 3        ptr 3 -> 4
//! (D=0)  by Initial[1]       Return[1] := in   Return[2] := in   Return[3] := in
//! cnt=3                      by Initial[2]     by Initial[3]     to its SMA
//!
//! back   ptr 1 -> 0          ptr 2 -> 1        ptr 3 -> 2        ptr 4 -> 3
//! (D=1)  to its client       by Return[1]      by Return[2]      by Return[3]
//! ```
//!
//! A route may begin with a LID-routed part: DrSLID is then the requester, the packet is addressed
//! to the LID of the node where the directed part starts with hop pointer 0, and the answer leaves
//! that node for DrSLID. A LID-routed part behind
//! the directed one (DrDLID not permissive) is not supported and is discarded with a reason of its
//! own.

use thiserror::Error;
use wire::mad::Mad;
pub use wire::smp::HOPS_MAX;
use wire::{Lid, PortNum};

/// Where an SMP comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From this node: its SMA or a local client has just written it.
    Here,
    /// From the link of this port, in a packet with a permissive DLID.
    Port(PortNum),
    /// From the link of this port, in a packet to this node's LID.
    Lid(PortNum),
}

/// The SMI's decision on an SMP (IBA 14.2.2: discard, handle or send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Its route ends here: a request is for the SMA, an answer for the local client.
    Handle,
    /// Out of this port, in a packet with permissive LIDs on VL15.
    Send(PortNum),
    /// To this LID: an answer whose directed part ends here.
    ToLid(Lid),
    /// Dropped.
    Discard(Discard),
}

/// Why a directed-route SMP is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Discard {
    /// HopCount is above [`HOPS_MAX`].
    #[error("hop count above 63")]
    HopCount,
    /// HopPointer has a value that it cannot have at this hop of the route.
    #[error("hop pointer does not fit the hop of the route")]
    HopPointer,
    /// The route goes through a channel adapter.
    #[error("route goes on behind a channel adapter")]
    ThroughChannelAdapter,
    /// The path names a port that the node does not have.
    #[error("path names a port that the node does not have")]
    NoSuchPort,
    /// DrDLID is not permissive: the route goes on by LID behind its directed part.
    #[error("route goes on by LID")]
    EndsByLid,
    /// DrSLID does not fit the packet's DLID.
    #[error("DrSLID does not fit the packet's DLID")]
    DrSlid,
}

/// The subnet management interface of a node, with the properties of the node that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smi {
    /// Whether SMPs may pass through: it is a switch.
    pub switch: bool,
    /// External ports, 1..=254.
    pub ports: u8,
}

impl Smi {
    /// Moves a directed-route SMP on by this node: decides what to do with it, and writes
    /// HopPointer and ReturnPath as the next node expects them. Nothing is written if it is
    /// discarded.
    ///
    /// The caller has made sure that the class is 0x81.
    #[must_use]
    pub fn route(self, smp: &mut Mad, origin: Origin) -> Action {
        let (pointer, count) = (smp.hop_pointer(), smp.hop_count());
        if count > HOPS_MAX {
            return Action::Discard(Discard::HopCount);
        }
        if smp.dr_dlid() != Lid::PERMISSIVE {
            return Action::Discard(Discard::EndsByLid);
        }
        if matches!(origin, Origin::Lid(_)) && !smp.dr_slid().is_unicast() {
            return Action::Discard(Discard::DrSlid);
        }
        let moved = if smp.is_returning() {
            self.returning(smp, origin, pointer, count)
        } else {
            self.outgoing(smp, origin, pointer, count)
        };
        match moved {
            Ok(action) => action,
            Err(reason) => Action::Discard(reason),
        }
    }

    /// A request on its way out (IBA 14.2.2.2, outgoing).
    fn outgoing(
        self,
        smp: &mut Mad,
        origin: Origin,
        pointer: u8,
        count: u8,
    ) -> Result<Action, Discard> {
        let action = match origin {
            Origin::Here | Origin::Lid(_) if pointer != 0 => return Err(Discard::HopPointer),
            Origin::Here | Origin::Lid(_) if count == 0 => Action::Handle,
            Origin::Here | Origin::Lid(_) => self.send_by(smp.initial_path()[1])?,
            Origin::Port(arrival) => {
                if pointer == 0 || pointer > count {
                    return Err(Discard::HopPointer);
                }
                let action = if pointer == count {
                    Action::Handle
                } else {
                    self.pass_through(smp.initial_path()[usize::from(pointer) + 1])?
                };
                smp.return_path_mut()[usize::from(pointer)] = arrival.get();
                action
            }
        };
        smp.set_hop_pointer(pointer + 1);
        Ok(action)
    }

    /// An answer on its way back (IBA 14.2.2.2, returning).
    fn returning(
        self,
        smp: &mut Mad,
        origin: Origin,
        pointer: u8,
        count: u8,
    ) -> Result<Action, Discard> {
        let at_start = pointer == count + 1;
        let action = match origin {
            // The LID-routed part ends at the requester.
            Origin::Lid(_) if pointer == 0 => return Ok(Action::Handle),
            Origin::Lid(_) => return Err(Discard::HopPointer),
            Origin::Here if !at_start => return Err(Discard::HopPointer),
            Origin::Here if count == 0 => end_of_directed_part(smp)?,
            Origin::Here => self.send_by(smp.return_path()[usize::from(count)])?,
            Origin::Port(_) if pointer == 0 || at_start || pointer > count => {
                return Err(Discard::HopPointer);
            }
            Origin::Port(_) if pointer == 1 => end_of_directed_part(smp)?,
            Origin::Port(_) => self.pass_through(smp.return_path()[usize::from(pointer) - 1])?,
        };
        smp.set_hop_pointer(pointer - 1);
        Ok(action)
    }

    fn pass_through(self, port: u8) -> Result<Action, Discard> {
        if !self.switch {
            return Err(Discard::ThroughChannelAdapter);
        }
        self.send_by(port)
    }

    fn send_by(self, port: u8) -> Result<Action, Discard> {
        if port == 0 || port > self.ports {
            return Err(Discard::NoSuchPort);
        }
        Ok(Action::Send(PortNum::new(port)))
    }
}

/// Where an answer goes whose directed part ends here.
fn end_of_directed_part(smp: &Mad) -> Result<Action, Discard> {
    match smp.dr_slid() {
        Lid::PERMISSIVE => Ok(Action::Handle),
        lid if lid.is_unicast() => Ok(Action::ToLid(lid)),
        _ => Err(Discard::DrSlid),
    }
}

#[cfg(test)]
mod tests;
