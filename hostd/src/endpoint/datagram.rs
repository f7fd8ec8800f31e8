//! The queue pairs of programs beside the host: opening, sending, receiving.

use link::{DropReason, Time};
use wire::{DataPacket, GlobalRoute, Lid, Qpn, UdPacket, Vl};

use super::Endpoint;
use crate::clients::ClientId;
use crate::control::{PING_QPN, PINGER_QPN, SINK_QPN, SOURCE_QPN};
use crate::host::Event;
use crate::ipoib::IPOIB_QPN;
use crate::queue_pair::{FromQueuePair, IncomingDatagram, OutgoingDatagram, ToQueuePair};

/// Hop limit of datagrams with a GRH: they stay in the subnet.
const HOP_LIMIT: u8 = 1;

/// Whether a queue pair number is the host's own.
fn is_reserved(qpn: Qpn) -> bool {
    let is_own = matches!(
        qpn,
        Qpn::SMI
            | Qpn::GSI
            | Qpn::MULTICAST
            | PING_QPN
            | PINGER_QPN
            | SINK_QPN
            | SOURCE_QPN
            | IPOIB_QPN
    );
    is_own || qpn.get() >= crate::verbs::FIRST_QPN
}

impl Endpoint {
    /// Handles a program's message about its queue pairs.
    pub(crate) fn handle_datagram_message(
        &mut self,
        now: Time,
        client: ClientId,
        message: ToQueuePair,
    ) {
        let done = match message {
            ToQueuePair::Open { qpn, qkey } => self
                .queue_pairs
                .open(client, qpn, qkey, is_reserved)
                .map(|qpn| {
                    let message = FromQueuePair::Opened { qpn };
                    self.push_event(Event::Datagram { client, message });
                }),
            ToQueuePair::Close { qpn } => self.queue_pairs.close(client, qpn),
            ToQueuePair::Attach { qpn, mgid } => self.queue_pairs.attach(client, qpn, mgid),
            ToQueuePair::Detach { qpn, mgid } => self.queue_pairs.detach(client, qpn, mgid),
            ToQueuePair::Send { qpn, datagram } => self
                .queue_pairs
                .check(client, qpn)
                .and_then(|()| self.send_datagram(now, qpn, &datagram)),
        };
        if let Err(why) = done {
            let message = FromQueuePair::Refused(why);
            self.push_event(Event::Datagram { client, message });
        }
    }

    fn send_datagram(
        &mut self,
        now: Time,
        from: Qpn,
        datagram: &OutgoingDatagram,
    ) -> Result<(), String> {
        let mtu = usize::from(self.adapter.settings.mtu.bytes());
        if datagram.payload.len() > mtu {
            return Err(format!(
                "{} bytes are more than the MTU of {mtu}",
                datagram.payload.len()
            ));
        }
        let multicast = datagram.lid.is_multicast();
        if !datagram.lid.is_unicast() && !multicast {
            return Err(format!("LID {} is no destination", datagram.lid));
        }
        if multicast && datagram.gid.is_none_or(|gid| !gid.is_multicast()) {
            return Err("multicast needs the group's GID".to_owned());
        }
        let global = datagram.gid.map(|dgid| GlobalRoute {
            tclass: 0,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
            sgid: self.own_gid(),
            dgid,
        });
        let packet = UdPacket {
            vl: Vl::default(),
            sl: datagram.sl,
            dlid: datagram.lid,
            slid: self.lid(),
            global,
            solicited: false,
            pkey: self.own_pkey(),
            dest_qp: datagram.qpn,
            psn: wire::Psn::default(),
            qkey: datagram.qkey,
            src_qp: from,
            immediate: datagram.immediate,
            payload: &datagram.payload,
        };
        // No switch sends a multicast packet back to its input port: queue pairs of this host that
        // are members get it from here.
        if multicast
            && datagram.gid.is_some_and(|mgid| {
                self.queue_pairs.is_attached(mgid) || self.verbs.is_attached(mgid)
            })
        {
            self.outbox.loop_back(&mut self.adapter, &packet);
        }
        self.send(now, &packet);
        Ok(())
    }

    pub(super) fn own_gid(&self) -> wire::Gid {
        let guid = self.adapter.identity.port_guid(self.number());
        wire::Gid::new(self.sma.gid_prefix(self.number()), guid)
    }

    /// A datagram for a program's queue pair.
    pub(super) fn program_datagram(&mut self, datagram: &UdPacket<'_>) -> Result<(), DropReason> {
        let client = self.queue_pairs.admit(datagram.dest_qp, datagram.qkey)?;
        self.deliver_to(client, datagram.dest_qp, datagram);
        Ok(())
    }

    /// A datagram for a multicast group.
    pub(super) fn group_datagram(
        &mut self,
        (now, at): (Time, Time),
        packet: &DataPacket<'_>,
        datagram: &UdPacket<'_>,
        bytes: usize,
    ) -> Result<(), DropReason> {
        let global = datagram.global.filter(|global| global.dgid.is_multicast());
        let global = global.ok_or(DropReason::NotForUs)?;
        let mgid = global.dgid;
        if datagram.dest_qp != Qpn::MULTICAST {
            return Err(DropReason::NoQueuePair);
        }
        let source = global.sgid.guid();
        let counted = self
            .multicast
            .receive(mgid, datagram.qkey, source, datagram.payload);
        if counted {
            self.hear(at, datagram, bytes)?;
        }
        let counted = self.ip_group_datagram(now, datagram, mgid) || counted;
        let by_verbs = self.verbs_group_packet(now, packet, mgid);
        let (admitted, full) = self.queue_pairs.admit_group(mgid, datagram.qkey);
        self.adapter
            .counts()
            .drop_many(DropReason::ReceiverFull, full);
        if admitted.is_empty() && full == 0 && !counted {
            return match by_verbs {
                Ok(true) => Ok(()),
                Ok(false) => Err(DropReason::NotForUs),
                Err(reason) => Err(reason),
            };
        }
        for (qpn, client) in admitted {
            self.deliver_to(client, qpn, datagram);
        }
        Ok(())
    }

    fn deliver_to(&mut self, client: ClientId, to: Qpn, datagram: &UdPacket<'_>) {
        let message = FromQueuePair::Received(IncomingDatagram {
            to,
            dlid: datagram.dlid,
            lid: datagram.slid,
            qpn: datagram.src_qp,
            sl: datagram.sl,
            gids: datagram.global.map(|global| (global.sgid, global.dgid)),
            immediate: datagram.immediate,
            payload: datagram.payload.to_vec(),
        });
        self.push_event(Event::Datagram { client, message });
    }

    /// Whether a packet with this DLID may be for this host.
    pub(super) fn accepts_lid(&self, dlid: Lid) -> bool {
        self.adapter.owns(dlid) || dlid.is_multicast()
    }
}
