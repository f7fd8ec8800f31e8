//! From the port's input VLs to the queue pairs.

use link::{DropReason, Time};
use mad::sma::PacketKey;
use transport::{DirectQp, DirectSend, PacketDrop, Partition};
use wire::attr::Trap257;
use wire::packet::Transport;
use wire::{DataPacket, Deth, Format, Lid, Lrh, Qpn, Service, TrafficKind, UdPacket, Vl, p_key};

use super::Endpoint;
use super::datagram::service_send;
use crate::control::{Latency, PING_QPN, PINGER_QPN, SINK_QPN, SOURCE_QPN};
use crate::ipoib::IPOIB_QPN;
use crate::outbox::assemble;
use crate::ping::PingSend;
use crate::service::{Echo, FlowHead, NAME_LEN, SinkCounts};
use crate::traffic::{Peer, Query, SinkReply, rounded};
use crate::verbs::drop_reason;

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
        let lrh = packet.lrh();
        if lrh.vl == Vl::MANAGEMENT {
            return self.smp_packet(now, &packet);
        }
        if !self.accepts_lid(lrh.dlid) {
            return Err(DropReason::NotForUs);
        }
        let transport = packet.transport().map_err(|_| DropReason::BadLength)?;
        self.refresh();
        if !self.admits_pkey(transport.bth.pkey) {
            self.report_key_violation(now, PacketKey::PKey, lrh, &transport);
            return Err(DropReason::RcvPartition);
        }
        let is_multicast = lrh.dlid.is_multicast();
        if !is_multicast && transport.grh.is_some_and(|grh| !self.names_port(grh.dgid)) {
            return Err(DropReason::NotForUs);
        }
        let taken = self
            .engine
            .receive(now, &mut self.memory, &packet, &transport);
        let taken = match taken {
            Ok(taken) => taken,
            Err(drop) => {
                if drop == PacketDrop::QKey && !is_multicast {
                    self.report_key_violation(now, PacketKey::QKey, lrh, &transport);
                }
                return Err(drop_reason(drop));
            }
        };
        if let Some(missed) = taken.missed {
            self.drop_one(drop_reason(missed));
        }
        if taken.direct.is_empty() {
            self.data_has_come(now, transport.bth.dest_qp);
            return Ok(());
        }
        let datagram = UdPacket::of_transport(lrh, &transport);
        let datagram = datagram.map_err(|_| DropReason::BadLength)?;
        match is_multicast {
            true => self.group_datagram((now, at), taken.direct, &datagram, bytes.len()),
            false => self.take_datagram(now, at, &datagram, bytes.len()),
        }
    }

    /// Has a trap tell of a packet with a wrong key.
    fn report_key_violation(
        &mut self,
        now: Time,
        key: PacketKey,
        lrh: &Lrh,
        transport: &Transport<'_>,
    ) {
        let identity = &self.adapter.identity;
        let port = self.adapter.number();
        let details = details(lrh, transport, key);
        self.sma
            .packet_key_violated(now, identity, port, key, &details);
    }

    /// A datagram for one of the host's own queue pairs, with its key.
    fn take_datagram(
        &mut self,
        now: Time,
        at: Time,
        datagram: &UdPacket<'_>,
        bytes: usize,
    ) -> Result<(), DropReason> {
        match datagram.dest_qp {
            Qpn::GSI => self.gmp_packet(now, datagram),
            IPOIB_QPN => {
                self.ip_datagram(now, datagram);
                Ok(())
            }
            _ => self.service_packet(now, at, datagram, bytes),
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
                    TrafficKind::Acknowledgement if rest.len() < <Latency as Format>::LEN => None,
                    TrafficKind::Acknowledgement => Some(Format::parse(rest).map_err(unknown)?.0),
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
        let partition = Partition::Of(request.pkey);
        let (dlid, qpn) = (request.slid, request.src_qp);
        let send = DirectSend {
            src_path_bits: self.path_bits(request.dlid),
            ..service_send(dlid, qpn, request.sl, partition, payload)
        };
        self.send(now, self.own.ping, &send);
        Ok(())
    }

    pub(super) fn send_ping(&mut self, now: Time, ping: &PingSend) {
        let mut payload = [0; wire::Mtu::Mtu4096.bytes() as usize];
        // The MTU may have shrunk since the request was accepted: then the port drops and counts.
        let len = rounded(ping.size, wire::Mtu::Mtu4096).map_or(Echo::LEN, usize::from);
        let payload = &mut payload[..(len - SERVICE_OVERHEAD.min(len)).max(Echo::LEN)];
        ping.echo.emit(payload);
        let partition = Partition::Of(ping.pkey);
        let send = service_send(ping.dlid, PING_QPN, ping.sl, partition, payload);
        self.send(now, self.own.pinger, &send);
    }

    pub(super) fn send_query(&mut self, now: Time, query: &Query) {
        let mut payload = [0; Echo::LEN];
        query.head.emit(&mut payload);
        let (dlid, qpn, first) = (query.dlid, query.qpn, Partition::First);
        let send = service_send(dlid, qpn, query.sl, first, &payload);
        self.send_traffic(now, self.own.source, &send);
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
        let send = DirectSend {
            src_path_bits: self.path_bits(to),
            ..service_send(lid, qpn, sl, Partition::First, &payload[..len])
        };
        self.send_traffic(now, self.own.sink, &send);
    }

    fn send_traffic(&mut self, now: Time, from: DirectQp, send: &DirectSend<'_>) {
        let kind = self.kind_of(from, send);
        self.adapter.traffic.count_sent(kind);
        self.send(now, from, send);
    }
}

/// What traps 257 and 258 tell of a packet with a wrong key.
fn details(lrh: &Lrh, transport: &Transport<'_>, key: PacketKey) -> Trap257 {
    let gids = transport.grh.map(|grh| (grh.sgid, grh.dgid));
    let (sgid, dgid) = gids.unwrap_or_default();
    let service = transport.bth.opcode.parts().map(|(service, _)| service);
    let deth = Deth::parse(transport.content)
        .ok()
        .filter(|_| service == Some(Service::Ud));
    let deth = deth.map(|(deth, _)| deth);
    Trap257 {
        slid: lrh.slid,
        dlid: lrh.dlid,
        key: match key {
            PacketKey::PKey => transport.bth.pkey.into(),
            PacketKey::QKey => deth.map_or(0, |deth| deth.qkey),
        },
        sl: lrh.sl,
        src_qp: deth.map_or(Qpn::default(), |deth| deth.src_qp),
        dest_qp: transport.bth.dest_qp,
        sgid,
        dgid,
    }
}

/// Whether a LID can be answered.
pub(super) fn is_answerable(lid: Lid) -> bool {
    lid.is_unicast()
}
