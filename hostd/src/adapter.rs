//! A port of the channel adapter with its packet memory and its settings by the subnet manager.

use std::collections::BTreeMap;

use link::{
    Counts, LinkCommand, Packet, PhysicalState, Pool, Port, PortConfig, PortState, Time,
    queued_counters,
};
use mad::sma::{Forwarding, Identity, LinkStatus, Node, PortCapabilities, PortSettings, Priority};
use tracing::debug;
use wire::attr::VlArbEntry;
use wire::{Lid, LinkRate, LinkRates, PortNum, Sl, TrafficKind, Vl};

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

/// A port of the channel adapter and its packet memory.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) identity: Identity,
    pub(crate) port: Port,
    /// Width and speed that every port of the adapter supports.
    supported: LinkRate,
    /// The links of the adapter's other ports, as they were when a request about one came in.
    siblings: BTreeMap<PortNum, LinkStatus>,
    pub(crate) pool: Pool,
    pub(crate) settings: PortSettings,
    pub(crate) traffic: TrafficCounts,
    /// A command that takes the link down. It is executed once the response to it has been sent.
    pending_link_command: Option<LinkCommand>,
}

impl Adapter {
    pub(crate) fn new(identity: Identity, port: Port, supported: LinkRate, pool: Pool) -> Self {
        Self {
            identity,
            port,
            supported,
            siblings: BTreeMap::new(),
            pool,
            settings: PortSettings::INITIAL,
            traffic: TrafficCounts::default(),
            pending_link_command: None,
        }
    }

    /// The number of the port.
    pub(crate) fn number(&self) -> PortNum {
        self.port.number()
    }

    /// Copies the state of another port's link.
    pub(crate) fn mirror(&mut self, other: &Self) {
        self.siblings.insert(other.number(), other.own_link());
    }

    fn own_link(&self) -> LinkStatus {
        LinkStatus {
            state: self.port.state(),
            physical: match self.port.state() {
                PortState::Down => self.port.physical(),
                _ => PhysicalState::LinkUp,
            },
            rate: self.port.rate(),
        }
    }

    /// Whether packets to `lid` are for this port.
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
        let counts = self.port.counts().named().chain(self.traffic.named());
        counts.chain(queued_counters(queued)).collect()
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
        if let Err(refused) = self.port.execute(now, command, &mut self.pool) {
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
            rates: LinkRates::up_to(self.supported).union(LinkRates::up_to(config.rate)),
            mtu: config.mtu,
            vls: config.vls,
            arbitration_high: ARBITRATION_ENTRIES,
            arbitration_low: ARBITRATION_ENTRIES,
        }
    }

    fn link(&self, port: PortNum) -> LinkStatus {
        let sibling = self.siblings.get(&port).filter(|_| port != self.number());
        sibling.copied().unwrap_or_else(|| self.own_link())
    }

    fn configure(&mut self, _now: Time, _port: PortNum, settings: &PortSettings) {
        self.settings = *settings;
        self.port.set_operational_vls(settings.operational_vls);
        self.port.set_neighbor_mtu(settings.mtu);
        self.port.set_enabled_rates(settings.rates);
        self.port.arbiter_mut().set_limit(settings.vl_high_limit);
    }

    fn command_link(&mut self, now: Time, _port: PortNum, command: LinkCommand) {
        match command.is_for_down() {
            true => self.pending_link_command = Some(command),
            false => self.execute(now, command),
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
        priority.entries(self.port.arbiter())
    }

    fn set_arbitration(&mut self, _port: PortNum, priority: Priority, entries: &[VlArbEntry; 64]) {
        priority.set_entries(self.port.arbiter_mut(), entries);
    }

    fn set_pkeys(&mut self, _port: PortNum, _keys: &[u16; 32]) {}

    fn forwarding(&mut self) -> Option<&mut dyn Forwarding> {
        None
    }
}
