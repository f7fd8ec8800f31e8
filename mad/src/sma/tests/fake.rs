//! A fake node that records what the agent sets.

use std::collections::BTreeMap;

use link::{PhysicalState, PortState, Time};
use wire::attr::{Attribute, NodeType, VlArbEntry};
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Guid, Lid, LinkRate, LinkRates, LinkSpeed, LinkWidth, Mtu, PortNum, Vl};

use super::super::*;

pub(super) const RATE: LinkRate = LinkRate {
    width: LinkWidth::X4,
    speed: LinkSpeed::Qdr,
};

/// Source LID of what the agent is asked.
pub(super) const ASKER: Lid = Lid::new(9);

pub(super) fn port(number: u8) -> PortNum {
    PortNum::new(number)
}

/// Forwarding tables of 128 LIDs and 64 multicast LIDs.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) linear: BTreeMap<u16, [PortNum; 64]>,
    pub(super) multicast: BTreeMap<(u16, u8), [u16; 32]>,
    pub(super) top: Lid,
    pub(super) multicast_top: Option<Lid>,
    pub(super) life_time: u8,
}

impl Forwarding for Tables {
    fn linear_capacity(&self) -> u16 {
        128
    }

    fn linear_block(&self, block: u16) -> [PortNum; 64] {
        self.linear
            .get(&block)
            .copied()
            .unwrap_or([PortNum::NONE; 64])
    }

    fn set_linear_block(&mut self, block: u16, ports: &[PortNum; 64]) {
        assert!(block < 2);
        self.linear.insert(block, *ports);
    }

    fn set_linear_top(&mut self, top: Lid) {
        self.top = top;
    }

    fn multicast_capacity(&self) -> u16 {
        64
    }

    fn multicast_block(&self, block: u16, position: u8) -> [u16; 32] {
        self.multicast
            .get(&(block, position))
            .copied()
            .unwrap_or_default()
    }

    fn set_multicast_block(&mut self, block: u16, position: u8, masks: &[u16; 32]) {
        assert!(block < 2 && position < 2);
        self.multicast.insert((block, position), *masks);
    }

    fn set_multicast_top(&mut self, top: Option<Lid>) {
        self.multicast_top = top;
    }

    fn set_multicast_default(&mut self, _primary: PortNum, _not_primary: PortNum) {}

    fn set_life_time(&mut self, value: u8) {
        self.life_time = value;
    }
}

#[derive(Debug)]
pub(super) struct Fake {
    pub(super) identity: Identity,
    pub(super) state: PortState,
    pub(super) rates: LinkRates,
    pub(super) tables: Option<Tables>,
    pub(super) settings: BTreeMap<PortNum, PortSettings>,
    pub(super) commands: Vec<(PortNum, LinkCommand)>,
    pub(super) vls: BTreeMap<(PortNum, PortNum), [Vl; 16]>,
    /// Calls that have set SL-to-VL mappings.
    pub(super) vl_writes: usize,
    pub(super) arbitration: BTreeMap<(PortNum, Priority), [VlArbEntry; 64]>,
    pub(super) pkeys: BTreeMap<PortNum, [u16; 32]>,
}

impl Fake {
    fn new(node_type: NodeType, ports: u8, tables: Option<Tables>) -> Self {
        Self {
            identity: Identity {
                node_type,
                description: "n1".to_owned(),
                node_guid: Guid(0x0a00),
                system_image_guid: Guid(0x0a00),
                ports,
                port_guids: BTreeMap::new(),
                enhanced_port0: false,
                vendor_id: 0x02_1bed,
                device_id: 7,
                revision: 2,
            },
            state: PortState::Init,
            rates: LinkRates::up_to(RATE),
            tables,
            settings: BTreeMap::new(),
            commands: Vec::new(),
            vls: BTreeMap::new(),
            vl_writes: 0,
            arbitration: BTreeMap::new(),
            pkeys: BTreeMap::new(),
        }
    }

    pub(super) fn switch() -> Self {
        Self::switch_of(20)
    }

    pub(super) fn switch_of(ports: u8) -> Self {
        Self::new(NodeType::Switch, ports, Some(Tables::default()))
    }

    pub(super) fn adapter() -> Self {
        Self::new(NodeType::ChannelAdapter, 1, None)
    }
}

