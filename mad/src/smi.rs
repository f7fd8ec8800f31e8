//! The subnet management interface: where a directed-route SMP goes next (IBA 14.2.2).
//!
//! A directed-route SMP names the output port of every hop itself, so that it crosses switches
//! that have no forwarding table yet. Each hop moves the hop pointer and, outwards, notes the port
//! of arrival for the way back:
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
//! A route may have a part by LID in front: DrSLID is then the requester, the packet is addressed
//! to the LID of the node where the directed part starts with hop pointer 0, and the answer leaves
//! that node for DrSLID. A part by LID behind the directed one (DrDLID not permissive) is refused
//! with a reason of its own: nothing asks for it.

use thiserror::Error;
use wire::mad::Mad;
pub use wire::smp::HOPS_MAX;
use wire::{Lid, PortNum};

/// Where an SMP has come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From this node: its SMA or a local client has just written it.
    Here,
    /// From the link of this port, in a packet with a permissive DLID.
    Port(PortNum),
    /// From the link of this port, in a packet to this node's LID.
    Lid(PortNum),
}

/// Where an SMP goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its route ends here: a request is for the SMA, an answer for the local client.
    Deliver,
    /// Out of this port, in a packet with permissive LIDs on VL15.
    Forward(PortNum),
    /// To this LID: an answer whose directed part ends here.
    ToLid(Lid),
    /// Nowhere.
    Discard(Discard),
}

/// Why a directed-route SMP goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Discard {
    /// HopCount is above [`HOPS_MAX`].
    #[error("hop count above 63")]
    HopCount,
    /// HopPointer has a value that it cannot have at this place of the route.
    #[error("hop pointer does not fit the place in the route")]
    HopPointer,
    /// The route goes through a channel adapter.
    #[error("route goes on behind a channel adapter")]
    ThroughChannelAdapter,
    /// The path names a port that the node does not have.
    #[error("path names a port that is not there")]
    NoSuchPort,
    /// DrDLID is not permissive: the route goes on by LID behind its directed part.
    #[error("route goes on by LID")]
    EndsByLid,
    /// DrSLID and the way that the packet has come do not fit.
    #[error("DrSLID does not fit the packet's DLID")]
    DrSlid,
}

/// What the SMI must know of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whether SMPs may pass through: it is a switch.
    pub switch: bool,
    /// External ports, 1..=254.
    pub ports: u8,
}

impl Place {
    /// Moves a directed-route SMP on by this node: judges where it goes, and writes HopPointer and
    /// ReturnPath as the next place expects them. Nothing is written if it is discarded.
    ///
    /// The caller has made sure that the class is 0x81.
    #[must_use]
    pub fn route(self, smp: &mut Mad, origin: Origin) -> Verdict {
        let (pointer, count) = (smp.hop_pointer(), smp.hop_count());
        if count > HOPS_MAX {
            return Verdict::Discard(Discard::HopCount);
        }
        if smp.dr_dlid() != Lid::PERMISSIVE {
            return Verdict::Discard(Discard::EndsByLid);
        }
        if matches!(origin, Origin::Lid(_)) && !smp.dr_slid().is_unicast() {
            return Verdict::Discard(Discard::DrSlid);
        }
        let moved = if smp.is_returning() {
            self.back(smp, origin, pointer, count)
        } else {
            self.out(smp, origin, pointer, count)
        };
        match moved {
            Ok(verdict) => verdict,
            Err(reason) => Verdict::Discard(reason),
        }
    }

    /// A request on its way out (IBA 14.2.2.2, outgoing).
    fn out(
        self,
        smp: &mut Mad,
        origin: Origin,
        pointer: u8,
        count: u8,
    ) -> Result<Verdict, Discard> {
        let verdict = match origin {
            Origin::Here | Origin::Lid(_) if pointer != 0 => return Err(Discard::HopPointer),
            Origin::Here | Origin::Lid(_) if count == 0 => Verdict::Deliver,
            Origin::Here | Origin::Lid(_) => self.leave_by(smp.initial_path()[1])?,
            Origin::Port(arrival) => {
                if pointer == 0 || pointer > count {
                    return Err(Discard::HopPointer);
                }
                let verdict = if pointer == count {
                    Verdict::Deliver
                } else {
                    self.pass_through(smp.initial_path()[usize::from(pointer) + 1])?
                };
                smp.return_path_mut()[usize::from(pointer)] = arrival.get();
                verdict
            }
        };
        smp.set_hop_pointer(pointer + 1);
        Ok(verdict)
    }

    /// An answer on its way back (IBA 14.2.2.2, returning).
    fn back(
        self,
        smp: &mut Mad,
        origin: Origin,
        pointer: u8,
        count: u8,
    ) -> Result<Verdict, Discard> {
        let at_start = pointer == count + 1;
        let verdict = match origin {
            // The part by LID has brought it to the requester.
            Origin::Lid(_) if pointer == 0 => return Ok(Verdict::Deliver),
            Origin::Lid(_) => return Err(Discard::HopPointer),
            Origin::Here if !at_start => return Err(Discard::HopPointer),
            Origin::Here if count == 0 => end(smp)?,
            Origin::Here => self.leave_by(smp.return_path()[usize::from(count)])?,
            Origin::Port(_) if pointer == 0 || at_start || pointer > count => {
                return Err(Discard::HopPointer);
            }
            Origin::Port(_) if pointer == 1 => end(smp)?,
            Origin::Port(_) => self.pass_through(smp.return_path()[usize::from(pointer) - 1])?,
        };
        smp.set_hop_pointer(pointer - 1);
        Ok(verdict)
    }

    fn pass_through(self, port: u8) -> Result<Verdict, Discard> {
        if !self.switch {
            return Err(Discard::ThroughChannelAdapter);
        }
        self.leave_by(port)
    }

    fn leave_by(self, port: u8) -> Result<Verdict, Discard> {
        if port == 0 || port > self.ports {
            return Err(Discard::NoSuchPort);
        }
        Ok(Verdict::Forward(PortNum::new(port)))
    }
}

/// Where an answer goes whose directed part ends here.
fn end(smp: &Mad) -> Result<Verdict, Discard> {
    match smp.dr_slid() {
        Lid::PERMISSIVE => Ok(Verdict::Deliver),
        lid if lid.is_unicast() => Ok(Verdict::ToLid(lid)),
        _ => Err(Discard::DrSlid),
    }
}

#[cfg(test)]
mod tests;
