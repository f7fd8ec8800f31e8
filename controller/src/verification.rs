//! Are the devices still as they were written? Some other program may have set a table or a port.
//!
//! With each light sweep a bounded number of tables and ports is read back, in turn over the whole
//! subnet. What a device really holds goes into its mirror, so that the heavy sweep that follows
//! writes what differs from the plan.

use topologies::NodeKind;
use wire::attr::{
    LinearForwardingTable, MulticastForwardingTable, NodeInfo, PKeyTable, PortInfo, SlToVlTable,
    VlArbTable,
};
use wire::{Guid, Lid, PortNum};

use crate::port_settings::{self, ALL_INPUTS};
use crate::smp::{Answer, Request};
use crate::subnet::{Device, Index, Subnet, has_link};
use crate::writer::{Mirror, Mirrors, pkeys_modifier};

/// Reads of one light sweep at most.
const READS_MAX: usize = 256;
/// How many differences are reported one by one.
const REPORTED_MAX: usize = 8;

/// What is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// NodeInfo: whether it is still the device that was discovered.
    Node,
    /// PortInfo.
    Port(PortNum),
    /// An LFT block.
    Lft(u16),
    /// An MFT block (block, position).
    Mft(u16, u8),
    /// An SL-to-VL table (input, output).
    Sl2Vl(PortNum, PortNum),
    /// A VL arbitration block of a port.
    VlArb(PortNum, u8),
    /// A P_Key table of a port.
    PKeys(PortNum),
}

/// Where the turn stands, and what this light sweep has found.
#[derive(Debug, Default)]
pub(crate) struct Verification {
    /// What was read last.
    last: Option<(Guid, Item)>,
    /// The first differences that have not been told yet, and how many there are in all.
    differences: Vec<String>,
    count: usize,
}

impl Verification {
    /// What the next light sweep reads.
    pub(crate) fn start(&mut self, subnet: &Subnet, mirrors: &Mirrors) -> Vec<(Index, Item)> {
        let devices = &subnet.devices;
        let after = self.last;
        let first = after.map_or(0, |(guid, _)| {
            devices.partition_point(|device| device.guid() < guid)
        });
        let mut reads = Vec::new();
        // The device at which the turn stands comes twice: with its later items, then the others.
        let order = (first..devices.len()).chain(0..first).chain([first]);
        for (step, index) in order.enumerate() {
            let Some(device) = devices.get(index) else {
                continue;
            };
            let Some(mirror) = mirrors.get(&device.guid()) else {
                continue;
            };
            let is_last_step = step == devices.len();
            for item in items(device, mirror) {
                let place = (device.guid(), item);
                let is_done = after.is_some_and(|after| place <= after && device.guid() == after.0);
                if (step == 0 && is_done) || (is_last_step && !is_done) {
                    continue;
                }
                if reads.len() == READS_MAX {
                    return reads;
                }
                reads.push((index, item));
                self.last = Some(place);
            }
        }
        reads
    }

    /// Takes in what a device holds. Whether it is something else than was written.
    pub(crate) fn complete(
        &mut self,
        (index, item): (Index, Item),
        answer: Answer<'_>,
        subnet: &Subnet,
        mirrors: &mut Mirrors,
    ) -> bool {
        let Some(device) = subnet.devices.get(index) else {
            return false;
        };
        if item == Item::Node {
            // Another device, or one that says something else of itself: the sweep that follows will tell.
            let held = answer.attribute::<NodeInfo>();
            return held.is_ok_and(|held| held != device.info);
        }
        let Some(mirror) = mirrors.get_mut(&device.guid()) else {
            return false;
        };
        let Some(what) = difference(device, mirror, item, answer) else {
            return false;
        };
        self.count += 1;
        if self.differences.len() < REPORTED_MAX {
            self.differences.push(format!(
                "{what} of {} ({}) was changed by another program: it is set again",
                device.label(),
                device.guid()
            ));
        }
        true
    }

    /// Takes out the warnings of the light sweep, and of those before it that were aborted.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        let mut warnings = core::mem::take(&mut self.differences);
        let more = core::mem::take(&mut self.count) - warnings.len();
        if more > 0 {
            warnings.push(format!(
                "{more} more tables and ports were changed by another program: they are set again"
            ));
        }
        warnings
    }
}

