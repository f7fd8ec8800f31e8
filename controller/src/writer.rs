//! Writing the plan into the devices, in stages; each begins when the one before it is answered.
//!
//! 1. Identities: LIDs, LMC, the manager's LID, P_Keys; how far each forwarding table reaches.
//! 2. Tables: forwarding blocks, service levels to lanes, arbitration; then multicast blocks.
//! 3. Every port with a link that is in Init: MTU and lanes, and on to Armed.
//! 4. Every port that is Armed on both ends: on to Active (IBA 14.4.3).
//! 5. Forwarding blocks that waited for one of these ports: what a device that has returned carries
//!    goes its old way until the port can take it.
//!
//! Only what differs is written. What a device holds is known from its answers: PortInfo from
//! the discovery, tables from the [`mirror::Mirror`] of what was last read or written. A table of which
//! nothing is known is read first, unless its switch has never been programmed
//! (LinearFDBTop is 0): then it forwards nothing. So a manager that takes over a running subnet
//! writes nothing that is there already, and no port ever leaves Active.

mod mirror;
mod stages;

use std::collections::BTreeMap;

use topologies::NodeKind;
use wire::PortNum;
use wire::attr::{
    LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo, PortState, SlToVlTable,
    SwitchInfo, VlArbTable,
};

use crate::control::Unreachable;
use crate::groups::Groups;
use crate::plan::Plan;
use crate::port_settings::{self, ALL_INPUTS};
use crate::smp::{Answer, Failure, Request};
use crate::subnet::{Device, Index, Subnet};
pub(crate) use mirror::Mirrors;

/// What programming asks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// PortInfo of the end port: LID and what goes with it.
    EndPort(Index),
    /// Reads the P_Key table of an adapter.
    ReadPKeys(Index),
    /// Puts the default partition into the P_Key table of an adapter.
    PKeys(Index),
    /// SwitchInfo: how far the forwarding table reaches.
    SwitchInfo(Index),
    /// Reads a forwarding block.
    ReadLft(Index, u16),
    /// Sets a forwarding block.
    Lft(Index, u16),
    /// Reads a multicast block (block, position).
    ReadMft(Index, u16, u8),
    /// Sets a multicast block.
    Mft(Index, u16, u8),
    /// Reads a table of lanes (input, output).
    ReadSl2Vl(Index, PortNum, PortNum),
    /// Sets a table of lanes.
    Sl2Vl(Index, PortNum, PortNum),
    /// Reads an arbitration block of a port.
    ReadVlArb(Index, PortNum, u8),
    /// Sets an arbitration block of a port.
    VlArb(Index, PortNum, u8),
    /// PortInfo: MTU, lanes, and Armed if the port is in Init.
    ArmPort(Index, PortNum),
    /// PortInfo: Active.
    ActivatePort(Index, PortNum),
}

impl Write {
    fn device(self) -> Index {
        match self {
            Self::EndPort(index)
            | Self::ReadPKeys(index)
            | Self::PKeys(index)
            | Self::SwitchInfo(index)
            | Self::ReadLft(index, _)
            | Self::Lft(index, _)
            | Self::ReadMft(index, ..)
            | Self::Mft(index, ..)
            | Self::ReadSl2Vl(index, ..)
            | Self::Sl2Vl(index, ..)
            | Self::ReadVlArb(index, ..)
            | Self::VlArb(index, ..)
            | Self::ArmPort(index, _)
            | Self::ActivatePort(index, _) => index,
        }
    }
}

/// The stages in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    EndPorts,
    Tables,
    Multicast,
    Arm,
    Activate,
    DeferredLft,
    /// Only where nothing else has changed.
    OnlyVls,
    /// The same.
    OnlyMulticast,
    Done,
}

/// How often multicast blocks are looked at in one go at most.
const MFT_ROUNDS_MAX: u32 = 16;

/// A plan being written.
#[derive(Debug)]
pub(crate) struct Programming {
    stage: Stage,
    failures: BTreeMap<Index, String>,
    blocks_written: u64,
    /// How often multicast blocks have been looked at.
    mft_rounds: u32,
    /// Whether something did not come out as written, so that the subnet must be looked at again.
    needs_resweep: bool,
}

/// What programming works on.
pub(crate) struct Site<'a> {
    /// The devices; their PortInfo follows what they answer.
    pub(crate) subnet: &'a mut Subnet,
    /// What is to be written.
    pub(crate) plan: &'a Plan,
    /// What the devices hold.
    pub(crate) mirrors: &'a mut Mirrors,
    /// Multicast groups.
    pub(crate) groups: &'a mut Groups,
}

impl Programming {
    /// Nothing written yet.
    pub(crate) fn start() -> Self {
        Self::from(Stage::EndPorts)
    }

    /// Nothing written yet, and nothing but lanes and arbitration to be written.
    pub(crate) fn of_lanes() -> Self {
        Self::from(Stage::OnlyVls)
    }

    /// Nothing written yet, and nothing but multicast blocks to be written.
    pub(crate) fn of_groups() -> Self {
        Self::from(Stage::OnlyMulticast)
    }

