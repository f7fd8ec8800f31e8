//! The host: a channel adapter and the services behind its queue pairs.
//!
//! ```text
//!              +-----------------------------------------------------------+
//!  frame ----> | port -> VL15 ---------------> QP0: SMI, SMA               |
//!              |      -> data VLs ---> QP1: PMA, MAD clients               |
//!              |                    -> QP 0x1b0..0x1b3: ping, traffic      | <---> commands,
//!  frame <---- | port <- outbox <- answers, MADs, pings                    |       events
//!              |      <- source (when a VL has room)                        |
//!              +-----------------------------------------------------------+
//! ```
//!
//! A received packet is processed at once: its blocks are free again within the same call, so that
//! a host never causes back pressure. Datagrams to the host's own LIDs are looped back inside.
//!
//! | queue pair | what it is | Q_Key |
//! |---|---|---|
//! | 0 | subnet management: SMI, SMA and MAD clients | - |
//! | 1 | general services: PMA and MAD clients | 0x80010000 |
//! | 0x1b0 | answers pings | 0x1bed |
//! | 0x1b1 | counts traffic and acknowledges it | 0x1bed |
//! | 0x1b2 | asks pings | 0x1bed |
//! | 0x1b3 | sends traffic | 0x1bed |
//! | others | of programs beside the host, unreliable datagrams | their own |
//!
//! Time must have one origin in all hosts of a fabric (`CLOCK_MONOTONIC` in daemons of one
//! machine): one-way latency is the difference of two hosts' times.

mod control;
mod datagram;
mod groups;
mod management;
mod receive;

use std::collections::VecDeque;

use bincode::{Decode, Encode};
use link::{
    Arrival, ConfigError, Deadline, DeadlineCause, Device, FrameBuf, Input, Pool, Port, PortConfig,
    PortEvent, PortSet, PortState, Time,
};
use mad::local::{FromAgent, ToAgent};
use mad::pma::Pma;
use mad::sma::{Identity, Node, Sma};
use tracing::info;
use wire::attr::{NodeType, PKeyTable};
use wire::{Guid, Lid, PortNum, UdPacket, Vl, p_key};

use crate::adapter::{Adapter, PORT};
use crate::clients::{ClientId, Clients};
use crate::control::{Reply, Request};
use crate::multicast::Multicast;
use crate::outbox::{Outbox, PACKET_BYTES_MAX};
use crate::ping::Pinger;
use crate::queue_pair::{FromQueuePair, QueuePairs, ToQueuePair};
use crate::traffic::{Sink, Source};

/// Events that wait for the shell at most; MADs beyond are dropped and counted.
const EVENTS_MAX: usize = 16_384;
/// Memory for packets beside the port's own buffers: what waits in the outbox.
const POOL_SLACK_BYTES: usize = 2 << 20;
/// A locally administered OUI: no vendor's.
const VENDOR_ID: u32 = 0x02_1bed;
/// The device number of hosts.
const DEVICE_ID: u16 = 0x0001;

/// The configuration of a host.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HostConfig {
    /// Node description.
    pub name: String,
    /// Node GUID; the port's is one more.
    pub guid: Guid,
    /// Process id, reported to the local control side.
    pub pid: u32,
    /// The port. Its node GUID is replaced by `guid`.
    pub port: PortConfig,
    /// Flows with a rate send no more often than this, in nanoseconds, then in one burst: a daemon
    /// cannot hold tens of thousands of wake-ups a second. 0 sends packet by packet (virtual time).
    pub traffic_tick_ns: u64,
}

impl HostConfig {
    /// The tick of a daemon: a millisecond.
    pub const LIVE_TRAFFIC_TICK_NS: u64 = 1_000_000;
}

/// A command of the shell.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Command {
    /// A message of a client of a MAD socket.
    Mad {
        /// The client.
        client: ClientId,
        /// The message.
        message: ToAgent,
    },
    /// A client of a MAD socket has disconnected.
    MadGone {
        /// The client.
        client: ClientId,
    },
    /// A program's message about its queue pairs.
    Datagram {
        /// The program.
        client: ClientId,
        /// The message.
        message: ToQueuePair,
    },
    /// A program with queue pairs has ended.
    DatagramGone {
        /// The program.
        client: ClientId,
    },
    /// A request on the control socket, answered by one [`Event::Control`] with the same token.
    /// `Endpoints` and `Connect` are for the transport: the shell answers them itself.
    Control {
        /// Chosen by the shell.
        token: u64,
        /// The request.
        request: Request,
    },
    /// The shell has dropped messages of clients of MAD sockets, because the command queue was
    /// full.
    MadsDropped {
        /// How many.
        count: u32,
    },
}

