//! Connections of programs at the port: messages of communication management, and what the programs write.

use link::{DropReason, Time};
use mad::cm::Route;
use transport::{DirectSend, Partition};
use wire::ipoib::LinkAddress;
use wire::{Mad, Qpn, UdPacket};

use super::Endpoint;
use super::datagram::gmp_send;
use crate::clients::ClientId;
use crate::connections::{PortFacts, ToCm, ToSend};
use crate::host::Event;
use crate::ipoib::{Asker, Ipoib, Unresolved};

impl Endpoint {
    /// Handles a message of a program's channel.
    pub(crate) fn handle_cm_message(&mut self, now: Time, client: ClientId, message: ToCm) {
        self.update_connections();
        self.connections.handle(now, client, message);
        self.settle_connections(now);
    }

    /// A channel has ended.
    pub(crate) fn close_cm(&mut self, now: Time, client: ClientId) {
        self.update_connections();
        self.connections.close(now, client);
        self.settle_connections(now);
    }

    /// A message of communication management.
    pub(super) fn cm_packet(
        &mut self,
        now: Time,
        mad: &Mad,
        datagram: &UdPacket<'_>,
    ) -> Result<(), DropReason> {
        let from = Route {
            lid: datagram.slid,
            own_lid: datagram.dlid,
            sl: datagram.sl,
            pkey: datagram.pkey,
        };
        self.update_connections();
        let taken = self.connections.receive(now, from, mad);
        self.settle_connections(now);
        match taken {
            true => Ok(()),
            false => Err(DropReason::BadMad),
        }
    }

    /// An answer of subnet administration to a request of connections.
    pub(super) fn connection_answer(&mut self, now: Time, mad: &Mad) {
        self.update_connections();
        self.connections.answered(now, mad);
        self.settle_connections(now);
    }

    /// A packet has come for a queue pair of a connection.
    pub(super) fn data_has_come(&mut self, now: Time, qpn: Qpn) {
        if self.connections.is_used() {
            self.connections.data_has_come(now, qpn);
        }
    }

    /// Does what is due for connections.
    pub(super) fn tick_connections(&mut self, now: Time) {
        if self.connections.deadline().is_some_and(|due| due <= now) {
            self.update_connections();
            self.connections.tick(now);
            self.settle_connections(now);
        }
    }

    /// The manager may have lost the port's memberships.
    pub(super) fn rejoin_groups(&mut self, now: Time) {
        self.multicast.rejoin(now);
        self.connections.rejoin(now);
    }

    fn update_connections(&mut self) {
        let own_addresses = |ip: &Ipoib| ip.addresses().collect();
        let own_addresses = self.ip.as_deref().map_or_else(Vec::new, own_addresses);
        let settings = &self.adapter.settings;
        let facts = PortFacts {
            gid: self.own_gid(),
            node_guid: self.adapter.identity.node_guid,
            lid: settings.lid,
            lids: settings.lmc.lids(),
            pkeys: self.sma.pkeys(self.number()).to_vec(),
            own_pkey: self.own_pkey(),
            addresses: own_addresses,
            mtu: settings.mtu.code(),
            rate: self.adapter.port.rate().code().unwrap_or_default(),
        };
        self.connections.set_port(facts);
    }

    fn settle_connections(&mut self, now: Time) {
        while let Some(to_send) = self.connections.poll_send() {
            match to_send {
                ToSend::Administration(mad) => self.ask_administration(now, &mad),
                ToSend::Peer(route, mad) => self.send_cm(now, &mad, route),
            }
        }
        while let Some((question, ip)) = self.connections.poll_resolve() {
            match &mut self.ip {
                Some(neighbours) => neighbours.resolve(now, Asker::Connection(question), ip),
                None => self
                    .connections
                    .resolved(question, Err(Unresolved::NoAnswer)),
            }
        }
        self.settle_ip();
        self.hand_out_connections();
    }

    /// An address that a connection needs has been resolved, or not.
    pub(super) fn connection_resolved(
        &mut self,
        question: u64,
        answer: Result<LinkAddress, Unresolved>,
    ) {
        self.connections.resolved(question, answer);
        self.hand_out_connections();
    }

    fn hand_out_connections(&mut self) {
        while let Some((client, message)) = self.connections.poll_output() {
            self.push_event(Event::Cm { client, message });
        }
    }

    fn send_cm(&mut self, now: Time, mad: &Mad, route: Route) {
        if !route.lid.is_unicast() {
            return self.drop_one(DropReason::BadDlid);
        }
        let partition = Partition::Of(route.pkey);
        let send = DirectSend {
            src_path_bits: self.path_bits(route.own_lid),
            ..gmp_send(route.lid, route.sl, partition, mad)
        };
        self.send(now, self.own.gsi, &send);
    }
}
