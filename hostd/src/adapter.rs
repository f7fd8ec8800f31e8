//! The channel adapter: one port, its packet memory, and its settings by the subnet manager.

use link::{Counts, Packet, PhysicalState, Pool, Port, PortConfig, PortState, SetState, Time};
use mad::sma::{
    Forwarding, Identity, LinkCommand, LinkStatus, Node, PortCapabilities, PortSettings, Priority,
};
use tracing::debug;
use wire::attr::VlArbEntry;
use wire::{Lid, PortNum, Sl, TrafficKind, Vl};

/// The adapter's only port.
pub(crate) const PORT: PortNum = PortNum::new(1);
/// The input port of the adapter's own packets in its SL-to-VL table.
const OWN: PortNum = PortNum::MANAGEMENT;
/// Entries of each arbitration table.
const ARBITRATION_ENTRIES: u8 = 64;

/// What a host has sent and received of the hosts' own traffic, by kind.
#[derive(Debug, Default)]
pub(crate) struct TrafficCounts {
    sent: [u64; TrafficKind::COUNT],
    delivered: [u64; TrafficKind::COUNT],
}

impl TrafficCounts {
    /// Counts a packet that is made; from here on it is delivered, dropped or under way.
    #[inline]
    pub(crate) fn count_sent(&mut self, kind: Option<TrafficKind>) {
        if let Some(kind) = kind {
            self.sent[kind.index()] += 1;
        }
    }

    /// Counts a packet that its queue pair has taken.
    #[inline]
    pub(crate) fn count_delivered(&mut self, kind: TrafficKind) {
        self.delivered[kind.index()] += 1;
    }

    /// As `sent.KIND` and `delivered.KIND`, those that are not 0.
    fn named(&self) -> impl Iterator<Item = (String, u64)> {
        let named = |prefix: &'static str, counts: [u64; TrafficKind::COUNT]| {
            let kinds = TrafficKind::ALL.into_iter().zip(counts);
            kinds.map(move |(kind, count)| (format!("{prefix}.{}", kind.name()), count))
        };
        let all = named("sent", self.sent).chain(named("delivered", self.delivered));
        all.filter(|&(_, count)| count > 0)
    }
}

/// The channel adapter: a port and its packet memory.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) identity: Identity,
    pub(crate) port: Port,
    pub(crate) pool: Pool,
    pub(crate) settings: PortSettings,
    pub(crate) traffic: TrafficCounts,
    /// A command that takes the link down. It is executed once the response to it has been sent.
    pending_link_command: Option<LinkCommand>,
}

impl Adapter {
    pub(crate) fn new(identity: Identity, port: Port, pool: Pool) -> Self {
        Self {
            identity,
            port,
            pool,
            settings: PortSettings::INITIAL,
            traffic: TrafficCounts::default(),
            pending_link_command: None,
        }
    }

    /// Whether packets to `lid` are for this host.
    pub(crate) fn owns(&self, lid: Lid) -> bool {
        lid.belongs_to(self.settings.lid, self.settings.lmc)
    }

    /// The VL of a service level.
    pub(crate) fn vl(&self, sl: Sl) -> Vl {
        self.port.sl_to_vl().map(OWN, sl)
    }

    /// Counters and drops of the port.
    pub(crate) fn counts(&mut self) -> &mut Counts {
        self.port.counts_mut()
    }

    /// The same, read only.
    pub(crate) fn all_counts(&self) -> &Counts {
        self.port.counts()
    }

