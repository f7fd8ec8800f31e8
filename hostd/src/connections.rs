//! Connections of programs beside a port: what they write to their `/dev/infiniband/rdma_cm`, the port's
//! communication manager, and subnet administration's answers.
//!
//! ```text
//!  commands  --->  ids of programs  --->  mad::cm::Agent       <--->  datagrams of QP1
//!  events    <---  by channel       --->  paths and groups     <--->  subnet administration
//! ```
//!
//! A channel is a connection of a program ([`uverbs::cm`]), its ids are seen by no other one, and go with it. Every
//! command is answered at once; what takes time ends in an event of the channel.
//!
//! An id is a service's address and port, or a connection's. Which port of the fabric has an internet address is found as
//! for packets of IP: the port's neighbours are asked ([`crate::ipoib::Ipoib::resolve`]).

mod administration;
mod answers;
mod commands;
mod connect;
mod events;
mod groups;
mod resolve;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use bincode::{Decode, Encode};
use link::Time;
use mad::cm::{Agent, CmId, Refusal, Route};
use uverbs::cm::{CmReply, EventReply, PathEntry, SocketAddress};
use wire::cm::{PORT_SPACE_TCP, PORT_SPACE_UDP, RejReason};
use wire::{Gid, Guid, Lid, Mad, Psn, Qpn, Sl};

use crate::clients::ClientId;
pub(crate) use administration::OF_CONNECTIONS;
use administration::Query;
use groups::Member;
use resolve::Resolution;

/// Ids of one channel at most.
const IDS_MAX: usize = 2048;
/// Ids of all channels at most.
const IDS_IN_ALL_MAX: usize = 8192;
/// Events of one channel that wait at most; those of a program's own are refused beyond.
const EVENTS_MAX: usize = 8192;
/// The first port that is given to who asks for none.
const FIRST_FREE_PORT: u16 = 32_768;
/// The Q_Key of datagrams between ids, unless their programs say otherwise (`RDMA_UDP_QKEY`).
const DATAGRAM_QKEY: u32 = 0x0123_4567;

/// From a program to the host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ToCm {
    /// Opens a channel. Answered by [`FromCm::Reply`].
    Open,
    /// A command. Answered by [`FromCm::Reply`].
    Command {
        /// Header and structure.
        bytes: Vec<u8>,
        /// What a pointer in it points at.
        value: Vec<u8>,
        /// The channel that an id is moved from.
        from: Option<ClientId>,
    },
}

/// From the host to a program.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FromCm {
    /// The answer to [`ToCm`].
    Reply(CmReply),
    /// Events wait: the channel's descriptor is to be readable.
    Token,
}

/// What is to be sent.
#[derive(Debug)]
pub(crate) enum ToSend {
    /// A message of communication management.
    Peer(Route, Mad),
    /// A request to subnet administration.
    Administration(Mad),
}

/// The port, as far as connections need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortFacts {
    pub(crate) gid: Gid,
    pub(crate) node_guid: Guid,
    pub(crate) lid: Lid,
    pub(crate) lids: u16,
    pub(crate) pkeys: Vec<u16>,
    pub(crate) own_pkey: u16,
    /// Its internet addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// Code of the port's MTU.
    pub(crate) mtu: u8,
    /// Code of its rate.
    pub(crate) rate: u8,
}

#[derive(Debug, Default)]
struct Channel {
    events: VecDeque<Waiting>,
    /// The program has a token.
    has_token: bool,
    ids: usize,
}

/// An event that waits for its program.
#[derive(Debug)]
struct Waiting {
    reply: EventReply,
    /// The id whose events it counts among.
    id: u32,
    /// The membership that it tells of.
    member: Option<u32>,
    /// The id that comes with it.
    child: Option<u32>,
}

/// Where an id stands (the kernel's `rdma_cm_state`, as far as it shows).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdState {
    Idle,
    /// It has a port.
    Bound,
    /// The fabric is asked which port the peer is.
    AddressQuery,
    /// The peer is known.
    Resolved,
    /// Subnet administration is asked for the path.
    RouteQuery,
    /// The path is known.
    Routed,
    /// The peer is asked for a connection.
    Connecting,
    /// The peer has granted it, the program prepares its queue pair.
    Granted,
    /// A peer asks for it.
    Requested,
    /// It has been accepted, the peer is not ready yet.
    Accepted,
    Established,
    /// Refused, ended, or never come to be.
    Closed,
    Listening,
}

#[derive(Debug)]
struct Id {
    client: ClientId,
    uid: u64,
    space: u16,
    is_datagram: bool,
    state: IdState,
    source: Option<SocketAddress>,
    /// The port is the id's: it was not given by a listening one.
    owns_port: bool,
    destination: Option<SocketAddress>,
    /// It belongs to the device: it has an address that is the port's, or a peer.
    on_device: bool,
    peer_gid: Gid,
    path: Option<PathEntry>,
    cm: Option<CmId>,
    /// The listening id that it has come by.
    listener: Option<u32>,
    /// Requests that a listening id has, and may have.
    pending: usize,
    backlog: usize,
    /// Events that its program has been told.
    reported: u32,
    reuses_address: bool,
    ack_timeout: Option<u8>,
    qkey: u32,
    own_psn: Psn,
    peer_psn: Psn,
    peer_qpn: Qpn,
    responder_resources: u8,
    initiator_depth: u8,
    retry_count: u8,
    rnr_retry_count: u8,
}

