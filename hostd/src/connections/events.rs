//! What becomes of connections, and what programs are told of it.

use link::Time;
use mad::cm::{CmEvent, CmId, Route};
use uverbs::cm::{
    ConnectionParameters, DatagramParameters, EventParameters, EventReply, PathEntry,
    SocketAddress, errno as more,
};
use wire::cm::{IpCmHeader, Rej, RejReason, Rep, Req, SidrRep, SidrReq, SidrStatus};
use wire::{Format as _, Gid};

use super::connect::HEADER_LEN;
use super::{Connections, Id, IdState, Waiting};

/// Numbers of events: `rdma_cm_event_type`.
pub(super) mod event {
    pub(in super::super) const ADDR_RESOLVED: u32 = 0;
    pub(in super::super) const ADDR_ERROR: u32 = 1;
    pub(in super::super) const ROUTE_RESOLVED: u32 = 2;
    pub(in super::super) const ROUTE_ERROR: u32 = 3;
    pub(in super::super) const CONNECT_REQUEST: u32 = 4;
    pub(in super::super) const CONNECT_RESPONSE: u32 = 5;
    pub(in super::super) const UNREACHABLE: u32 = 7;
    pub(in super::super) const REJECTED: u32 = 8;
    pub(in super::super) const ESTABLISHED: u32 = 9;
    pub(in super::super) const DISCONNECTED: u32 = 10;
    pub(in super::super) const MULTICAST_JOIN: u32 = 12;
    pub(in super::super) const MULTICAST_ERROR: u32 = 13;
    pub(in super::super) const TIMEWAIT_EXIT: u32 = 15;
}

impl Connections {
    /// Tells the program of an id: an event, its status, and parameters beside it.
    pub(super) fn tell(
        &mut self,
        number: u32,
        (event, status): (u32, i32),
        parameters: Option<EventParameters>,
    ) {
        let Some(id) = self.ids.get(&number) else {
            return;
        };
        // Its program has not accepted it, and knows nothing of it yet.
        if id.listener.is_some() && id.uid == 0 {
            return;
        }
        let nothing = match id.is_datagram {
            true => EventParameters::Datagram(Box::default()),
            false => EventParameters::Connection(Box::default()),
        };
        let client = id.client;
        let reply = EventReply {
            uid: id.uid,
            id: number,
            event,
            status,
            parameters: parameters.unwrap_or(nothing),
        };
        let waiting = Waiting {
            reply,
            id: number,
            member: None,
            child: None,
        };
        self.push_event(client, waiting);
    }

    /// Takes in what the connection manager tells.
    pub(super) fn take_events(&mut self, now: Time) {
        while let Some(event) = self.agent.poll_event() {
            let of = self.by_cm.get(&event.id()).copied();
            match event {
                CmEvent::Requested { id, req, route } => self.requested(now, id, &req, route),
                CmEvent::QueuePairRequested { id, req, route } => {
                    self.queue_pair_requested(now, id, &req, route);
                }
                event => {
                    if let Some(number) = of {
                        self.of_id(number, event);
                    }
                }
            }
        }
    }

    fn of_id(&mut self, number: u32, event: CmEvent) {
        match event {
            CmEvent::Granted { rep, .. } => self.granted(number, &rep),
            CmEvent::Refused { rej, .. } => self.refused(number, &rej),
            CmEvent::Established { .. } => {
                self.set_state(number, IdState::Established);
                self.tell(number, (event::ESTABLISHED, 0), None);
            }
            CmEvent::Unreachable { .. } => {
                self.gone(number);
                let status = -i32::from(more::ETIMEDOUT);
                self.tell(number, (event::UNREACHABLE, status), None);
            }
            CmEvent::Disconnected { .. } => {
                self.set_state(number, IdState::Closed);
                self.tell(number, (event::DISCONNECTED, 0), None);
            }
            CmEvent::TimeWaitOver { .. } => {
                self.gone(number);
                self.tell(number, (event::TIMEWAIT_EXIT, 0), None);
            }
            CmEvent::Answered { rep, .. } => self.queue_pair_found(number, &rep),
            CmEvent::Requested { .. } | CmEvent::QueuePairRequested { .. } => {}
        }
    }

    fn set_state(&mut self, number: u32, state: IdState) {
        if let Some(id) = self.ids.get_mut(&number) {
            id.state = state;
        }
    }

