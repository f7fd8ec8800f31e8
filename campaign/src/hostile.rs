//! Hostile management datagrams of hosts.
//!
//! Sets that a manager without keys cannot undo are sent only where ports have an M_Key: of PortInfo (which
//! would lock the manager out), of SwitchInfo and of P_Keys. Nor do Sets lead packets from switch to switch: InfiniBand has
//! no count of hops, so a loop in foreign tables would carry its packets until the tables are
//! repaired, at the rate of the links.

use mad::local::{MadMessage, ToAgent};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use wire::attr::{
    Attribute, LinearForwardingTable, MulticastForwardingTable, Notice, SlToVlTable, SmInfo,
    SmState,
};
use wire::mad::{AttributeId, MadStatus, Method, MgmtClass};
use wire::{Guid, Lid, Mad, MadHeader, PortNum, Qpn, Sl, UdPacket, Vl};

use crate::keys;
use crate::schedule::Hostility;

/// What a hostile host knows of the fabric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victims<'a> {
    /// LIDs of the subnet managers' hosts.
    pub(crate) managers: &'a [Lid],
    /// Whether ports have an M_Key.
    pub(crate) is_protected: bool,
    /// LIDs of switches.
    pub(crate) switches: &'a [Lid],
    /// Data VLs of every port.
    pub(crate) vls: u8,
}

/// A hostile datagram.
#[derive(Debug)]
pub(crate) enum Shot {
    /// By the host's MAD socket.
    Mad(ToAgent),
    /// As a packet on the host's cable.
    Packet(Vec<u8>),
}

/// The next datagram of a kind; `None` if no device could be its target.
pub(crate) fn shot(what: Hostility, victims: Victims<'_>, random: &mut ChaCha8Rng) -> Option<Shot> {
    let at = random.random_range(0..victims.managers.len().max(1));
    let manager = victims.managers.get(at).copied().unwrap_or_default();
    Some(match what {
        Hostility::Noise => Shot::Packet(noise(random)?),
        Hostility::Random => {
            let mad = random_mad(random);
            let lid = match random.random_bool(0.5) {
                true => manager,
                false => Lid::new(random.random_range(1..64)),
            };
            Shot::Mad(send(lid, &mad))
        }
        Hostility::Sets => {
            let at = random.random_range(0..victims.switches.len().max(1));
            let switch = *victims.switches.get(at)?;
            Shot::Mad(send(switch, &foreign_set(victims.vls, random)))
        }
        Hostility::Traps => {
            let issuer = match random.random_bool(0.5) {
                true => Lid::new(random.random_range(0..64)),
                false => *victims.switches.first()?,
            };
            let mut notice = Notice::link_state_change(issuer);
            if random.random_bool(0.5) {
                let numbers = [64, 65, 66, 129, 144, 145, 256, 257, 1000];
                notice.trap_number = numbers[random.random_range(0..numbers.len())];
            }
            let mut mad = request(
                MgmtClass::SUBN_LID,
                Method::TRAP,
                AttributeId::NOTICE,
                random,
            );
            mad.set_smp_attribute(&notice);
            Shot::Mad(send(manager, &mad))
        }
        Hostility::Orders => Shot::Mad(send(manager, &order(random))),
        Hostility::Settings if !victims.is_protected => return None,
        Hostility::Settings => {
            let at = random.random_range(0..=victims.switches.len());
            let victim = victims.switches.get(at).copied().unwrap_or(manager);
            let all = keys::SETTINGS;
            let what = all[random.random_range(0..all.len())];
            Shot::Mad(send(victim, &what.set(random)))
        }
        Hostility::Answers => {
            let mut mad = random_mad(random);
            let header = MadHeader {
                class: MgmtClass::SUBN_DIR,
                method: Method::GET_RESP,
                tid: u64::from(random.random_range(0..4096u32)),
                ..mad.header()
            };
            mad.set_header(&header);
            Shot::Mad(send(manager, &mad))
        }
    })
}

