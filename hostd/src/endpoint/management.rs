//! QP0 and QP1: between the fabric, the agents and the clients of the MAD sockets.

use link::{DropReason, Time};
use mad::agent::{self, Arrival, Next};
use mad::local::{FromAgent, MadGlobalRoute, MadMessage, MadWay, ToAgent};
use mad::smi::Origin;
use tracing::{debug, warn};
use transport::{DirectSend, Partition};
use wire::mad::{AttributeId, Mad, MadStatus, Method, MgmtClass};
use wire::vendor::{self, QosCause, QosChange, WindowGrant};
use wire::{DataPacket, GlobalRoute, Lid, Qpn, Sl, UdPacket};

use super::Endpoint;
use super::datagram::gmp_send;
use super::receive::is_answerable;
use crate::clients::ClientId;
use crate::connections::OF_CONNECTIONS;
use crate::host::Event;

/// SMPs about other ports of the adapter that wait at most.
const ABOUT_SIBLINGS_MAX: usize = 256;

/// The sender of a MAD.
#[derive(Clone, Copy, Debug)]
struct MadSender {
    lid: Lid,
    qpn: Qpn,
    sl: Sl,
    way: Option<MadWay>,
}

impl MadSender {
    fn of_smp(lid: Lid) -> Self {
        Self {
            lid,
            qpn: Qpn::SMI,
            sl: Sl::default(),
            way: None,
        }
    }
}

/// The grant that was applied last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastGrant {
    session: u32,
    step: u32,
}

impl LastGrant {
    const fn of(grant: &WindowGrant) -> Self {
        Self {
            session: grant.session,
            step: grant.step,
        }
    }

    /// Whether a grant is of another session, or not older than this one.
    const fn admits(&self, grant: &WindowGrant) -> bool {
        self.session != grant.session || grant.step.wrapping_sub(self.step) < 1 << 31
    }
}

impl Endpoint {
    /// Handles a message of a client of a MAD socket.
    pub(crate) fn handle_mad_message(&mut self, now: Time, client: ClientId, message: ToAgent) {
        match message {
            ToAgent::Send(message) => self.send_mad(now, client, message),
            ToAgent::Register { class } => {
                let registered = self.clients.register(client, class);
                let message = FromAgent::Registered { class, registered };
                self.push_event(Event::Mad { client, message });
            }
            ToAgent::Unregister { class } => self.clients.unregister(client, class),
            ToAgent::RegisterMethods(wanted) => {
                let class = wanted.class;
                let registered = self.clients.register_methods(client, wanted);
                let message = FromAgent::Registered { class, registered };
                self.push_event(Event::Mad { client, message });
            }
            ToAgent::UnregisterMethods(registration) => {
                self.clients.unregister_methods(client, registration);
            }
            ToAgent::ReadOwn(bytes) => self.read_own(now, client, *bytes),
            // The host has given the client to this port.
            ToAgent::Attach { .. } => {}
            ToAgent::SetIsSm(is_sm) => {
                self.clients.set_is_sm(client, is_sm);
                self.update_is_sm(now);
            }
        }
    }

    /// Handles the end of a client of a MAD socket.
    pub(crate) fn handle_mad_disconnect(&mut self, now: Time, client: ClientId) {
        self.clients.remove(client);
        self.update_is_sm(now);
    }

    /// CapabilityMask.IsSM follows the clients.
    fn update_is_sm(&mut self, now: Time) {
        let (port, is_sm) = (self.number(), self.clients.is_sm());
        self.sma.set_is_sm(now, &self.adapter, port, is_sm);
    }

    /// Answers a client as a driver does.
    fn read_own(&mut self, now: Time, client: ClientId, bytes: [u8; 256]) {
        let mut mad = Mad::from_bytes(bytes);
        match mad.class() {
            class if class.is_subnet_management() => self.read_attribute(now, &mut mad),
            MgmtClass::PERF if mad.method() == Method::GET => {
                let counters = self.adapter.all_counts();
                let _answered = self.pma.handle(now, &mut mad, |_| counters);
            }
            _ => return self.drop_one(DropReason::BadMad),
        }
        let message = FromAgent::Received(MadMessage {
            lid: Lid::PERMISSIVE,
            qpn: Qpn::SMI,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
            way: None,
        });
        self.push_event(Event::Mad { client, message });
    }

