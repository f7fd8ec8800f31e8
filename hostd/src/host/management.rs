//! QP0 and QP1: between the fabric, the agents and the clients of the MAD sockets.

use link::{DropReason, Time};
use mad::agent::{self, Arrival, Next};
use mad::local::{FromAgent, MadMessage, ToAgent};
use mad::smi::Origin;
use tracing::{debug, warn};
use wire::mad::{Mad, MadStatus, Method, MgmtClass};
use wire::vendor::{self, QosCause, QosChange, WindowGrant};
use wire::{DataPacket, Lid, Qpn, Sl, UdPacket, Vl};

use super::receive::is_answerable;
use super::{Event, Host};
use crate::adapter::PORT;
use crate::clients::ClientId;

/// The sender of a MAD.
#[derive(Clone, Copy, Debug)]
struct MadSender {
    lid: Lid,
    qpn: Qpn,
    sl: Sl,
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

impl Host {
    /// Handles a message of a client of a MAD socket.
    pub(super) fn handle_mad_message(&mut self, now: Time, client: ClientId, message: ToAgent) {
        match message {
            ToAgent::Send(message) => self.send_mad(now, client, message),
            ToAgent::Register { class } => {
                let registered = self.clients.register(client, class);
                let message = FromAgent::Registered { class, registered };
                self.push_event(Event::Mad { client, message });
            }
            ToAgent::Unregister { class } => self.clients.unregister(client, class),
            ToAgent::ReadOwn(bytes) => self.read_own(now, client, *bytes),
            ToAgent::SetIsSm(is_sm) => {
                self.clients.set_is_sm(client, is_sm);
                self.update_is_sm(now);
            }
        }
    }

    /// Handles the end of a client of a MAD socket.
    pub(super) fn handle_mad_disconnect(&mut self, now: Time, client: ClientId) {
        self.clients.remove(client);
        self.update_is_sm(now);
    }

    /// CapabilityMask.IsSM follows the clients.
    fn update_is_sm(&mut self, now: Time) {
        self.sma
            .set_is_sm(now, &self.adapter, PORT, self.clients.is_sm());
    }

    /// Answers a client as a driver does.
    fn read_own(&mut self, now: Time, client: ClientId, bytes: [u8; 256]) {
        let mut mad = Mad::from_bytes(bytes);
        if !mad.class().is_subnet_management() {
            return self.drop_one(DropReason::BadMad);
        }
        self.sma.read_own(now, &mut self.adapter, &mut mad, PORT);
        let message = FromAgent::Received(MadMessage {
            lid: Lid::PERMISSIVE,
            qpn: Qpn::SMI,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
        });
        self.push_event(Event::Mad { client, message });
    }

    fn send_mad(&mut self, now: Time, client: ClientId, message: MadMessage) {
        let mut mad = Mad::from_bytes(*message.mad);
        self.clients.send(client, &mut mad);
        match (message.qpn, mad.class().is_subnet_management()) {
            (Qpn::SMI, true) => self.send_smp(now, mad, message.lid),
            (Qpn::SMI, false) | (_, true) => {
                debug!(class = %mad.class(), qpn = %message.qpn, "class does not belong to QP");
                self.drop_one(DropReason::BadMad);
            }
            (qpn, false) => self.send_gmp(now, &mad, message.lid, qpn, message.sl),
        }
    }

    /// Sends an SMP that was written here: by its directed route, or to a LID, which may be the
    /// host's own. A directed route may start by LID; the answer to one finds its way by itself.
    pub(super) fn send_smp(&mut self, now: Time, mut mad: Mad, dlid: Lid) {
        let directed = mad.class() == MgmtClass::SUBN_DIR;
        let by_route = directed && (dlid == Lid::PERMISSIVE || mad.is_returning());
        if by_route || self.adapter.owns(dlid) {
            let slid = self.lid();
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
        let slid = self.lid();
        self.send(now, &UdPacket::smp(slid, dlid, &mad));
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
                origin: Origin::Port(PORT),
                slid,
                dlid,
            },
        );
        Ok(())
    }

