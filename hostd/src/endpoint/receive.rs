//! From the port's input VLs to the queue pairs.

use link::{DropReason, Time};
use mad::sma::PacketKey;
use wire::Opcode;
use wire::attr::Trap257;
use wire::{DataPacket, Deth, Format, Lid, Qpn, TrafficKind, UdPacket, Vl, p_key};

use super::{Endpoint, service_datagram};
use crate::control::{PING_QPN, PINGER_QPN, SERVICE_QKEY, SINK_QPN, SOURCE_QPN};
use crate::ipoib::IPOIB_QPN;
use crate::outbox::assemble;
use crate::ping::PingSend;
use crate::service::{Echo, FlowHead, NAME_LEN, SinkCounts};
use crate::traffic::{Peer, Query, SinkReply, rounded};

/// Bytes of a service packet besides its payload, LRH to VCRC.
const SERVICE_OVERHEAD: usize = 34;
/// Payload of an acknowledgement or report.
const REPORT_LEN: usize = FlowHead::LEN + SinkCounts::LEN + 64;

impl Endpoint {
    /// Processes received packets: VL15 first, then the data VLs.
    pub(super) fn drain_input(&mut self, now: Time) {
        let mut inbox = std::mem::take(&mut self.inbox);
        loop {
            let arrived = self.adapter.port.arrived();
            let Some(lowest) = Vl::lowest(arrived) else {
                break;
            };
            let vl = match arrived >> 15 {
                0 => lowest,
                _ => Vl::MANAGEMENT,
            };
            let Some(packet) = self.adapter.port.consume(vl) else {
                break;
            };
            let at = packet.tail.max(now);
            let assembled = assemble(&self.adapter, &packet, &mut inbox);
            packet.release(&mut self.adapter.pool);
            match assembled {
                Some(len) => self.accept(now, at, &inbox[..len]),
                None => self.drop_one(DropReason::TooLong),
            }
        }
        self.inbox = inbox;
    }

    pub(super) fn drop_one(&mut self, reason: DropReason) {
        self.adapter.counts().drop_one(reason);
    }

    /// Handles one packet, LRH to VCRC, whose last byte came at `at`. The VCRC has been checked.
    pub(super) fn accept(&mut self, now: Time, at: Time, bytes: &[u8]) {
        self.outbox.answer_from(at);
        if let Err(reason) = self.dispatch(now, at, bytes) {
            let kind = TrafficKind::of_packet(bytes);
            self.adapter.counts().drop_packet(reason, kind);
        }
        self.outbox.answer_from(now);
    }

    fn dispatch(&mut self, now: Time, at: Time, bytes: &[u8]) -> Result<(), DropReason> {
        let packet = DataPacket::parse(bytes).map_err(|_| DropReason::BadLength)?;
        packet.check_icrc().map_err(|_| DropReason::BadIcrc)?;
        let lrh = *packet.lrh();
        if lrh.vl == Vl::MANAGEMENT {
            return self.smp_packet(now, &packet);
        }
        if !self.accepts_lid(lrh.dlid) {
            return Err(DropReason::NotForUs);
        }
        if let Some(taken) = self.verbs_packet(now, &packet) {
            return taken;
        }
        let datagram = UdPacket::parse(&packet).map_err(|_| malformed(&packet))?;
        if !self.admits_pkey(datagram.pkey) {
            let pkey = u32::from(datagram.pkey);
            self.report_key_violation(now, PacketKey::PKey, &details(&datagram, pkey));
            return Err(DropReason::RcvPartition);
        }
        if datagram.dlid.is_multicast() {
            return self.group_datagram((now, at), &packet, &datagram, bytes.len());
        }
        if !self.accepts_global(datagram.global) {
            return Err(DropReason::NotForUs);
        }
        let taken = self.take_datagram(now, at, &datagram, bytes.len());
        if taken == Err(DropReason::BadQkey) {
            let details = details(&datagram, datagram.qkey);
            self.report_key_violation(now, PacketKey::QKey, &details);
        }
        taken
    }

    pub(super) fn report_key_violation(&mut self, now: Time, key: PacketKey, packet: &Trap257) {
        let identity = &self.adapter.identity;
        let port = self.adapter.number();
        self.sma
            .packet_key_violated(now, identity, port, key, packet);
    }