/// What is known of a device, in order.
fn items(device: &Device, mirror: &Mirror) -> Vec<Item> {
    let cables: Vec<PortNum> = device.cables().map(|(port, _)| port).collect();
    let mut items = vec![Item::Node, Item::Port(device.end_port())];
    items.extend(cables.iter().map(|&port| Item::Port(port)));
    if device.switch.is_some() {
        let blocks = 0..=mirror.top / 64;
        let known = blocks.filter(|&block| mirror.lft_block(block).is_some());
        items.extend(known.map(Item::Lft));
        let known = mirror.mft.iter().filter(|(_, table)| table.is_some());
        items.extend(known.map(|(&(block, position), _)| Item::Mft(block, position)));
    }
    for &(input, output) in mirror.sl2vl.keys() {
        if input == ALL_INPUTS {
            let inputs = [PortNum::MANAGEMENT].into_iter();
            let inputs = inputs.chain(cables.iter().copied());
            items.extend(inputs.map(|input| Item::Sl2Vl(input, output)));
        } else {
            items.push(Item::Sl2Vl(input, output));
        }
    }
    let blocks = mirror.arbitration.keys();
    items.extend(blocks.map(|&(port, block)| Item::VlArb(port, block)));
    items.extend(mirror.pkeys.keys().map(|&port| Item::PKeys(port)));
    items.sort_unstable();
    items.dedup();
    items
}

/// The SMP that reads an item; `None` if the device is not there.
pub(crate) fn request((index, item): (Index, Item), subnet: &Subnet) -> Option<Request> {
    let device = subnet.devices.get(index)?;
    let route = device.route.clone();
    Some(match item {
        Item::Node => Request::get::<NodeInfo>(route, 0),
        Item::Port(port) => Request::get::<PortInfo>(route, u32::from(port.get())),
        Item::Lft(block) => Request::get::<LinearForwardingTable>(route, u32::from(block)),
        Item::Mft(block, position) => {
            let modifier = MulticastForwardingTable::modifier(position, block);
            Request::get::<MulticastForwardingTable>(route, modifier)
        }
        Item::Sl2Vl(input, output) => {
            let modifier = match device.kind {
                NodeKind::Host => 0,
                NodeKind::Switch => SlToVlTable::switch_modifier(input, output),
            };
            Request::get::<SlToVlTable>(route, modifier)
        }
        Item::VlArb(port, block) => {
            Request::get::<VlArbTable>(route, VlArbTable::modifier(block, port))
        }
        Item::PKeys(port) => Request::get::<PKeyTable>(route, pkeys_modifier(device, port)),
    })
}

/// What differs from what the mirror says, which then says what the device holds. A device that does
/// not answer is for the sweep to find.
fn difference(
    device: &Device,
    mirror: &mut Mirror,
    item: Item,
    answer: Answer<'_>,
) -> Option<String> {
    match item {
        Item::Node => None,
        Item::Port(port) => {
            let held: PortInfo = answer.attribute().ok()?;
            let known = device.port_info(port)?;
            // One that was restarted, or whose link has changed, has lost its settings by itself.
            let is_new = has_link(&held) != has_link(known)
                || (held.lid == Lid::ZERO && known.lid != Lid::ZERO);
            let differs = port_settings::differs(&held, known);
            (differs && !is_new).then(|| format!("PortInfo of port {port}"))
        }
        Item::Lft(block) => {
            let held: LinearForwardingTable = answer.attribute().ok()?;
            (*mirror.lft_block(block)? != held).then(|| {
                mirror.lft.insert(block, Some(Box::new(held)));
                format!("LFT block {block}")
            })
        }
        Item::Mft(block, position) => {
            let held: MulticastForwardingTable = answer.attribute().ok()?;
            (*mirror.mft_block((block, position))? != held).then(|| {
                mirror.mft.insert((block, position), Some(Box::new(held)));
                format!("MFT block {block}, position {position},")
            })
        }
        Item::Sl2Vl(input, output) => {
            let held: SlToVlTable = answer.attribute().ok()?;
            let mut keys = [(input, output), (ALL_INPUTS, output)].into_iter();
            let key = keys.find(|key| mirror.sl2vl.contains_key(key))?;
            (mirror.sl2vl.get(&key) != Some(&held)).then(|| {
                // A table of one input where all inputs were alike: all are written again.
                mirror.sl2vl.remove(&key);
                mirror.sl2vl.insert((input, output), held);
                format!("SLtoVL table from port {input} to port {output}")
            })
        }
        Item::VlArb(port, block) => {
            let held: VlArbTable = answer.attribute().ok()?;
            (mirror.arbitration.get(&(port, block))? != &held).then(|| {
                mirror.arbitration.insert((port, block), held);
                format!("VLArb block {block} of port {port}")
            })
        }
        Item::PKeys(port) => {
            let held: PKeyTable = answer.attribute().ok()?;
            (mirror.pkeys.get(&port)? != &held).then(|| {
                mirror.pkeys.insert(port, held);
                format!("P_Key table of port {port}")
            })
        }
    }
}
