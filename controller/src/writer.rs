//! Programming the devices: what differs from the plan is written in stages, each of which begins
//! when the one before it is answered.
//!
//! 1. End ports: LIDs, LMC, the SM's LID, P_Keys, alias GUIDs; LinearFDBTop of each switch.
//!    Then ports towards hosts whose switch's tables are still to be read: these carry what is there, as all Active ports do,
//!    and go through steps 3 and 4 at once.
//! 2. Tables: LFT blocks; SL-to-VL tables and VL arbitration; then MFT blocks. MulticastFDBTop is raised or lowered
//!    when all are written, so that no entry below it is one that nobody has written.
//! 3. Every port with a link that is in Init: MTU and VLs, and on to Armed.
//! 4. Every port that is Armed on both ends: on to Active (IBA 14.4.3), those of switches first: a host
//!    that becomes Active speaks at once, and switches would drop its packets, and the answers, at ports that are not.
//! 5. LFT blocks that were deferred until one of these ports is Active: traffic over a device that
//!    has returned keeps its old path until the port carries data.
//!
//! What a device holds is known from its answers: PortInfo from the discovery, tables from the
//! [`mirror::Mirror`] of what was last read or written. A table of which nothing is known is read
//! first, unless its switch has never been programmed (LinearFDBTop is 0): then it forwards
//! nothing. So a manager that takes over a running subnet writes nothing that is there already,
//! and no port ever leaves Active.

mod mirror;
mod stages;
mod tables;

use std::collections::BTreeMap;

use routing::qos::Admission;
use topologies::NodeKind;
use wire::attr::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo, PortState,
    SwitchInfo,
};
use wire::{Lid, PortNum};

use crate::aliases::Aliases;
use crate::control::Unreachable;
use crate::groups::Groups;
use crate::plan::Plan;
use crate::port_settings::{self, Basis};
use crate::smp::{Answer, Failure, Request};
use crate::subnet::{Device, Index, Subnet};
pub(crate) use mirror::{Mirror, Mirrors};
pub(crate) use tables::pkeys_modifier;

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// PortInfo of the end port: LID and what goes with it.
    EndPort(Index),
    /// Reads the P_Key table of a port.
    ReadPKeys(Index, PortNum),
    /// Sets the P_Key table of a port.
    PKeys(Index, PortNum),
    /// SwitchInfo: LinearFDBTop, and a MulticastFDBTop below all blocks if none has been written.
    SwitchInfo(Index),
    /// SwitchInfo: MulticastFDBTop, once all blocks are written.
    MulticastTop(Index),
    /// Reads an LFT block.
    ReadLft(Index, u16),
    /// Sets an LFT block.
    Lft(Index, u16),
    /// Reads an MFT block (block, position).
    ReadMft(Index, u16, u8),
    /// Sets an MFT block.
    Mft(Index, u16, u8),
    /// Reads an SL-to-VL table (input, output).
    ReadSl2Vl(Index, PortNum, PortNum),
    /// Sets an SL-to-VL table.
    Sl2Vl(Index, PortNum, PortNum),
    /// Reads a VL arbitration block of a port.
    ReadVlArb(Index, PortNum, u8),
    /// Sets a VL arbitration block of a port.
    VlArb(Index, PortNum, u8),
    /// Reads a block of the GUIDs of an end port.
    ReadGuids(Index, u8),
    /// Sets a block of the GUIDs of an end port.
    Guids(Index, u8),
    /// PortInfo: MTU, VLs, and Armed if the port is in Init.
    ArmPort(Index, PortNum),
    /// PortInfo: Active.
    ActivatePort(Index, PortNum),
}

impl Write {
    fn device(self) -> Index {
        match self {
            Self::EndPort(index)
            | Self::ReadPKeys(index, _)
            | Self::PKeys(index, _)
            | Self::SwitchInfo(index)
            | Self::MulticastTop(index)
            | Self::ReadLft(index, _)
            | Self::Lft(index, _)
            | Self::ReadMft(index, ..)
            | Self::Mft(index, ..)
            | Self::ReadSl2Vl(index, ..)
            | Self::Sl2Vl(index, ..)
            | Self::ReadVlArb(index, ..)
            | Self::VlArb(index, ..)
            | Self::ReadGuids(index, _)
            | Self::Guids(index, _)
            | Self::ArmPort(index, _)
            | Self::ActivatePort(index, _) => index,
        }
    }
}

