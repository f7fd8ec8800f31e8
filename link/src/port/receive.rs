//! From a received frame to packets in VL input buffers and to link state.

use wire::packet::MAD_PACKET_LEN;
use wire::{
    DataPacket, FlowControl, Format, Lid, Lnh, Lrh, Mtu, ParseError, Record, RecordKind, Records,
    Sl, TrafficKind, Training, Vl,
};

use crate::config::blocks;
use crate::port::{Peer, Port};
use crate::state::PortStateEvent;
use crate::training::LinkInput;
use crate::vl_buffer::VlBuffers;
use crate::{Cause, DropReason, HandedPacket, Packet, Pool, Time};

/// When a frame came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Now.
    pub now: Time,
    /// When its first bit was there.
    pub head: Time,
    /// When its last bit is there; may lie ahead in virtual time.
    pub tail: Time,
}

impl Arrival {
    /// A frame that is wholly there.
    #[must_use]
    pub fn whole(now: Time) -> Self {
        Self {
            now,
            head: now,
            tail: now,
        }
    }
}

impl Port {
    /// Takes in a received frame: records back to back. What is wrong with it is dropped and
    /// counted.
    pub fn receive(&mut self, arrival: Arrival, frame: &[u8], pool: &mut Pool) {
        if !self.is_plugged() {
            self.refuse_frame(frame);
            return;
        }
        self.training.note_received(arrival.now);
        for record in Records::new(frame) {
            match record {
                Ok(record) => self.receive_record(arrival, record, pool),
                Err(error) => self.counts.drop_one(reason_of_record(error)),
            }
        }
    }

    /// Takes in a packet that is handed over without bytes. What is wrong with it is dropped and counted.
    #[inline]
    pub fn receive_handed(&mut self, arrival: Arrival, handed: &HandedPacket, pool: &mut Pool) {
        let entered = if self.is_plugged() {
            self.training.note_received(arrival.now);
            self.enter(arrival, handed, pool)
        } else {
            Err(DropReason::PortNotReady)
        };
        if let Err(reason) = entered {
            self.refuse(&[], reason);
        }
    }

    #[inline]
    fn enter(
        &mut self,
        arrival: Arrival,
        handed: &HandedPacket,
        pool: &mut Pool,
    ) -> Result<(), DropReason> {
        let lrh = &handed.lrh;
        if !self.state.passes_management() || lrh.vl == Vl::MANAGEMENT {
            return Err(DropReason::PortNotReady);
        }
        self.check_data(arrival.now, lrh)?;
        let buffer = &mut self.vl_buffers[lrh.vl.index()].input;
        if !buffer.credits.arrive(blocks(lrh.packet_bytes())) {
            return Err(DropReason::BufferOverrun);
        }
        let packet = Packet::from_handed(pool, arrival.head, arrival.tail, handed);
        buffer.queue.push_back(packet);
        self.arrived |= 1 << lrh.vl.get();
        self.count_received(lrh.dlid, lrh.pkt_len_words);
        self.counts
            .details
            .count_received_op_code(lrh, handed.op_code);
        Ok(())
    }

    /// Takes in flow control that is handed over without bytes.
    #[inline]
    pub fn receive_credits(&mut self, now: Time, packet: FlowControl, pool: &mut Pool) {
        if !self.is_plugged() {
            self.counts.drop_one(DropReason::PortNotReady);
            return;
        }
        self.training.note_received(now);
        self.counts.details.rcv_flow_pkts += 1;
        self.receive_flow_control(now, packet, pool);
    }

    /// Counts each record of a frame that comes while the cable is not plugged.
    #[cold]
    fn refuse_frame(&mut self, frame: &[u8]) {
        for record in Records::new(frame) {
            match record {
                Ok(record) if record.kind == RecordKind::Data => {
                    self.refuse(record.bytes, DropReason::PortNotReady);
                }
                _ => self.counts.drop_one(DropReason::PortNotReady),
            }
        }
    }

    /// Counts a packet that is not let in.
    #[cold]
    fn refuse(&mut self, packet: &[u8], reason: DropReason) {
        self.counts.spec.rcv_refused_pkts += 1;
        let kind = TrafficKind::of_packet(packet);
        self.counts.drop_packet(reason, kind);
    }

    #[inline]
    fn receive_record(&mut self, arrival: Arrival, record: Record<'_>, pool: &mut Pool) {
        match record.kind {
            RecordKind::Data => {
                if let Err(reason) = self.receive_packet(arrival, record.bytes, pool) {
                    self.refuse(record.bytes, reason);
                }
            }
            RecordKind::FlowControl => match FlowControl::parse(record.bytes) {
                Ok((packet, _)) => {
                    self.counts.details.rcv_flow_pkts += 1;
                    self.receive_flow_control(arrival.now, packet, pool);
                }
                Err(_) => self.counts.drop_one(DropReason::BadControl),
            },
            RecordKind::Training => match Training::parse(record.bytes) {
                Ok((training, _)) => {
                    let heard = self.heard(&training);
                    self.peer = Some(Peer {
                        guid: training.guid,
                        port: training.port,
                    });
                    self.link_input(arrival.now, heard, pool);
                }
                Err(_) => self.counts.drop_one(DropReason::BadControl),
            },
            RecordKind::LinkDown => self.link_input(arrival.now, LinkInput::PeerDown, pool),
        }
    }