    /// What the port counts, and of the hosts' own traffic what was sent, what was delivered, and as
    /// `queued.KIND` what is in the port or in `waiting` for it.
    pub(crate) fn counters<'a>(
        &self,
        waiting: impl Iterator<Item = &'a Packet>,
    ) -> Vec<(String, u64)> {
        let mut queued = self.port.queued_traffic(&self.pool);
        for kind in waiting.filter_map(|packet| packet.traffic_kind(&self.pool)) {
            queued[kind.index()] += 1;
        }
        let queued = TrafficKind::ALL.into_iter().zip(queued);
        let queued = queued
            .filter(|&(_, count)| count > 0)
            .map(|(kind, count)| (format!("queued.{}", kind.name()), count));
        let counts = self.port.counts().named();
        counts.chain(self.traffic.named()).chain(queued).collect()
    }

    fn config(&self) -> &PortConfig {
        self.port.config()
    }

    /// Takes the link down if that was commanded and the response has been sent.
    pub(crate) fn execute_pending_link_command(&mut self, now: Time) {
        if self.pending_link_command.is_some()
            && self.port.is_idle(Vl::MANAGEMENT)
            && let Some(command) = self.pending_link_command.take()
        {
            self.execute(now, command);
        }
    }

    fn execute(&mut self, now: Time, command: LinkCommand) {
        let Self { port, pool, .. } = self;
        let state = match command {
            LinkCommand::Down => SetState::Down,
            LinkCommand::Arm => SetState::Armed,
            LinkCommand::Activate => SetState::Active,
            LinkCommand::Poll => {
                port.set_enabled(now, true, pool);
                return port.retrain(now, pool);
            }
            LinkCommand::Disable => return port.set_enabled(now, false, pool),
        };
        if let Err(refused) = port.set_state(now, state, pool) {
            debug!(%refused, "state change");
        }
    }
}

impl Node for Adapter {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self, _port: PortNum) -> PortCapabilities {
        let config = self.config();
        PortCapabilities {
            rate: config.rate,
            mtu: config.mtu,
            vls: config.vls,
            arbitration_high: ARBITRATION_ENTRIES,
            arbitration_low: ARBITRATION_ENTRIES,
        }
    }

    fn link(&self, _port: PortNum) -> LinkStatus {
        LinkStatus {
            state: self.port.state(),
            physical: match self.port.state() {
                PortState::Down => self.port.physical(),
                _ => PhysicalState::LinkUp,
            },
            rate: self.config().rate,
        }
    }

    fn configure(&mut self, _now: Time, _port: PortNum, settings: &PortSettings) {
        self.settings = *settings;
        self.port.set_operational_vls(settings.operational_vls);
        self.port.set_neighbor_mtu(settings.mtu);
        self.port.arbiter_mut().set_limit(settings.vl_high_limit);
    }

    fn command_link(&mut self, now: Time, _port: PortNum, command: LinkCommand) {
        match command {
            LinkCommand::Down | LinkCommand::Poll | LinkCommand::Disable => {
                self.pending_link_command = Some(command);
            }
            LinkCommand::Arm | LinkCommand::Activate => self.execute(now, command),
        }
    }

    fn sl_to_vl(&self, _input: PortNum, _output: PortNum) -> [Vl; 16] {
        self.port.sl_to_vl().row(OWN).copied().unwrap_or_default()
    }

    fn set_sl_to_vl(&mut self, _input: PortNum, _output: PortNum, vls: &[Vl; 16]) {
        self.port.sl_to_vl_mut().set_row(OWN, *vls);
    }

    fn set_sl_to_vl_of_all_inputs(&mut self, _output: PortNum, vls: &[Vl; 16]) {
        self.port.sl_to_vl_mut().set_all(*vls);
    }

    fn arbitration(&self, _port: PortNum, priority: Priority) -> [VlArbEntry; 64] {
        let arbiter = self.port.arbiter();
        let written = match priority {
            Priority::Low => arbiter.low(),
            Priority::High => arbiter.high(),
        };
        let mut table = [VlArbEntry::default(); 64];
        for (entry, written) in table.iter_mut().zip(written) {
            *entry = *written;
        }
        table
    }

    fn set_arbitration(&mut self, _port: PortNum, priority: Priority, entries: &[VlArbEntry; 64]) {
        let arbiter = self.port.arbiter_mut();
        match priority {
            Priority::Low => arbiter.set_low(entries.iter().copied()),
            Priority::High => arbiter.set_high(entries.iter().copied()),
        }
    }

    fn set_pkeys(&mut self, _port: PortNum, _keys: &[u16; 32]) {}

    fn forwarding(&mut self) -> Option<&mut dyn Forwarding> {
        None
    }
}