    /// A datagram for one of the host's queue pairs.
    fn take_datagram(
        &mut self,
        now: Time,
        at: Time,
        datagram: &UdPacket<'_>,
        bytes: usize,
    ) -> Result<(), DropReason> {
        match datagram.dest_qp {
            Qpn::GSI if datagram.qkey == Deth::QKEY_GSI => self.gmp_packet(now, datagram),
            PING_QPN | PINGER_QPN | SINK_QPN | SOURCE_QPN if datagram.qkey == SERVICE_QKEY => {
                self.service_packet(now, at, datagram, bytes)
            }
            Qpn::GSI | PING_QPN | PINGER_QPN | SINK_QPN | SOURCE_QPN => Err(DropReason::BadQkey),
            IPOIB_QPN => self.ip_datagram(now, datagram),
            _ => self.program_datagram(datagram),
        }
    }

    /// Whether a packet's partition is one of the port's, and one of the two is a full member
    /// (IBA 10.9.3).
    pub(super) fn admits_pkey(&mut self, pkey: u16) -> bool {
        if self.last_valid_pkey == Some(pkey) {
            return true;
        }
        let admitted = p_key::admits(self.sma.pkeys(self.number()), pkey);
        if admitted {
            self.last_valid_pkey = Some(pkey);
        }
        admitted
    }

    /// A datagram to one of the host's own services.
    fn service_packet(
        &mut self,
        now: Time,
        at: Time,
        datagram: &UdPacket<'_>,
        bytes: usize,
    ) -> Result<(), DropReason> {
        let payload = datagram.payload;
        let unknown = |_| DropReason::NotForUs;
        match datagram.dest_qp {
            PING_QPN => {
                let (echo, _) = Echo::parse(payload).map_err(unknown)?;
                self.answer_ping(now, datagram, &echo)
            }
            PINGER_QPN => {
                let (echo, _) = Echo::parse(payload).map_err(unknown)?;
                if echo.answer {
                    self.pinger.answer(at, &echo);
                }
                Ok(())
            }
            SINK_QPN => {
                let (head, _) = FlowHead::parse(payload).map_err(unknown)?;
                if !matches!(head.kind, TrafficKind::Data | TrafficKind::Query) {
                    return Err(DropReason::NotForUs);
                }
                let from = Peer {
                    lid: datagram.slid,
                    qpn: datagram.src_qp,
                    sl: datagram.sl,
                    to: datagram.dlid,
                };
                let hold = self.outbox.is_above_watermark();
                let reply = self.sink.receive(at, from, &head, bytes, hold);
                let reply = reply.map_err(|_| DropReason::ReceiverFull)?;
                if self.source.awaits_any() {
                    let received = self.sink.received(from.lid, head.flow);
                    self.source.advanced(now, (from.lid, head.flow), received);
                }
                if from.qpn == SOURCE_QPN {
                    self.adapter.traffic.count_delivered(head.kind);
                }
                if let Some(reply) = reply {
                    self.send_sink_reply(now, &reply);
                }
                Ok(())
            }
            _ => {
                let (head, rest) = FlowHead::parse(payload).map_err(unknown)?;
                let (counts, rest) = SinkCounts::parse(rest).map_err(unknown)?;
                let latency = match head.kind {
                    TrafficKind::Acknowledgement => None,
                    TrafficKind::Report => Some(Format::parse(rest).map_err(unknown)?.0),
                    TrafficKind::Data | TrafficKind::Query => return Err(DropReason::NotForUs),
                };
                if datagram.src_qp == SINK_QPN {
                    self.adapter.traffic.count_delivered(head.kind);
                }
                self.source.handle_reply(at, &head, counts, latency);
                Ok(())
            }
        }
    }