    fn send_mad(&mut self, now: Time, client: ClientId, message: MadMessage) {
        let mut mad = Mad::from_bytes(*message.mad);
        self.clients.send(client, &mut mad);
        match (message.qpn, mad.class().is_subnet_management()) {
            (Qpn::SMI, true) => {
                let slid = self.local_lid(message.way.unwrap_or_default().path_bits);
                self.send_smp_from(now, mad, slid, message.lid);
            }
            (Qpn::SMI, false) | (_, true) => {
                debug!(class = %mad.class(), qpn = %message.qpn, "class does not belong to QP");
                self.drop_one(DropReason::BadMad);
            }
            (qpn, false) => match message.way {
                Some(way) => self.send_gmp_by(now, &mad, &way, (message.lid, qpn, message.sl)),
                None => self.send_gmp(now, &mad, message.lid, qpn, message.sl),
            },
        }
    }

    /// Sends an SMP that was written here: by its directed route, or to a LID, which may be the
    /// host's own. A directed route may start by LID; the answer to one finds its way by itself.
    pub(super) fn send_smp(&mut self, now: Time, mad: Mad, dlid: Lid) {
        let slid = self.lid();
        self.send_smp_from(now, mad, slid, dlid);
    }

    fn send_smp_from(&mut self, now: Time, mut mad: Mad, slid: Lid, dlid: Lid) {
        let directed = mad.class() == MgmtClass::SUBN_DIR;
        let by_route = directed && (dlid == Lid::PERMISSIVE || mad.is_returning());
        if by_route || self.adapter.owns(dlid) {
            let arrival = Arrival {
                origin: Origin::Here,
                slid,
                dlid,
            };
            return self.handle_smp(now, &mut mad, arrival);
        }
        if !dlid.is_unicast() {
            return self.drop_one(DropReason::BadDlid);
        }
        self.send_packet_of_qp0(now, &UdPacket::smp(slid, dlid, &mad));
    }

    /// An SMP from the link.
    pub(super) fn smp_packet(
        &mut self,
        now: Time,
        packet: &DataPacket<'_>,
    ) -> Result<(), DropReason> {
        let datagram = UdPacket::parse(packet).map_err(|_| DropReason::BadManagement)?;
        let mut mad = datagram.mad().map_err(|_| DropReason::BadManagement)?;
        if datagram.dest_qp != Qpn::SMI {
            return Err(DropReason::BadManagement);
        }
        let (slid, dlid) = (datagram.slid, datagram.dlid);
        if dlid != Lid::PERMISSIVE && !self.adapter.owns(dlid) {
            return Err(DropReason::NotForUs);
        }
        self.handle_smp(
            now,
            &mut mad,
            Arrival {
                origin: Origin::Port(self.number()),
                slid,
                dlid,
            },
        );
        Ok(())
    }

    /// Handles an SMP that is for this port's agent or passes its interface. One about another port of
    /// the adapter waits until the host has copied that port's state ([`Endpoint::mirror`]).
    fn handle_smp(&mut self, now: Time, mad: &mut Mad, arrival: Arrival) {
        if self.is_about_sibling(mad) {
            if self.about_siblings.len() < ABOUT_SIBLINGS_MAX {
                self.about_siblings.push_back((Box::new(*mad), arrival));
            } else {
                self.drop_one(DropReason::ReceiverFull);
            }
            return;
        }
        self.handle_own_smp(now, mad, arrival);
    }

    fn is_about_sibling(&self, mad: &Mad) -> bool {
        let [.., port] = mad.attr_mod().to_be_bytes();
        mad.attr_id() == AttributeId::PORT_INFO
            && !mad.method().is_response()
            && (1..=self.adapter.identity.ports).contains(&port)
            && port != self.number().get()
    }

    /// Handles the SMPs about other ports of the adapter.
    pub(crate) fn handle_about_siblings(&mut self, now: Time) {
        while let Some((mut mad, arrival)) = self.about_siblings.pop_front() {
            self.handle_own_smp(now, &mut mad, arrival);
        }
    }