    /// The connection manager knows an id's connection no more.
    fn gone(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else {
            return;
        };
        let waited = id.state == IdState::Requested;
        let listener = id.listener.filter(|_| waited);
        id.state = IdState::Closed;
        if let Some(cm) = id.cm.take() {
            self.by_cm.remove(&cm);
        }
        if let Some(listener) = listener.and_then(|listener| self.ids.get_mut(&listener)) {
            listener.pending -= 1;
        }
    }

    fn granted(&mut self, number: u32, rep: &Rep) {
        let Some(id) = self.ids.get_mut(&number) else {
            return;
        };
        id.state = IdState::Granted;
        id.peer_qpn = rep.local_qpn;
        id.peer_psn = rep.starting_psn;
        id.rnr_retry_count = rep.rnr_retry_count;
        // What the peer has is the most that is of use here.
        id.responder_resources = id.responder_resources.min(rep.initiator_depth);
        id.initiator_depth = id.initiator_depth.min(rep.responder_resources);
        let parameters = ConnectionParameters {
            qp_num: rep.local_qpn.get(),
            private_data: rep.private_data.to_vec(),
            srq: rep.srq,
            responder_resources: rep.initiator_depth,
            initiator_depth: rep.responder_resources,
            flow_control: rep.end_to_end_flow_control,
            rnr_retry_count: rep.rnr_retry_count,
            ..ConnectionParameters::default()
        };
        let parameters = EventParameters::Connection(Box::new(parameters));
        self.tell(number, (event::CONNECT_RESPONSE, 0), Some(parameters));
    }

    fn refused(&mut self, number: u32, rej: &Rej) {
        self.gone(number);
        let parameters = ConnectionParameters {
            private_data: rej.private_data.to_vec(),
            ..ConnectionParameters::default()
        };
        let status = (event::REJECTED, i32::from(rej.reason.0));
        let parameters = EventParameters::Connection(Box::new(parameters));
        self.tell(number, status, Some(parameters));
    }

    fn queue_pair_found(&mut self, number: u32, rep: &SidrRep) {
        self.gone(number);
        let Some(id) = self.ids.get_mut(&number) else {
            return;
        };
        if rep.status != SidrStatus::VALID {
            let status = (event::UNREACHABLE, i32::from(rep.status.0));
            return self.tell(number, status, None);
        }
        id.state = IdState::Established;
        id.peer_qpn = rep.qpn;
        let id = &self.ids[&number];
        let parameters = DatagramParameters {
            qp_num: rep.qpn.get(),
            qkey: rep.qkey,
            handle: self.handle_of(id),
            private_data: rep.private_data.to_vec(),
        };
        let parameters = EventParameters::Datagram(Box::new(parameters));
        self.tell(number, (event::ESTABLISHED, 0), Some(parameters));
    }

    /// The id that listens for what a peer asks.
    fn listener_of(&self, service_id: u64, header: &IpCmHeader) -> Option<u32> {
        let key = wire::cm::ip_service_parts(service_id)?;
        let fits = |number: &&u32| {
            let listener = self.ids.get(number);
            listener.is_some_and(|id| {
                let own = id.source.map(|source| source.ip);
                let is_asked = own.is_some_and(|own| {
                    own.is_unspecified() || own == header.destination || own.is_loopback()
                });
                id.state == IdState::Listening && id.pending < id.backlog && is_asked
            })
        };
        self.ports.get(&key)?.iter().find(fits).copied()
    }

    fn requested(&mut self, now: Time, cm: CmId, req: &Req, route: Route) {
        let header = IpCmHeader::parse(&req.private_data);
        let listener = header
            .ok()
            .and_then(|(header, _)| Some((header, self.listener_of(req.service_id, &header)?)));
        let Some((header, listener)) = listener else {
            return self.refuse(now, cm, false, RejReason::INVALID_SERVICE_ID);
        };
        let own_psn = self.agent.draw_psn();
        let path = self.path_of(req, route);
        let Some(number) = self.add_child(listener, cm, &header, path, false) else {
            return self.refuse(now, cm, false, RejReason::NO_RESOURCES);
        };
        if let Some(id) = self.ids.get_mut(&number) {
            id.own_psn = own_psn;
            id.peer_psn = req.starting_psn;
            id.peer_qpn = req.local_qpn;
            id.responder_resources = req.initiator_depth;
            id.initiator_depth = req.responder_resources;
            id.retry_count = req.retry_count;
            id.rnr_retry_count = req.rnr_retry_count;
            id.ack_timeout = Some(req.primary.local_ack_timeout);
        }
        let parameters = ConnectionParameters {
            qp_num: req.local_qpn.get(),
            private_data: req.private_data[HEADER_LEN..].to_vec(),
            srq: req.srq,
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            flow_control: req.end_to_end_flow_control,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            ..ConnectionParameters::default()
        };
        let parameters = EventParameters::Connection(Box::new(parameters));
        self.tell_of_child(listener, number, parameters);
    }