    /// Takes over the peer's credits and count of a VL (IBA 7.9.4).
    fn receive_flow_control(&mut self, now: Time, packet: FlowControl, pool: &mut Pool) {
        if !self.training.is_up() {
            if !self.training.is_configured() {
                return;
            }
            self.link_input(now, LinkInput::FlowControl, pool);
        }
        let vl = packet.vl;
        let Some(VlBuffers { input, output }) = self.vl_buffers.get_mut(vl.index()) else {
            // A VL that the peer has and this port has not.
            return;
        };
        output.credits.set_limit(packet.fccl);
        input.credits.resync(packet.fctbs);
        if input.credits.needs_update() {
            self.updates_due |= 1 << vl.get();
        }
        self.refresh(vl);
        self.note_stall(now);
    }

    /// Checks one data packet (IBA 7.8, 7.7) and puts it into its VL's input buffer.
    #[inline]
    fn receive_packet(
        &mut self,
        arrival: Arrival,
        bytes: &[u8],
        pool: &mut Pool,
    ) -> Result<(), DropReason> {
        if !self.state.passes_management() {
            return Err(DropReason::PortNotReady);
        }
        let packet = DataPacket::parse(bytes).map_err(reason_of_packet)?;
        packet.check_vcrc().map_err(|_| DropReason::BadVcrc)?;
        let lrh = *packet.lrh();
        if lrh.vl == Vl::MANAGEMENT {
            self.check_management(&packet)?;
            if self.management_in.len() >= self.config.vl15_packets {
                return Err(DropReason::Vl15Full);
            }
            let packet = Packet::from_checked(pool, arrival.head, arrival.tail, &packet)
                .map_err(|_| DropReason::Vl15Full)?;
            self.management_in.push_back(packet);
            self.counts.spec.vl15_rcv_pkts += 1;
            self.counts.spec.vl15_rcv_data_words += u64::from(lrh.pkt_len_words);
        } else {
            self.check_data(arrival.now, &lrh)?;
            let buffer = &mut self.vl_buffers[lrh.vl.index()].input;
            let blocks = blocks(bytes.len());
            if !buffer.credits.arrive(blocks) {
                return Err(DropReason::BufferOverrun);
            }
            let Ok(payload) = pool.insert(packet.body()) else {
                self.free(lrh.vl, blocks);
                return Err(DropReason::PoolFull);
            };
            let (head, tail) = (arrival.head, arrival.tail);
            let queue = &mut buffer.queue;
            queue.push_back(Packet::with_payload(payload, head, tail, &packet));
        }
        self.arrived |= 1 << lrh.vl.get();
        self.count_received(lrh.dlid, lrh.pkt_len_words);
        self.counts.details.count_received(&packet);
        Ok(())
    }

    /// What a packet on VL15 must be: one SMP, by its length, headers and service level.
    fn check_management(&self, packet: &DataPacket<'_>) -> Result<(), DropReason> {
        let lrh = packet.lrh();
        let is_smp = packet.bytes().len() == MAD_PACKET_LEN
            && lrh.lnh == Lnh::IbaLocal
            && lrh.sl == Sl::default();
        if !is_smp {
            return Err(DropReason::BadManagement);
        }
        if lrh.dlid == Lid::ZERO || lrh.dlid.is_multicast() {
            return Err(DropReason::BadDlid);
        }
        Ok(())
    }

    /// What a packet on a data VL must be; the first one in Armed makes the port Active.
    #[inline]
    fn check_data(&mut self, now: Time, lrh: &Lrh) -> Result<(), DropReason> {
        if !self.state.takes_data() {
            return Err(DropReason::PortNotReady);
        }
        if lrh.vl.get() >= self.operational_vls {
            return Err(DropReason::BadVl);
        }
        // A packet is as long as its header says (`DataPacket::parse`).
        if lrh.packet_bytes() > usize::from(self.config.mtu.bytes()) + Mtu::OVERHEAD_MAX {
            return Err(DropReason::TooLong);
        }
        if lrh.dlid == Lid::ZERO || lrh.dlid == Lid::PERMISSIVE {
            return Err(DropReason::BadDlid);
        }
        if !self.state.sends_data() {
            self.apply_state_event(now, PortStateEvent::DataArrived, Cause::Data);
        }
        Ok(())
    }

    #[inline]
    fn count_received(&mut self, dlid: Lid, words: u16) {
        let spec = &mut self.counts.spec;
        spec.rcv_pkts += 1;
        spec.rcv_data_words += u64::from(words);
        if dlid.is_multicast() {
            spec.multicast_rcv_pkts += 1;
        } else {
            spec.unicast_rcv_pkts += 1;
        }
    }
}

#[cold]
fn reason_of_record(error: ParseError) -> DropReason {
    match error {
        ParseError::LengthMismatch {
            what: "data record",
            ..
        } => DropReason::BadLength,
        _ => DropReason::BadRecord,
    }
}

#[cold]
fn reason_of_packet(error: ParseError) -> DropReason {
    match error {
        ParseError::BadVersion { .. } => DropReason::BadVersion,
        _ => DropReason::BadLength,
    }
}