impl Id {
    fn new(client: ClientId, uid: u64, space: u16, is_datagram: bool) -> Self {
        Self {
            client,
            uid,
            space,
            is_datagram,
            state: IdState::Idle,
            source: None,
            owns_port: false,
            destination: None,
            on_device: false,
            peer_gid: Gid::default(),
            path: None,
            cm: None,
            listener: None,
            pending: 0,
            backlog: 0,
            reported: 0,
            reuses_address: false,
            ack_timeout: None,
            qkey: DATAGRAM_QKEY,
            own_psn: Psn::default(),
            peer_psn: Psn::default(),
            peer_qpn: Qpn::default(),
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 7,
            rnr_retry_count: 7,
        }
    }

    /// The service that it listens for.
    fn service(&self) -> u64 {
        let port = self.source.map_or(0, |source| source.port);
        wire::cm::ip_service(self.space, port)
    }
}

/// The connections of the programs beside a port.
#[derive(Debug)]
pub(crate) struct Connections {
    agent: Agent,
    channels: BTreeMap<ClientId, Channel>,
    ids: BTreeMap<u32, Id>,
    by_cm: BTreeMap<CmId, u32>,
    /// Who has a port of a port space.
    ports: BTreeMap<(u16, u16), BTreeSet<u32>>,
    members: BTreeMap<u32, Member>,
    queries: BTreeMap<u32, Query>,
    resolutions: BTreeMap<u64, Resolution>,
    to_resolve: VecDeque<(u64, IpAddr)>,
    last_resolution: u64,
    port: PortFacts,
    out: VecDeque<(ClientId, FromCm)>,
    requests: VecDeque<Mad>,
    last_id: u32,
    last_tid: u32,
}

