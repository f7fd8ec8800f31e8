//! Commands of programs.

use std::net::IpAddr;

use link::Time;
use uverbs::cm::{
    Command, EventParameters, EventReply, QueryKind, RouteQuery, SocketAddress, errno as more,
};
use uverbs::errno;
use wire::cm::RejReason;

use super::events::event;
use super::{
    Connections, EVENTS_MAX, FIRST_FREE_PORT, IDS_IN_ALL_MAX, IDS_MAX, Id, IdState, Waiting,
    is_port_space,
};
use crate::clients::ClientId;

/// `IBV_QPT_RC`, `IBV_QPT_UC`, `IBV_QPT_UD`.
const QP_TYPES: [u8; 3] = [2, 3, 4];
/// `IBV_QPT_UD`.
const DATAGRAMS: u8 = 4;
/// `IBV_EVENT_COMM_EST`.
const COMMUNICATION_ESTABLISHED: u32 = 4;
/// `RDMA_CM_EVENT_USER` and `RDMA_CM_EVENT_INTERNAL`.
const OWN_EVENTS: std::ops::RangeInclusive<u32> = 18..=19;
/// Requests that wait at a listening id at most.
const BACKLOG_MAX: u32 = 1024;
/// Numbers of an id's options (`RDMA_OPTION_ID_*`).
const REUSE_ADDRESS: u32 = 1;
const ACK_TIMEOUT: u32 = 3;

pub(super) type Done = Result<Vec<u8>, u16>;

impl Connections {
    /// Does what a program has written: the bytes that it is answered with, or an errno.
    pub(super) fn command(
        &mut self,
        now: Time,
        client: ClientId,
        bytes: &[u8],
        value: &[u8],
        from: Option<ClientId>,
    ) -> Done {
        if !self.channels.contains_key(&client) {
            return Err(more::ENODEV);
        }
        let (command, room) = Command::parse(bytes, value)?;
        let owner = |id: u32| self.ids.get(&id).map(|id| id.client);
        // Of other ids a program knows nothing, but of one that it moves here.
        if let Some(id) = named(&command)
            && owner(id) != Some(client)
        {
            return Err(errno::ENOENT);
        }
        let answer = match command {
            Command::CreateId {
                uid,
                space,
                qp_type,
            } => self.create(client, uid, space, qp_type),
            Command::DestroyId { id } => Ok(self.destroy(now, id).to_ne_bytes().to_vec()),
            Command::Bind { id, address } => self.bind(id, address),
            Command::ResolveAddress {
                id,
                source,
                destination,
                timeout_ms,
            } => self.resolve_address(now, id, (source, destination), timeout_ms),
            Command::ResolveRoute { id, timeout_ms } => self.resolve_route(now, id, timeout_ms),
            Command::Query { id, what } => self.query(id, what),
            Command::Connect { id, parameters } => self.connect(now, id, &parameters),
            Command::Listen { id, backlog } => self.listen(id, backlog),
            Command::Accept {
                id,
                uid,
                parameters,
            } => self.accept(now, id, uid, parameters.as_deref()),
            Command::Reject {
                id,
                reason,
                private_data,
            } => self.reject(now, id, reason, &private_data),
            Command::Disconnect { id } => self.disconnect(now, id),
            Command::InitQp { id, state } => self.init_qp(id, state),
            Command::GetEvent => self.next_event(client),
            Command::SetOption {
                id,
                level,
                name,
                value,
            } => self.set_option(id, (level, name), &value),
            Command::Notify { id, event } => self.notify(now, id, event),
            Command::JoinMulticast {
                id,
                uid,
                address,
                send_only,
            } => self.join(now, id, uid, address.ip, send_only),
            Command::LeaveMulticast { id } => self.leave_by(now, client, id),
            Command::MigrateId { id } => self.migrate(client, from, id),
            Command::WriteEvent {
                id,
                event,
                status,
                argument,
            } => self.write_event(id, event, status, argument),
        };
        answer.and_then(|mut bytes| match bytes.is_empty() || room >= 4 {
            true => {
                bytes.truncate(room);
                Ok(bytes)
            }
            false => Err(more::ENOSPC),
        })
    }

    pub(super) fn id(&mut self, number: u32) -> Result<&mut Id, u16> {
        self.ids.get_mut(&number).ok_or(errno::ENOENT)
    }

    fn create(&mut self, client: ClientId, uid: u64, space: u16, qp_type: u8) -> Done {
        if !is_port_space(space) || !QP_TYPES.contains(&qp_type) {
            return Err(errno::EINVAL);
        }
        let id = Id::new(client, uid, space, qp_type == DATAGRAMS);
        let number = self.add(id).ok_or(errno::ENOMEM)?;
        Ok(number.to_ne_bytes().to_vec())
    }

    /// Adds an id; `None` if there are as many as there may be.
    pub(super) fn add(&mut self, id: Id) -> Option<u32> {
        let number = self.next_number();
        let channel = self.channels.get_mut(&id.client)?;
        if channel.ids >= IDS_MAX || self.ids.len() >= IDS_IN_ALL_MAX {
            return None;
        }
        channel.ids += 1;
        self.ids.insert(number, id);
        Some(number)
    }

