//! Whose an address is: questions and answers of ARP and neighbour discovery, and packets that wait for them.

use std::net::IpAddr;

use link::Time;
use wire::Format as _;
use wire::ipoib::{
    Arp, ArpOperation, Discovery, DiscoveryKind, LinkAddress, ethertype, solicited_node,
};

use super::Ipoib;
use super::counts::IpDrop;
use super::neighbours::Question;
use super::packets::{Incoming, encapsulate, with_headroom};
use super::paths::Known;

impl Ipoib {
    /// Refuses a sender that tells another link-layer address than it has, or an address of this port.
    fn check_sender(
        &self,
        incoming: Incoming<'_>,
        ip: IpAddr,
        link: LinkAddress,
    ) -> Result<(), IpDrop> {
        let is_other = incoming.sgid.is_some_and(|sgid| sgid != link.gid);
        let is_port = !link.gid.is_multicast() && link.gid != self.port.gid;
        if link.qpn != incoming.src_qp || is_other || !is_port {
            return Err(IpDrop::Lie);
        }
        match self.addresses().any(|own| own == ip) {
            true => Err(IpDrop::Conflict),
            false => Ok(()),
        }
    }

    pub(super) fn take_arp(
        &mut self,
        now: Time,
        incoming: Incoming<'_>,
        arp: &Arp,
    ) -> Result<(), IpDrop> {
        let sender: IpAddr = arp.sender_ip.into();
        self.check_sender(incoming, sender, arp.sender)?;
        let is_for_us = arp.target_ip == self.ipv4;
        let is_answer = arp.operation == ArpOperation::Reply && is_for_us;
        let asks_us = arp.operation == ArpOperation::Request && is_for_us;
        self.hear(now, sender, arp.sender, is_answer, asks_us);
        if asks_us {
            let answer = Arp {
                operation: ArpOperation::Reply,
                sender: self.link_address(),
                sender_ip: self.ipv4,
                target: arp.sender,
                target_ip: arp.sender_ip,
            };
            let bytes = with_headroom(&answer.to_bytes::<{ Arp::LEN }>());
            self.answer(now, sender, arp.sender, bytes, ethertype::ARP);
        }
        Ok(())
    }

    pub(super) fn take_discovery(
        &mut self,
        now: Time,
        incoming: Incoming<'_>,
        message: &Discovery,
    ) -> Result<(), IpDrop> {
        let solicits = message.kind == DiscoveryKind::Solicitation;
        let sender = if solicits {
            message.source
        } else {
            message.target
        };
        let Some(link) = message.link.filter(|_| !sender.is_unspecified()) else {
            // Who has no address yet asks whether it is free: an answer would go to all.
            return Ok(());
        };
        self.check_sender(incoming, sender.into(), link)?;
        let is_own = [self.ipv6, self.link_local].contains(&message.target);
        let asks_us = solicits && is_own && self.has_interface;
        let solicited = matches!(
            message.kind,
            DiscoveryKind::Advertisement {
                solicited: true,
                ..
            }
        );
        self.hear(now, sender.into(), link, solicited, asks_us);
        if asks_us {
            let answer = Discovery {
                kind: DiscoveryKind::Advertisement {
                    router: false,
                    solicited: true,
                    replaces: true,
                },
                source: message.target,
                destination: message.source,
                target: message.target,
                link: Some(self.link_address()),
            };
            let mut out = [0; Discovery::LEN_MAX];
            let len = answer.emit(&mut out);
            let bytes = with_headroom(&out[..len]);
            self.answer(now, sender.into(), link, bytes, ethertype::IPV6);
        }
        Ok(())
    }

    /// Somebody has told its link-layer address.
    fn hear(&mut self, now: Time, ip: IpAddr, link: LinkAddress, is_answer: bool, asks_us: bool) {
        let dropped = self.neighbours.hear(now, ip, link, is_answer, asks_us);
        self.drop_many(IpDrop::Full, dropped);
        self.settle_evicted();
        if self.neighbours.is_known(ip, link) {
            for asker in self.neighbours.take_resolvers(ip) {
                self.push_resolved(asker, Ok(link));
            }
            self.send_waiting(now, ip, link);
        }
    }

    /// Sends what has waited for a neighbour, if the way is known.
    pub(super) fn send_waiting(&mut self, now: Time, ip: IpAddr, link: LinkAddress) {
        if !self.neighbours.has_waiting(ip) {
            return;
        }
        match self.path(now, link) {
            Known::Path(path) => {
                while let Some(bytes) = self.neighbours.take_waiting(ip) {
                    let pushed = self
                        .unicast(path, link, bytes, false)
                        .and_then(|outgoing| self.push(outgoing));
                    match pushed {
                        Ok(()) => self.counts.sent += 1,
                        Err(reason) => self.drop_many(reason, 1),
                    }
                }
            }
            Known::Asked => {}
            Known::Refused => {
                let dropped = self.neighbours.drop_waiting(ip);
                self.drop_many(IpDrop::NoPath, dropped);
            }
        }
    }

    /// Answers a neighbour that has asked; now, or once the way to it is known.
    fn answer(&mut self, now: Time, ip: IpAddr, link: LinkAddress, mut bytes: Vec<u8>, kind: u16) {
        encapsulate(&mut bytes, kind);
        let sent = match self.path(now, link) {
            Known::Path(path) => self
                .unicast(path, link, bytes, false)
                .and_then(|outgoing| self.push(outgoing)),
            Known::Refused => Err(IpDrop::NoPath),
            Known::Asked => {
                let dropped = self.neighbours.hold(ip, bytes);
                self.drop_many(IpDrop::Full, dropped);
                Ok(())
            }
        };
        if let Err(reason) = sent {
            self.drop_many(reason, 1);
        }
    }

    /// Asks who has an address.
    pub(super) fn ask(&mut self, now: Time, Question { ip, link }: Question) {
        let own = self.link_address();
        let (packet, kind) = match ip {
            IpAddr::V4(ip) => {
                let request = Arp {
                    operation: ArpOperation::Request,
                    sender: own,
                    sender_ip: self.ipv4,
                    target: LinkAddress::default(),
                    target_ip: ip,
                };
                let packet = request.to_bytes::<{ Arp::LEN }>();
                (with_headroom(&packet), ethertype::ARP)
            }
            IpAddr::V6(ip) => {
                let source = match ip.is_unicast_link_local() {
                    true => self.link_local,
                    false => self.ipv6,
                };
                let request = Discovery {
                    kind: DiscoveryKind::Solicitation,
                    source,
                    destination: solicited_node(ip),
                    target: ip,
                    link: Some(own),
                };
                let mut out = [0; Discovery::LEN_MAX];
                let len = request.emit(&mut out);
                (with_headroom(&out[..len]), ethertype::IPV6)
            }
        };
        let mut bytes = packet;
        encapsulate(&mut bytes, kind);
        let known = link.map(|link| (link, self.path(now, link)));
        let sent = match known {
            Some((link, Known::Path(path))) => self
                .unicast(path, link, bytes, false)
                .and_then(|outgoing| self.push(outgoing)),
            _ => self.send_to_all(bytes, false),
        };
        if let Err(reason) = sent {
            self.drop_many(reason, 1);
        }
    }
}
