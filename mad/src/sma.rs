//! The subnet management agent: answers `Get` and `Set` of a node's attributes, and reports changes and
//! violations to the subnet manager by traps (IBA 14.2, 14.3).
//!
//! [`Sma`] holds the rules; the node behind it is a [`Node`]. A request comes in as a [`Mad`] and
//! is turned into its answer in place:
//!
//! * wrong version, method or attribute: the status of IBA 13.4.7, nothing changed;
//! * wrong M_Key: no answer, a violation counted, and trap 256 (IBA 14.2.4, module `key_guard`);
//! * an attribute modifier or value that is not legal: status "invalid field", nothing changed;
//! * else the attribute as it is, after a `Set` as it has become.
//!
//! The dataplane reports packets with a wrong P_Key or Q_Key to the agent, which counts them and raises traps
//! 257 to 259.
//!
//! Left out on purpose: `Notice` polling, random forwarding tables, suppression of traps for multicast.

mod attributes;
mod node;
mod port_info;
mod tables;
mod trap;

use link::Time;
use thiserror::Error;
use tracing::debug;
use wire::attr::{Notice, Trap144, Trap256, Trap257, Trap259, trap as number};
use wire::mad::{Mad, MadStatus, Method};
use wire::{Guid, Lid, PortNum};

use attributes::Refusal;
pub use link::LinkCommand;
pub use node::{Forwarding, Identity, LinkStatus, Node, PortCapabilities, PortSettings, Priority};
pub use port_info::{GUIDS, PKEYS};
use port_info::{Port, Role};
pub use trap::OutgoingTrap;
use trap::Traps;

/// The result of handling an SMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The SMP has been turned into the response.
    Answered,
    /// No response is sent.
    NoResponse(NoResponse),
}

/// Why no response is sent to an SMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum NoResponse {
    /// It is no request to an agent: an answer, a trap.
    #[error("not a request")]
    NotARequest,
    /// Its M_Key is wrong.
    #[error("wrong M_Key")]
    BadMKey,
    /// It ends the repetition of a trap.
    #[error("a trap was taken note of")]
    TrapRepressed,
}

/// Which key of a packet does not fit where the packet came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKey {
    /// The P_Key: it is not in the port's table.
    PKey,
    /// The Q_Key: it is not the queue pair's.
    QKey,
}

/// The components of SwitchInfo that may be set.
#[derive(Clone, Copy, Debug)]
struct SwitchNumbers {
    linear_top: u16,
    default_port: PortNum,
    multicast_primary: PortNum,
    multicast_not_primary: PortNum,
    multicast_top: Lid,
    life_time: u8,
    port_state_change: bool,
}

/// The agent of one node.
#[derive(Debug)]
pub struct Sma {
    /// By port number; entry 0 of a channel adapter is not used.
    ports: Vec<Port>,
    /// The port whose LID is the agent's: 0 of a switch.
    own: PortNum,
    switch: SwitchNumbers,
    traps: Traps,
}

impl Sma {
    /// The agent of a switch, or of a channel adapter with one port, before a subnet manager has configured
    /// it.
    #[must_use]
    pub fn new(node: &impl Node) -> Self {
        let own = PortNum::new(u8::from(!node.identity().is_switch()));
        Self::of_port(node, own)
    }

    /// The agent of port `own` of a channel adapter: it answers what comes in there or is written there.
    /// PortInfo of the adapter's other ports is what [`Sma::mirror`] has copied; a `Set` of one is refused.
    #[must_use]
    pub fn of_port(node: &impl Node, own: PortNum) -> Self {
        let identity = node.identity();
        let ports = (0..=identity.ports)
            .map(|number| {
                let port = PortNum::new(number);
                let capabilities = match (identity.is_switch(), number) {
                    (false, 0) => node.capabilities(PortNum::new(1)),
                    _ => node.capabilities(port),
                };
                Port::new(
                    identity.port_guid(port),
                    Role::of(identity, port),
                    &capabilities,
                )
            })
            .collect();
        Self {
            ports,
            own,
            switch: SwitchNumbers {
                linear_top: 0,
                default_port: PortNum::new(0),
                multicast_primary: PortNum::NONE,
                multicast_not_primary: PortNum::NONE,
                multicast_top: Lid::ZERO,
                life_time: 31,
                port_state_change: false,
            },
            traps: Traps::default(),
        }
    }

    /// The port whose LID is the agent's: 0 of a switch, else the one that it was made for.
    #[must_use]
    pub fn own_port(&self) -> PortNum {
        self.own
    }