/// An event for the shell.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Event {
    /// For a client of a MAD socket.
    Mad {
        /// The client.
        client: ClientId,
        /// The message.
        message: FromAgent,
    },
    /// For a program with queue pairs.
    Datagram {
        /// The program.
        client: ClientId,
        /// The message.
        message: FromQueuePair,
    },
    /// The answer to [`Command::Control`].
    Control {
        /// The request's token.
        token: u64,
        /// The answer.
        reply: Reply,
    },
    /// The port's logical state has changed.
    PortState(PortState),
    /// `Shutdown` was requested: the peer is being informed; exit when [`Device::ready`] is empty.
    Shutdown,
}

/// A host without IO.
#[derive(Debug)]
pub struct Host {
    adapter: Adapter,
    sma: Sma,
    pma: Pma,
    clients: Clients,
    queue_pairs: QueuePairs,
    outbox: Outbox,
    pinger: Pinger,
    source: Source,
    sink: Sink,
    multicast: Multicast,
    last_grant: management::LastGrant,
    /// The transaction id of the last change of a connection that was reported.
    last_change: Option<u64>,
    events: VecDeque<Event>,
    /// Buffer for a received packet; taken out while that is processed.
    inbox: Vec<u8>,
    /// The P_Key that was last found in the table; `None` after each SMP.
    last_valid_pkey: Option<u16>,
    pid: u32,
}

impl Host {
    /// A host whose cable is not plugged yet.
    ///
    /// # Errors
    /// [`ConfigError`]: which setting of the port is out of range.
    pub fn new(config: HostConfig) -> Result<Self, ConfigError> {
        let identity = Identity {
            node_type: NodeType::ChannelAdapter,
            description: config.name,
            node_guid: config.guid,
            system_image_guid: config.guid,
            ports: 1,
            vendor_id: VENDOR_ID,
            device_id: DEVICE_ID,
            revision: 1,
        };
        let port_config = PortConfig {
            node_guid: config.guid,
            ..config.port
        };
        // A packet takes a slot of up to twice its length.
        let pool = Pool::new(port_config.bytes_max().saturating_mul(2) + POOL_SLACK_BYTES);
        let port = Port::new(PORT, port_config, 0)?;
        let mut adapter = Adapter::new(identity, port, pool);
        let sma = Sma::new(&adapter);
        adapter.configure(Time::ZERO, PORT, &sma.settings(PORT));
        Ok(Self {
            adapter,
            sma,
            pma: Pma::new(1),
            clients: Clients::default(),
            queue_pairs: QueuePairs::default(),
            outbox: Outbox::new(),
            pinger: Pinger::default(),
            source: Source::new(config.traffic_tick_ns),
            sink: Sink::default(),
            multicast: Multicast::default(),
            last_grant: management::LastGrant::default(),
            last_change: None,
            events: VecDeque::new(),
            inbox: vec![0; PACKET_BYTES_MAX],
            last_valid_pkey: None,
            pid: config.pid,
        })
    }

    /// The identity of the host.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.adapter.identity
    }

    /// The port, for tests and the simulator.
    #[must_use]
    pub fn port(&self) -> &Port {
        &self.adapter.port
    }

    /// How many packets are inside the host: 0 when all have been processed, sent or dropped.
    #[must_use]
    pub fn packets_inside(&self) -> usize {
        self.adapter.pool.handles()
    }

    /// Base LID; 0 before a subnet manager has set it.
    #[must_use]
    pub fn lid(&self) -> Lid {
        self.adapter.settings.lid
    }

    /// The key of packets of the host's own: the first of its table.
    fn own_pkey(&self) -> u16 {
        let keys = self.sma.pkeys(PORT).iter();
        keys.copied()
            .find(|&key| key != 0)
            .unwrap_or(PKeyTable::DEFAULT_FULL)
    }

    /// The key of packets in the partition of `pkey`: a full membership's if the table has one; the key of
    /// [`Self::own_pkey`] for 0 and where the port is no member.
    fn key_of(&self, pkey: u16) -> u16 {
        p_key::own_key(self.sma.pkeys(PORT), pkey).unwrap_or_else(|| self.own_pkey())
    }

    fn send(&mut self, now: Time, datagram: &UdPacket<'_>) {
        self.outbox.send(now, &mut self.adapter, datagram);
    }

    fn push_event(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX && matches!(event, Event::Mad { .. }) {
            return self
                .adapter
                .counts()
                .drop_one(link::DropReason::ReceiverFull);
        }
        self.events.push_back(event);
    }

    /// Does everything that is due: timers, looped-back packets, events of the port.
    fn advance(&mut self, now: Time) {
        self.adapter.execute_pending_link_command(now);
        self.adapter.port.tick(now, &mut self.adapter.pool);
        if self.adapter.pool.review(now) {
            self.adapter.port.release_memory();
            self.outbox.release_memory();
        }
        while let Some(PortEvent::StateChanged { from, to, cause }) = self.adapter.port.poll_event()
        {
            info!(?from, ?to, ?cause, "port state");
            if to == PortState::Active {
                self.multicast.rejoin(now);
            }
            self.push_event(Event::PortState(to));
        }
        while let Some(trap) = self.sma.poll_trap(now) {
            self.send_smp(now, trap.mad, trap.dlid);
        }
        while let Some(ping) = self.pinger.poll(now) {
            self.send_ping(now, &ping);
        }
        while let Some(query) = self.source.poll(now) {
            // Its flow sends another one if no answer comes.
            if !self.outbox.is_crowded() {
                self.send_query(now, &query);
            }
        }
        while !self.outbox.is_crowded()
            && let Some(reply) = self.sink.poll(now)
        {
            self.send_sink_reply(now, &reply);
        }
        self.poll_groups(now);
        while let Some(packet) = self.outbox.poll_looped() {
            self.accept(now, now, &packet);
        }
        while let Some((token, results)) = self.pinger.poll_finished() {
            self.push_event(Event::Control {
                token,
                reply: Reply::Ping(results),
            });
        }
    }
}

