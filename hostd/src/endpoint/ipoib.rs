//! IP over InfiniBand at the port: datagrams in and out, what the subnet manager sets, requests to subnet
//! administration.

use link::{Admission, PortState, Time};
use transport::{DirectSend, Partition};
use wire::ipoib::LinkAddress;
use wire::mad::Mad;
use wire::packet::GlobalRoute;
use wire::{Mtu, UdPacket, Vl};

use super::Endpoint;
use crate::control::Reply;
use crate::host::Event;
use crate::ipoib::{Asker, IPOIB_QPN, Incoming, Outgoing, PortView, ToIp, Unresolved};

/// Datagrams handed to the port in one go at most.
const BURST_MAX: usize = 256;

impl Endpoint {
    /// Handles packets of the interface.
    pub(crate) fn handle_ip(&mut self, now: Time, message: ToIp) {
        if let Some(ip) = &mut self.ip {
            ip.handle_packets(now, message);
        }
    }

    /// The port may have been set anew.
    fn update_ip(&mut self, now: Time) {
        self.ip_stale = false;
        let reregister = std::mem::take(&mut self.ip_reregisters);
        let view = PortView {
            is_active: self.adapter.port.state() == PortState::Active,
            sm_lid: self.adapter.settings.sm_lid,
            lid: self.lid(),
            gid: self.own_gid(),
            pkey: self.own_pkey(),
            mtu: self.adapter.settings.mtu,
        };
        if let Some(ip) = &mut self.ip {
            ip.set_port(now, view, reregister);
        }
    }

    /// Does what is due, sends requests, and hands out what there is for the interface.
    pub(super) fn advance_ip(&mut self, now: Time) {
        if self.ip.is_none() {
            return;
        }
        if self.ip_stale {
            self.update_ip(now);
        }
        while let Some(mad) = self.ip.as_mut().and_then(|ip| ip.poll_request(now)) {
            self.ask_administration(now, &mad);
        }
        self.settle_ip();
    }

    /// Hands out what there is for the interface.
    pub(super) fn settle_ip(&mut self) {
        let port = self.number();
        while let Some(message) = self.ip.as_mut().and_then(|ip| ip.poll_event()) {
            self.push_event(Event::Ip { port, message });
        }
        while let Some((asker, resolved)) = self.ip.as_mut().and_then(|ip| ip.poll_resolved()) {
            match asker {
                Asker::Control(token) => {
                    let reply = resolved_reply(resolved);
                    self.push_event(Event::Control { token, reply });
                }
                Asker::Connection(question) => self.connection_resolved(question, resolved),
            }
        }
    }

    /// When something of it is due.
    pub(super) fn ip_deadline(&self) -> Option<Time> {
        self.ip.as_ref()?.deadline()
    }

    /// Whether a datagram of the interface can be handed to the port.
    pub(super) fn can_send_ip(&self) -> bool {
        let Some(sl) = self.ip.as_ref().and_then(|ip| ip.next_sl()) else {
            return false;
        };
        let longest = usize::from(self.adapter.port.neighbor_mtu().bytes()) + Mtu::OVERHEAD_MAX;
        let vl = self.adapter.vl(sl);
        let full = || self.adapter.port.admits(vl, longest) == Admission::Full;
        // What cannot be sent at all is dropped.
        vl == Vl::MANAGEMENT || !(self.outbox.holds(vl) || full())
    }

    /// Passes datagrams of the interface to the port as long as it has room.
    pub(super) fn send_ip(&mut self, now: Time) {
        for _ in 0..BURST_MAX {
            if !self.can_send_ip() {
                return;
            }
            let Some(outgoing) = self.ip.as_mut().and_then(|ip| ip.next_outgoing()) else {
                return;
            };
            self.send_ip_datagram(now, &outgoing);
        }
    }

    fn send_ip_datagram(&mut self, now: Time, outgoing: &Outgoing) {
        let global = outgoing.group.map(|record| GlobalRoute {
            tclass: record.tclass,
            flow_label: record.flow_label,
            hop_limit: record.hop_limit,
            sgid: self.own_gid(),
            dgid: record.mgid,
        });
        let Some(own) = self.own.ip else {
            return;
        };
        let send = DirectSend {
            dlid: outgoing.dlid,
            src_path_bits: 0,
            sl: outgoing.sl,
            global,
            partition: Partition::Of(outgoing.pkey),
            dest_qp: outgoing.qpn,
            qkey: outgoing.qkey,
            payload: outgoing.payload(),
        };
        let Some(record) = outgoing.group else {
            return self.send(now, own, &send);
        };
        // The kernel has looped the packet back to its own programs.
        self.refresh();
        let is_heard = self.engine.is_attached_beside(record.mgid, own);
        self.send_to_group(now, own, &send, is_heard);
    }

    /// A datagram to the interface's queue pair.
    pub(super) fn ip_datagram(&mut self, now: Time, datagram: &UdPacket<'_>) {
        if let Some(ip) = &mut self.ip {
            ip.receive(now, incoming(datagram));
            self.settle_ip();
        }
    }

    /// A datagram to a group of the interface's; its own ones are not for it.
    pub(super) fn ip_group_datagram(&mut self, now: Time, datagram: &UdPacket<'_>) {
        let is_own = datagram.src_qp == IPOIB_QPN && self.adapter.owns(datagram.slid);
        if !is_own {
            self.ip_datagram(now, datagram);
        }
    }

    /// An answer of subnet administration. Whether it is for the interface.
    pub(super) fn ip_answered(&mut self, now: Time, mad: &Mad) -> bool {
        let Some(ip) = self.ip.as_mut().filter(|_| crate::ipoib::is_own(mad.tid())) else {
            return false;
        };
        ip.answered(now, mad);
        self.settle_ip();
        true
    }

    /// A report of subnet administration, which the interface hears beside programs.
    pub(super) fn ip_reported(&mut self, now: Time, mad: &Mad) -> bool {
        let Some(ip) = self.ip.as_mut().filter(|ip| ip.wants_reports()) else {
            return false;
        };
        ip.reported(now, mad);
        true
    }

    /// Something about the port may be otherwise than the interface knows.
    pub(super) fn note_for_ip(&mut self, reregisters: bool) {
        self.ip_stale = true;
        self.ip_reregisters |= reregisters;
    }
}

fn resolved_reply(resolved: Result<LinkAddress, Unresolved>) -> Reply {
    match resolved {
        Ok(LinkAddress { qpn, gid }) => Reply::Resolved { gid, qpn },
        Err(Unresolved::NoAnswer) => Reply::Refused("no host answers".to_owned()),
        Err(Unresolved::Full) => Reply::Refused("too many addresses are being resolved".to_owned()),
    }
}

fn incoming<'a>(datagram: &UdPacket<'a>) -> Incoming<'a> {
    Incoming {
        src_qp: datagram.src_qp,
        sgid: datagram.global.map(|global| global.sgid),
        payload: datagram.payload,
    }
}
