//! The SMPs for MFT blocks, SL-to-VL tables and VL arbitration tables.

use topologies::NodeKind;
use wire::attr::{
    MulticastForwardingTable, PKeyTable, SlToVlTable, SwitchInfo, VlArbTable, capability,
};
use wire::{Lid, PortNum};

use super::{Target, Write};
use crate::groups::Groups;
use crate::plan::Plan;
use crate::port_settings::{self, ALL_INPUTS, Basis};
use crate::smp::{Answer, Failure, Request};
use crate::subnet::{Device, Index};

/// The SMP that reads or sets a block of an MFT, an SL-to-VL table or a VL arbitration table.
pub(super) fn request(
    write: Write,
    route: Vec<PortNum>,
    target: &mut Target<'_>,
) -> Option<Request> {
    let index = write.device();
    let device = target.subnet.devices.get(index)?;
    let basis = Basis {
        subnet: target.subnet,
        plan: target.plan,
        admission: target.admission,
    };
    let mirror = target.mirrors.entry(device.guid()).or_default();
    Some(match write {
        Write::ReadMft(_, block, position) => {
            let modifier = MulticastForwardingTable::modifier(position, block);
            Request::get::<MulticastForwardingTable>(route, modifier)
        }
        Write::Mft(_, block, position) => {
            let wanted = target.groups.block(index, block, position)?;
            mirror.mft.insert((block, position), None);
            let modifier = MulticastForwardingTable::modifier(position, block);
            Request::set(route, modifier, &wanted)
        }
        Write::ReadSl2Vl(_, input, output) => {
            Request::get::<SlToVlTable>(route, sl2vl_modifier(device, input, output, false))
        }
        Write::Sl2Vl(_, input, output) => {
            let wanted = port_settings::sl2vl(&basis, input, (index, output))?;
            let modifier = sl2vl_modifier(device, input, output, true);
            mirror.forget_sl2vl(input, output);
            Request::set(route, modifier, &wanted)
        }
        Write::ReadVlArb(_, port, block) => {
            Request::get::<VlArbTable>(route, VlArbTable::modifier(block, port))
        }
        Write::VlArb(_, port, block) => {
            let wanted = port_settings::vl_arbitration(&basis, (index, port), block)?;
            mirror.arbitration.remove(&(port, block));
            Request::set(route, VlArbTable::modifier(block, port), &wanted)
        }
        _ => return None,
    })
}

/// What follows from the answer about an SL-to-VL or VL arbitration table.
pub(super) fn answered(
    write: Write,
    answer: Answer<'_>,
    target: &mut Target<'_>,
) -> Result<Option<Write>, Failure> {
    let index = write.device();
    let guid = target.subnet.devices[index].guid();
    let basis = Basis {
        subnet: target.subnet,
        plan: target.plan,
        admission: target.admission,
    };
    let mirror = target.mirrors.entry(guid).or_default();
    match write {
        Write::ReadSl2Vl(_, input, output) => {
            let table: SlToVlTable = answer.attribute()?;
            mirror.sl2vl.insert((input, output), table);
            let wanted = port_settings::sl2vl(&basis, input, (index, output));
            let differs = wanted.is_some_and(|wanted| wanted != table);
            return Ok(differs.then_some(Write::Sl2Vl(index, input, output)));
        }
        Write::Sl2Vl(_, input, output) => {
            mirror.sl2vl.insert((input, output), answer.attribute()?);
        }
        Write::ReadVlArb(_, port, block) => {
            let table: VlArbTable = answer.attribute()?;
            mirror.arbitration.insert((port, block), table);
            let wanted = port_settings::vl_arbitration(&basis, (index, port), block);
            let differs = wanted.is_some_and(|wanted| wanted != table);
            return Ok(differs.then_some(Write::VlArb(index, port, block)));
        }
        Write::VlArb(_, port, block) => {
            mirror
                .arbitration
                .insert((port, block), answer.attribute()?);
        }
        _ => {}
    }
    Ok(None)
}

/// MulticastFDBTop that a switch needs; `None`: it has none, or there is no multicast.
pub(super) fn multicast_top(device: &Device, groups: &Groups, index: Index) -> Option<Lid> {
    let info = device.end_port_info()?;
    let has_top = info.capability_mask & capability::IS_MULTICAST_FDB_TOP != 0;
    has_top.then(|| groups.multicast_top(index)).flatten()
}

/// SwitchInfo that makes the linear table reach as far as the plan does, with this MulticastFDBTop if any.
pub(super) fn switch_info(
    switch: SwitchInfo,
    plan: &Plan,
    multicast_top: Option<Lid>,
) -> SwitchInfo {
    SwitchInfo {
        multicast_fdb_top: multicast_top.unwrap_or(switch.multicast_fdb_top),
        linear_fdb_top: plan.top,
        life_time_value: port_settings::LIFE_TIME,
        // A 1 would clear the flag of a change that no sweep has seen.
        port_state_change: false,
        ..switch
    }
}

/// SLtoVLMappingTable's modifier for all inputs, in a Set (SwitchInfo:
/// OptimizedSLtoVLMappingProgramming).
const ALL_INPUTS_BIT: u32 = 1 << 17;

/// P_KeyTable's modifier for the first block of a port.
pub(crate) fn pkeys_modifier(device: &Device, port: PortNum) -> u32 {
    match device.kind {
        NodeKind::Host => 0,
        NodeKind::Switch => PKeyTable::switch_modifier(port, 0),
    }
}

fn sl2vl_modifier(device: &Device, input: PortNum, output: PortNum, set: bool) -> u32 {
    match (device.kind, input) {
        (NodeKind::Host, _) => 0,
        (NodeKind::Switch, ALL_INPUTS) if set => ALL_INPUTS_BIT | u32::from(output.get()),
        // A Set of all inputs has set the row of port 0 as well.
        (NodeKind::Switch, ALL_INPUTS) => SlToVlTable::switch_modifier(PortNum::MANAGEMENT, output),
        (NodeKind::Switch, input) => SlToVlTable::switch_modifier(input, output),
    }
}