    fn handle_own_smp(&mut self, now: Time, mad: &mut Mad, arrival: Arrival) {
        // Of a program's trap; the agent represses its own.
        if mad.method() == Method::TRAP_REPRESS
            && arrival.origin != Origin::Here
            && self.clients.has_sent(mad.tid())
        {
            return self.deliver(mad, MadSender::of_smp(arrival.slid));
        }
        let sm_here = self.clients.serves_sm_info();
        let reregister = Self::is_reregistration(mad);
        self.engine_stale |= mad.method() == Method::SET;
        let next = agent::handle_smp(now, &mut self.sma, &mut self.adapter, mad, arrival, sm_here);
        self.last_valid_pkey = None;
        self.reregistered |= reregister;
        self.note_for_ip(reregister && !matches!(next, Next::Discard(_)));
        if reregister && !matches!(next, Next::Discard(_)) {
            self.rejoin_groups(now);
        }
        match next {
            // A directed route that begins here leaves by this port.
            Next::Directed(port) if port != self.number() => {
                debug!(%port, "a directed route names another port");
                self.drop_one(DropReason::BadMad);
            }
            Next::Directed(_) => {
                let permissive = Lid::PERMISSIVE;
                self.send_packet_of_qp0(now, &UdPacket::smp(permissive, permissive, mad));
            }
            Next::ToLid { dlid, slid }
                if arrival.origin == Origin::Here
                    && (self.adapter.owns(dlid) || dlid == Lid::ZERO) =>
            {
                self.deliver(mad, MadSender::of_smp(slid));
            }
            Next::ToLid { dlid, slid } => {
                if is_answerable(dlid) {
                    self.send_packet_of_qp0(now, &UdPacket::smp(slid, dlid, mad));
                } else {
                    self.drop_one(DropReason::BadMad);
                }
            }
            Next::Client => {
                let directed = mad.class() == MgmtClass::SUBN_DIR;
                let lid = if directed {
                    Lid::PERMISSIVE
                } else {
                    arrival.slid
                };
                self.deliver(mad, MadSender::of_smp(lid));
            }
            Next::Discard(why) => {
                if let Some(reason) = why.drop_reason() {
                    debug!(%why, class = %mad.class(), attribute = %mad.attr_id(), "SMP dropped");
                    self.drop_one(reason);
                }
            }
        }
    }

    /// A MAD to QP1 from the link or from here.
    pub(super) fn gmp_packet(
        &mut self,
        now: Time,
        datagram: &UdPacket<'_>,
    ) -> Result<(), DropReason> {
        let mut mad = datagram.mad().map_err(|_| DropReason::BadMad)?;
        if mad.class().is_subnet_management() {
            return Err(DropReason::BadMad);
        }
        if mad.class() == MgmtClass::PERF && !mad.method().is_response() {
            let counters = self.adapter.all_counts();
            if !self.pma.handle(now, &mut mad, |_| counters) {
                return Err(DropReason::NotForUs);
            }
            if !is_answerable(datagram.slid) {
                return Err(DropReason::BadMad);
            }
            self.answer_gmp(now, &mad, datagram);
            return Ok(());
        }
        if mad.class() == MgmtClass::CONGESTION && !mad.method().is_response() {
            let is_answered = self.congestion.handle(now, &mut mad);
            return match is_answered && is_answerable(datagram.slid) {
                true => {
                    self.answer_gmp(now, &mad, datagram);
                    Ok(())
                }
                false => Err(DropReason::BadMad),
            };
        }
        let grants = mad.is_vendor() && mad.attr_id() == vendor::WINDOW_GRANT;
        if grants && mad.method() == Method::SET {
            return self.window_grant(now, &mut mad, datagram);
        }
        let changes = mad.is_vendor() && mad.attr_id() == vendor::QOS_CHANGE;
        if changes && mad.method() == Method::SET {
            return self.connection_change(now, &mut mad, datagram);
        }
        // Answers to the host itself: no client has such a transaction id.
        if mad.class() == MgmtClass::SUBN_ADM && mad.method().is_response() && mad.tid() >> 32 == 0
        {
            self.check_from_manager(datagram)?;
            if self.ip_answered(now, &mad) {
                return Ok(());
            }
            match mad.tid() & OF_CONNECTIONS {
                0 => self.multicast.answered(now, &mad),
                _ => self.connection_answer(now, &mad),
            }
            return Ok(());
        }
        if mad.class() == MgmtClass::SUBN_ADM
            && mad.method() == Method::REPORT
            && self.check_from_manager(datagram).is_ok()
            && self.ip_reported(now, &mad)
        {
            // A program of this host may have subscribed as well.
            if self.clients.serves(&mad) {
                let sender = self.sender_of(datagram);
                self.deliver(&mut mad.clone(), sender);
            }
            self.acknowledge(now, &mut mad, datagram);
            return Ok(());
        }
        if mad.is_cm() {
            return self.cm_packet(now, &mad, datagram);
        }
        // Requests to subnet administration are dropped while no manager serves them, not refused: their
        // senders repeat them, and a manager that is starting answers the next.
        let is_served = self.clients.serves(&mad) || mad.class() == MgmtClass::SUBN_ADM;
        if !is_served && is_answerable(datagram.slid) && agent::refuse_class(&mut mad) {
            self.answer_gmp(now, &mad, datagram);
            return Ok(());
        }
        let sender = self.sender_of(datagram);
        self.deliver(&mut mad, sender);
        Ok(())
    }

    /// Refuses what only the subnet manager says from another port than its: requests of the project's own class,
    /// and answers of subnet administration to this host.
    fn check_from_manager(&self, datagram: &UdPacket<'_>) -> Result<(), DropReason> {
        let is_from_manager = datagram.slid == self.adapter.settings.sm_lid;
        match is_from_manager && is_answerable(datagram.slid) {
            true => Ok(()),
            false => Err(DropReason::BadMad),
        }
    }

