//! The tables of a node: decoding of the attribute modifier, and reading and writing of table
//! blocks (IBA 14.2.5.5 to 14.2.5.12).

use wire::attr::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKeyTable, SlToVlTable, VlArbTable,
};
use wire::mad::Mad;
use wire::{Guid, PortNum};

use super::Sma;
use super::attributes::read;
use super::node::{Identity, Node, Priority};
use super::port_info::BadField;

const MODIFIER: BadField = BadField("AttributeModifier");
/// SLtoVLMappingTable: the request is for all input ports.
const ALL_INPUTS: u8 = 2;
/// SLtoVLMappingTable: the request is for all output ports.
const ALL_OUTPUTS: u8 = 1;

/// The two halves of an attribute modifier.
fn halves(mad: &Mad) -> (u16, u16) {
    let [a, b, c, d] = mad.attr_mod().to_be_bytes();
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

impl Sma {
    /// GUIDInfo: one block of eight; the first GUID is the port's own and stays.
    pub(super) fn guid_info(
        &mut self,
        identity: &Identity,
        mad: &mut Mad,
        set: bool,
        arrival: PortNum,
    ) -> Result<(), BadField> {
        let port = if identity.is_switch() {
            0
        } else {
            arrival.index()
        };
        let port = self.ports.get_mut(port).ok_or(MODIFIER)?;
        if mad.attr_mod() != 0 {
            return Err(MODIFIER);
        }
        if set {
            let own: Guid = port.guids[0];
            port.guids = read::<GuidInfo>(mad)?.0;
            port.guids[0] = own;
        }
        mad.set_smp_attribute(&GuidInfo(port.guids));
        Ok(())
    }

    /// P_KeyTable: one block of a switch's port or of the arrival port.
    pub(super) fn pkey_table(
        &mut self,
        node: &mut impl Node,
        mad: &mut Mad,
        set: bool,
        arrival: PortNum,
    ) -> Result<(), BadField> {
        let (number, block) = halves(mad);
        let is_switch = node.identity().is_switch();
        let number = match is_switch {
            true => PortNum::new(u8::try_from(number).map_err(|_| MODIFIER)?),
            false => arrival,
        };
        if block != 0 {
            return Err(MODIFIER);
        }
        let port = self.ports.get_mut(number.index()).ok_or(MODIFIER)?;
        if set {
            port.pkeys = read::<PKeyTable>(mad)?.0;
            if is_switch && number != PortNum::MANAGEMENT {
                node.set_pkeys(number, &port.pkeys);
            }
        }
        mad.set_smp_attribute(&PKeyTable(port.pkeys));
        Ok(())
    }
}

/// SLtoVLMappingTable: one row, or on a switch the same row for many pairs of ports.
pub(super) fn sl_to_vl(
    node: &mut impl Node,
    mad: &mut Mad,
    set: bool,
    arrival: PortNum,
) -> Result<(), BadField> {
    let identity = node.identity();
    let (is_switch, ports) = (identity.is_switch(), identity.ports);
    let [_, all, input, output] = mad.attr_mod().to_be_bytes();
    let one = |port: u8| (PortNum::new(port), PortNum::new(port));
    let (inputs, outputs) = if is_switch {
        let inputs = match all & ALL_INPUTS {
            0 => one(input),
            _ => (PortNum::new(0), PortNum::new(ports)),
        };
        let outputs = match all & ALL_OUTPUTS {
            0 => one(output),
            _ => (PortNum::new(1), PortNum::new(ports)),
        };
        (inputs, outputs)
    } else {
        (one(0), one(arrival.get()))
    };
    let single = inputs.0 == inputs.1 && outputs.0 == outputs.1;
    let in_range = outputs.0.get() >= 1 && outputs.1.get() <= ports && inputs.1.get() <= ports;
    if all > (ALL_INPUTS | ALL_OUTPUTS) || !in_range || !(set || single) {
        return Err(MODIFIER);
    }
    if set {
        let row = read::<SlToVlTable>(mad)?.0;
        for output in (outputs.0.get()..=outputs.1.get()).map(PortNum::new) {
            // A wildcard for inputs is one call: the node need not look at its rows for each row.
            match all & ALL_INPUTS != 0 && is_switch {
                true => node.set_sl_to_vl_of_all_inputs(output, &row),
                false => node.set_sl_to_vl(inputs.0, output, &row),
            }
        }
    }
    let row = SlToVlTable(node.sl_to_vl(inputs.0, outputs.0));
    mad.set_smp_attribute(&row);
    Ok(())
}

/// VLArbitrationTable: half of one of a port's two tables.
pub(super) fn vl_arbitration(
    node: &mut impl Node,
    mad: &mut Mad,
    set: bool,
    arrival: PortNum,
) -> Result<(), BadField> {
    let identity = node.identity();
    let (half, number) = halves(mad);
    let number = match u8::try_from(number) {
        Ok(0) if !identity.is_switch() => arrival.get(),
        Ok(number) if number >= 1 && number <= identity.ports => number,
        _ => return Err(MODIFIER),
    };
    let port = PortNum::new(number);
    let (priority, start) = match u8::try_from(half) {
        Ok(VlArbTable::LOW_FIRST) => (Priority::Low, 0),
        Ok(VlArbTable::LOW_SECOND) => (Priority::Low, 32),
        Ok(VlArbTable::HIGH_FIRST) => (Priority::High, 0),
        Ok(VlArbTable::HIGH_SECOND) => (Priority::High, 32),
        _ => return Err(MODIFIER),
    };
    if set {
        let mut table = node.arbitration(port, priority);
        table[start..start + 32].copy_from_slice(&read::<VlArbTable>(mad)?.0);
        node.set_arbitration(port, priority, &table);
    }
    let table = node.arbitration(port, priority);
    let mut response = VlArbTable::default();
    response.0.copy_from_slice(&table[start..start + 32]);
    mad.set_smp_attribute(&response);
    Ok(())
}

/// The port with a link that a modifier names; 0 is the one that the request came in by.
pub(super) fn link_port(
    identity: &Identity,
    mad: &Mad,
    arrival: PortNum,
) -> Result<PortNum, BadField> {
    let [high, middle, low, number] = mad.attr_mod().to_be_bytes();
    let number = match number {
        0 if !identity.is_switch() => arrival.get(),
        number => number,
    };
    if (high, middle, low) != (0, 0, 0) || !(1..=identity.ports).contains(&number) {
        return Err(MODIFIER);
    }
    Ok(PortNum::new(number))
}

/// LinearForwardingTable: the ports of 64 LIDs.
pub(super) fn linear(node: &mut impl Node, mad: &mut Mad, set: bool) -> Result<(), BadField> {
    let tables = node.forwarding().ok_or(MODIFIER)?;
    let (high, block) = halves(mad);
    if high != 0 || block >= tables.linear_capacity() / 64 {
        return Err(MODIFIER);
    }
    if set {
        tables.set_linear_block(block, &read::<LinearForwardingTable>(mad)?.0);
    }
    mad.set_smp_attribute(&LinearForwardingTable(tables.linear_block(block)));
    Ok(())
}

/// MulticastForwardingTable: 16 ports of 32 multicast LIDs.
pub(super) fn multicast(node: &mut impl Node, mad: &mut Mad, set: bool) -> Result<(), BadField> {
    let ports = node.identity().ports;
    let tables = node.forwarding().ok_or(MODIFIER)?;
    let (position, block) = MulticastForwardingTable::from_modifier(mad.attr_mod());
    if position > ports / 16 || block >= tables.multicast_capacity() / 32 {
        return Err(MODIFIER);
    }
    if set {
        let masks = read::<MulticastForwardingTable>(mad)?.0;
        tables.set_multicast_block(block, position, &masks);
    }
    mad.set_smp_attribute(&MulticastForwardingTable(
        tables.multicast_block(block, position),
    ));
    Ok(())
}