/// The stages in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    EndPorts,
    ArmUnread,
    ActivateUnread,
    Lft,
    Vls,
    Multicast,
    Arm,
    Activate,
    ActivateRest,
    DeferredLft,
    /// Alone, for [`Purpose::Guids`].
    OnlyGuids,
    /// Alone, for [`Purpose::Qos`].
    OnlyVls,
    /// Alone, for [`Purpose::Multicast`].
    OnlyMulticast,
    Done,
}

/// How often multicast tables are compared at most, before a sweep is needed.
const MFT_ROUNDS_MAX: u32 = 16;

/// A plan being written.
#[derive(Debug)]
pub(crate) struct Programming {
    purpose: Purpose,
    stage: Stage,
    failures: BTreeMap<Index, String>,
    blocks_written: u64,
    /// How often multicast tables have been compared.
    mft_rounds: u32,
    /// Whether something is not as it was written, so that another sweep is needed.
    needs_resweep: bool,
}

/// Why devices are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A heavy sweep: everything that differs from the plan.
    Subnet,
    /// Connections were granted or released: SL-to-VL tables and VL arbitration.
    Qos,
    /// Ports have joined or left multicast groups: multicast forwarding tables.
    Multicast,
    /// Ports have been given other alias GUIDs.
    Guids,
}

impl Purpose {
    fn first_stage(self) -> Stage {
        match self {
            Self::Subnet => Stage::EndPorts,
            Self::Qos => Stage::OnlyVls,
            Self::Multicast => Stage::OnlyMulticast,
            Self::Guids => Stage::OnlyGuids,
        }
    }
}

/// The state that programming works on.
pub(crate) struct Target<'a> {
    /// The devices; their PortInfo follows what they answer.
    pub(crate) subnet: &'a mut Subnet,
    /// LIDs and forwarding tables to write.
    pub(crate) plan: &'a Plan,
    /// Promised bandwidth, for SL-to-VL tables and VL arbitration.
    pub(crate) admission: Option<&'a Admission>,
    /// The known contents of the devices.
    pub(crate) mirrors: &'a mut Mirrors,
    /// Multicast groups.
    pub(crate) groups: &'a mut Groups,
    /// Alias GUIDs of ports.
    pub(crate) aliases: &'a Aliases,
}

impl Target<'_> {
    fn basis(&self) -> Basis<'_> {
        Basis {
            subnet: self.subnet,
            plan: self.plan,
            admission: self.admission,
        }
    }
}

impl Programming {
    /// Nothing written yet.
    pub(crate) fn start(purpose: Purpose) -> Self {
        Self {
            purpose,
            stage: purpose.first_stage(),
            failures: BTreeMap::new(),
            blocks_written: 0,
            mft_rounds: 0,
            needs_resweep: false,
        }
    }

    /// Why devices are written.
    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The requests of the next stage that has any; none when all is done.
    pub(crate) fn next_stage(&mut self, target: &mut Target<'_>) -> Vec<Write> {
        while self.stage != Stage::Done {
            let (writes, next) = match self.stage {
                Stage::EndPorts => (stages::end_ports(target), Stage::ArmUnread),
                Stage::ArmUnread => (stages::arm_unread(target), Stage::ActivateUnread),
                Stage::ActivateUnread => (stages::activate_unread(target), Stage::Lft),
                Stage::Lft => (stages::lft(target), Stage::Vls),
                Stage::Vls => (stages::vl_tables(target), Stage::Multicast),
                Stage::Multicast => self.multicast(target, Stage::Arm),
                Stage::OnlyMulticast => self.multicast(target, Stage::Done),
                Stage::Arm => (stages::arm(target), Stage::Activate),
                Stage::Activate => (stages::activate_switches(target), Stage::ActivateRest),
                Stage::ActivateRest => (stages::activate(target), Stage::DeferredLft),
                Stage::DeferredLft => (stages::deferred_lft(target), Stage::Done),
                Stage::OnlyGuids => (stages::guids(target), Stage::Done),
                Stage::OnlyVls => (stages::vl_tables(target), Stage::Done),
                Stage::Done => (Vec::new(), Stage::Done),
            };
            self.stage = next;
            if !writes.is_empty() {
                return writes;
            }
        }
        Vec::new()
    }