    fn handle_smp(&mut self, now: Time, mad: &mut Mad, arrival: Arrival) {
        let sm_here = self.clients.serves_sm_info();
        let reregister = Self::is_reregistration(mad);
        let next = agent::handle_smp(now, &mut self.sma, &mut self.adapter, mad, arrival, sm_here);
        self.last_valid_pkey = None;
        if reregister && !matches!(next, Next::Discard(_)) {
            self.multicast.rejoin(now);
        }
        match next {
            Next::Directed(_) => {
                let permissive = Lid::PERMISSIVE;
                self.send(now, &UdPacket::smp(permissive, permissive, mad));
            }
            Next::ToLid { dlid, slid } if arrival.origin == Origin::Here => {
                debug_assert!(self.adapter.owns(dlid) || dlid == Lid::ZERO);
                self.deliver(
                    mad,
                    MadSender {
                        lid: slid,
                        qpn: Qpn::SMI,
                        sl: Sl::default(),
                    },
                );
            }
            Next::ToLid { dlid, slid } => {
                if is_answerable(dlid) {
                    self.send(now, &UdPacket::smp(slid, dlid, mad));
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
                self.deliver(
                    mad,
                    MadSender {
                        lid,
                        qpn: Qpn::SMI,
                        sl: Sl::default(),
                    },
                );
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
            if !self.pma.handle(&mut mad, |_| counters) {
                return Err(DropReason::NotForUs);
            }
            if !is_answerable(datagram.slid) {
                return Err(DropReason::BadMad);
            }
            self.answer_gmp(now, &mad, datagram);
            return Ok(());
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
            self.multicast.answered(now, &mad);
            return Ok(());
        }
        let sender = MadSender {
            lid: datagram.slid,
            qpn: datagram.src_qp,
            sl: datagram.sl,
        };
        self.deliver(&mut mad, sender);
        Ok(())
    }

    /// A window grant: the controller names the host to which this one may send (CLOS04). The response
    /// is queued behind packets that the port's VL already holds.
    fn window_grant(
        &mut self,
        now: Time,
        mad: &mut Mad,
        datagram: &UdPacket<'_>,
    ) -> Result<(), DropReason> {
        let settings = &self.adapter.settings;
        if datagram.slid != settings.sm_lid || !is_answerable(datagram.slid) {
            return Err(DropReason::BadMad);
        }
        let grant: WindowGrant = mad.vendor_attribute().map_err(|_| DropReason::BadMad)?;
        if self.last_grant.admits(&grant) {
            self.last_grant = LastGrant::of(&grant);
            let way = (grant.dlid.is_unicast()).then_some((grant.destination, grant.dlid));
            self.source.grant(now, way);
        }
        mad.set_method(Method::GET_RESP);
        mad.set_status(MadStatus::OK);
        self.answer_gmp(now, mad, datagram);
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
        let settings = &self.adapter.settings;
        if datagram.slid != settings.sm_lid || !is_answerable(datagram.slid) {
            return Err(DropReason::BadMad);
        }
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
            let elsewhere = settings.sm_lid != self.lid();
            if elsewhere && self.clients.serves(mad.class()) {
                let sender = MadSender {
                    lid: datagram.slid,
                    qpn: datagram.src_qp,
                    sl: datagram.sl,
                };
                self.deliver(&mut mad.clone(), sender);
            }
        }
        mad.set_method(Method::GET_RESP);
        mad.set_status(MadStatus::OK);
        self.answer_gmp(now, mad, datagram);
        Ok(())
    }

    pub(super) fn send_gmp(&mut self, now: Time, mad: &Mad, dlid: Lid, qpn: Qpn, sl: Sl) {
        if !dlid.is_unicast() && !dlid.is_multicast() {
            return self.drop_one(DropReason::BadDlid);
        }
        let slid = self.lid();
        self.send_gmp_from(now, mad, slid, dlid, qpn, sl);
    }

    fn send_gmp_from(&mut self, now: Time, mad: &Mad, slid: Lid, dlid: Lid, qpn: Qpn, sl: Sl) {
        let pkey = self.own_pkey();
        let datagram = UdPacket::gmp(slid, dlid, sl, Vl::default(), mad);
        self.send(
            now,
            &UdPacket {
                pkey,
                dest_qp: qpn,
                ..datagram
            },
        );
    }

    /// Answers a datagram of QP1 in its partition.
    fn answer_gmp(&mut self, now: Time, mad: &Mad, request: &UdPacket<'_>) {
        let (slid, dlid) = (request.dlid, request.slid);
        let datagram = UdPacket::gmp(slid, dlid, request.sl, Vl::default(), mad);
        let pkey = self.key_of(request.pkey);
        self.send(
            now,
            &UdPacket {
                pkey,
                dest_qp: request.src_qp,
                ..datagram
            },
        );
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
        };
        self.push_event(Event::Mad {
            client,
            message: FromAgent::Received(message),
        });
    }
}
