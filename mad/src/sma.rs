//! The subnet management agent: what answers `Get` and `Set` of a node's attributes and tells the
//! subnet manager what has changed (IBA 14.2, 14.3).
//!
//! [`Sma`] holds the rules; the node behind it is a [`Node`]. A request comes in as a [`Mad`] and
//! is turned into its answer in place:
//!
//! * wrong version, method or attribute: the status of IBA 13.4.7, nothing changed;
//! * wrong M_Key: no answer, a violation counted, and trap 256 (IBA 14.2.4, module `m_key`);
//! * an attribute modifier or value that is not legal: status "invalid field", nothing changed;
//! * else the attribute as it is, after a `Set` as it has become.
//!
//! The dataplane tells the agent of packets with a wrong P_Key or Q_Key: they are counted and raise traps
//! 257 to 259.
//!
//! Left out on purpose: `Notice` polling, random forwarding tables, suppression of traps for multicast.

mod m_key;
mod node;
mod port_info;
mod tables;
mod trap;

use link::Time;
use thiserror::Error;
use tracing::debug;
use wire::attr::{
    Attribute, NodeDescription, NodeInfo, Notice, PortInfo, SwitchInfo, Trap144, Trap256, Trap257,
    Trap259, trap as number,
};
use wire::mad::{AttributeId, Mad, MadHeader, MadStatus, Method};
use wire::{Lid, PortNum};

pub use node::{
    Forwarding, Identity, LinkCommand, LinkStatus, Node, PortCapabilities, PortSettings, Priority,
};
use port_info::{BadField, PKEYS, Port, Role};
pub use trap::OutgoingTrap;
use trap::Traps;

/// SwitchInfo: the SL-to-VL table may be set for all ports at once.
const OPTIMIZED_SL_TO_VL: u8 = 1;

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
    switch: SwitchNumbers,
    traps: Traps,
}

/// Why a request is answered with an error status.
enum Refusal {
    Status(MadStatus),
    Field(BadField),
}

impl From<BadField> for Refusal {
    fn from(field: BadField) -> Self {
        Self::Field(field)
    }
}

