//! A subnet manager and a fabric of two hosts at one switch, which answers as it should unless the
//! input says otherwise.

use std::collections::{BTreeMap, VecDeque};

use controller::control::{LIST_MAX, Phase, Reply};
use controller::{QosChoice, Sm, SmConfig};
use link::Time;
use mad::local::{FromAgent, MadMessage, ToAgent};
use wire::attr::{
    NodeDescription, NodeInfo, NodeType, PortInfo, PortPhysState, PortState, SmInfo, SmState,
    SwitchInfo, VlCount,
};
use wire::control::encode;
use wire::{
    AttributeId, Format as _, Guid, Lid, Mad, MadStatus, Method, MgmtClass, Mtu, PortNum, Qpn, Sl,
};

use super::mads;
use super::mads::{fields_of, requests};
use crate::Parts;
use crate::fields::Fields;

/// Requests that wait for an answer at most; the oldest are never answered.
const WAITING_MAX: usize = 4096;

/// Turns that a fabric without faults is given to come up.
const TURNS: usize = 60_000;

/// The nodes: the manager's host, the switch, the other host.
const HOST: usize = 0;
const SWITCH: usize = 1;
const OTHER: usize = 2;

/// How long an answer takes, nanoseconds.
const ANSWER_NS: u64 = 10_000;

/// What the devices hold.
struct Fabric {
    ports: BTreeMap<(usize, u8), PortInfo>,
    /// Other attributes that were set, by node, attribute and modifier.
    tables: BTreeMap<(usize, u16, u32), [u8; 64]>,
    /// The manager beside the other host, if there is one.
    other_manager: Option<SmInfo>,
    /// Whether the other host's cable is plugged.
    plugged: bool,
}

impl Fabric {
    fn new() -> Self {
        Self {
            ports: BTreeMap::new(),
            tables: BTreeMap::new(),
            other_manager: None,
            plugged: true,
        }
    }

    /// The node at the end of a request's path, and the port by which the request comes in.
    fn find(&self, message: &MadMessage, mad: &Mad) -> Option<(usize, u8)> {
        if mad.class() != MgmtClass::SUBN_DIR {
            let of = |&(&(node, port), info): &(&(usize, u8), &PortInfo)| {
                info.lid == message.lid && info.lid != Lid::ZERO && (node, port) != (SWITCH, 1)
            };
            let ((node, port), _) = self.ports.iter().find(of)?;
            return Some((*node, *port));
        }
        let hops = usize::from(mad.hop_count());
        let path = mad.initial_path().get(1..=hops)?;
        let mut at = (HOST, 1);
        for &exit in path {
            at = match (at.0, exit) {
                (HOST, 1) => (SWITCH, 1),
                (OTHER, 1) if self.plugged => (SWITCH, 2),
                (SWITCH, 1) => (HOST, 1),
                (SWITCH, 2) if self.plugged => (OTHER, 1),
                _ => return None,
            };
        }
        Some(at)
    }

    /// A port as it is before a manager has written into it.
    fn port(&self, node: usize, port: u8) -> PortInfo {
        if let Some(info) = self.ports.get(&(node, port)) {
            return *info;
        }
        let connected = match (node, port) {
            (SWITCH, 0) => true,
            (SWITCH, 2) | (OTHER, _) => self.plugged,
            (SWITCH, 1) | (HOST, _) => true,
            _ => false,
        };
        let states = match connected {
            true => (PortState::Init, PortPhysState::LinkUp),
            false => (PortState::Down, PortPhysState::Polling),
        };
        PortInfo {
            port_state: states.0,
            port_phys_state: states.1,
            local_port_num: PortNum::new(port),
            capability_mask: wire::attr::capability::IS_TRAP
                | wire::attr::capability::IS_SL_MAPPING
                | wire::attr::capability::IS_CLIENT_REREGISTRATION,
            link_width_enabled: 2,
            link_width_supported: 3,
            link_width_active: 2,
            link_speed_supported: 1,
            link_speed_active: 1,
            link_speed_enabled: 1,
            neighbor_mtu: Some(Mtu::Mtu2048),
            mtu_cap: Some(Mtu::Mtu2048),
            vl_cap: Some(VlCount::Eight),
            operational_vls: Some(VlCount::Eight),
            vl_arbitration_high_cap: 64,
            vl_arbitration_low_cap: 64,
            guid_cap: 1,
            ..PortInfo::default()
        }
    }