    /// What differs in multicast tables. A block that is read may show that there are more to read,
    /// so the stage is repeated until nothing differs.
    fn multicast(&mut self, target: &mut Target<'_>, next: Stage) -> (Vec<Write>, Stage) {
        let mut writes = stages::multicast(target);
        writes.retain(|write| !self.failures.contains_key(&write.device()));
        if writes.is_empty() {
            let mut writes = stages::multicast_tops(target);
            writes.retain(|write| !self.failures.contains_key(&write.device()));
            return (writes, next);
        }
        self.mft_rounds += 1;
        if self.mft_rounds > MFT_ROUNDS_MAX {
            self.needs_resweep = true;
            return (Vec::new(), next);
        }
        (writes, self.stage)
    }

    /// The SMP of a request; `None` if it is no longer needed.
    pub(crate) fn request(&self, write: Write, target: &mut Target<'_>) -> Option<Request> {
        let index = write.device();
        if self.failures.contains_key(&index) {
            return None;
        }
        let device = target.subnet.devices.get(index)?;
        let route = device.route.clone();
        let end_port = u32::from(device.end_port().get());
        Some(match write {
            Write::EndPort(_) => {
                let mut wanted = port_settings::end_port(target.subnet, target.plan, index)?;
                let host = device.kind == NodeKind::Host;
                wanted.client_reregister =
                    host && target.groups.must_reregister(device.end_port_guid());
                Request::set(route, end_port, &wanted)
            }
            Write::ReadPKeys(_, port) => {
                Request::get::<PKeyTable>(route, tables::pkeys_modifier(device, port))
            }
            Write::PKeys(_, port) => {
                let mirror = target.mirrors.get(&device.guid());
                let held = mirror.and_then(|mirror| mirror.pkeys.get(&port));
                let pkeys = &target.plan.pkeys;
                let wanted = pkeys.intended_table(target.subnet, (index, port), held)?;
                Request::set(route, tables::pkeys_modifier(device, port), &wanted)
            }
            Write::SwitchInfo(_) | Write::MulticastTop(_) => {
                let mirror = target.mirrors.get(&device.guid());
                let is_empty =
                    mirror.is_some_and(|mirror| mirror.unprogrammed && mirror.mft.is_empty());
                let top = tables::multicast_top(device, target.groups, index);
                let top = match write {
                    Write::MulticastTop(_) => top,
                    _ => top.filter(|_| is_empty).map(|_| Lid::UNICAST_LAST),
                };
                let switch = tables::switch_info(device.switch?, target.plan, top);
                let guid = device.guid();
                target.mirrors.entry(guid).or_default().top = switch.linear_fdb_top;
                Request::set(route, 0, &switch)
            }
            Write::ReadLft(_, block) => {
                Request::get::<LinearForwardingTable>(route, u32::from(block))
            }
            Write::Lft(_, block) => {
                let guid = device.guid();
                // Until the answer comes the device may hold the old or the new block.
                let mirror = target.mirrors.entry(guid).or_default();
                mirror.lft.insert(block, None);
                Request::set(route, u32::from(block), &target.plan.block(index, block)?)
            }
            Write::ReadMft(..)
            | Write::Mft(..)
            | Write::ReadSl2Vl(..)
            | Write::Sl2Vl(..)
            | Write::ReadVlArb(..)
            | Write::VlArb(..) => return tables::request(write, route, target),
            Write::ReadGuids(_, block) => Request::get::<GuidInfo>(route, u32::from(block)),
            Write::Guids(_, block) => {
                let wanted = target.aliases.block(device.end_port_guid(), block);
                let mirror = target.mirrors.entry(device.guid()).or_default();
                // Until the answer comes the port may hold the old or the new block.
                mirror.guids.insert(block, None);
                Request::set(route, u32::from(block), &wanted)
            }
            Write::ArmPort(_, port) => {
                let wanted = port_settings::link_port(&target.basis(), (index, port))?;
                Request::set(route, u32::from(port.get()), &wanted)
            }
            Write::ActivatePort(_, port) => {
                let mut wanted = port_settings::link_port(&target.basis(), (index, port))?;
                wanted.port_state = PortState::Active;
                Request::set(route, u32::from(port.get()), &wanted)
            }
        })
    }

    /// Takes in the outcome of a request. Returns the request that follows from it, if any.
    pub(crate) fn complete(
        &mut self,
        write: Write,
        answer: Answer<'_>,
        target: &mut Target<'_>,
    ) -> Option<Write> {
        self.apply(write, answer, target).unwrap_or_else(|failure| {
            self.needs_resweep = true;
            let device = target.subnet.devices.get(write.device());
            let end_port = device.and_then(Device::end_port_info);
            let failure = match failure {
                Failure::Timeout if end_port.is_some_and(|info| target.subnet.is_locked(info)) => {
                    Failure::Locked
                }
                failure => failure,
            };
            self.failures.insert(write.device(), failure.to_string());
            None
        })
    }