impl Device for Host {
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<'_, Command>) {
        match input {
            Input::Frame {
                port: PORT,
                head,
                tail,
                bytes,
            } => {
                let arrival = Arrival { now, head, tail };
                self.adapter
                    .port
                    .receive(arrival, bytes, &mut self.adapter.pool);
                self.drain_input(now);
            }
            Input::Carrier { port: PORT, up } => {
                self.adapter
                    .port
                    .set_carrier(now, up, &mut self.adapter.pool);
            }
            // A port other than the only one: an error of the shell, ignored.
            Input::Frame { .. } | Input::Carrier { .. } | Input::Tick => {}
            Input::Command(Command::Mad { client, message }) => {
                self.handle_mad_message(now, client, message);
            }
            Input::Command(Command::MadGone { client }) => self.handle_mad_disconnect(now, client),
            Input::Command(Command::MadsDropped { count }) => {
                let counts = self.adapter.counts();
                counts.drop_many(link::DropReason::ReceiverFull, count.into());
            }
            Input::Command(Command::Datagram { client, message }) => {
                self.handle_datagram_message(now, client, message);
            }
            Input::Command(Command::DatagramGone { client }) => self.queue_pairs.remove(client),
            Input::Command(Command::Control { token, request }) => {
                self.control(now, token, request);
            }
        }
        self.advance(now);
    }

    fn ready(&self, now: Time) -> PortSet {
        let mut ready = PortSet::EMPTY;
        if self.adapter.port.is_ready(now)
            || self.outbox.can_flush(&self.adapter)
            || self.source.can_fill(&self.adapter)
            || self.can_send_multicast()
        {
            ready.insert(PORT);
        }
        ready
    }

    fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        if port != PORT {
            return 0;
        }
        self.send_multicast(now);
        let before = frame.records();
        let Self {
            adapter,
            outbox,
            source,
            ..
        } = self;
        adapter.port.begin_frame(now, frame);
        loop {
            outbox.flush(now, adapter);
            source.fill(now, adapter);
            let filled = frame.records();
            while adapter
                .port
                .send_next(now, frame, &mut adapter.pool)
                .is_some()
            {}
            if frame.records() == filled {
                break;
            }
        }
        adapter.execute_pending_link_command(now);
        frame.records() - before
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Datagram {
            message: FromQueuePair::Received(datagram),
            ..
        } = &event
        {
            self.queue_pairs.taken(datagram.to);
        }
        Some(event)
    }

    fn deadline(&self) -> Option<Deadline> {
        let traffic = [
            self.pinger.deadline(),
            self.source.deadline(),
            self.sink.deadline().filter(|_| !self.outbox.is_crowded()),
            self.multicast.deadline(),
        ];
        let traffic = traffic.into_iter().flatten().min();
        let trap = self.sma.deadline().map(|at| Deadline {
            at,
            cause: DeadlineCause::Trap,
        });
        let traffic = traffic.map(|at| Deadline {
            at,
            cause: DeadlineCause::Traffic,
        });
        Deadline::earlier(
            self.adapter.port.deadline(),
            Deadline::earlier(trap, traffic),
        )
    }
}

/// A datagram between the hosts' own queue pairs.
fn service_datagram<'a>(
    adapter: &Adapter,
    dlid: Lid,
    from: (wire::Qpn, wire::Qpn),
    sl: wire::Sl,
    pkey: u16,
    payload: &'a [u8],
) -> UdPacket<'a> {
    let (src_qp, dest_qp) = from;
    UdPacket {
        vl: Vl::default(),
        sl,
        dlid,
        slid: adapter.settings.lid,
        global: None,
        solicited: false,
        pkey,
        dest_qp,
        psn: wire::Psn::default(),
        qkey: crate::control::SERVICE_QKEY,
        src_qp,
        immediate: None,
        payload,
    }
}