    /// The path back to who asks for a connection.
    fn path_of(&self, req: &Req, route: Route) -> PathEntry {
        let of = &req.primary;
        PathEntry {
            dgid: of.local_gid.0,
            sgid: self.port.gid.0,
            // Where it says that it is, if it can be there.
            dlid: match of.local_lid.is_unicast() {
                true => of.local_lid.get(),
                false => route.lid.get(),
            },
            slid: route.own_lid.get(),
            flow_label: of.flow_label,
            hop_limit: match of.subnet_local {
                true => 0,
                false => of.hop_limit,
            },
            traffic_class: of.traffic_class,
            pkey: req.pkey,
            sl: of.sl.get(),
            mtu: req.path_mtu.clamp(1, self.port.mtu.max(1)),
            rate: of.packet_rate,
            packet_life_time: of.local_ack_timeout.saturating_sub(1),
            reversible: true,
        }
    }

    fn queue_pair_requested(&mut self, now: Time, cm: CmId, req: &SidrReq, route: Route) {
        let header = IpCmHeader::parse(&req.private_data);
        let listener = header
            .ok()
            .and_then(|(header, _)| Some((header, self.listener_of(req.service_id, &header)?)));
        let Some((header, listener)) = listener else {
            return self.refuse(now, cm, true, RejReason::INVALID_SERVICE_ID);
        };
        // The request does not tell the GID of who asks.
        let path = PathEntry {
            sgid: self.port.gid.0,
            dlid: route.lid.get(),
            slid: route.own_lid.get(),
            pkey: route.pkey,
            sl: route.sl.get(),
            mtu: self.port.mtu,
            rate: self.port.rate,
            reversible: true,
            ..PathEntry::default()
        };
        let Some(number) = self.add_child(listener, cm, &header, path, true) else {
            return self.refuse(now, cm, true, RejReason::NO_RESOURCES);
        };
        let parameters = DatagramParameters {
            private_data: req.private_data[HEADER_LEN..].to_vec(),
            ..DatagramParameters::default()
        };
        let parameters = EventParameters::Datagram(Box::new(parameters));
        self.tell_of_child(listener, number, parameters);
    }

    /// An id for what a peer asks; `None` if there are as many as there may be.
    fn add_child(
        &mut self,
        listener: u32,
        cm: CmId,
        header: &IpCmHeader,
        path: PathEntry,
        is_datagram: bool,
    ) -> Option<u32> {
        let of = self.ids.get(&listener)?;
        let mut id = Id::new(of.client, 0, of.space, is_datagram);
        id.state = IdState::Requested;
        id.source = of.source.map(|source| SocketAddress {
            ip: header.destination,
            ..source
        });
        id.destination = Some(SocketAddress {
            ip: header.source,
            port: header.source_port,
        });
        id.on_device = true;
        id.peer_gid = Gid(path.dgid);
        id.path = Some(path);
        id.cm = Some(cm);
        id.listener = Some(listener);
        let number = self.add(id)?;
        self.by_cm.insert(cm, number);
        if let Some(listener) = self.ids.get_mut(&listener) {
            listener.pending += 1;
        }
        Some(number)
    }

    fn tell_of_child(&mut self, listener: u32, child: u32, parameters: EventParameters) {
        let Some(id) = self.ids.get(&listener) else {
            return;
        };
        let reply = EventReply {
            uid: id.uid,
            id: child,
            event: event::CONNECT_REQUEST,
            status: 0,
            parameters,
        };
        let waiting = Waiting {
            reply,
            id: listener,
            member: None,
            child: Some(child),
        };
        self.push_event(id.client, waiting);
    }
}