    fn bind(&mut self, number: u32, address: SocketAddress) -> Done {
        if self.id(number)?.state != IdState::Idle {
            return Err(errno::EINVAL);
        }
        if !address.ip.is_unspecified() && !self.is_own(address.ip) {
            return Err(more::EADDRNOTAVAIL);
        }
        // Programs tell their peers the address that they have bound: one by which peers find them.
        let ip = match address.ip.is_loopback() && !self.port.addresses.contains(&address.ip) {
            true => self.own_address(address.ip).unwrap_or(address.ip),
            false => address.ip,
        };
        self.take_port(number, SocketAddress { ip, ..address })?;
        let id = self.id(number)?;
        id.state = IdState::Bound;
        id.on_device = !address.ip.is_unspecified();
        Ok(Vec::new())
    }

    /// Gives an id a port of its port space: the one that it asks for, or a free one.
    pub(super) fn take_port(&mut self, number: u32, address: SocketAddress) -> Result<(), u16> {
        let id = self.id(number)?;
        let (space, reuses) = (id.space, id.reuses_address);
        let free = |port: &u16| !self.ports.contains_key(&(space, *port));
        let port = match address.port {
            0 => (FIRST_FREE_PORT..u16::MAX)
                .find(free)
                .ok_or(more::EADDRINUSE)?,
            port => port,
        };
        let users = self.ports.get(&(space, port));
        let conflicts = |user: &u32| {
            let other = self.ids.get(user);
            other.is_some_and(|other| {
                let apart = other.source.is_some_and(|own| {
                    own.ip != address.ip && !own.ip.is_unspecified() && !address.ip.is_unspecified()
                });
                let shared = reuses && other.reuses_address && other.state != IdState::Listening;
                !apart && !shared
            })
        };
        if users.is_some_and(|users| users.iter().any(conflicts)) {
            return Err(more::EADDRINUSE);
        }
        self.ports.entry((space, port)).or_default().insert(number);
        let id = self.id(number)?;
        id.source = Some(SocketAddress { port, ..address });
        id.owns_port = true;
        Ok(())
    }

    fn query(&mut self, number: u32, what: RouteQuery) -> Done {
        let id = self.id(number)?;
        let has_path = id.path.is_some();
        let (on_device, peer_gid) = (id.on_device, id.peer_gid);
        let (source, destination, path) = (id.source, id.destination, id.path);
        let node_guid = match on_device {
            true => self.port.node_guid.0,
            false => 0,
        };
        let path = path.unwrap_or_else(|| uverbs::cm::PathEntry {
            sgid: match on_device {
                true => self.port.gid.0,
                false => [0; 16],
            },
            dgid: peer_gid.0,
            pkey: self.port.own_pkey,
            ..uverbs::cm::PathEntry::default()
        });
        let addresses = uverbs::cm::AddressReply {
            node_guid,
            pkey: path.pkey,
            source,
            destination,
        };
        Ok(match what {
            RouteQuery::Route => {
                let route = uverbs::cm::RouteReply {
                    node_guid,
                    path,
                    has_path,
                    source,
                    destination,
                };
                route.bytes()
            }
            RouteQuery::Of(QueryKind::Address) => addresses.bytes(),
            RouteQuery::Of(QueryKind::Gid) => addresses.gid_bytes(&path),
            RouteQuery::Of(QueryKind::Path) => super::answers::paths(has_path.then_some(&path)),
        })
    }

    fn listen(&mut self, number: u32, backlog: u32) -> Done {
        let id = self.id(number)?;
        match id.state {
            IdState::Bound => {}
            IdState::Idle => {
                let ip = IpAddr::from([0, 0, 0, 0]);
                self.take_port(number, SocketAddress { ip, port: 0 })?;
            }
            _ => return Err(errno::EINVAL),
        }
        let id = self.id(number)?;
        id.state = IdState::Listening;
        let wanted = match backlog {
            0 => BACKLOG_MAX,
            some => some.min(BACKLOG_MAX),
        };
        id.backlog = usize::try_from(wanted).unwrap_or_default();
        let service = id.service();
        let port = id.source.map_or(0, |source| source.port);
        tracing::info!(port, "a program listens for connections");
        self.agent.listen(service);
        Ok(Vec::new())
    }

    fn set_option(&mut self, number: u32, option: (u32, u32), value: &[u8]) -> Done {
        let id = self.id(number)?;
        let number_of = value
            .iter()
            .rev()
            .fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        match (option, value.len()) {
            // Type of service: the service level is subnet administration's. Address family: there is one service
            // for both.
            ((0, 0), 1) | ((0, 2), 4) => {}
            ((0, REUSE_ADDRESS), 4) => id.reuses_address = number_of != 0,
            ((0, ACK_TIMEOUT), 1) => id.ack_timeout = Some(value[0] & 31),
            ((1, 1), _) => {
                let path = super::answers::path_of_option(value).ok_or(errno::EINVAL)?;
                if id.state != IdState::Resolved {
                    return Err(errno::EINVAL);
                }
                id.path = Some(path);
                id.state = IdState::Routed;
                self.tell(number, (event::ROUTE_RESOLVED, 0), None);
            }
            ((0 | 1, _), _) => return Err(errno::EINVAL),
            _ => return Err(more::ENOSYS),
        }
        Ok(Vec::new())
    }