    /// Answers a Set of the project's own class with what it set.
    fn acknowledge(&mut self, now: Time, mad: &mut Mad, datagram: &UdPacket<'_>) {
        mad.answer(MadStatus::OK);
        self.answer_gmp(now, mad, datagram);
    }

    /// A window grant: the controller names the host to which this one may send (CLOS04). The response
    /// is queued behind packets that the port's VL already holds.
    fn window_grant(
        &mut self,
        now: Time,
        mad: &mut Mad,
        datagram: &UdPacket<'_>,
    ) -> Result<(), DropReason> {
        self.check_from_manager(datagram)?;
        let grant: WindowGrant = mad.vendor_attribute().map_err(|_| DropReason::BadMad)?;
        if self.last_grant.admits(&grant) {
            self.last_grant = LastGrant::of(&grant);
            let way = (grant.dlid.is_unicast()).then_some((grant.destination, grant.dlid));
            self.source.grant(now, way);
        }
        self.acknowledge(now, mad, datagram);
        Ok(())
    }

    /// The controller reports a change of a connection from this host (VLARB01): logged, and
    /// passed to the program that serves the class here, if there is one beside the controller
    /// itself.
    fn connection_change(
        &mut self,
        now: Time,
        mad: &mut Mad,
        datagram: &UdPacket<'_>,
    ) -> Result<(), DropReason> {
        self.check_from_manager(datagram)?;
        let QosChange(change) = mad.vendor_attribute().map_err(|_| DropReason::BadMad)?;
        // A change is sent again until it is answered.
        if self.last_change.replace(mad.tid()) != Some(mad.tid()) {
            match change.cause {
                QosCause::Granted => warn!(
                    id = change.id,
                    dlid = %change.dlid,
                    sl = %change.sl,
                    "a connection has moved: its packets need this DLID and service level"
                ),
                cause => warn!(
                    id = change.id,
                    destination = %change.destination,
                    ?cause,
                    "a connection is dropped: its packets have no promised bandwidth any more"
                ),
            }
            let elsewhere = datagram.slid != self.lid();
            if elsewhere && self.clients.serves(mad) {
                let sender = self.sender_of(datagram);
                self.deliver(&mut mad.clone(), sender);
            }
        }
        self.acknowledge(now, mad, datagram);
        Ok(())
    }

    pub(super) fn send_gmp(&mut self, now: Time, mad: &Mad, dlid: Lid, qpn: Qpn, sl: Sl) {
        if !dlid.is_unicast() && !dlid.is_multicast() {
            return self.drop_one(DropReason::BadDlid);
        }
        let send = DirectSend {
            dest_qp: qpn,
            ..gmp_send(dlid, sl, Partition::First, mad)
        };
        self.send(now, self.own.gsi, &send);
    }

    /// Answers a datagram of QP1 in its partition, one with a GRH by a GRH (IBA 13.5.4).
    fn answer_gmp(&mut self, now: Time, mad: &Mad, request: &UdPacket<'_>) {
        let global = request.global.map(|global| GlobalRoute {
            hop_limit: MadGlobalRoute::HOP_LIMIT_MAX,
            sgid: global.dgid,
            dgid: global.sgid,
            ..global
        });
        let partition = Partition::Of(request.pkey);
        let send = DirectSend {
            src_path_bits: self.path_bits(request.dlid),
            global,
            dest_qp: request.src_qp,
            ..gmp_send(request.slid, request.sl, partition, mad)
        };
        self.send(now, self.own.gsi, &send);
    }

    fn send_packet_of_qp0(&mut self, now: Time, datagram: &UdPacket<'_>) {
        self.outbox.send_smp(now, &mut self.adapter, datagram);
    }

    fn sender_of(&self, datagram: &UdPacket<'_>) -> MadSender {
        MadSender {
            lid: datagram.slid,
            qpn: datagram.src_qp,
            sl: datagram.sl,
            way: Some(self.way_of(datagram)),
        }
    }

    /// Gives a MAD to the client that asked for it or registered its class.
    fn deliver(&mut self, mad: &mut Mad, sender: MadSender) {
        let Some(client) = self.clients.receive(mad) else {
            debug!(class = %mad.class(), method = %mad.method(), attribute = %mad.attr_id(), "no client for this MAD");
            return self.drop_one(DropReason::NotForUs);
        };
        let message = MadMessage {
            lid: sender.lid,
            qpn: sender.qpn,
            sl: sender.sl,
            mad: Box::new(*mad.as_bytes()),
            way: sender.way,
        };
        self.push_event(Event::Mad {
            client,
            message: FromAgent::Received(message),
        });
    }
}