/// A control packet (Set of SMInfo) to a manager with another SM_Key, as if from a master.
fn order(random: &mut ChaCha8Rng) -> Mad {
    let mut mad = request(
        MgmtClass::SUBN_LID,
        Method::SET,
        AttributeId::SM_INFO,
        random,
    );
    mad.set_attr_mod(random.random_range(1..6));
    mad.set_smp_attribute(&SmInfo {
        guid: Guid(random.random()),
        sm_key: random.random_range(2..u64::MAX),
        act_count: random.random(),
        priority: 15,
        state: SmState::Master,
    });
    mad
}

pub(crate) fn send(lid: Lid, mad: &Mad) -> ToAgent {
    let qpn = match mad.class().is_subnet_management() {
        true => Qpn::SMI,
        false => Qpn::GSI,
    };
    ToAgent::Send(MadMessage {
        lid,
        qpn,
        sl: Sl::constant(0),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    })
}

pub(crate) fn request(
    class: MgmtClass,
    method: Method,
    attribute: AttributeId,
    random: &mut ChaCha8Rng,
) -> Mad {
    let mut mad = Mad::lid_smp(method, attribute, 0, random.random());
    let header = MadHeader {
        class,
        ..mad.header()
    };
    mad.set_header(&header);
    mad
}

/// Random contents behind a plausible header.
fn random_mad(random: &mut ChaCha8Rng) -> Mad {
    let mut bytes = [0; Mad::LEN];
    random.fill(&mut bytes[..]);
    let mut mad = Mad::from_bytes(bytes);
    let classes = [0x01, 0x81, 0x03, 0x04, 0x32, 0x07];
    let methods = [0x01, 0x02, 0x05, 0x06, 0x07, 0x12, 0x15, 0x81];
    let attributes = [
        0x01, 0x02, 0x03, 0x10, 0x11, 0x12, 0x15, 0x17, 0x18, 0x19, 0x1b, 0x20, 0x35, 0x38,
    ];
    let class = MgmtClass(classes[random.random_range(0..classes.len())]);
    let mut method = Method(methods[random.random_range(0..methods.len())]);
    if class.is_subnet_management() && method == Method::SET {
        method = Method::GET;
    }
    let header = MadHeader {
        base_version: MadHeader::BASE_VERSION,
        class_version: if class == MgmtClass::SUBN_ADM { 2 } else { 1 },
        status: MadStatus::OK,
        class,
        method,
        attr_id: AttributeId(attributes[random.random_range(0..attributes.len())]),
        attr_mod: random.random_range(0..8),
        ..mad.header()
    };
    mad.set_header(&header);
    mad
}

/// An SMP with right CRCs and random contents.
fn noise(random: &mut ChaCha8Rng) -> Option<Vec<u8>> {
    let mad = random_mad(random);
    let lid = match random.random_bool(0.5) {
        true => Lid::PERMISSIVE,
        false => Lid::new(random.random_range(1..64)),
    };
    let packet = UdPacket::smp(Lid::new(random.random_range(1..64)), lid, &mad);
    let mut bytes = vec![0; packet.len()];
    packet.emit(&mut bytes).ok()?;
    Some(bytes)
}

/// A Set as a manager sends it, of tables with invalid ports.
fn foreign_set(vls: u8, random: &mut ChaCha8Rng) -> Mad {
    let (attribute, modifier) = match random.random_range(0..3) {
        0 => (LinearForwardingTable::ID, random.random_range(0..2)),
        1 => (
            MulticastForwardingTable::ID,
            MulticastForwardingTable::modifier(0, 0),
        ),
        _ => {
            let port = |random: &mut ChaCha8Rng| PortNum::new(random.random_range(0..4));
            let (input, output) = (port(random), port(random));
            (SlToVlTable::ID, SlToVlTable::switch_modifier(input, output))
        }
    };
    let mut mad = request(MgmtClass::SUBN_LID, Method::SET, attribute, random);
    mad.set_attr_mod(modifier);
    match attribute {
        LinearForwardingTable::ID => {
            mad.set_smp_attribute(&LinearForwardingTable([PortNum::NONE; 64]));
        }
        MulticastForwardingTable::ID => {
            mad.set_smp_attribute(&MulticastForwardingTable([0; 32]));
        }
        _ => {
            let vl = Vl::constant(random.random_range(0..vls));
            mad.set_smp_attribute(&SlToVlTable([vl; 16]));
        }
    }
    mad
}
