//! A subnet manager's work by hand: LIDs, tables, states.

use link::PortState;
use wire::attr::{self, LinearForwardingTable, PortInfo, SwitchInfo, VlCount};
use wire::mad::{AttributeId, Mad, MadStatus, Method};
use wire::{Lid, PortNum};

use crate::bed::{Bed, lid};

/// Changes a port's PortInfo.
pub(crate) fn set_port(
    bed: &mut Bed,
    path: &[u8],
    port: u8,
    change: impl Fn(&mut PortInfo),
) -> PortInfo {
    let id = AttributeId::PORT_INFO;
    let answer = bed.directed(Method::GET, id, port.into(), path, |_| {});
    let mut info: PortInfo = answer.smp_attribute().unwrap();
    info.port_state = attr::PortState::NoChange;
    info.port_phys_state = attr::PortPhysState::NoChange;
    change(&mut info);
    let answer = bed.directed(Method::SET, id, port.into(), path, |mad| {
        mad.set_smp_attribute(&info)
    });
    assert_eq!(
        answer.status().without_direction(),
        MadStatus::OK,
        "{path:?} port {port}"
    );
    answer.smp_attribute().unwrap()
}

fn set_state(bed: &mut Bed, path: &[u8], port: u8, state: attr::PortState) {
    set_port(bed, path, port, |info| info.port_state = state);
}

fn configure(info: &mut PortInfo, own: u16) {
    info.lid = lid(own);
    info.master_sm_lid = lid(1);
    info.neighbor_mtu = info.mtu_cap;
    info.operational_vls = Some(VlCount::Two);
}

/// Two hosts back to back: LIDs 1 and 2, both Active.
pub(crate) fn bring_up_pair(bed: &mut Bed) {
    for (path, own) in [([].as_slice(), 1), (&[1], 2)] {
        set_port(bed, path, 1, |info| configure(info, own));
    }
    for state in [attr::PortState::Armed, attr::PortState::Active] {
        for path in [[].as_slice(), &[1]] {
            set_state(bed, path, 1, state);
        }
    }
    assert_eq!(bed.at(1).port().state(), PortState::Active);
}

/// Hosts on a switch: host `i` has LID `i + 1`, the switch the one after; all Active.
pub(crate) fn bring_up_star(bed: &mut Bed, hosts: u8) {
    let switch = [1].as_slice();
    let paths: Vec<Vec<u8>> = (1..=hosts)
        .map(|port| if port == 1 { vec![] } else { vec![1, port] })
        .collect();
    let switch_lid = u16::from(hosts) + 1;
    set_port(bed, switch, 0, |info| configure(info, switch_lid));
    let mut table = LinearForwardingTable::default();
    for host in 1..=hosts {
        table.0[usize::from(host)] = PortNum::new(host);
    }
    table.0[usize::from(switch_lid)] = PortNum::MANAGEMENT;
    let id = AttributeId::LINEAR_FORWARDING_TABLE;
    bed.directed(Method::SET, id, 0, switch, |mad| {
        mad.set_smp_attribute(&table)
    });
    let get = |mad: &Mad| mad.smp_attribute::<SwitchInfo>().unwrap();
    let mut info = get(&bed.directed(Method::GET, AttributeId::SWITCH_INFO, 0, switch, |_| {}));
    info.linear_fdb_top = switch_lid;
    bed.directed(Method::SET, AttributeId::SWITCH_INFO, 0, switch, |mad| {
        mad.set_smp_attribute(&info);
    });
    for (own, path) in (1u8..).zip(&paths) {
        set_port(bed, path, 1, |info| configure(info, own.into()));
        set_port(bed, switch, own, |info| configure(info, 0));
    }
    for state in [attr::PortState::Armed, attr::PortState::Active] {
        for (port, path) in (1u8..).zip(&paths) {
            set_state(bed, path, 1, state);
            set_state(bed, switch, port, state);
        }
    }
}

/// All LIDs of `hosts` hosts on a switch, but that of the first.
pub(crate) fn others(hosts: u8) -> Vec<Lid> {
    (2..=u16::from(hosts)).map(lid).collect()
}
