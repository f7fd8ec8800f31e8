//! The writes of each stage: differences between the plan and the mirrors.

use std::collections::BTreeMap;

use topologies::NodeKind;
use wire::attr::{LinearForwardingTable, PortInfo, PortState, VlArbTable, capability};
use wire::{Lid, PortNum};

use super::mirror::Mirror;
use super::{Target, Write, tables};
use crate::groups;
use crate::port_settings::{self, ALL_INPUTS};
use crate::subnet::{Device, Index};

pub(super) fn end_ports(target: &mut Target<'_>) -> Vec<Write> {
    let mut writes = Vec::new();
    for (index, device) in target.subnet.devices.iter().enumerate() {
        let Some(info) = device.end_port_info() else {
            continue;
        };
        let mirror = target.mirrors.get(&device.guid());
        if let Some(switch) = &device.switch {
            // A switch that was restarted has forgotten its tables.
            if mirror.is_none_or(|mirror| mirror.top != switch.linear_fdb_top) {
                target.mirrors.insert(device.guid(), Mirror::of(switch));
            }
            if switch.linear_fdb_top != target.plan.top
                || switch.life_time_value != port_settings::LIFE_TIME
            {
                writes.push(Write::SwitchInfo(index));
            }
        } else if mirror.is_none() || info.lid == Lid::ZERO {
            let mirror = Mirror {
                unprogrammed: info.lid == Lid::ZERO,
                ..Mirror::default()
            };
            target.mirrors.insert(device.guid(), mirror);
        }
        writes.extend(pkey_writes(target, index, device));
        let wanted = port_settings::end_port(target.subnet, target.plan, index);
        let reregister = info.capability_mask & capability::IS_CLIENT_REREGISTRATION != 0
            && target.groups.must_reregister(device.end_port_guid());
        if wanted.is_some_and(|wanted| reregister || port_settings::differs(info, &wanted)) {
            writes.push(Write::EndPort(index));
        }
    }
    writes.extend(guids(target));
    writes
}

/// The blocks of GUIDs that hold aliases, or have held some, and differ from what is known of the port.
pub(super) fn guids(target: &Target<'_>) -> Vec<Write> {
    let mut writes = Vec::new();
    for (index, device) in target.subnet.devices.iter().enumerate() {
        let port = device.end_port_guid();
        let held = target.mirrors.get(&device.guid());
        let held = held.map(|mirror| &mirror.guids);
        let mut blocks = target.aliases.blocks(port);
        blocks.extend(held.into_iter().flat_map(BTreeMap::keys));
        for block in blocks {
            let wanted = target.aliases.block(port, block);
            match held.and_then(|held| held.get(&block)) {
                Some(Some(held)) if *held == wanted => {}
                Some(_) => writes.push(Write::Guids(index, block)),
                None => writes.push(Write::ReadGuids(index, block)),
            }
        }
    }
    writes
}

/// The P_Key tables of a device that differ or are not known.
fn pkey_writes(target: &Target<'_>, index: Index, device: &Device) -> Vec<Write> {
    let mirror = target.mirrors.get(&device.guid());
    let ports = target.plan.pkeys.ports(target.subnet, index);
    let writes = ports.filter_map(|port| {
        let held = mirror.and_then(|mirror| mirror.pkeys.get(&port));
        let wanted = target
            .plan
            .pkeys
            .intended_table(target.subnet, (index, port), held)?;
        match held {
            Some(held) if *held == wanted => None,
            Some(_) => Some(Write::PKeys(index, port)),
            None => Some(Write::ReadPKeys(index, port)),
        }
    });
    writes.collect()
}

/// LFT blocks but for those that can be deferred.
pub(super) fn lft(target: &Target<'_>) -> Vec<Write> {
    lft_blocks(target, is_deferrable)
}

/// The LFT blocks that were deferred until ports are Active.
pub(super) fn deferred_lft(target: &Target<'_>) -> Vec<Write> {
    lft_blocks(target, |_, _, _| false)
}

/// LFT blocks of one switch that are written one behind the other. They share frames and wake-ups on their whole way, which is what
/// a write costs; with more of them what is in flight would be at few switches at a time.
const BLOCKS_IN_A_ROW: u16 = 16;

/// LFT blocks that differ, but for those that `left_out` names: [`BLOCKS_IN_A_ROW`] of each switch in turn.
fn lft_blocks(
    target: &Target<'_>,
    left_out: impl Fn(&Device, &LinearForwardingTable, &LinearForwardingTable) -> bool,
) -> Vec<Write> {
    let mut writes = Vec::new();
    let last = target.plan.top / 64;
    for first in (0..=last).step_by(BLOCKS_IN_A_ROW.into()) {
        for (index, device) in target.subnet.devices.iter().enumerate() {
            let mirror = target.mirrors.get(&device.guid());
            for block in first..=last.min(first + BLOCKS_IN_A_ROW - 1) {
                let Some(wanted) = target.plan.block(index, block) else {
                    continue;
                };
                match mirror.and_then(|mirror| mirror.lft_block(block)) {
                    Some(held) if *held == wanted || left_out(device, held, &wanted) => {}
                    Some(_) => writes.push(Write::Lft(index, block)),
                    None => writes.push(Write::ReadLft(index, block)),
                }
            }
        }
    }
    writes
}