    fn set_port(&mut self, node: usize, port: u8, wanted: &PortInfo) -> PortInfo {
        let old = self.port(node, port);
        let state = match wanted.port_state {
            PortState::NoChange => old.port_state,
            // The link is trained anew.
            PortState::Down => PortState::Init,
            state => state,
        };
        let new = PortInfo {
            m_key: wanted.m_key,
            gid_prefix: wanted.gid_prefix,
            lid: wanted.lid,
            lmc: wanted.lmc,
            master_sm_lid: wanted.master_sm_lid,
            master_sm_sl: wanted.master_sm_sl,
            m_key_protect_bits: wanted.m_key_protect_bits,
            m_key_lease_period: wanted.m_key_lease_period,
            port_state: state,
            hoq_life: wanted.hoq_life,
            vl_high_limit: wanted.vl_high_limit,
            neighbor_mtu: wanted.neighbor_mtu.or(old.neighbor_mtu),
            operational_vls: wanted.operational_vls.or(old.operational_vls),
            subnet_timeout: wanted.subnet_timeout,
            ..old
        };
        self.ports.insert((node, port), new);
        new
    }

    /// Writes the answer into `mad`; `false` if the attribute is not there.
    fn fill(&mut self, (node, port): (usize, u8), mad: &mut Mad) -> bool {
        let guid = Guid(0x100 * (node as u64 + 1));
        let is_switch = node == SWITCH;
        let modifier = mad.attr_mod();
        let set = mad.method() == Method::SET;
        match mad.attr_id() {
            AttributeId::NODE_INFO => mad.set_smp_attribute(&NodeInfo {
                base_version: 1,
                class_version: 1,
                node_type: if is_switch {
                    NodeType::Switch
                } else {
                    NodeType::ChannelAdapter
                },
                num_ports: if is_switch { 4 } else { 1 },
                system_image_guid: guid,
                node_guid: guid,
                port_guid: Guid(guid.0 + u64::from(!is_switch)),
                partition_cap: 32,
                device_id: 1,
                revision: 1,
                local_port_num: PortNum::new(port),
                vendor_id: 1,
            }),
            AttributeId::NODE_DESCRIPTION => {
                mad.set_smp_attribute(&NodeDescription::new(["h0", "s0", "h1"][node]));
            }
            AttributeId::PORT_INFO => {
                let [.., low] = modifier.to_be_bytes();
                let number = if is_switch { low } else { 1 };
                let mut info = match mad.smp_attribute::<PortInfo>() {
                    Ok(wanted) if set => self.set_port(node, number, &wanted),
                    _ => self.port(node, number),
                };
                if node == OTHER && self.other_manager.is_some() || node == HOST {
                    info.capability_mask |= wire::attr::capability::IS_SM;
                }
                mad.set_smp_attribute(&info);
            }
            AttributeId::SM_INFO => match self.other_manager {
                Some(info) if node == OTHER => mad.set_smp_attribute(&info),
                _ => return false,
            },
            AttributeId::SWITCH_INFO if !is_switch => return false,
            id => self.table((node, id.0, modifier), set, mad),
        }
        true
    }

    /// Answers from a table that holds what was last written.
    fn table(&mut self, key: (usize, u16, u32), set: bool, mad: &mut Mad) {
        if set {
            self.tables.insert(key, *mad.smp_data());
        }
        if let Some(data) = self.tables.get(&key) {
            *mad.smp_data_mut() = *data;
            return;
        }
        if AttributeId(key.1) == AttributeId::SWITCH_INFO {
            return mad.set_smp_attribute(&switch_info());
        }
        mad.smp_data_mut().fill(0);
        if AttributeId(key.1) == AttributeId::LINEAR_FORWARDING_TABLE {
            mad.smp_data_mut().fill(0xff);
        }
    }

    /// The answer to a request; `None` if no device is there.
    fn answer(&mut self, message: &MadMessage) -> Option<MadMessage> {
        let mut mad = Mad::from_bytes(*message.mad);
        let at = self.find(message, &mad)?;
        let known = self.fill(at, &mut mad);
        if !known {
            mad.set_status(MadStatus::BAD_METHOD_ATTRIBUTE);
        }
        mad.set_method(Method::GET_RESP);
        mad.set_returning(mad.class() == MgmtClass::SUBN_DIR);
        let mad = Box::new(*mad.as_bytes());
        Some(MadMessage {
            mad,
            ..message.clone()
        })
    }
}

/// SwitchInfo of a switch that has not been configured.
fn switch_info() -> SwitchInfo {
    let zero = SwitchInfo::parse(&[0; SwitchInfo::LEN]).map(|(info, _)| info);
    SwitchInfo {
        linear_fdb_cap: 49_152,
        multicast_fdb_cap: 1024,
        partition_enforcement_cap: 32,
        ..zero.expect("zeros are a SwitchInfo")
    }
}

