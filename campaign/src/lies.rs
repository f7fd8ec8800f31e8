//! Hosts whose answers to subnet management are false: what they send is changed on their cables.
//!
//! A host that answers falsely until the end counts as broken: nothing is required of it. The
//! others must be brought up, keep their LIDs and reach each other, and the manager must not count more
//! devices than there are, but for the two switches that a host may claim to be. A large made-up fabric behind a host is left out:
//! its answers would be those of a real one.

mod switches;

use std::collections::BTreeMap;

use hostd::control::{PingRequest, Reply, Request};
use link::Time;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim::{Interposer, Passage};
use topologies::{Endpoint, NodeId};
use wire::attr::{
    Attribute, NodeInfo, NodeType, PortInfo, PortPhysState, PortState, SmInfo, SmState, capability,
};
use wire::mad::{MadStatus, Method};
use wire::{Delimiter, Guid, Lid, Lmc, Mad, RecordKind, Sl};

use crate::bed::{Bed, CHECK_INTERVAL_NS, DATAGRAM_BYTES, SETTLED_NS_MAX};
use crate::outcome::{Failure, FailureKind};
use crate::partitions::Reach;
use crate::schedule::Lie;
use switches::MadeUp;

/// Bytes before the MAD in the record of an SMP: delimiter, LRH, BTH, DETH.
const MAD_AT: usize = Delimiter::LEN + 8 + 12 + 8;
/// Bytes of ICRC and VCRC.
const CRCS: usize = 6;
const VCRC: usize = 2;

/// A false answer and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedLie {
    pub(crate) host: NodeId,
    /// The other end of its cable.
    pub(crate) peer: Endpoint,
    pub(crate) guid: Guid,
    pub(crate) about: Lie,
    pub(crate) from: Time,
    pub(crate) until: Time,
}

/// Changes the answers of hosts.
#[derive(Debug)]
pub(crate) struct Liars {
    lies: Vec<TimedLie>,
    /// The GUID of a switch, which such a host reports as its own.
    switch: Guid,
    random: ChaCha8Rng,
    /// What hosts have made up.
    made_up: BTreeMap<NodeId, MadeUp>,
}

impl Liars {
    pub(crate) fn new(lies: Vec<TimedLie>, switch: Guid, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(sim::split_mix(seed, 4));
        let of_switches = lies.iter().filter(|lie| lie.about == Lie::Switches);
        let made_up = of_switches.map(|lie| {
            let guid = lie.guid.0;
            let first = if random.random_bool(0.5) { guid } else { !guid };
            (lie.host, MadeUp::new([first, !guid ^ 1].map(Guid)))
        });
        let made_up = made_up.collect();
        Self {
            lies,
            switch,
            random,
            made_up,
        }
    }
}

impl Interposer for Liars {
    fn pass(&mut self, now: Time, from: Endpoint, frame: &mut [u8]) -> Passage {
        let is_told = |lie: &&TimedLie| (lie.from..lie.until).contains(&now);
        for lie in self.lies.iter().filter(is_told) {
            if lie.about == Lie::Switches {
                continue;
            }
            let Some(mut mad) = answer(frame).filter(|_| lie.host == from.node) else {
                continue;
            };
            falsify(lie.about, self.switch, &mut mad, &mut self.random);
            replace(frame, &mad);
        }
        for lie in self.lies.iter().filter(|lie| lie.about == Lie::Switches) {
            let Some(made_up) = self.made_up.get_mut(&lie.host) else {
                continue;
            };
            // What was asked while the host lied is answered so.
            let changed = match (lie.host == from.node, is_told(&lie)) {
                (true, _) => answer(frame).and_then(|mad| made_up.answer(mad)),
                (false, true) if lie.peer == from => smp(frame).and_then(|mad| made_up.ask(mad)),
                _ => None,
            };
            if let Some(mad) = changed {
                replace(frame, &mad);
            }
        }
        Passage::Once
    }
}

/// The answer of an SMA in a frame that carries one packet.
fn answer(frame: &[u8]) -> Option<Mad> {
    smp(frame).filter(|mad| mad.method() == Method::GET_RESP)
}

/// The datagram of subnet management in a frame that carries one packet.
fn smp(frame: &[u8]) -> Option<Mad> {
    let is_management = frame.get(Delimiter::LEN)? >> 4 == 15;
    let bytes = frame.get(MAD_AT..MAD_AT + Mad::LEN)?;
    if !is_management || *frame.first()? != RecordKind::Data as u8 {
        return None;
    }
    let (mad, _) = Mad::parse(bytes).ok()?;
    mad.class().is_subnet_management().then_some(mad)
}

/// Puts a MAD into a frame that carries one packet, with right CRCs.
fn replace(frame: &mut [u8], mad: &Mad) {
    frame[MAD_AT..MAD_AT + Mad::LEN].copy_from_slice(mad.as_bytes());
    let packet = &mut frame[Delimiter::LEN..];
    let end = packet.len();
    let icrc = wire::crc::icrc(&packet[..end - CRCS]).to_be_bytes();
    packet[end - CRCS..end - VCRC].copy_from_slice(&icrc);
    let vcrc = wire::crc::vcrc(&packet[..end - VCRC]).to_be_bytes();
    packet[end - VCRC..].copy_from_slice(&vcrc);
}