/// Whether a block can be deferred until ports are Active: all that it changes leads somewhere as it is, or
/// nowhere yet, and some of it would lead out of a port that carries no data yet. Blocks without any
/// route do not wait: nothing crosses a switch that holds only these.
fn is_deferrable(
    device: &Device,
    held: &LinearForwardingTable,
    wanted: &LinearForwardingTable,
) -> bool {
    let carries = |port: PortNum| {
        port == PortNum::MANAGEMENT
            || device
                .port_info(port)
                .is_some_and(|info| info.port_state == PortState::Active)
    };
    let changed = || {
        let entries = held.0.iter().zip(&wanted.0);
        entries.filter(|(held, wanted)| held != wanted)
    };
    *held != LinearForwardingTable::default()
        && changed().all(|(&held, _)| held == PortNum::NONE || carries(held))
        && changed().any(|(_, &wanted)| wanted != PortNum::NONE && !carries(wanted))
}

/// SL-to-VL tables and VL arbitration.
pub(super) fn vl_tables(target: &Target<'_>) -> Vec<Write> {
    let devices = target.subnet.devices.iter().enumerate();
    devices
        .flat_map(|(index, device)| port_vl_tables(target, index, device))
        .collect()
}

fn port_vl_tables(target: &Target<'_>, index: Index, device: &Device) -> Vec<Write> {
    let basis = target.basis();
    let mut writes = Vec::new();
    let Some(mirror) = target.mirrors.get(&device.guid()) else {
        return writes;
    };
    let outputs: Vec<PortNum> = device.cables().map(|(port, _)| port).collect();
    let at_once = device
        .switch
        .is_some_and(|switch| switch.optimized_sl_to_vl != 0);
    let own = [PortNum::MANAGEMENT];
    let each: Vec<PortNum> = own.iter().chain(&outputs).copied().collect();
    for &output in &outputs {
        let end = (index, output);
        let alike = || !port_settings::sl2vl_by_input(&basis, end);
        let inputs: &[PortNum] = match device.kind {
            NodeKind::Switch if at_once && alike() => &[ALL_INPUTS],
            NodeKind::Switch => &each,
            NodeKind::Host => &own,
        };
        // Where single inputs were written, all inputs at once are not read: one read tells of one.
        let reads = |input| {
            let several = input == ALL_INPUTS && mirror.knows_single_sl2vl(output);
            !(mirror.unprogrammed || several)
        };
        for &input in inputs {
            let Some(wanted) = port_settings::sl2vl(&basis, input, end) else {
                break;
            };
            match mirror.sl2vl.get(&(input, output)) {
                Some(held) if *held == wanted => {}
                None if reads(input) => {
                    writes.push(Write::ReadSl2Vl(index, input, output));
                }
                _ => writes.push(Write::Sl2Vl(index, input, output)),
            }
        }
        for block in VlArbTable::LOW_FIRST..=VlArbTable::HIGH_SECOND {
            let wanted = port_settings::vl_arbitration(&basis, end, block);
            let Some(wanted) = wanted else {
                continue;
            };
            match mirror.arbitration.get(&(output, block)) {
                Some(held) if *held == wanted => {}
                None if !mirror.unprogrammed => writes.push(Write::ReadVlArb(index, output, block)),
                // No manager has filled the entries from 32 on.
                None if wanted == VlArbTable::default() && is_second(block) => {}
                _ => writes.push(Write::VlArb(index, output, block)),
            }
        }
    }
    writes
}

/// Whether a block of VL arbitration holds entries from 32 on.
fn is_second(block: u8) -> bool {
    matches!(block, VlArbTable::LOW_SECOND | VlArbTable::HIGH_SECOND)
}

/// Multicast blocks that differ from what is known of a switch. Of one that was managed before by another manager,
/// blocks are read from the first on, twice as many each time, until one holds nothing, and none beyond its
/// MulticastFDBTop but those that groups need.
pub(super) fn multicast(target: &mut Target<'_>) -> Vec<Write> {
    let mut blocks = Vec::new();
    for (index, device) in target.subnet.devices.iter().enumerate() {
        let (Some(switch), Some(mirror)) = (&device.switch, target.mirrors.get(&device.guid()))
        else {
            continue;
        };
        let top = tables::multicast_top(device, target.groups, index);
        let held = switch.multicast_fdb_top;
        let mut known = match mirror.last_mft_block() {
            Some(last) if mirror.unprogrammed => Some(last),
            Some(last) => Some(last.saturating_mul(2) + 1),
            None => (!mirror.unprogrammed).then_some(0),
        };
        if top.is_some() && held != Lid::ZERO {
            known = known.min(groups::block_of(held));
        }
        let last = target.groups.last_block(index).max(known);
        let end = switch.multicast_fdb_cap / 32;
        let last = last.and_then(|last| Some(last.min(end.checked_sub(1)?)));
        let positions = 0..=device.info.num_ports / 16;
        for block in last.into_iter().flat_map(|last| 0..=last) {
            for position in positions.clone() {
                let Some(wanted) = target.groups.block(index, block, position) else {
                    continue;
                };
                match mirror.mft_block((block, position)) {
                    Some(held) if *held == wanted => {}
                    Some(_) => blocks.push(Write::Mft(index, block, position)),
                    None => blocks.push(Write::ReadMft(index, block, position)),
                }
            }
        }
    }
    blocks
}