impl Node for Fake {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self, _port: PortNum) -> PortCapabilities {
        PortCapabilities {
            rates: self.rates,
            mtu: Mtu::Mtu2048,
            vls: 9,
            arbitration_high: 64,
            arbitration_low: 64,
        }
    }

    fn link(&self, port: PortNum) -> LinkStatus {
        assert!(port != PortNum::MANAGEMENT && port.get() <= self.identity.ports);
        LinkStatus {
            state: self.state,
            physical: PhysicalState::LinkUp,
            rate: RATE,
        }
    }

    fn configure(&mut self, _now: Time, port: PortNum, settings: &PortSettings) {
        self.settings.insert(port, *settings);
    }

    fn command_link(&mut self, _now: Time, port: PortNum, command: LinkCommand) {
        assert!(port != PortNum::MANAGEMENT);
        self.commands.push((port, command));
    }

    fn sl_to_vl(&self, input: PortNum, output: PortNum) -> [Vl; 16] {
        self.vls.get(&(input, output)).copied().unwrap_or_default()
    }

    fn set_sl_to_vl(&mut self, input: PortNum, output: PortNum, vls: &[Vl; 16]) {
        self.vl_writes += 1;
        self.vls.insert((input, output), *vls);
    }

    fn set_sl_to_vl_of_all_inputs(&mut self, output: PortNum, vls: &[Vl; 16]) {
        self.vl_writes += 1;
        for input in 0..=self.identity.ports {
            self.vls.insert((port(input), output), *vls);
        }
    }

    fn arbitration(&self, port: PortNum, priority: Priority) -> [VlArbEntry; 64] {
        self.arbitration
            .get(&(port, priority))
            .copied()
            .unwrap_or([VlArbEntry::default(); 64])
    }

    fn set_arbitration(&mut self, port: PortNum, priority: Priority, entries: &[VlArbEntry; 64]) {
        self.arbitration.insert((port, priority), *entries);
    }

    fn set_pkeys(&mut self, port: PortNum, keys: &[u16; 32]) {
        assert!(self.identity.is_switch() && port != PortNum::MANAGEMENT);
        self.pkeys.insert(port, *keys);
    }

    fn forwarding(&mut self) -> Option<&mut dyn Forwarding> {
        self.tables
            .as_mut()
            .map(|tables| tables as &mut dyn Forwarding)
    }
}

/// A node with its agent.
pub(super) struct Bench {
    pub(super) node: Fake,
    pub(super) sma: Sma,
    pub(super) now: Time,
    pub(super) arrival: PortNum,
    pub(super) m_key: u64,
}

impl Bench {
    pub(super) fn new(node: Fake) -> Self {
        let sma = Sma::new(&node);
        Self {
            node,
            sma,
            now: Time(0),
            arrival: port(1),
            m_key: 0,
        }
    }

    /// Gives an SMP to the agent: the answer, or `None`.
    pub(super) fn ask(&mut self, mut mad: Mad) -> Option<Mad> {
        mad.set_m_key(self.m_key);
        let (id, tid) = (mad.attr_id(), mad.tid());
        match self
            .sma
            .handle(self.now, &mut self.node, &mut mad, self.arrival, ASKER)
        {
            Outcome::NoResponse(_) => None,
            Outcome::Answered => {
                assert_eq!(
                    (mad.method(), mad.attr_id(), mad.tid()),
                    (Method::GET_RESP, id, tid)
                );
                Some(mad)
            }
        }
    }

    pub(super) fn status(&mut self, method: Method, id: AttributeId, modifier: u32) -> MadStatus {
        self.ask(Mad::lid_smp(method, id, modifier, 1))
            .unwrap()
            .status()
    }

    pub(super) fn get<A: Attribute>(&mut self, modifier: u32) -> A {
        let answer = self
            .ask(Mad::lid_smp(Method::GET, A::ID, modifier, 1))
            .unwrap();
        assert_eq!(
            answer.status(),
            MadStatus::OK,
            "{} of {modifier:#x}",
            A::NAME
        );
        answer.smp_attribute().unwrap()
    }

    /// The attribute after the `Set`, or the status that refuses it.
    pub(super) fn set<A: Attribute>(&mut self, modifier: u32, value: &A) -> Result<A, MadStatus> {
        let mut mad = Mad::lid_smp(Method::SET, A::ID, modifier, 1);
        mad.set_smp_attribute(value);
        let answer = self.ask(mad).unwrap();
        match answer.status() {
            MadStatus::OK => Ok(answer.smp_attribute().unwrap()),
            status => Err(status),
        }
    }
}
