//! One port of a host and the services behind its queue pairs.
//!
//! A received packet is processed at once: its blocks are free again within the same call, so that
//! a port never causes back pressure. Datagrams to the port's own LIDs are looped back inside.

mod connections;
mod control;
mod datagram;
mod groups;
mod ipoib;
mod management;
mod receive;
mod verbs;
mod way;

use std::collections::VecDeque;

use datagram::OwnQps;
use link::{
    Arrival, ConfigError, Deadline, DeadlineCause, FrameBuf, Pool, Port, PortConfig, PortEvent,
    PortState, Time,
};
use mad::cc::CongestionAgent;
use mad::pma::Pma;
use mad::sma::{Identity, Node, Sma};
use tracing::info;
use transport::{Engine, PortAttributes};
use wire::attr::{NodeType, PKeyTable};
use wire::{Lid, Lmc, Mad, Mtu, PortNum, Vl};

use crate::adapter::Adapter;
use crate::clients::Clients;
use crate::connections::Connections;
use crate::control::Reply;
use crate::host::{Event, HostConfig};
use crate::ipoib::Ipoib;
use crate::memory::ProgramMemory;
use crate::multicast::Multicast;
use crate::outbox::{Outbox, PACKET_BYTES_MAX};
use crate::ping::Pinger;
use crate::traffic::{Sink, Source};
use crate::verbs::{self as programs, Verbs};

/// Events that wait for the shell at most; MADs beyond are dropped and counted.
const EVENTS_MAX: usize = 16_384;
/// Memory for packets beside the port's own buffers: what waits in the outbox.
const POOL_SLACK_BYTES: usize = 2 << 20;

/// A port of a host without IO.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The host's name.
    name: String,
    adapter: Adapter,
    sma: Sma,
    pma: Pma,
    congestion: CongestionAgent,
    clients: Clients,
    /// The transport of the port: all queue pairs but QP0.
    engine: Engine,
    /// The host's own ones.
    own: OwnQps,
    verbs: Verbs,
    connections: Connections,
    memory: ProgramMemory,
    /// Whether the port may stand otherwise than the engine and the verbs know.
    engine_stale: bool,
    /// Whether the subnet manager has asked for registration anew since they were told.
    reregistered: bool,
    outbox: Outbox,
    pinger: Pinger,
    source: Source,
    sink: Sink,
    multicast: Multicast,
    /// IP over InfiniBand, if the port has addresses.
    ip: Option<Box<Ipoib>>,
    /// Whether the port may stand otherwise than that knows.
    ip_stale: bool,
    /// Whether the subnet manager has asked for registration anew since it was told.
    ip_reregisters: bool,
    last_grant: management::LastGrant,
    /// The transaction id of the last change of a connection that was reported.
    last_change: Option<u64>,
    events: VecDeque<Event>,
    /// SMPs about other ports of the adapter that have come in here.
    about_siblings: VecDeque<(Box<Mad>, mad::agent::Arrival)>,
    /// Buffer for a received packet; taken out while that is processed.
    inbox: Vec<u8>,
    /// The P_Key that was last found in the table; `None` after each SMP.
    last_valid_pkey: Option<u16>,
}