/// The manager and its fabric.
struct Bench {
    now: Time,
    manager: Sm,
    fabric: Fabric,
    /// Requests that wait for their answer.
    waiting: VecDeque<MadMessage>,
    /// What is done to the next answer: bytes of the MAD and what they are changed by.
    changes: Vec<(usize, u8)>,
}

impl Bench {
    fn new(config: SmConfig) -> Self {
        Self {
            now: Time(1),
            manager: Sm::new(config).expect("a sound configuration"),
            fabric: Fabric::new(),
            waiting: VecDeque::new(),
            changes: Vec::new(),
        }
    }

    /// Takes what the manager has to say.
    fn drain(&mut self) {
        while let Some(message) = self.manager.poll_transmit() {
            match message {
                ToAgent::Send(message) => {
                    let mad = Mad::from_bytes(*message.mad);
                    if mad.class().is_subnet_management() && !mad.method().is_response() {
                        self.waiting.push_back(message);
                    }
                    if self.waiting.len() > WAITING_MAX {
                        self.waiting.pop_front();
                    }
                }
                ToAgent::Register { class } => {
                    let registered = true;
                    self.manager
                        .handle(self.now, FromAgent::Registered { class, registered });
                }
                ToAgent::SetIsSm(_) | ToAgent::Unregister { .. } => {}
                ToAgent::RegisterMethods(_) | ToAgent::UnregisterMethods(_) => {
                    panic!("a manager registers whole classes")
                }
                ToAgent::ReadOwn(_) | ToAgent::Attach { .. } => {
                    panic!("a manager has no driver, and its shell has chosen the port")
                }
            }
        }
        while self.manager.poll_event().is_some() {}
    }

    fn tick(&mut self, ns: u64) {
        self.now = self.now + ns;
        self.manager.tick(self.now);
        self.drain();
    }

    /// Answers the oldest request; whether there was one.
    fn answer(&mut self) -> bool {
        let Some(request) = self.waiting.pop_front() else {
            return false;
        };
        self.now = self.now + ANSWER_NS;
        if let Some(mut answer) = self.fabric.answer(&request) {
            for (at, change) in self.changes.drain(..) {
                answer.mad[at] ^= change;
            }
            self.manager.handle(self.now, FromAgent::Received(answer));
        }
        self.drain();
        true
    }

    /// Answers and lets time pass, so many times.
    fn go_on(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.answer() {
                self.wait();
            }
        }
    }

    /// Lets time pass until the manager has something to do.
    fn wait(&mut self) {
        let due = self
            .manager
            .deadline()
            .map_or(0, |due| due.at.since_ns(self.now));
        self.tick(due.max(1));
    }

    fn step(&mut self, part: &[u8]) {
        let mut fields = Fields::of(part);
        match fields.byte() % 10 {
            0 => self.go_on(usize::from(fields.byte())),
            1 => {
                let pairs = fields.rest().chunks_exact(2).take(16);
                self.changes
                    .extend(pairs.map(|pair| (usize::from(pair[0]), pair[1])));
                self.answer();
            }
            2 => drop(self.waiting.pop_front()),
            3 => {
                let (lid, guest) = (fields.byte(), fields.byte());
                let mad = mads::mad(&mut fields);
                let qpn = if mad.class().is_subnet_management() {
                    Qpn::SMI
                } else {
                    Qpn::GSI
                };
                let message = MadMessage {
                    lid: if guest & 1 == 0 {
                        Lid::new(lid.into())
                    } else {
                        Lid::PERMISSIVE
                    },
                    qpn,
                    sl: Sl::default(),
                    mad: Box::new(*mad.as_bytes()),
                    way: None,
                };
                self.manager.handle(self.now, FromAgent::Received(message));
                self.drain();
            }
            4 => self.tick(fields.nanoseconds()),
            5 => {
                let states = [
                    SmState::NotActive,
                    SmState::Discovering,
                    SmState::Standby,
                    SmState::Master,
                ];
                let state = fields.one_of(&states);
                self.fabric.other_manager = Some(SmInfo {
                    guid: Guid(0x301),
                    sm_key: u64::from(fields.byte() & 1),
                    act_count: fields.four(),
                    priority: fields.byte() & 0x0f,
                    state,
                });
            }
            6 => {
                let class = fields.one_of(&[0x01, 0x81, 0x03, 0x30]);
                let registered = true;
                let message = FromAgent::Registered { class, registered };
                self.manager.handle(self.now, message);
                self.drain();
            }
            7 => {
                self.fabric.plugged = fields.flag();
                self.fabric.ports.remove(&(SWITCH, 2));
                self.fabric.ports.remove(&(OTHER, 1));
            }
            8 => {
                self.manager.resweep(self.now);
                self.drain();
            }
            _ => {
                // An answer to a request that is still waiting, made up.
                let at = usize::from(fields.byte());
                if let Some(request) = self.waiting.get(at % self.waiting.len().max(1)) {
                    let mut answer = request.clone();
                    answer.mad[3] |= 0x80;
                    for (to, byte) in answer.mad[64..].iter_mut().zip(fields.rest()) {
                        *to = *byte;
                    }
                    self.manager.handle(self.now, FromAgent::Received(answer));
                    self.drain();
                }
            }
        }
        let status = self.manager.status(self.now);
        assert!(status.warnings.len() <= LIST_MAX && status.unreachable.len() <= LIST_MAX);
        assert!(status.missing.len() <= LIST_MAX && status.managers.len() <= LIST_MAX);
        let reply = Reply::Status(Box::new(status));
        encode(&reply).expect("a status that fits a message");
    }
}

