//! The host's own queue pairs, which are direct ones of the transport: datagrams in and out.

use link::{DropReason, Time};
use tracing::debug;
use transport::{DirectQp, DirectSend, DirectSet, Engine, Partition, SendDrop, Transmitted};
use wire::{Deth, Gid, Lid, Mad, Qpn, Sl, TrafficKind, UdPacket};

use super::Endpoint;
use crate::control::{PING_QPN, PINGER_QPN, SERVICE_QKEY, SINK_QPN, SOURCE_QPN};
use crate::ipoib::IPOIB_QPN;

/// The host's own queue pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnQps {
    /// QP1.
    pub(super) gsi: DirectQp,
    /// Answers pings.
    pub(super) ping: DirectQp,
    /// Asks pings.
    pub(super) pinger: DirectQp,
    /// Counts traffic; hears the groups that the host's operator has joined.
    pub(super) sink: DirectQp,
    /// Sends traffic.
    pub(super) source: DirectQp,
    /// Of the interface, if the port has addresses. It has a key once its group has told it.
    pub(super) ip: Option<DirectQp>,
}

impl OwnQps {
    /// Makes them in an engine that has no others.
    #[expect(clippy::expect_used, reason = "the numbers differ and are few")]
    pub(super) fn create(engine: &mut Engine, has_addresses: bool) -> Self {
        let mut create = |qpn, qkey| {
            let created = engine.create_direct_qp(qpn, qkey);
            created.expect("the number is free")
        };
        let mut service = |qpn| create(qpn, Some(SERVICE_QKEY));
        Self {
            // The busiest first: they are looked for in this order.
            sink: service(SINK_QPN),
            source: service(SOURCE_QPN),
            ping: service(PING_QPN),
            pinger: service(PINGER_QPN),
            gsi: create(Qpn::GSI, Some(Deth::QKEY_GSI)),
            ip: has_addresses.then(|| create(IPOIB_QPN, None)),
        }
    }
}

/// A datagram between the hosts' own queue pairs.
pub(super) fn service_send(
    dlid: Lid,
    dest_qp: Qpn,
    sl: Sl,
    partition: Partition,
    payload: &[u8],
) -> DirectSend<'_> {
    DirectSend {
        dlid,
        src_path_bits: 0,
        sl,
        global: None,
        partition,
        dest_qp,
        qkey: SERVICE_QKEY,
        payload,
    }
}

/// A management datagram of QP1, to QP1.
pub(super) fn gmp_send(dlid: Lid, sl: Sl, partition: Partition, mad: &Mad) -> DirectSend<'_> {
    DirectSend {
        qkey: Deth::QKEY_GSI,
        ..service_send(dlid, Qpn::GSI, sl, partition, mad.as_bytes())
    }
}

impl Endpoint {
    /// Sends a datagram: to the port, or back if it is for this host. What cannot be sent is dropped and counted.
    pub(super) fn send(&mut self, now: Time, from: DirectQp, send: &DirectSend<'_>) {
        let Some(written) = self.write(from, send) else {
            return;
        };
        match self.adapter.owns(send.dlid) {
            true => self.outbox.loop_back(&mut self.adapter, written.len),
            false => self.outbox.post(now, &mut self.adapter, written),
        }
    }

    /// Sends a datagram to a group, and loops it back if it `is_heard` at this host: no switch sends a multicast packet back
    /// to where it came in.
    pub(super) fn send_to_group(
        &mut self,
        now: Time,
        from: DirectQp,
        send: &DirectSend<'_>,
        is_heard: bool,
    ) {
        let Some(written) = self.write(from, send) else {
            return;
        };
        if is_heard {
            self.outbox.loop_back(&mut self.adapter, written.len);
        }
        self.outbox.post(now, &mut self.adapter, written);
    }

    /// Has the packet of a datagram written; `None` if it was dropped and counted.
    fn write(&mut self, from: DirectQp, send: &DirectSend<'_>) -> Option<Transmitted> {
        self.refresh();
        let written = self
            .engine
            .send_direct(from, send, self.outbox.packet_mut());
        match written {
            Ok(written) => Some(written),
            Err(why) => {
                debug!(%why, "datagram not sent");
                let reason = match why {
                    SendDrop::NoLane => DropReason::OutputVl,
                    SendDrop::Partition => DropReason::XmitPartition,
                    SendDrop::TooLong => DropReason::NeighborMtu,
                    SendDrop::NoQueuePair => DropReason::NoQueuePair,
                };
                let kind = self.kind_of(from, send);
                self.adapter.counts().drop_packet(reason, kind);
                None
            }
        }
    }

    /// The kind of a datagram of the hosts' own traffic.
    pub(super) fn kind_of(&self, from: DirectQp, send: &DirectSend<'_>) -> Option<TrafficKind> {
        let src_qp = match from {
            source if source == self.own.source => SOURCE_QPN,
            sink if sink == self.own.sink => SINK_QPN,
            _ => return None,
        };
        TrafficKind::of_payload(src_qp, send.dest_qp, send.payload)
    }

    pub(super) fn own_gid(&self) -> Gid {
        let guid = self.adapter.identity.port_guid(self.number());
        Gid::new(self.sma.gid_prefix(self.number()), guid)
    }

    /// Whether a packet with this DLID may be for this host.
    pub(super) fn accepts_lid(&self, dlid: Lid) -> bool {
        self.adapter.owns(dlid) || dlid.is_multicast()
    }

    /// A datagram to a group that some of the host's own queue pairs are attached to.
    pub(super) fn group_datagram(
        &mut self,
        (now, at): (Time, Time),
        members: DirectSet,
        datagram: &UdPacket<'_>,
        bytes: usize,
    ) -> Result<(), DropReason> {
        let Some(global) = datagram.global else {
            return Err(DropReason::NotForUs);
        };
        let mut heard = Ok(());
        if members.contains(self.own.sink) {
            let source = global.sgid.guid();
            self.multicast
                .receive(global.dgid, source, datagram.payload);
            heard = self.hear(at, datagram, bytes);
        }
        if self.own.ip.is_some_and(|ip| members.contains(ip)) {
            self.ip_group_datagram(now, datagram);
        }
        heard
    }
}