    /// Copies the state of another port of the same channel adapter from that port's agent.
    pub fn mirror(&mut self, other: &Self) {
        let port = other.own.index();
        if let (Some(here), Some(there)) = (self.ports.get_mut(port), other.ports.get(port)) {
            here.clone_from(there);
        }
    }

    /// The configuration of a port; the initial settings for one that does not exist.
    #[must_use]
    pub fn settings(&self, port: PortNum) -> PortSettings {
        self.ports
            .get(port.index())
            .map_or(PortSettings::INITIAL, |port| port.settings)
    }

    /// The subnet prefix of a port.
    #[must_use]
    pub fn gid_prefix(&self, port: PortNum) -> u64 {
        self.ports
            .get(port.index())
            .map_or(0, |port| port.gid_prefix)
    }

    /// The GUID table of a port: its own GUID first, 0 where there is none.
    #[must_use]
    pub fn guids(&self, port: PortNum) -> &[Guid] {
        self.ports.get(port.index()).map_or(&[], |port| &port.guids)
    }

    /// The P_Key table of a port.
    #[must_use]
    pub fn pkeys(&self, port: PortNum) -> &[u16] {
        self.ports.get(port.index()).map_or(&[], |port| &port.pkeys)
    }

    /// Whether a program has declared itself subnet manager at the port.
    #[must_use]
    pub fn is_sm(&self, port: PortNum) -> bool {
        self.ports.get(port.index()).is_some_and(|port| port.is_sm)
    }

    /// Sets or clears CapabilityMask.IsSM of a channel adapter's port. A change raises trap 144.
    pub fn set_is_sm(&mut self, now: Time, node: &impl Node, port: PortNum, is_sm: bool) {
        let capabilities = node.capabilities(port);
        let Some(entry) = self.ports.get_mut(port.index()) else {
            return;
        };
        if std::mem::replace(&mut entry.is_sm, is_sm) == is_sm {
            return;
        }
        let change = Trap144 {
            lid: entry.settings.lid,
            other_local_changes: false,
            capability_mask: entry.capability_mask(Role::Adapter, &capabilities),
            change_flags: 0,
        };
        let notice = Notice::local_change(Notice::PRODUCER_CHANNEL_ADAPTER, change);
        self.raise(now, port, notice);
    }

    /// The logical state of a switch's port has changed: sets PortStateChange and raises trap 128.
    pub fn link_changed(&mut self, now: Time) {
        self.switch.port_state_change = true;
        let notice = Notice::link_state_change(self.settings(PortNum::MANAGEMENT).lid);
        self.raise(now, PortNum::MANAGEMENT, notice);
    }

    /// Counts a packet that came to port 0 of a switch, or to a port of a channel adapter, with a key that
    /// does not fit there, and reports it by trap 257 or 258 (notices of IBA 14.2.5.1).
    pub fn packet_key_violated(
        &mut self,
        now: Time,
        identity: &Identity,
        port: PortNum,
        key: PacketKey,
        packet: &Trap257,
    ) {
        if let Some(entry) = self.ports.get_mut(port.index()) {
            let violations = match key {
                PacketKey::PKey => &mut entry.p_key_violations,
                PacketKey::QKey => &mut entry.q_key_violations,
            };
            *violations = violations.saturating_add(1);
        }
        let trap_number = match key {
            PacketKey::PKey => number::BAD_P_KEY,
            PacketKey::QKey => number::BAD_Q_KEY,
        };
        let producer = match identity.is_switch() {
            true => Notice::PRODUCER_SWITCH,
            false => Notice::PRODUCER_CHANNEL_ADAPTER,
        };
        let lid = self.settings(port).lid;
        let notice = Notice::bad_packet_key(trap_number, producer, lid, packet);
        self.raise(now, port, notice);
    }

    /// The partitions of external port `packet.port` of a switch have stopped `count` packets, the last of
    /// which is `packet`: counted, and reported by trap 259. The LID of the switch is filled in.
    pub fn p_key_blocked(&mut self, now: Time, count: u16, packet: &Trap259) {
        if let Some(entry) = self.ports.get_mut(packet.port.index()) {
            entry.p_key_violations = entry.p_key_violations.saturating_add(count);
        }
        let switch = self.settings(PortNum::MANAGEMENT).lid;
        let notice = Notice::bad_p_key_at_switch(switch, &Trap259 { switch, ..*packet });
        self.raise(now, PortNum::MANAGEMENT, notice);
    }

