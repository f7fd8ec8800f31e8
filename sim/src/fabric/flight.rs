//! Frames on cables: how they are kept until their first byte comes to a port, and what happens then.

use link::{HandedPacket, Time};
use wire::{FlowControl, Lrh, PortNum};

use super::{Event, Fabric};
use crate::cable::weight;
use crate::frame::packets_in;
use crate::node::Node;
use crate::numbers::{index, number};
use crate::packet_tracker::PacketId;

/// What a frame on a cable holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameContents {
    /// Link control.
    Control {
        /// How many packets from the same port had come to the other end when it was sent.
        received: u32,
    },
    /// A packet, and its identity if it is tracked.
    Packet(Option<PacketId>),
    /// A packet without bytes.
    Handed(HandedPacket, Option<PacketId>),
    /// Flow control without bytes; `received` as above.
    Credits { received: u32, packet: FlowControl },
}

/// VL and blocks of a packet.
#[inline]
pub(super) fn weight_of(lrh: &Lrh) -> (usize, u16) {
    (lrh.vl.index(), link::blocks(lrh.packet_bytes()))
}

impl Default for FrameContents {
    fn default() -> Self {
        Self::Packet(None)
    }
}

/// A frame on a cable, in one line of memory; its bytes, if it has any, are elsewhere.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct FrameInFlight {
    pub(super) node: u32,
    /// The end at which it was put on the cable.
    pub(super) from: u32,
    /// The plug epoch of the cable: frames of an earlier one are lost.
    pub(super) plug_epoch: u32,
    pub(super) port: PortNum,
    pub(super) tail: Time,
    pub(super) what: FrameContents,
}

const _: () = assert!(size_of::<FrameInFlight>() == 64, "one line of memory");

impl Fabric {
    /// A frame's first byte is at its port.
    pub(super) fn arrive(&mut self, head: Time, slot: u32) {
        let flight = self.frames_in_flight[index(slot)];
        let FrameInFlight { node, port, .. } = flight;
        let (at, from) = (index(node), index(flight.from));
        match flight.what {
            FrameContents::Handed(packet, id) => {
                self.free_slots.push(slot);
                self.packet_received(at, from, weight_of(&packet.lrh), id);
                if self.cables.is_unbroken(from, flight.plug_epoch) {
                    self.nodes[at].handed(self.now, port, (head, flight.tail), packet);
                    self.service(node);
                } else {
                    self.counters.lost += 1;
                }
            }
            FrameContents::Credits {
                received,
                mut packet,
            } => {
                self.free_slots.push(slot);
                if self.ideal {
                    self.cables.add_received_to(from, received, &mut packet);
                }
                if self.cables.is_unbroken(from, flight.plug_epoch) {
                    self.nodes[at].credits(self.now, port, packet);
                    self.service(node);
                }
            }
            FrameContents::Packet(_) | FrameContents::Control { .. } => {
                self.arrive_with_bytes(head, slot, flight);
            }
        }
    }

    fn arrive_with_bytes(&mut self, head: Time, slot: u32, flight: FrameInFlight) {
        let FrameInFlight { node, port, .. } = flight;
        let (at, from) = (index(node), index(flight.from));
        let mut bytes = core::mem::take(&mut self.bytes_in_flight[index(slot)]);
        let is_packet = match flight.what {
            FrameContents::Packet(id) => {
                self.packet_received(at, from, weight(&bytes), id);
                true
            }
            FrameContents::Control { received } if self.ideal => {
                self.cables.add_received(from, received, &mut bytes);
                false
            }
            FrameContents::Control { .. }
            | FrameContents::Handed(..)
            | FrameContents::Credits { .. } => false,
        };
        if self.cables.is_unbroken(from, flight.plug_epoch) {
            if let (Some(datagrams), Node::Host(_)) = (&mut self.datagrams, &self.nodes[at])
                && let Some(what) = datagrams.at_host(self.now, node, &bytes)
            {
                self.tracker.report_violation(self.now, what);
            }
            self.nodes[at].frame(self.now, port, (head, flight.tail), &bytes);
            self.service(node);
        } else if is_packet {
            self.counters.lost += packets_in(&bytes);
        }
        self.bytes_in_flight[index(slot)] = bytes;
        self.free_slots.push(slot);
    }

    /// Tells cable and checkers of a packet that comes to a port.
    #[inline]
    fn packet_received(
        &mut self,
        node: usize,
        from: usize,
        weight: (usize, u16),
        id: Option<PacketId>,
    ) {
        self.in_flight -= 1;
        self.cables.packet_received(from, weight);
        if let Some(id) = id
            && self.nodes[node].is_switch()
        {
            self.tracker.enter_switch(self.now, id);
        }
    }

    /// Lets a frame that is put on a cable at the end `from` come to a port.
    pub(super) fn schedule_arrival(
        &mut self,
        from: usize,
        (node, port): (u32, PortNum),
        (head, tail): (Time, Time),
        bytes: &[u8],
        what: FrameContents,
    ) {
        self.counters.frames += 1;
        let flight = FrameInFlight {
            node,
            from: number(from),
            plug_epoch: self.cables.plug_epoch(from),
            port,
            tail,
            what,
        };
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.frames_in_flight[index(slot)] = flight;
                slot
            }
            None => {
                self.frames_in_flight.push(flight);
                self.bytes_in_flight.push(Vec::new());
                number(self.frames_in_flight.len() - 1)
            }
        };
        if !bytes.is_empty() {
            let kept = &mut self.bytes_in_flight[index(slot)];
            kept.clear();
            kept.extend_from_slice(bytes);
        }
        self.queue.push(head, Event::Arrive(slot));
    }
}