impl Endpoint {
    /// Port `number` of the host, whose cable is not plugged yet.
    ///
    /// # Errors
    /// [`ConfigError`]: which setting of the port is out of range.
    pub(crate) fn new(config: &HostConfig, number: PortNum) -> Result<Self, ConfigError> {
        let node_type = NodeType::ChannelAdapter;
        let hardware = &config.hardware;
        let ports = config.ports.clamp(1, HostConfig::PORTS_MAX);
        let identity = Identity::of(hardware, node_type, &config.name, config.guid, ports);
        // Far apart, so that no two ports use the same epochs.
        let apart = u32::from(number.get().saturating_sub(1)).wrapping_mul(0x0100_0193);
        let port_config = PortConfig {
            node_guid: config.guid,
            epoch_seed: config.port.epoch_seed.wrapping_add(apart),
            ..hardware.port_config(number, config.port)
        };
        let packets_bytes = Pool::limit_for(port_config.bytes_max());
        let pool = Pool::new(packets_bytes.saturating_add(POOL_SLACK_BYTES));
        let seed = config.guid.0 ^ u64::from(port_config.epoch_seed) << 32;
        let port = Port::new(number, port_config, 0)?;
        let supported = hardware.supported(config.port.rate);
        let mut adapter = Adapter::new(identity, port, supported, pool);
        let sma = Sma::of_port(&adapter, number);
        adapter.configure(Time::ZERO, number, &sma.settings(number));
        let mut engine = Engine::new(programs::limits(), unset_port());
        let ip = config.ip.iter().find(|ip| ip.port == number);
        let own = OwnQps::create(&mut engine, ip.is_some());
        let ip = ip.map(|ip| Box::new(Ipoib::new(ip, adapter.identity.port_guid(number))));
        Ok(Self {
            name: config.name.clone(),
            adapter,
            sma,
            pma: Pma::of_port(number),
            congestion: CongestionAgent::of_adapter(),
            clients: Clients::default(),
            engine,
            own,
            verbs: Verbs::new(),
            connections: Connections::new(seed),
            memory: ProgramMemory::none(),
            engine_stale: true,
            reregistered: false,
            outbox: Outbox::new(),
            pinger: Pinger::default(),
            source: Source::new(own.source, config.traffic_tick_ns),
            sink: Sink::default(),
            multicast: Multicast::default(),
            ip,
            ip_stale: true,
            ip_reregisters: false,
            last_grant: management::LastGrant::default(),
            last_change: None,
            events: VecDeque::new(),
            about_siblings: VecDeque::new(),
            inbox: vec![0; PACKET_BYTES_MAX],
            last_valid_pkey: None,
        })
    }

    /// The identity of the host.
    pub(crate) fn identity(&self) -> &Identity {
        &self.adapter.identity
    }

    /// Answers a Get of an attribute in place, without a key.
    pub(crate) fn read_attribute(&mut self, now: Time, mad: &mut Mad) {
        let port = self.number();
        self.sma.read_own(now, &mut self.adapter, mad, port);
    }

    /// The port's number.
    pub(crate) fn number(&self) -> PortNum {
        self.adapter.number()
    }

    /// The port.
    pub(crate) fn port(&self) -> &Port {
        &self.adapter.port
    }

    /// How many packets are inside.
    pub(crate) fn packets_inside(&self) -> usize {
        self.adapter.pool.handles()
    }

    /// Base LID; 0 before a subnet manager has set it.
    pub(crate) fn lid(&self) -> Lid {
        self.adapter.settings.lid
    }

    /// Whether SMPs about other ports wait to be handled.
    pub(crate) fn asks_about_siblings(&self) -> bool {
        !self.about_siblings.is_empty()
    }

    /// Copies the state of another port of the adapter: its agent's and its link's.
    pub(crate) fn mirror(&mut self, other: &Self) {
        self.sma.mirror(&other.sma);
        self.adapter.mirror(&other.adapter);
    }

    /// What reads and writes the memory of programs.
    pub(crate) fn memory_mut(&mut self) -> &mut ProgramMemory {
        &mut self.memory
    }

    /// Gives the port other memory of programs.
    pub(crate) fn set_memory(&mut self, memory: ProgramMemory) {
        self.memory = memory;
    }

    /// Messages of clients were dropped on their way here.
    pub(crate) fn count_dropped_mads(&mut self, count: u32) {
        let counts = self.adapter.counts();
        counts.drop_many(link::DropReason::ReceiverFull, count.into());
    }

    /// The key of packets of the host's own: the first of its table.
    fn own_pkey(&self) -> u16 {
        let keys = self.sma.pkeys(self.number()).iter();
        keys.copied()
            .find(|&key| key != 0)
            .unwrap_or(PKeyTable::DEFAULT_FULL)
    }

    pub(crate) fn push_event(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX && matches!(event, Event::Mad { .. }) {
            return self
                .adapter
                .counts()
                .drop_one(link::DropReason::ReceiverFull);
        }
        self.events.push_back(event);
    }