    fn apply(
        &mut self,
        write: Write,
        answer: Answer<'_>,
        target: &mut Target<'_>,
    ) -> Result<Option<Write>, Failure> {
        let index = write.device();
        let guid = target.subnet.devices[index].guid();
        let mirror = target.mirrors.entry(guid).or_default();
        match write {
            Write::EndPort(_) => {
                let info = answer.attribute()?;
                let port = target.subnet.devices[index].end_port();
                let guid = target.subnet.devices[index].end_port_guid();
                target.groups.reregistered(guid);
                target.subnet.devices[index].ports[port.index()].info = Some(info);
            }
            Write::ReadPKeys(_, port) => {
                let held: PKeyTable = answer.attribute()?;
                mirror.pkeys.insert(port, held);
                let pkeys = &target.plan.pkeys;
                let wanted = pkeys.intended_table(target.subnet, (index, port), Some(&held));
                let differs = wanted.is_some_and(|wanted| wanted != held);
                return Ok(differs.then_some(Write::PKeys(index, port)));
            }
            Write::PKeys(_, port) => {
                mirror.pkeys.insert(port, answer.attribute()?);
            }
            Write::SwitchInfo(_) | Write::MulticastTop(_) => {
                let switch: SwitchInfo = answer.attribute()?;
                mirror.top = switch.linear_fdb_top;
                target.subnet.devices[index].switch = Some(switch);
            }
            Write::ReadLft(_, block) => {
                let table: LinearForwardingTable = answer.attribute()?;
                mirror.lft.insert(block, Some(Box::new(table)));
                let differs = target.plan.block(index, block) != Some(table);
                return Ok(differs.then_some(Write::Lft(index, block)));
            }
            Write::Lft(_, block) => {
                let table = answer.attribute()?;
                mirror.lft.insert(block, Some(Box::new(table)));
                self.blocks_written += 1;
            }
            Write::ReadMft(_, block, position) | Write::Mft(_, block, position) => {
                let table: MulticastForwardingTable = answer.attribute()?;
                mirror.mft.insert((block, position), Some(Box::new(table)));
                self.blocks_written += u64::from(matches!(write, Write::Mft(..)));
            }
            Write::ReadSl2Vl(..) | Write::Sl2Vl(..) | Write::ReadVlArb(..) | Write::VlArb(..) => {
                return tables::answered(write, answer, target);
            }
            Write::ReadGuids(_, block) => {
                let held: GuidInfo = answer.attribute()?;
                mirror.guids.insert(block, Some(held));
                let port = target.subnet.devices[index].end_port_guid();
                let differs = target.aliases.block(port, block) != held;
                return Ok(differs.then_some(Write::Guids(index, block)));
            }
            Write::Guids(_, block) => {
                mirror.guids.insert(block, Some(answer.attribute()?));
            }
            Write::ArmPort(_, port) | Write::ActivatePort(_, port) => {
                self.port_answered(target.subnet, (index, port), answer);
            }
        }
        Ok(None)
    }

    /// A port may lose its link at any moment, so a refusal here is no failure of the device.
    fn port_answered(&mut self, subnet: &mut Subnet, end: (Index, PortNum), answer: Answer<'_>) {
        let device = &mut subnet.devices[end.0];
        match answer.attribute::<PortInfo>() {
            Ok(info) => {
                self.needs_resweep |= !crate::subnet::has_link(&info);
                device.ports[end.1.index()].info = Some(info);
            }
            Err(Failure::Timeout) => {
                self.needs_resweep = true;
                self.failures.insert(end.0, Failure::Timeout.to_string());
            }
            Err(_) => self.needs_resweep = true,
        }
    }

    /// Forwarding blocks written so far.
    pub(crate) fn blocks_written(&self) -> u64 {
        self.blocks_written
    }

    /// Whether another sweep is needed.
    pub(crate) fn needs_resweep(&self) -> bool {
        self.needs_resweep
    }

    /// The devices that could not be programmed.
    pub(crate) fn unreachable(&self, subnet: &Subnet) -> Vec<Unreachable> {
        self.failures
            .iter()
            .map(|(&index, reason)| Unreachable {
                name: subnet.devices[index].label(),
                guid: subnet.devices[index].guid(),
                reason: reason.clone(),
            })
            .collect()
    }
}