impl Sma {
    /// The agent of `node`, before a subnet manager has configured it.
    #[must_use]
    pub fn new(node: &impl Node) -> Self {
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

    /// Tells the agent of a switch that the logical state of one of its ports has changed: sets
    /// PortStateChange and raises trap 128.
    pub fn link_changed(&mut self, now: Time) {
        self.switch.port_state_change = true;
        let notice = Notice::link_state_change(self.settings(PortNum::MANAGEMENT).lid);
        self.raise(now, PortNum::MANAGEMENT, notice);
    }

    /// A packet has come to port 0 of a switch or a port of a channel adapter with a P_Key that is not in
    /// its table: counted, and told by trap 257.
    pub fn p_key_violated(
        &mut self,
        now: Time,
        identity: &Identity,
        port: PortNum,
        packet: &Trap257,
    ) {
        if let Some(entry) = self.ports.get_mut(port.index()) {
            entry.p_key_violations = entry.p_key_violations.saturating_add(1);
        }
        self.bad_packet_key(now, identity, port, (number::BAD_P_KEY, packet));
    }

    /// The same with a Q_Key that is not its queue pair's: trap 258.
    pub fn q_key_violated(
        &mut self,
        now: Time,
        identity: &Identity,
        port: PortNum,
        packet: &Trap257,
    ) {
        if let Some(entry) = self.ports.get_mut(port.index()) {
            entry.q_key_violations = entry.q_key_violations.saturating_add(1);
        }
        self.bad_packet_key(now, identity, port, (number::BAD_Q_KEY, packet));
    }

    fn bad_packet_key(
        &mut self,
        now: Time,
        identity: &Identity,
        port: PortNum,
        (number, packet): (u16, &Trap257),
    ) {
        let producer = match identity.is_switch() {
            true => Notice::PRODUCER_SWITCH,
            false => Notice::PRODUCER_CHANNEL_ADAPTER,
        };
        let lid = self.settings(port).lid;
        let notice = Notice::bad_packet_key(number, producer, lid, packet);
        self.raise(now, port, notice);
    }

    /// The partitions of external port `packet.port` of a switch have stopped `count` packets, the last of
    /// which is `packet`: counted, and told by trap 259. The LID of the switch is filled in.
    pub fn p_key_blocked(&mut self, now: Time, count: u16, packet: &Trap259) {
        if let Some(entry) = self.ports.get_mut(packet.port.index()) {
            entry.p_key_violations = entry.p_key_violations.saturating_add(count);
        }
        let switch = self.settings(PortNum::MANAGEMENT).lid;
        let notice = Notice::bad_p_key_at_switch(switch, &Trap259 { switch, ..*packet });
        self.raise(now, PortNum::MANAGEMENT, notice);
    }

    fn raise(&mut self, now: Time, port: PortNum, notice: Notice) {
        let Some(port) = self.ports.get(port.index()) else {
            return;
        };
        self.traps
            .raise(now, &port.settings, port.subnet_timeout, notice);
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
            // A manager without the key that represses a trap is not told of it: it would repress
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

    /// Tells the subnet manager of a request with a wrong M_Key (trap 256): nobody answers it.
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

    /// Does what `mad` asks and puts the attribute into it.
    fn execute(
        &mut self,
        now: Time,
        node: &mut impl Node,
        mad: &mut Mad,
        arrival: PortNum,
    ) -> Result<(), Refusal> {
        let header = mad.header();
        if header.base_version != MadHeader::BASE_VERSION || header.class_version != 1 {
            return Err(Refusal::Status(MadStatus::BAD_VERSION));
        }
        let set = match header.method {
            Method::GET => false,
            Method::SET => true,
            _ => return Err(Refusal::Status(MadStatus::BAD_METHOD)),
        };
        let is_switch = node.identity().is_switch();
        match header.attr_id {
            AttributeId::NODE_DESCRIPTION if !set => {
                mad.set_smp_attribute(&NodeDescription::new(&node.identity().description));
            }
            AttributeId::NODE_INFO if !set => {
                mad.set_smp_attribute(&node_info(node.identity(), arrival));
            }
            AttributeId::SWITCH_INFO if is_switch => self.switch_info(node, mad, set)?,
            AttributeId::PORT_INFO => self.port_info(now, node, mad, set, arrival)?,
            AttributeId::GUID_INFO => self.guid_info(node.identity(), mad, set, arrival)?,
            AttributeId::PKEY_TABLE => self.pkey_table(node, mad, set, arrival)?,
            AttributeId::SL_TO_VL_TABLE => tables::sl_to_vl(node, mad, set)?,
            AttributeId::VL_ARB_TABLE => tables::vl_arbitration(node, mad, set, arrival)?,
            AttributeId::LINEAR_FORWARDING_TABLE if is_switch => tables::linear(node, mad, set)?,
            AttributeId::MULTICAST_FORWARDING_TABLE if is_switch => {
                tables::multicast(node, mad, set)?;
            }
            _ => return Err(Refusal::Status(MadStatus::BAD_METHOD_ATTRIBUTE)),
        }
        Ok(())
    }

    fn port_info(
        &mut self,
        now: Time,
        node: &mut impl Node,
        mad: &mut Mad,
        set: bool,
        arrival: PortNum,
    ) -> Result<(), BadField> {
        // Bit 31: the manager knows extended speeds (IBA 14.2.5.6).
        let [_, high, low, number] = mad.attr_mod().to_be_bytes();
        let identity = node.identity();
        let number = if number == 0 && !identity.is_switch() {
            arrival.get()
        } else {
            number
        };
        if high != 0 || low != 0 || number > identity.ports {
            return Err(BadField("AttributeModifier"));
        }
        let port = PortNum::new(number);
        let role = Role::of(identity, port);
        let capabilities = node.capabilities(port);
        let link_of =
            |node: &dyn Fn(PortNum) -> LinkStatus| (role != Role::SwitchBase).then(|| node(port));
        if set {
            let requested = read::<PortInfo>(mad)?;
            let link = link_of(&|port| node.link(port));
            let (next, command) =
                self.ports[port.index()].after_set(role, &capabilities, link, &requested)?;
            self.ports[port.index()] = next;
            node.configure(now, port, &self.ports[port.index()].settings);
            if let Some(command) = command {
                node.command_link(now, port, command);
            }
        }
        let link = link_of(&|port| node.link(port));
        let presented = mad.m_key();
        let port = &self.ports[port.index()];
        let response = port.port_info(role, &capabilities, link, arrival, presented);
        mad.set_smp_attribute(&response);
        Ok(())
    }

    fn switch_info(
        &mut self,
        node: &mut impl Node,
        mad: &mut Mad,
        set: bool,
    ) -> Result<(), BadField> {
        let Some(tables) = node.forwarding() else {
            return Err(BadField("SwitchInfo"));
        };
        let numbers = &mut self.switch;
        if set {
            let requested = read::<SwitchInfo>(mad)?;
            let (linear, multicast) = (tables.linear_capacity(), tables.multicast_capacity());
            if requested.linear_fdb_top >= linear {
                return Err(BadField("LinearFDBTop"));
            }
            let top = requested.multicast_fdb_top.get();
            if top != 0 && !(Lid::UNICAST_LAST.get()..0xc000 + multicast).contains(&top) {
                return Err(BadField("MulticastFDBTop"));
            }
            numbers.linear_top = requested.linear_fdb_top;
            numbers.default_port = requested.default_port;
            numbers.multicast_primary = requested.default_multicast_primary_port;
            numbers.multicast_not_primary = requested.default_multicast_not_primary_port;
            numbers.multicast_top = requested.multicast_fdb_top;
            numbers.life_time = requested.life_time_value;
            numbers.port_state_change &= !requested.port_state_change;
            tables.set_linear_top(Lid::new(numbers.linear_top));
            tables.set_multicast_top((top != 0).then_some(requested.multicast_fdb_top));
            tables.set_multicast_default(numbers.multicast_primary, numbers.multicast_not_primary);
            tables.set_life_time(numbers.life_time);
        }
        mad.set_smp_attribute(&SwitchInfo {
            linear_fdb_cap: tables.linear_capacity(),
            random_fdb_cap: 0,
            multicast_fdb_cap: tables.multicast_capacity(),
            linear_fdb_top: numbers.linear_top,
            default_port: numbers.default_port,
            default_multicast_primary_port: numbers.multicast_primary,
            default_multicast_not_primary_port: numbers.multicast_not_primary,
            life_time_value: numbers.life_time,
            port_state_change: numbers.port_state_change,
            optimized_sl_to_vl: OPTIMIZED_SL_TO_VL,
            lids_per_port: 0,
            partition_enforcement_cap: PKEYS,
            inbound_enforcement_cap: true,
            outbound_enforcement_cap: true,
            filter_raw_inbound_cap: false,
            filter_raw_outbound_cap: false,
            enhanced_port0: false,
            multicast_fdb_top: numbers.multicast_top,
        });
        Ok(())
    }
}

fn node_info(identity: &Identity, arrival: PortNum) -> NodeInfo {
    NodeInfo {
        base_version: MadHeader::BASE_VERSION,
        class_version: 1,
        node_type: identity.node_type,
        num_ports: identity.ports,
        system_image_guid: identity.system_image_guid,
        node_guid: identity.node_guid,
        port_guid: identity.port_guid(arrival),
        partition_cap: PKEYS,
        device_id: identity.device_id,
        revision: identity.revision,
        local_port_num: arrival,
        vendor_id: identity.vendor_id,
    }
}

/// The attribute of a `Set`.
fn read<A: Attribute>(mad: &Mad) -> Result<A, BadField> {
    mad.smp_attribute().map_err(|_| BadField(A::NAME))
}

#[cfg(test)]
mod tests;