    fn raise(&mut self, now: Time, number: PortNum, notice: Notice) {
        let Some(port) = self.ports.get(number.index()) else {
            return;
        };
        let from = (number, &port.settings);
        self.traps.raise(now, from, port.subnet_timeout, notice);
    }

    /// The next trap that is due at `now`: to be sent LID routed on VL15. Call until `None`.
    pub fn poll_trap(&mut self, now: Time) -> Option<OutgoingTrap> {
        self.traps.poll(now)
    }

    /// When the next trap is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.traps.deadline()
    }

    /// Answers `mad`, which came in on port `arrival` (port 0 of a switch, port 1 of a channel
    /// adapter, if it was written here) in a packet from `slid`, in place. Direction and hops of a
    /// directed route are left to the SMI, but for the D bit, which an answer gets.
    pub fn handle(
        &mut self,
        now: Time,
        node: &mut impl Node,
        mad: &mut Mad,
        arrival: PortNum,
        slid: Lid,
    ) -> Outcome {
        match mad.method() {
            Method::TRAP | Method::SEND | Method::REPORT => {
                return Outcome::NoResponse(NoResponse::NotARequest);
            }
            method if method.is_response() => return Outcome::NoResponse(NoResponse::NotARequest),
            _ => {}
        }
        if !self.check_m_key(now, node.identity().is_switch(), mad, arrival) {
            // A TrapRepress with a wrong key raises no trap 256: the manager that sent it would repress
            // that trap in the same way.
            if mad.method() != Method::TRAP_REPRESS {
                self.m_key_violated(now, node.identity(), mad, arrival, slid);
            }
            return Outcome::NoResponse(NoResponse::BadMKey);
        }
        if mad.method() == Method::TRAP_REPRESS {
            self.traps.repress(mad.tid());
            return Outcome::NoResponse(NoResponse::TrapRepressed);
        }
        self.answer(now, node, mad, arrival);
        Outcome::Answered
    }

    /// Answers a `Get` of the driver of `port` of a channel adapter, in place: no M_Key is asked
    /// for, and a protected one not shown.
    pub fn read_own(&mut self, now: Time, node: &mut impl Node, mad: &mut Mad, port: PortNum) {
        if let Some(entry) = self.ports.get_mut(port.index()) {
            entry.m_key.expire(now);
        }
        if mad.method() == Method::GET {
            return self.answer(now, node, mad, port);
        }
        mad.set_method(Method::GET_RESP);
        mad.set_status(MadStatus::BAD_METHOD);
    }

    fn answer(&mut self, now: Time, node: &mut impl Node, mad: &mut Mad, arrival: PortNum) {
        let status = match self.execute(now, node, mad, arrival) {
            Ok(()) => MadStatus::OK,
            Err(Refusal::Status(status)) => status,
            Err(Refusal::Field(field)) => {
                debug!(attribute = %mad.attr_id(), field = field.0, "invalid field");
                MadStatus::BAD_FIELD
            }
        };
        let directed = mad.class().0 & 0x80 != 0;
        mad.set_method(Method::GET_RESP);
        mad.set_status(status);
        mad.set_returning(directed);
    }

    /// The port whose M_Key protects the node.
    fn m_key_port(&mut self, is_switch: bool, arrival: PortNum) -> Option<&mut Port> {
        let port = if is_switch { 0 } else { arrival.index() };
        self.ports.get_mut(port)
    }

    /// The M_Key check (IBA 14.2.4.1).
    fn check_m_key(&mut self, now: Time, is_switch: bool, mad: &Mad, arrival: PortNum) -> bool {
        self.m_key_port(is_switch, arrival)
            .is_some_and(|port| port.m_key.admits(now, mad.method(), mad.m_key()))
    }

    /// Reports a request with a wrong M_Key to the subnet manager by trap 256. The request is not answered.
    fn m_key_violated(
        &mut self,
        now: Time,
        identity: &Identity,
        mad: &Mad,
        arrival: PortNum,
        slid: Lid,
    ) {
        let (port, producer) = match identity.is_switch() {
            true => (PortNum::MANAGEMENT, Notice::PRODUCER_SWITCH),
            false => (arrival, Notice::PRODUCER_CHANNEL_ADAPTER),
        };
        let request = Trap256::of(slid, mad);
        let notice = Notice::bad_m_key(producer, self.settings(port).lid, &request);
        self.raise(now, port, notice);
    }
}

#[cfg(test)]
mod tests;
