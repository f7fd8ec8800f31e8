//! The M_Key of a fabric: requests without it change nothing, are counted, and are reported.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use topologies::{NodeId, NodeKind};
use wire::attr::{
    Attribute, LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo, PortState,
    SlToVlTable, SwitchInfo, VlArbTable,
};
use wire::mad::{AttributeId, Method, MgmtClass};
use wire::{Lid, MKey, Mad, PortNum, Vl};

use crate::bed::Bed;
use crate::hostile;
use crate::outcome::{Failure, FailureKind};
use crate::schedule::Schedule;

/// Foreign Sets arrive, and traps with what follows from them, within this time, nanoseconds.
const TOLD_NS: u64 = 1_000_000_000;

/// The M_Key of a schedule.
pub(crate) fn of(schedule: &Schedule) -> MKey {
    // A drawn key is not 0, and no foreign Set gives it by chance.
    MKey::new(sim::split_mix(schedule.seed, 3) | 1 << 63).unwrap_or(FALLBACK)
}

const FALLBACK: MKey = match MKey::new(1) {
    Some(key) => key,
    None => unreachable!(),
};

/// What a subnet manager sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Port,
    Switch,
    PKeys,
    Linear,
    Multicast,
    SlToVl,
    VlArbitration,
}

/// All of them.
pub(crate) const SETTINGS: [Setting; 7] = [
    Setting::Port,
    Setting::Switch,
    Setting::PKeys,
    Setting::Linear,
    Setting::Multicast,
    Setting::SlToVl,
    Setting::VlArbitration,
];

impl Setting {
    const fn attribute(self) -> AttributeId {
        match self {
            Self::Port => PortInfo::ID,
            Self::Switch => SwitchInfo::ID,
            Self::PKeys => PKeyTable::ID,
            Self::Linear => LinearForwardingTable::ID,
            Self::Multicast => MulticastForwardingTable::ID,
            Self::SlToVl => SlToVlTable::ID,
            Self::VlArbitration => VlArbTable::ID,
        }
    }

    /// A Set without the M_Key: with another one, or none.
    pub(crate) fn set(self, random: &mut ChaCha8Rng) -> Mad {
        let (class, method) = (MgmtClass::SUBN_LID, Method::SET);
        let mut mad = hostile::request(class, method, self.attribute(), random);
        match self {
            Self::Port => {
                mad.set_smp_attribute(&PortInfo {
                    m_key: random.random(),
                    lid: Lid::new(random.random_range(1..64)),
                    master_sm_lid: Lid::new(random.random_range(1..64)),
                    port_state: [PortState::NoChange, PortState::Down][random.random_range(0..2)],
                    ..PortInfo::default()
                });
                mad.set_attr_mod(random.random_range(0..3));
            }
            Self::Switch => mad.smp_data_mut().fill(0),
            Self::PKeys => {
                mad.set_smp_attribute(&PKeyTable([0x8000 | random.random_range(1..64); 32]))
            }
            Self::Linear => {
                mad.set_smp_attribute(&LinearForwardingTable([PortNum::NONE; 64]));
            }
            Self::Multicast => mad.set_smp_attribute(&MulticastForwardingTable([0; 32])),
            Self::SlToVl => {
                mad.set_smp_attribute(&SlToVlTable([Vl::MANAGEMENT; 16]));
                mad.set_attr_mod(SlToVlTable::switch_modifier(
                    PortNum::new(1),
                    PortNum::new(2),
                ));
            }
            Self::VlArbitration => {
                mad.set_smp_attribute(&VlArbTable::default());
                mad.set_attr_mod(VlArbTable::modifier(VlArbTable::LOW_FIRST, PortNum::new(1)));
            }
        }
        mad.set_m_key([0, random.random()][random.random_range(0..2)]);
        mad
    }
}

