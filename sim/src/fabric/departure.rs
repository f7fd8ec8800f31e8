//! Frames in flight from a port to its peer: link control first, then packets, each lost, damaged,
//! delayed or duplicated by the cable and by interposers.

use link::{HandedPacket, Time};
use wire::{Delimiter, FlowControl, Format, Lrh, PortNum};

use super::Fabric;
use super::flight::{FrameContents, weight_of};
use crate::cable::{Impairment, SmpCopies, weight};
use crate::frame::{packet_at, packets_in};
use crate::interposer::Passage;
use crate::node::Node;
use crate::numbers::number;
use crate::packet_tracker::PacketId;

impl Fabric {
    /// Puts a frame on the cable of a port.
    pub(crate) fn put_on_cable(
        &mut self,
        node: usize,
        port: PortNum,
        frame: &mut [u8],
        tail: Time,
    ) {
        let data = packet_at(frame);
        let id = data.and_then(|data| self.tracker.of_record(&frame[data..]));
        if let Some(data) = data {
            let record = &frame[data..];
            let header = record.get(Delimiter::LEN..).map(Lrh::parse);
            if let Some(Ok((header, _))) = header {
                self.note_departure(node, port, id, &header);
            }
            if let Some(datagrams) = &mut self.datagrams {
                let is_host = matches!(self.nodes[node], Node::Host(_));
                let host = is_host.then(|| number(node));
                datagrams.on_cable(self.now, host, record);
            }
        }
        let Some(peer) = self.cables.peer(node, port) else {
            self.counters.lost += data.map_or(0, |data| packets_in(&frame[data..]));
            return;
        };
        let (control, packet) = frame.split_at_mut(data.unwrap_or(frame.len()));
        if !control.is_empty() {
            self.put_control_on_cable(node, port, peer, control);
        }
        if !packet.is_empty() {
            self.put_packet_on_cable(node, port, peer, packet, (id, tail));
        }
    }

    /// Tells checkers and counters of a packet that leaves a port.
    #[inline]
    fn note_departure(&mut self, node: usize, port: PortNum, id: Option<PacketId>, header: &Lrh) {
        if let Some(id) = id {
            if self.nodes[node].is_switch() {
                self.tracker.leave_switch(self.now, id);
            } else {
                self.tracker.leave_source(self.now, id);
            }
        }
        self.check_credits(node, port, header);
        if let Some(flow_counters) = &mut self.flow_counters {
            flow_counters.sent(self.now, node, port, header);
        }
    }

    /// Puts a packet without bytes on the cable of a port.
    pub(super) fn put_handed_on_cable(
        &mut self,
        node: usize,
        port: PortNum,
        packet: &HandedPacket,
        tail: Time,
    ) {
        let id = self.tracker.of_handed(packet);
        self.note_departure(node, port, id, &packet.lrh);
        let Some(peer) = self.cables.peer(node, port) else {
            self.counters.lost += 1;
            return;
        };
        if self.cables.impair(node, port, &mut []) == Impairment::Lost {
            self.counters.lost += 1;
            return;
        }
        self.in_flight += 1;
        self.cables.packet_sent(node, port, weight_of(&packet.lrh));
        let delay_ns = self.model.flight_ns;
        let arrival = (self.now + delay_ns, tail.max(self.now) + delay_ns);
        let from = self.cables.end_of(node, port);
        self.schedule_arrival(from, peer, arrival, &[], FrameContents::Handed(*packet, id));
    }

    /// Puts flow control without bytes on the cable of a port.
    pub(super) fn put_credits_on_cable(
        &mut self,
        node: usize,
        port: PortNum,
        mut packet: FlowControl,
    ) {
        let Some(peer) = self.cables.peer(node, port) else {
            return;
        };
        let at = if self.ideal {
            self.cables.subtract_in_flight_from(node, port, &mut packet);
            self.now
        } else {
            self.now + self.model.flight_ns
        };
        if !self.cables.loses_credit(node, port) {
            let received = self.cables.received(node, port);
            let what = FrameContents::Credits { received, packet };
            let from = self.cables.end_of(node, port);
            self.schedule_arrival(from, peer, (at, at), &[], what);
        }
    }

    /// Puts a frame's link control on a cable to `peer`.
    fn put_control_on_cable(
        &mut self,
        node: usize,
        port: PortNum,
        peer: (u32, PortNum),
        control: &mut [u8],
    ) {
        let at = if self.ideal {
            // It overtakes packets on the cable, so their blocks must not be counted as received.
            self.cables.subtract_in_flight(node, port, control);
            self.now
        } else {
            self.now + self.model.flight_ns
        };
        let passage = self.pass(node, port, control);
        if passage != Passage::Never && !self.cables.loses_credit(node, port) {
            let received = self.cables.received(node, port);
            let from = self.cables.end_of(node, port);
            let what = FrameContents::Control { received };
            self.schedule_arrival(from, peer, (at, at), control, what);
        }
    }

    /// Puts the packets of a frame on a cable to `peer`. Returns the first one, and when its last bit has left.
    fn put_packet_on_cable(
        &mut self,
        node: usize,
        port: PortNum,
        peer: (u32, PortNum),
        packet: &mut [u8],
        (id, tail): (Option<PacketId>, Time),
    ) {
        let passage = self.pass(node, port, packet);
        if passage == Passage::Never {
            self.counters.lost += packets_in(packet);
            return;
        }
        match self.cables.impair(node, port, packet) {
            Impairment::None => {}
            Impairment::Lost => {
                self.counters.lost += packets_in(packet);
                return;
            }
            Impairment::Corrupted => self.counters.corrupted += 1,
        }
        let SmpCopies { copies, delays_ns } = self.cables.draw_smp_copies(node, port, packet);
        let copies = copies + usize::from(passage == Passage::Twice);
        for copy in 0..copies {
            let delay_ns = delays_ns.get(copy).copied().unwrap_or(0);
            self.in_flight += 1;
            self.cables.packet_sent(node, port, weight(packet));
            let delay_ns = self.model.flight_ns + delay_ns;
            let arrival = (self.now + delay_ns, tail.max(self.now) + delay_ns);
            let from = self.cables.end_of(node, port);
            self.schedule_arrival(from, peer, arrival, packet, FrameContents::Packet(id));
        }
        self.counters.duplicated += u64::from(copies > 1);
    }
}