/// Makes an answer false.
fn falsify(about: Lie, switch: Guid, mad: &mut Mad, random: &mut ChaCha8Rng) {
    let returning = mad.is_returning();
    let attribute = mad.attr_id();
    let node = mad.smp_attribute::<NodeInfo>();
    let port = mad.smp_attribute::<PortInfo>();
    match about {
        Lie::Ports => match (attribute, node, port) {
            (NodeInfo::ID, Ok(node), _) => mad.set_smp_attribute(&NodeInfo {
                node_type: NodeType::Switch,
                num_ports: 254,
                ..node
            }),
            (PortInfo::ID, _, Ok(port)) => mad.set_smp_attribute(&PortInfo {
                port_state: PortState::Init,
                port_phys_state: PortPhysState::LinkUp,
                ..port
            }),
            // It has no such attribute, and says it has.
            _ => mad.set_status(MadStatus::OK),
        },
        Lie::Lids => {
            if let (PortInfo::ID, Ok(port)) = (attribute, port) {
                let lids = [0xc001, 0xffff, random.random_range(1..64), random.random()];
                mad.set_smp_attribute(&PortInfo {
                    lid: Lid::new(lids[random.random_range(0..lids.len())]),
                    master_sm_lid: Lid::new(random.random()),
                    lmc: Lmc::constant(7),
                    ..port
                });
            }
        }
        Lie::Guids => {
            if let (NodeInfo::ID, Ok(node)) = (attribute, node) {
                let guid = match random.random_bool(0.5) {
                    true => switch,
                    false => Guid(random.random()),
                };
                mad.set_smp_attribute(&NodeInfo {
                    node_guid: guid,
                    port_guid: guid,
                    system_image_guid: guid,
                    ..node
                });
            }
        }
        Lie::Manager => match (attribute, port) {
            (PortInfo::ID, Ok(port)) => mad.set_smp_attribute(&PortInfo {
                capability_mask: port.capability_mask | capability::IS_SM,
                ..port
            }),
            (SmInfo::ID, _) => {
                mad.set_status(MadStatus::OK);
                mad.set_smp_attribute(&SmInfo {
                    guid: Guid(random.random()),
                    sm_key: random.random_range(2..u64::MAX),
                    act_count: random.random(),
                    priority: 15,
                    state: SmState::Master,
                });
            }
            _ => {}
        },
        Lie::Everything => random.fill(&mut mad.smp_data_mut()[..]),
        // Told by what is in the host's place.
        Lie::Switches => {}
    }
    // A status of its own would lose the direction.
    mad.set_returning(returning);
}

/// With hosts whose answers are false until the end, the others are brought up and reach each other within
/// bounded time.
pub(crate) fn check(bed: &mut Bed<'_>) -> Result<(), Failure> {
    let limit = bed.twin.now() + SETTLED_NS_MAX;
    let remaining = bed.twin.remaining();
    let left = |id: &NodeId| remaining.find(&bed.graph.node(*id).name).is_some();
    let honest: Vec<NodeId> = bed.hosts.iter().copied().filter(left).collect();
    let honest: Vec<NodeId> = honest
        .into_iter()
        .filter(|id| !bed.liars.contains(id))
        .collect();
    loop {
        bed.pass(CHECK_INTERVAL_NS)?;
        let missing = unreached(bed, &honest)?;
        let status = bed.twin.status();
        let believed = u64::from(status.switches) + u64::from(status.hosts);
        if believed > wire::convert::u64_of(bed.graph.len() + bed.made_up) {
            let what = format!("{believed} devices of {}", bed.graph.len());
            return bed.fail(FailureKind::NotBounded, what);
        }
        let Some(missing) = missing else {
            return bed.check_lids();
        };
        if bed.twin.now() >= limit {
            let what = format!("{missing}; {:?}, {:?}", status.phase, status.warnings);
            return bed.fail(FailureKind::Unreachable, what);
        }
    }
}

/// An honest host that does not reach another one; `None` if all reach all.
fn unreached(bed: &mut Bed<'_>, honest: &[NodeId]) -> Result<Option<String>, Failure> {
    let lids = bed.host_lids();
    let reach = Reach::of(bed);
    for &host in honest {
        let own = bed.graph.node(host).name.clone();
        let mut targets: BTreeMap<u16, Vec<Lid>> = BTreeMap::new();
        for other in honest.iter().filter(|&&other| other != host) {
            let Some(&lid) = lids.get(other).filter(|lid| lid.is_unicast()) else {
                return Ok(Some(format!("{} has no LID", bed.graph.node(*other).name)));
            };
            if let Some(key) = reach.key(host, *other) {
                targets.entry(key).or_default().push(lid);
            }
        }
        for (pkey, targets) in targets {
            let request = Request::Ping(PingRequest {
                targets,
                count: 1,
                interval_us: 10,
                size: DATAGRAM_BYTES,
                sl: Sl::default(),
                pkey,
                timeout_ms: 100,
            });
            let Some(Reply::Ping(results)) = bed.ask(host, request) else {
                return Ok(Some(format!("{own} sends no echo requests")));
            };
            if let Some(silent) = results.iter().find(|result| result.received == 0) {
                return Ok(Some(format!(
                    "{own} has no answer from LID {}",
                    silent.dlid
                )));
            }
            bed.pass(1)?;
        }
    }
    Ok(None)
}