/// Every host attacks every device with every setting; nothing changes, all is counted, and the master
/// has a warning of it.
pub(crate) fn check(bed: &mut Bed<'_>) -> Result<(), Failure> {
    if bed.schedule.m_key.is_none() {
        return Ok(());
    }
    let remaining = bed.twin.remaining();
    let whole = |left: NodeId| bed.graph.find(&remaining.node(left).name);
    let devices: Vec<NodeId> = remaining.ids().filter_map(whole).collect();
    let attackers: Vec<NodeId> = remaining.hosts().filter_map(whole).collect();
    let before: BTreeMap<NodeId, Held> = devices.iter().map(|&id| (id, held(bed, id))).collect();
    let mut sent: BTreeMap<NodeId, u16> = BTreeMap::new();
    for (at, &victim) in devices.iter().enumerate() {
        // A device is attacked by another one: what a host sends to itself never leaves it.
        let attacker = attackers.iter().cycle().skip(at);
        let attacker = attacker.take(attackers.len()).find(|&&id| id != victim);
        let (Some(&attacker), Some(lid)) = (attacker, lid(bed, victim)) else {
            continue;
        };
        let name = bed.graph.node(attacker).name.clone();
        for setting in SETTINGS {
            let mad = setting.set(&mut bed.random);
            if bed
                .twin
                .send_to_agent(&name, hostile::send(lid, &mad))
                .is_ok()
            {
                *sent.entry(victim).or_default() += 1;
            }
        }
    }
    bed.pass(TOLD_NS)?;
    for (&id, before) in &before {
        let now = held(bed, id);
        let name = bed.graph.node(id).name.clone();
        if let Some((what, _)) = before
            .values
            .iter()
            .find(|&(what, value)| now.values.get(what) != Some(value))
        {
            let (attribute, modifier) = *what;
            let what = format!(
                "attribute {attribute} ({modifier:#x}) of {name} was changed without the M_Key"
            );
            return bed.fail(FailureKind::MKey, what);
        }
        let counted = now.violations.wrapping_sub(before.violations);
        let expected = sent.get(&id).copied().unwrap_or_default();
        // The counter stops at its highest value.
        if counted != expected && now.violations != u16::MAX {
            let what =
                format!("{name} counts {counted} Sets without its M_Key, and got {expected}");
            return bed.fail(FailureKind::MKey, what);
        }
    }
    let status = bed.twin.status();
    let is_reported = status
        .warnings
        .iter()
        .any(|text| text.contains("(trap 256)"));
    if !is_reported && sent.values().any(|&count| count > 0) {
        let what = format!("the master knows of no trap 256: {:?}", status.warnings);
        return bed.fail(FailureKind::MKey, what);
    }
    Ok(())
}

/// What a device is configured to, by attribute and modifier, and what it has counted.
#[derive(Debug)]
struct Held {
    values: BTreeMap<(u16, u32), [u8; 64]>,
    violations: u16,
}

fn lid(bed: &Bed<'_>, id: NodeId) -> Option<Lid> {
    let name = &bed.graph.node(id).name;
    let lid = match bed.graph.node(id).kind {
        NodeKind::Switch => bed.twin.switch(name)?.lid(),
        NodeKind::Host => bed.twin.host(name)?.lid(),
    };
    lid.is_unicast().then_some(lid)
}

/// Reads a device without a packet; the key is given, so that the port's own is shown if it is that.
pub(crate) fn read(bed: &mut Bed<'_>, id: NodeId, attribute: AttributeId, modifier: u32) -> Mad {
    let mut mad = Mad::lid_smp(Method::GET, attribute, modifier, 1);
    if bed.schedule.m_key.is_some() {
        mad.set_m_key(of(bed.schedule).get());
    }
    bed.twin.read(id, &mut mad);
    mad
}

fn held(bed: &mut Bed<'_>, id: NodeId) -> Held {
    let (kind, ports) = (bed.graph.node(id).kind, bed.graph.node(id).ports);
    let all = (0..=ports).map(PortNum::new);
    let mut places: Vec<(AttributeId, u32)> = Vec::new();
    let external: Vec<PortNum> = all.clone().skip(1).collect();
    places.extend(all.map(|port| (PortInfo::ID, u32::from(port.get()))));
    match kind {
        NodeKind::Switch => {
            places.push((SwitchInfo::ID, 0));
            places.extend((0..2).map(|block| (LinearForwardingTable::ID, block)));
            places.push((MulticastForwardingTable::ID, 0));
            for &port in &external {
                places.push((PKeyTable::ID, PKeyTable::switch_modifier(port, 0)));
                let modifier = VlArbTable::modifier(VlArbTable::LOW_FIRST, port);
                places.push((VlArbTable::ID, modifier));
                let inputs = external.iter();
                places.extend(inputs.map(|&input| {
                    let modifier = SlToVlTable::switch_modifier(input, port);
                    (SlToVlTable::ID, modifier)
                }));
            }
        }
        NodeKind::Host => {
            places.push((PKeyTable::ID, 0));
            places.push((SlToVlTable::ID, 0));
            let modifier = VlArbTable::modifier(VlArbTable::LOW_FIRST, PortNum::MANAGEMENT);
            places.push((VlArbTable::ID, modifier));
        }
    }
    let mut violations = 0;
    let mut values = BTreeMap::new();
    for (attribute, modifier) in places {
        let mut mad = read(bed, id, attribute, modifier);
        if attribute == PortInfo::ID
            && let Ok(info) = mad.smp_attribute::<PortInfo>()
        {
            violations = violations.max(info.m_key_violations);
            mad.set_smp_attribute(&PortInfo {
                m_key_violations: 0,
                p_key_violations: 0,
                q_key_violations: 0,
                ..info
            });
        }
        values.insert((attribute.0, modifier), *mad.smp_data());
    }
    Held { values, violations }
}