/// The first part says how the manager is configured; each other part is a step: answers as they
/// should be, a changed one, none, an unsolicited datagram, time, a manager beside the
/// other host, a cable, a restart of the manager's host.
///
/// # Panics
/// If a list is longer than it may be, or the subnet does not come up once the fabric answers as it
/// should and no other manager runs.
pub(crate) fn manager(bytes: &[u8]) {
    let mut parts = Parts::of(bytes);
    let mut head = Fields::of(parts.next().unwrap_or_default());
    let options = head.byte();
    let mut bench = Bench::new(SmConfig {
        routing: routing::RoutingEngine::Updn,
        qos: match options & 1 {
            0 => QosChoice::None,
            _ => QosChoice::Vlarb01,
        },
        priority: head.byte() & 0x0f,
        lmc: wire::Lmc::new(head.byte() % 3).ok(),
        smps_in_flight: usize::from(head.byte() % 8) + 1,
        ..SmConfig::default()
    });
    bench.tick(1);
    bench.go_on(usize::from(head.two()));
    for part in parts {
        bench.step(part);
    }
    bench.changes.clear();
    bench.fabric.other_manager = None;
    bench.fabric.plugged = true;
    bench.fabric.ports.clear();
    bench.fabric.tables.clear();
    let cured = bench.now;
    for _ in 0..TURNS {
        bench.go_on(1);
        let phase = bench.manager.status(bench.now).phase;
        let rests = phase == Phase::Up && bench.waiting.is_empty();
        // Another manager has disabled this one: only a manager may enable it.
        if phase == Phase::NotActive || rests && bench.now.since_ns(cured) > 60_000_000_000 {
            return;
        }
    }
    panic!(
        "the subnet is not up: {:?}",
        bench.manager.status(bench.now)
    );
}

/// A manager that comes up and is then asked, told and disturbed.
pub(crate) fn manager_inputs() -> Vec<Vec<u8>> {
    // Configuration, and turns enough to come up.
    let up = [0, 8, 0, 7, 2, 0];
    let promised = [1, 8, 1, 7, 2, 0];
    let unsolicited = requests();
    let unsolicited: Vec<Vec<u8>> = unsolicited
        .iter()
        .map(|mad| [&[3, 2, 0][..], &fields_of(mad)].concat())
        .collect();
    let mut inputs = vec![Parts::join([up]), Parts::join([promised])];
    for step in &unsolicited {
        inputs.push(Parts::join([&up[..], step, &[0, 20]]));
    }
    inputs.push(Parts::join(
        core::iter::once(promised.to_vec()).chain(unsolicited),
    ));
    let others: [&[&[u8]]; 7] = [
        &[
            &[5, 3, 1, 0, 0, 0, 1, 15],
            &[8],
            &[0, 200],
            &[4, 100],
            &[0, 100],
        ],
        &[&[5, 2, 1, 0, 0, 0, 1, 3], &[8], &[0, 200]],
        &[&[7, 1], &[8], &[0, 200], &[7, 0], &[8], &[0, 200]],
        &[&[8], &[1, 65, 1, 66, 3], &[1, 3, 0x80], &[2], &[0, 100]],
        &[&[6, 1], &[0, 100], &[4, 127], &[0, 100]],
        &[&[8], &[9, 0, 1, 1, 2, 4], &[9, 1, 0xff], &[0, 50]],
        &[&[8], &[2], &[2], &[2], &[4, 115], &[4, 115], &[0, 100]],
    ];
    for steps in others {
        let up = core::iter::once(&up[..]);
        inputs.push(Parts::join(up.chain(steps.iter().copied())));
    }
    inputs
}