    /// Does everything that is due: timers, looped-back packets, events of the port.
    pub(crate) fn advance(&mut self, now: Time) {
        self.adapter.execute_pending_link_command(now);
        self.adapter.port.tick(now, &mut self.adapter.pool);
        if self.adapter.pool.review(now) {
            self.adapter.port.release_memory();
            self.outbox.release_memory();
            self.engine.release_memory();
        }
        while let Some(PortEvent::StateChanged { from, to, cause }) = self.adapter.port.poll_event()
        {
            info!(?from, ?to, ?cause, "port state");
            if to == PortState::Active {
                self.rejoin_groups(now);
            }
            self.engine_stale = true;
            self.note_for_ip(false);
            self.push_event(Event::PortState(to));
        }
        let counters = self.adapter.all_counts();
        self.pma.poll(now, |_| counters);
        while let Some(trap) = self.sma.poll_trap(now) {
            self.send_smp(now, trap.mad, trap.dlid);
        }
        while let Some(ping) = self.pinger.poll(now) {
            self.send_ping(now, &ping);
        }
        while let Some(query) = self.source.poll(now) {
            // Its flow sends another one if no answer comes.
            if !self.outbox.is_above_watermark() {
                self.send_query(now, &query);
            }
        }
        while !self.outbox.is_above_watermark()
            && let Some(reply) = self.sink.poll(now)
        {
            self.send_sink_reply(now, &reply);
        }
        self.poll_groups(now);
        self.advance_ip(now);
        self.refresh();
        self.tick_verbs(now);
        self.tick_connections(now);
        while let Some(packet) = self.outbox.poll_looped() {
            self.accept(now, now, &packet);
        }
        while let Some((token, results)) = self.pinger.poll_finished() {
            self.push_event(Event::Control {
                token,
                reply: Reply::Ping(results),
            });
        }
        self.settle_verbs(now);
    }

    /// A frame has come in from the link.
    pub(crate) fn frame(&mut self, arrival: Arrival, bytes: &[u8]) {
        let Adapter { port, pool, .. } = &mut self.adapter;
        port.receive(arrival, bytes, pool);
        self.drain_input(arrival.now);
    }

    /// The cable is there, or gone.
    pub(crate) fn carrier(&mut self, now: Time, up: bool) {
        let Adapter { port, pool, .. } = &mut self.adapter;
        port.set_carrier(now, up, pool);
    }

    /// Whether there is something to transmit.
    pub(crate) fn is_ready(&self, now: Time) -> bool {
        self.adapter.port.is_ready(now)
            || self.outbox.can_flush(&self.adapter)
            || self.source.can_fill(&self.adapter)
            || self.can_send_multicast()
            || self.can_send_ip()
            || self.sendable_sls() != 0
    }

    /// Fills a frame; how many records it got.
    pub(crate) fn transmit(&mut self, now: Time, frame: &mut FrameBuf<'_>) -> usize {
        self.refresh();
        self.send_multicast(now);
        let before = frame.records();
        self.adapter.port.begin_frame(now, frame);
        loop {
            self.outbox.flush(now, &mut self.adapter);
            self.source.fill(now, &mut self.adapter, &mut self.engine);
            self.send_verbs(now);
            self.send_ip(now);
            let filled = frame.records();
            let adapter = &mut self.adapter;
            while adapter
                .port
                .send_next(now, frame, &mut adapter.pool)
                .is_some()
            {}
            if frame.records() == filled {
                break;
            }
        }
        self.adapter.execute_pending_link_command(now);
        self.settle_verbs(now);
        self.settle_ip();
        frame.records() - before
    }

    /// The next event.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let traffic = [
            self.pinger.deadline(),
            self.source.deadline(),
            self.sink
                .deadline()
                .filter(|_| !self.outbox.is_above_watermark()),
            self.multicast.deadline(),
            self.engine.deadline(),
            self.connections.deadline(),
            self.ip_deadline(),
            // Packets to the host itself were left for the next call.
            self.outbox.is_looping().then_some(Time::ZERO),
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
        let sampling = self.pma.deadline().map(|at| Deadline {
            at,
            cause: DeadlineCause::Sampling,
        });
        let trap = Deadline::earlier(trap, sampling);
        Deadline::earlier(
            self.adapter.port.deadline(),
            Deadline::earlier(trap, traffic),
        )
    }
}

/// A port that no subnet manager has set.
fn unset_port() -> PortAttributes {
    PortAttributes {
        number: PortNum::new(1),
        lid: Lid::ZERO,
        lmc: Lmc::default(),
        mtu: Mtu::Mtu256,
        sl_to_vl: [Vl::default(); 16],
        pkeys: Vec::new(),
        gids: Vec::new(),
    }
}