impl Connections {
    /// None yet; numbers of connections follow from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            agent: Agent::new(seed),
            channels: BTreeMap::new(),
            ids: BTreeMap::new(),
            by_cm: BTreeMap::new(),
            ports: BTreeMap::new(),
            members: BTreeMap::new(),
            queries: BTreeMap::new(),
            resolutions: BTreeMap::new(),
            to_resolve: VecDeque::new(),
            last_resolution: 0,
            port: PortFacts::default(),
            out: VecDeque::new(),
            requests: VecDeque::new(),
            last_id: 0,
            last_tid: 0,
        }
    }

    /// Whether there is anything to do here.
    pub(crate) fn is_used(&self) -> bool {
        !self.channels.is_empty() || !self.agent.is_empty() || !self.queries.is_empty()
    }

    /// The port may stand otherwise.
    pub(crate) fn set_port(&mut self, port: PortFacts) {
        self.port = port;
    }

    /// Handles a message of a program.
    pub(crate) fn handle(&mut self, now: Time, client: ClientId, message: ToCm) {
        let reply = match message {
            ToCm::Open => {
                self.channels.entry(client).or_default();
                CmReply::default()
            }
            ToCm::Command { bytes, value, from } => {
                let done = self.command(now, client, &bytes, &value, from);
                let take_token = self.takes_token(client);
                let (errno, bytes) = match done {
                    Ok(bytes) => (0, bytes),
                    Err(errno) => (errno, Vec::new()),
                };
                CmReply {
                    errno,
                    bytes,
                    take_token,
                }
            }
        };
        self.out.push_back((client, FromCm::Reply(reply)));
    }

    /// A channel has ended: what was made by it goes.
    pub(crate) fn close(&mut self, now: Time, client: ClientId) {
        self.channels.remove(&client);
        let of_client = self.ids.iter().filter(|(_, id)| id.client == client);
        let ids: Vec<u32> = of_client.map(|(&number, _)| number).collect();
        for number in ids {
            self.destroy(now, number);
        }
        self.out.retain(|(to, _)| *to != client);
    }

    /// Whether the channel's token is to be taken: no event waits any more.
    fn takes_token(&mut self, client: ClientId) -> bool {
        let Some(channel) = self.channels.get_mut(&client) else {
            return false;
        };
        let takes = channel.has_token && channel.events.is_empty();
        channel.has_token &= !takes;
        takes
    }

    fn push_event(&mut self, client: ClientId, waiting: Waiting) {
        let Some(channel) = self.channels.get_mut(&client) else {
            return;
        };
        channel.events.push_back(waiting);
        if !channel.has_token {
            channel.has_token = true;
            self.out.push_back((client, FromCm::Token));
        }
    }

    /// A message of communication management has come. Whether it makes sense.
    pub(crate) fn receive(&mut self, now: Time, from: Route, mad: &Mad) -> bool {
        let taken = self.agent.receive(now, from, mad);
        self.take_events(now);
        taken
    }

    /// Data has come for a queue pair, whose peer may not have said that it is ready.
    pub(crate) fn data_has_come(&mut self, now: Time, qpn: Qpn) {
        if self.agent.awaits_ready() {
            self.agent.data_has_come(qpn);
            self.take_events(now);
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.agent.deadline().is_some_and(|due| due <= now) {
            self.agent.tick(now);
            self.take_events(now);
        }
        self.tick_queries(now);
        self.tick_resolutions(now);
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let queries = self.queries.values().map(|query| query.due).min();
        let resolutions = self.resolutions.values().map(|one| one.end).min();
        let own = (!self.requests.is_empty()).then_some(Time::ZERO);
        [self.agent.deadline(), queries, resolutions, own]
            .into_iter()
            .flatten()
            .min()
    }

    /// What is to be sent next.
    pub(crate) fn poll_send(&mut self) -> Option<ToSend> {
        if let Some(mad) = self.requests.pop_front() {
            return Some(ToSend::Administration(mad));
        }
        let (route, mad) = self.agent.poll_send()?;
        Some(ToSend::Peer(route, mad))
    }

    /// What programs are told next.
    pub(crate) fn poll_output(&mut self) -> Option<(ClientId, FromCm)> {
        self.out.pop_front()
    }

    /// Destroys an id; the events that its program was told of.
    fn destroy(&mut self, now: Time, number: u32) -> u32 {
        let Some(id) = self.ids.remove(&number) else {
            return 0;
        };
        if id.owns_port
            && let Some(source) = id.source
        {
            self.release_port(number, (id.space, source.port));
        }
        if let Some(cm) = id.cm {
            self.by_cm.remove(&cm);
            self.agent.forget(now, cm);
        }
        if let Some(listener) = id.listener
            && id.state == IdState::Requested
            && let Some(listener) = self.ids.get_mut(&listener)
        {
            listener.pending -= 1;
        }
        self.queries.retain(|_, query| !query.is_of(number));
        self.resolutions.retain(|_, one| one.id != number);
        let of_id = self
            .members
            .iter()
            .filter(|(_, member)| member.id == number);
        let members: Vec<u32> = of_id.map(|(&member, _)| member).collect();
        for member in members {
            self.leave(now, member);
        }
        if let Some(channel) = self.channels.get_mut(&id.client) {
            channel.ids -= 1;
        }
        for child in self.drop_events(id.client, |waiting| waiting.id == number) {
            self.destroy(now, child);
        }
        id.reported
    }

    /// Takes events out of a channel's queue; the ids that came with them.
    fn drop_events(&mut self, client: ClientId, is_gone: impl Fn(&Waiting) -> bool) -> Vec<u32> {
        let mut children = Vec::new();
        if let Some(channel) = self.channels.get_mut(&client) {
            channel.events.retain(|waiting| {
                let gone = is_gone(waiting);
                children.extend(waiting.child.filter(|_| gone));
                !gone
            });
        }
        children
    }

    fn release_port(&mut self, number: u32, key: (u16, u16)) {
        if let Some(users) = self.ports.get_mut(&key) {
            users.remove(&number);
            let listens = |user: &u32| {
                let id = self.ids.get(user);
                id.is_some_and(|id| id.state == IdState::Listening)
            };
            if !users.iter().any(listens) {
                self.agent.unlisten(wire::cm::ip_service(key.0, key.1));
            }
            if users.is_empty() {
                self.ports.remove(&key);
            }
        }
    }

    /// A number that neither an id nor a membership has.
    fn next_number(&mut self) -> u32 {
        loop {
            // The library keeps ids in a table of 65,536 (`IDX_MAX_INDEX`).
            self.last_id = (self.last_id + 1) % 65_535;
            let number = self.last_id;
            if !self.ids.contains_key(&number) && !self.members.contains_key(&number) {
                return number;
            }
        }
    }

    /// Refuses what a peer asks.
    fn refuse(&mut self, now: Time, cm: CmId, is_datagram: bool, reason: RejReason) {
        // It waits for this: it has just come.
        let _ = match is_datagram {
            true => {
                let status = wire::cm::SidrStatus::REJECTED;
                self.agent.answer(now, cm, status, None, &[])
            }
            false => self.agent.refuse(now, cm, &Refusal::because(reason)),
        };
    }

    fn route(&self, path: &PathEntry) -> Route {
        Route {
            lid: Lid::new(path.dlid),
            own_lid: Lid::new(path.slid),
            sl: Sl::truncate(path.sl),
            pkey: path.pkey,
        }
    }
}

/// Whether ids can be of a port space.
fn is_port_space(space: u16) -> bool {
    matches!(space, PORT_SPACE_TCP | PORT_SPACE_UDP)
}