/// Each MulticastFDBTop that is another one than its switch's table needs, or not set. All blocks below it are as they
/// are to be by now.
pub(super) fn multicast_tops(target: &Target<'_>) -> Vec<Write> {
    let mut writes = Vec::new();
    for (index, device) in target.subnet.devices.iter().enumerate() {
        let top = tables::multicast_top(device, target.groups, index);
        let (Some(switch), Some(top)) = (&device.switch, top) else {
            continue;
        };
        if switch.multicast_fdb_top != top {
            writes.push(Write::MulticastTop(index));
        }
    }
    writes
}

/// Whether an end of a host's cable need not wait until all tables are read: switch and host have kept what the manager before
/// has given them, as those have whose ports are Active, and the switch's tables are not known yet. To read them takes
/// longer than a second on large fabrics.
fn is_unread(target: &Target<'_>, (index, port): (Index, PortNum), peer: Index) -> bool {
    let (device, other) = (&target.subnet.devices[index], &target.subnet.devices[peer]);
    let (switch, host) = match (device.kind, other.kind) {
        (NodeKind::Switch, NodeKind::Host) => (index, peer),
        (NodeKind::Host, NodeKind::Switch) => (peer, index),
        _ => return false,
    };
    let mirror = |index: Index| {
        let mirror = target.mirrors.get(&target.subnet.devices[index].guid());
        mirror.filter(|mirror| !mirror.unprogrammed)
    };
    let Some((of_switch, _)) = mirror(switch).zip(mirror(host)) else {
        return false;
    };
    let mut blocks = 0..=target.plan.top / 64;
    device.port_info(port).is_some() && blocks.any(|block| of_switch.lft_block(block).is_none())
}

/// Ends of hosts' cables that are made Active before tables are read.
pub(super) fn arm_unread(target: &mut Target<'_>) -> Vec<Write> {
    arm_if(target, |target, info, end, peer| {
        info.port_state == PortState::Init && is_unread(target, end, peer)
    })
}

/// The same, Armed on both ends.
pub(super) fn activate_unread(target: &Target<'_>) -> Vec<Write> {
    let mut writes = activate(target);
    writes.retain(|write| match *write {
        Write::ActivatePort(index, port) => {
            let mut cables = target.subnet.devices[index].cables();
            let peer = cables.find(|&(own, _)| own == port);
            peer.is_some_and(|(_, peer)| is_unread(target, (index, port), peer.0))
        }
        _ => false,
    });
    writes
}

pub(super) fn arm(target: &mut Target<'_>) -> Vec<Write> {
    arm_if(target, |_, _, _, _| true)
}

/// Ports that are to be Armed or set, of those that `is_meant` names by what is known of them and their peers.
fn arm_if(
    target: &Target<'_>,
    is_meant: impl Fn(&Target<'_>, &PortInfo, (Index, PortNum), Index) -> bool,
) -> Vec<Write> {
    let mut writes = Vec::new();
    for (index, device) in target.subnet.devices.iter().enumerate() {
        for (port, peer) in device.cables() {
            let wanted = port_settings::link_port(&target.basis(), (index, port));
            let (Some(info), Some(wanted)) = (device.port_info(port), wanted) else {
                continue;
            };
            let differs =
                || info.port_state == PortState::Init || port_settings::differs(info, &wanted);
            if is_meant(target, info, (index, port), peer.0) && differs() {
                writes.push(Write::ArmPort(index, port));
            }
        }
    }
    writes
}

/// Ports of switches whose cables are Armed on both ends.
pub(super) fn activate_switches(target: &Target<'_>) -> Vec<Write> {
    let mut writes = activate(target);
    writes.retain(|write| target.subnet.devices[write.device()].kind == NodeKind::Switch);
    writes
}

/// Ports of cables that are Armed on both ends.
pub(super) fn activate(target: &Target<'_>) -> Vec<Write> {
    let ready = |end: (Index, PortNum)| {
        target.subnet.devices[end.0]
            .port_info(end.1)
            .is_some_and(|info| info.port_state >= PortState::Armed)
    };
    let mut writes = Vec::new();
    for (index, device) in target.subnet.devices.iter().enumerate() {
        for (port, peer) in device.cables() {
            let armed = device
                .port_info(port)
                .is_some_and(|info| info.port_state == PortState::Armed);
            if armed && ready(peer) {
                writes.push(Write::ActivatePort(index, port));
            }
        }
    }
    writes
}