    /// Sends a ping back: as long, on the same service level, from the LID that the request was sent to.
    fn answer_ping(
        &mut self,
        now: Time,
        request: &UdPacket<'_>,
        echo: &Echo,
    ) -> Result<(), DropReason> {
        if echo.answer {
            return Err(DropReason::NotForUs);
        }
        let mut name = [0; NAME_LEN];
        let own = &self.name;
        let len = own.floor_char_boundary(NAME_LEN);
        name[..len].copy_from_slice(&own.as_bytes()[..len]);
        let answer = Echo {
            answer: true,
            responder: self.lid(),
            name,
            ..*echo
        };
        let mut payload = [0; wire::Mtu::Mtu4096.bytes() as usize];
        let payload = payload
            .get_mut(..request.payload.len())
            .ok_or(DropReason::TooLong)?;
        payload.copy_from_slice(request.payload);
        answer.emit(payload);
        let qps = (PING_QPN, request.src_qp);
        let pkey = self.key_of(request.pkey);
        let datagram =
            service_datagram(&self.adapter, request.slid, qps, request.sl, pkey, payload);
        self.send(
            now,
            &UdPacket {
                slid: request.dlid,
                ..datagram
            },
        );
        Ok(())
    }

    pub(super) fn send_ping(&mut self, now: Time, ping: &PingSend) {
        let mut payload = [0; wire::Mtu::Mtu4096.bytes() as usize];
        // The MTU may have shrunk since the request was accepted: then the port drops and counts.
        let len = rounded(ping.size, wire::Mtu::Mtu4096).map_or(Echo::LEN, usize::from);
        let payload = &mut payload[..(len - SERVICE_OVERHEAD.min(len)).max(Echo::LEN)];
        ping.echo.emit(payload);
        let qps = (PINGER_QPN, PING_QPN);
        let pkey = self.key_of(ping.pkey);
        let datagram = service_datagram(&self.adapter, ping.dlid, qps, ping.sl, pkey, payload);
        self.send(now, &datagram);
    }

    pub(super) fn send_query(&mut self, now: Time, query: &Query) {
        let mut payload = [0; Echo::LEN];
        query.head.emit(&mut payload);
        let qps = (SOURCE_QPN, query.qpn);
        let pkey = self.own_pkey();
        let datagram = service_datagram(&self.adapter, query.dlid, qps, query.sl, pkey, &payload);
        self.send_traffic(now, &datagram);
    }

    pub(super) fn send_sink_reply(&mut self, now: Time, reply: &SinkReply) {
        let mut payload = [0; REPORT_LEN];
        reply.head.emit(&mut payload);
        let mut len = FlowHead::LEN + SinkCounts::LEN;
        reply.counts.emit(&mut payload[FlowHead::LEN..]);
        if let Some(latency) = &reply.latency {
            latency.emit(&mut payload[len..]);
            len = REPORT_LEN;
        }
        let Peer { lid, qpn, sl, to } = reply.to;
        let qps = (SINK_QPN, qpn);
        let pkey = self.own_pkey();
        let datagram = service_datagram(&self.adapter, lid, qps, sl, pkey, &payload[..len]);
        self.send_traffic(
            now,
            &UdPacket {
                slid: to,
                ..datagram
            },
        );
    }

    fn send_traffic(&mut self, now: Time, datagram: &UdPacket<'_>) {
        let kind = TrafficKind::of_datagram(datagram);
        self.adapter.traffic.count_sent(kind);
        self.send(now, datagram);
    }
}

/// The contents of traps 257 and 258 about a datagram with that key.
fn details(datagram: &UdPacket<'_>, key: u32) -> Trap257 {
    let gids = datagram.global.map(|global| (global.sgid, global.dgid));
    let (sgid, dgid) = gids.unwrap_or_default();
    Trap257 {
        slid: datagram.slid,
        dlid: datagram.dlid,
        key,
        sl: datagram.sl,
        src_qp: datagram.src_qp,
        dest_qp: datagram.dest_qp,
        sgid,
        dgid,
    }
}

/// Why a packet is not a datagram: it is of another transport service, or malformed.
fn malformed(packet: &DataPacket<'_>) -> DropReason {
    match packet.transport() {
        Ok(transport)
            if !matches!(
                transport.bth.opcode,
                Opcode::UD_SEND_ONLY | Opcode::UD_SEND_ONLY_IMM
            ) =>
        {
            DropReason::NoQueuePair
        }
        _ => DropReason::BadLength,
    }
}

/// Whether a LID can be answered.
pub(super) fn is_answerable(lid: Lid) -> bool {
    lid.is_unicast()
}