    fn from(stage: Stage) -> Self {
        Self {
            stage,
            failures: BTreeMap::new(),
            blocks_written: 0,
            mft_rounds: 0,
            needs_resweep: false,
        }
    }

    /// The requests of the next stage that has any; none when all is done.
    pub(crate) fn next_stage(&mut self, site: &mut Site<'_>) -> Vec<Write> {
        while self.stage != Stage::Done {
            let (writes, next) = match self.stage {
                Stage::EndPorts => (stages::end_ports(site), Stage::Tables),
                Stage::Tables => (stages::tables(site), Stage::Multicast),
                Stage::Multicast => self.groups(site, Stage::Arm),
                Stage::OnlyMulticast => self.groups(site, Stage::Done),
                Stage::Arm => (stages::arm(site), Stage::Activate),
                Stage::Activate => (stages::activate(site), Stage::DeferredLft),
                Stage::DeferredLft => (stages::deferred_lft(site), Stage::Done),
                Stage::OnlyVls => (stages::vl_tables(site), Stage::Done),
                Stage::Done => (Vec::new(), Stage::Done),
            };
            self.stage = next;
            if !writes.is_empty() {
                return writes;
            }
        }
        Vec::new()
    }

    /// What differs in multicast tables. What is read may show that there is more to read, so the
    /// stage is repeated until nothing differs.
    fn groups(&mut self, site: &mut Site<'_>, next: Stage) -> (Vec<Write>, Stage) {
        let mut writes = stages::multicast(site);
        writes.retain(|write| !self.failures.contains_key(&write.device()));
        if writes.is_empty() {
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
    pub(crate) fn request(&self, write: Write, site: &mut Site<'_>) -> Option<Request> {
        let index = write.device();
        if self.failures.contains_key(&index) {
            return None;
        }
        let device = site.subnet.devices.get(index)?;
        let route = device.route.clone();
        let end_port = u32::from(device.end_port().get());
        Some(match write {
            Write::EndPort(_) => {
                let mut wanted = port_settings::end_port(site.subnet, site.plan, index)?;
                let host = device.kind == NodeKind::Host;
                wanted.client_reregister =
                    host && site.groups.must_reregister(device.end_port_guid());
                Request::set(route, end_port, &wanted)
            }
            Write::ReadPKeys(_) => Request::get::<PKeyTable>(route, 0),
            Write::PKeys(_) => {
                let mut keys = PKeyTable::default();
                keys.0[0] = PKeyTable::DEFAULT_FULL;
                Request::set(route, 0, &keys)
            }
            Write::SwitchInfo(_) => {
                let switch = switch_info(device.switch?, site.plan);
                let guid = device.guid();
                site.mirrors.entry(guid).or_default().top = switch.linear_fdb_top;
                Request::set(route, 0, &switch)
            }
            Write::ReadLft(_, block) => {
                Request::get::<LinearForwardingTable>(route, u32::from(block))
            }
            Write::Lft(_, block) => {
                let guid = device.guid();
                // Until the answer comes it is unknown which content holds.
                let mirror = site.mirrors.entry(guid).or_default();
                mirror.lft.insert(block, None);
                Request::set(route, u32::from(block), &site.plan.block(index, block)?)
            }
            Write::ReadMft(..)
            | Write::Mft(..)
            | Write::ReadSl2Vl(..)
            | Write::Sl2Vl(..)
            | Write::ReadVlArb(..)
            | Write::VlArb(..) => return table_request(write, route, site),
            Write::ArmPort(_, port) => {
                let wanted = port_settings::link_port(site.subnet, site.plan, (index, port))?;
                Request::set(route, u32::from(port.get()), &wanted)
            }
            Write::ActivatePort(_, port) => {
                let mut wanted = port_settings::link_port(site.subnet, site.plan, (index, port))?;
                wanted.port_state = PortState::Active;
                Request::set(route, u32::from(port.get()), &wanted)
            }
        })
    }

    /// Takes in what became of a request, and says what to ask next.
    pub(crate) fn complete(
        &mut self,
        write: Write,
        answer: Answer<'_>,
        site: &mut Site<'_>,
    ) -> Option<Write> {
        self.apply(write, answer, site).unwrap_or_else(|failure| {
            self.needs_resweep = true;
            self.failures.insert(write.device(), failure.to_string());
            None
        })
    }

    fn apply(
        &mut self,
        write: Write,
        answer: Answer<'_>,
        site: &mut Site<'_>,
    ) -> Result<Option<Write>, Failure> {
        let index = write.device();
        let guid = site.subnet.devices[index].guid();
        let mirror = site.mirrors.entry(guid).or_default();
        match write {
            Write::EndPort(_) => {
                let info = answer.attribute()?;
                let port = site.subnet.devices[index].end_port();
                let guid = site.subnet.devices[index].end_port_guid();
                site.groups.reregistered(guid);
                site.subnet.devices[index].ports[port.index()].info = Some(info);
            }
            Write::ReadPKeys(_) => {
                let keys: PKeyTable = answer.attribute()?;
                let missing = keys.0[0] != PKeyTable::DEFAULT_FULL;
                return Ok(missing.then_some(Write::PKeys(index)));
            }
            Write::PKeys(_) => {
                answer.attribute::<PKeyTable>()?;
            }
            Write::SwitchInfo(_) => {
                let switch: SwitchInfo = answer.attribute()?;
                mirror.top = switch.linear_fdb_top;
                site.subnet.devices[index].switch = Some(switch);
            }
            Write::ReadLft(_, block) => {
                let table: LinearForwardingTable = answer.attribute()?;
                mirror.lft.insert(block, Some(Box::new(table)));
                let differs = site.plan.block(index, block) != Some(table);
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
                return vl_table_answered(write, answer, site);
            }
            Write::ArmPort(_, port) | Write::ActivatePort(_, port) => {
                self.port_answered(site.subnet, (index, port), answer);
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

    /// Whether the subnet must be looked at again.
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

/// The SMP that reads or sets a table of groups, lanes or weights.
fn table_request(write: Write, route: Vec<PortNum>, site: &mut Site<'_>) -> Option<Request> {
    let index = write.device();
    let device = site.subnet.devices.get(index)?;
    let mirror = site.mirrors.entry(device.guid()).or_default();
    Some(match write {
        Write::ReadMft(_, block, position) => {
            let modifier = MulticastForwardingTable::modifier(position, block);
            Request::get::<MulticastForwardingTable>(route, modifier)
        }
        Write::Mft(_, block, position) => {
            let wanted = site.groups.block(index, block, position)?;
            mirror.mft.insert((block, position), None);
            let modifier = MulticastForwardingTable::modifier(position, block);
            Request::set(route, modifier, &wanted)
        }
        Write::ReadSl2Vl(_, input, output) => {
            Request::get::<SlToVlTable>(route, sl2vl_modifier(device, input, output, false))
        }
        Write::Sl2Vl(_, input, output) => {
            let wanted = port_settings::sl2vl(site.subnet, site.plan, input, (index, output))?;
            let modifier = sl2vl_modifier(device, input, output, true);
            mirror.forget_sl2vl(input, output);
            Request::set(route, modifier, &wanted)
        }
        Write::ReadVlArb(_, port, block) => {
            Request::get::<VlArbTable>(route, VlArbTable::modifier(block, port))
        }
        Write::VlArb(_, port, block) => {
            let wanted =
                port_settings::vl_arbitration(site.subnet, site.plan, (index, port), block)?;
            mirror.arbitration.remove(&(port, block));
            Request::set(route, VlArbTable::modifier(block, port), &wanted)
        }
        _ => return None,
    })
}

/// What follows from the answer about a table of lanes or weights.
fn vl_table_answered(
    write: Write,
    answer: Answer<'_>,
    site: &mut Site<'_>,
) -> Result<Option<Write>, Failure> {
    let index = write.device();
    let guid = site.subnet.devices[index].guid();
    let mirror = site.mirrors.entry(guid).or_default();
    match write {
        Write::ReadSl2Vl(_, input, output) => {
            let table: SlToVlTable = answer.attribute()?;
            mirror.sl2vl.insert((input, output), table);
            let wanted = port_settings::sl2vl(site.subnet, site.plan, input, (index, output));
            let differs = wanted.is_some_and(|wanted| wanted != table);
            return Ok(differs.then_some(Write::Sl2Vl(index, input, output)));
        }
        Write::Sl2Vl(_, input, output) => {
            mirror.sl2vl.insert((input, output), answer.attribute()?);
        }
        Write::ReadVlArb(_, port, block) => {
            let table: VlArbTable = answer.attribute()?;
            mirror.arbitration.insert((port, block), table);
            let wanted =
                port_settings::vl_arbitration(site.subnet, site.plan, (index, port), block);
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

/// SwitchInfo that makes the forwarding table reach as far as the plan does.
fn switch_info(switch: SwitchInfo, plan: &Plan) -> SwitchInfo {
    SwitchInfo {
        linear_fdb_top: plan.top,
        life_time_value: port_settings::LIFE_TIME,
        // Written as one it would clear a change that nobody has looked at.
        port_state_change: false,
        ..switch
    }
}

/// SLtoVLMappingTable's modifier for all inputs, in a Set (SwitchInfo:
/// OptimizedSLtoVLMappingProgramming).
const ALL_INPUTS_BIT: u32 = 1 << 17;

fn sl2vl_modifier(device: &Device, input: PortNum, output: PortNum, set: bool) -> u32 {
    match (device.kind, input) {
        (NodeKind::Host, _) => 0,
        (NodeKind::Switch, ALL_INPUTS) if set => ALL_INPUTS_BIT | u32::from(output.get()),
        // Whoever wrote all inputs at once wrote the switch's own packets' row too.
        (NodeKind::Switch, ALL_INPUTS) => SlToVlTable::switch_modifier(PortNum::MANAGEMENT, output),
        (NodeKind::Switch, input) => SlToVlTable::switch_modifier(input, output),
    }
}
