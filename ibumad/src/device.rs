//! Adapters and ports, and which of them a program gets that names none.

use mad::umad::{Adapter, AdapterPort};
use rustix::io::Errno;

use crate::client::{self, Result};
use crate::environment::{self, Place};

/// PortState of a port that carries everything.
const ACTIVE: u8 = 4;
/// PortPhysicalState of a port that is switched off.
const DISABLED: u8 = 3;
/// PortPhysicalState of a port with a link.
const LINK_UP: u8 = 5;
/// CapabilityMask: there is no management on queue pair 0.
const SMI_DISABLED: u32 = 1 << 10;

/// An adapter: its position, where it is, and what it is like.
pub(crate) struct Device {
    pub(crate) position: usize,
    pub(crate) place: Place,
    pub(crate) adapter: Adapter,
}

/// The adapters' names and places, in the order in which they are preferred.
pub(crate) fn places() -> Vec<Place> {
    environment::places()
}

/// All adapters whose hosts answer, in the order in which they are preferred.
pub(crate) fn all() -> impl Iterator<Item = Device> {
    let places = places().into_iter().enumerate();
    places.filter_map(|(position, place)| of_place(position, place).ok())
}

fn of_place(position: usize, place: Place) -> Result<Device> {
    let adapter = client::describe(&place)?;
    Ok(Device {
        position,
        place,
        adapter,
    })
}

/// The adapter with this name.
pub(crate) fn by_name(name: &str) -> Result<Device> {
    let mut places = places().into_iter().enumerate();
    let found = places.find(|(_, place)| place.name == name);
    let (position, place) = found.ok_or(Errno::NODEV)?;
    of_place(position, place)
}

/// How good a choice a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    /// It is not switched off.
    Present,
    /// It has a link.
    Linked,
    /// It carries everything.
    Active,
}

fn choice(port: &AdapterPort, needs_smi: bool) -> Option<Choice> {
    if needs_smi && port.capabilities & SMI_DISABLED != 0 {
        return None;
    }
    match (port.state, port.physical_state) {
        (ACTIVE, _) => Some(Choice::Active),
        (_, LINK_UP) => Some(Choice::Linked),
        (_, DISABLED) => None,
        _ => Some(Choice::Present),
    }
}

/// The port of an adapter that is meant; 0: the preferred one of the first adapter if it has a link, else the
/// first among the best.
fn choose_port(device: &Device, number: u8, needs_smi: bool) -> Option<(Choice, u8)> {
    let ports = device.adapter.ports.iter();
    let choices = ports.filter_map(|port| Some((choice(port, needs_smi)?, port.number.get())));
    if number > 0 {
        return choices.clone().find(|&(_, port)| port == number);
    }
    let preferred = environment::preferred_port().filter(|_| device.position == 0);
    let mut best: Option<(Choice, u8)> = None;
    for (choice, port) in choices {
        if Some(port) == preferred && choice >= Choice::Linked {
            return Some((choice, port));
        }
        if best.is_none_or(|(good, _)| choice > good) {
            best = Some((choice, port));
        }
    }
    best
}

/// The adapter and port that a program means: without a name the first adapter with an active port, else the
/// first that has any.
pub(crate) fn resolve(name: Option<&str>, number: u8, needs_smi: bool) -> Result<(Device, u8)> {
    if let Some(name) = name {
        let device = by_name(name)?;
        let chosen = choose_port(&device, number, needs_smi);
        // A port that is named is the program's affair, whatever its state.
        let has = |number: u8| has_port(&device.adapter, number);
        return match chosen {
            Some((_, port)) => Ok((device, port)),
            None if number > 0 && has(number) && !needs_smi => Ok((device, number)),
            None => Err(Errno::NODEV),
        };
    }
    let mut best: Option<(Choice, Device, u8)> = None;
    for device in all() {
        let Some((choice, port)) = choose_port(&device, number, needs_smi) else {
            continue;
        };
        if choice == Choice::Active {
            return Ok((device, port));
        }
        if best.is_none() {
            best = Some((choice, device, port));
        }
    }
    best.map(|(_, device, port)| (device, port))
        .ok_or(Errno::NODEV)
}

fn has_port(adapter: &Adapter, number: u8) -> bool {
    adapter.ports.iter().any(|port| port.number.get() == number)
}