    fn notify(&mut self, now: Time, number: u32, event: u32) -> Done {
        let id = self.id(number)?;
        let (Some(_), COMMUNICATION_ESTABLISHED) = (id.cm, event) else {
            return Err(errno::EINVAL);
        };
        if let Some(cm) = id.cm {
            self.agent.presume_ready(cm);
            self.take_events(now);
        }
        Ok(Vec::new())
    }

    fn reject(&mut self, now: Time, number: u32, reason: u8, private_data: &[u8]) -> Done {
        let id = self.id(number)?;
        let Some(cm) = id.cm else {
            return Err(errno::EINVAL);
        };
        let was = std::mem::replace(&mut id.state, IdState::Closed);
        let (is_datagram, listener) = (id.is_datagram, id.listener);
        if was == IdState::Requested
            && let Some(listener) = listener.and_then(|listener| self.ids.get_mut(&listener))
        {
            listener.pending -= 1;
        }
        let reason = match reason {
            0 => RejReason::CONSUMER,
            reason => RejReason(reason.into()),
        };
        let done = match is_datagram {
            true => {
                let status = wire::cm::SidrStatus::REJECTED;
                self.agent.answer(now, cm, status, None, private_data)
            }
            false => {
                let mut refusal = mad::cm::Refusal::because(reason);
                refusal.private_data = private_data.to_vec();
                self.agent.refuse(now, cm, &refusal)
            }
        };
        done.map(|()| Vec::new()).map_err(|_| errno::EINVAL)
    }

    fn next_event(&mut self, client: ClientId) -> Done {
        let channel = self.channels.get_mut(&client).ok_or(more::ENODEV)?;
        let waiting = channel.events.pop_front().ok_or(more::EAGAIN)?;
        if let Some(id) = self.ids.get_mut(&waiting.id) {
            id.reported += 1;
        }
        if let Some(member) = waiting
            .member
            .and_then(|member| self.members.get_mut(&member))
        {
            member.reported += 1;
        }
        Ok(waiting.reply.bytes())
    }

    /// Moves an id, and the events that wait for it, from another channel to this one.
    fn migrate(&mut self, client: ClientId, from: Option<ClientId>, number: u32) -> Done {
        let id = self.ids.get(&number).ok_or(errno::ENOENT)?;
        if Some(id.client) != from {
            return Err(errno::ENOENT);
        }
        let (old, reported) = (id.client, id.reported);
        let room = |channel: &super::Channel| channel.ids < IDS_MAX;
        if old != client && !self.channels.get(&client).is_some_and(room) {
            return Err(errno::ENOMEM);
        }
        let mut moved = Vec::new();
        if let Some(channel) = self.channels.get_mut(&old) {
            channel.ids -= 1;
            let (of_id, others) = std::mem::take(&mut channel.events)
                .into_iter()
                .partition(|waiting: &Waiting| waiting.id == number);
            channel.events = others;
            moved = Vec::from(of_id);
        }
        if let Some(channel) = self.channels.get_mut(&client) {
            channel.ids += 1;
        }
        self.id(number)?.client = client;
        for waiting in moved {
            self.push_event(client, waiting);
        }
        Ok(reported.to_ne_bytes().to_vec())
    }

    fn write_event(&mut self, number: u32, event: u32, status: u32, argument: u64) -> Done {
        let id = self.id(number)?;
        let (client, uid) = (id.client, id.uid);
        if !OWN_EVENTS.contains(&event) {
            return Err(errno::EINVAL);
        }
        let full = |channel: &super::Channel| channel.events.len() >= EVENTS_MAX;
        if self.channels.get(&client).is_some_and(full) {
            return Err(errno::ENOMEM);
        }
        let reply = EventReply {
            uid,
            id: number,
            event,
            status: status.cast_signed(),
            parameters: EventParameters::Argument(argument),
        };
        let waiting = Waiting {
            reply,
            id: number,
            member: None,
            child: None,
        };
        self.push_event(client, waiting);
        Ok(Vec::new())
    }
}

/// The id of the program's that a command names.
fn named(command: &Command) -> Option<u32> {
    match command {
        Command::CreateId { .. }
        | Command::GetEvent
        | Command::LeaveMulticast { .. }
        | Command::MigrateId { .. } => None,
        Command::DestroyId { id }
        | Command::Bind { id, .. }
        | Command::ResolveAddress { id, .. }
        | Command::ResolveRoute { id, .. }
        | Command::Query { id, .. }
        | Command::Connect { id, .. }
        | Command::Listen { id, .. }
        | Command::Accept { id, .. }
        | Command::Reject { id, .. }
        | Command::Disconnect { id }
        | Command::InitQp { id, .. }
        | Command::SetOption { id, .. }
        | Command::Notify { id, .. }
        | Command::JoinMulticast { id, .. }
        | Command::WriteEvent { id, .. } => Some(*id),
    }
}
